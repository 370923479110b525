"""A survey matches the declared handlers with the resources of the cluster: what to watch, what is missing, and why.

It is made anew when the cluster's resources change. The problems are data; `warnings` gives Kopf's sentences for them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...client.resources import Resource
from .registry import OperatorRegistry
from .targets import Choice, Problem, Selector

_READING = frozenset({"list", "watch"})


@dataclass(frozen=True, slots=True)
class Survey:
    """The resources of the handlers, and the selectors without any."""

    watched: frozenset[Resource]
    """The resources to be watched; each can be, and patched if its handlers need it."""
    unresolved: frozenset[Selector]
    """Selectors without any resource; maybe its CRD will be created."""
    ambiguous: Mapping[Selector, frozenset[Resource]]
    """Selectors by name that match several resources; none of these is served for them."""
    passed_over: Mapping[Selector, frozenset[Resource]]
    """Resources that selectors by name match and do not mean: only handlers of other selectors are called for them."""
    unreadable: frozenset[Resource]
    """Resources that cannot be listed and watched."""
    unwritable: frozenset[Resource]
    """Resources that cannot be patched, though their handlers keep their progress on the objects."""

    def warnings(self) -> list[str]:
        """One sentence for each kind of problem; the same problems give the same sentences."""
        named = [
            ("Unresolved resources cannot be served (try creating their CRDs)", map(str, self.unresolved)),
            (
                "Ambiguous resources will not be served (try specifying API groups)",
                map(_between, self.ambiguous.items()),
            ),
            ("Non-watchable resources will not be served", map(repr, self.unreadable)),
            ("Non-patchable resources will not be served", map(repr, self.unwritable)),
        ]
        listed = [(sentence, ", ".join(sorted(names))) for sentence, names in named]
        return [f"{sentence}: {names}" for sentence, names in listed if names]

    def lacks(self, kept: Collection[Resource] = ()) -> Iterator[tuple[str, str]]:
        """The selectors and resources that handlers lack, with the reason in one word, in a stable order.

        `kept` are resources that are still served although discovery did not find them this time.
        """
        missing = [selector for selector in self.unresolved if not any(selector.check(one) for one in kept)]
        yield from sorted((str(selector), "unresolved") for selector in missing)
        yield from sorted((str(selector), "ambiguous") for selector in self.ambiguous)
        yield from sorted((repr(resource), "unreadable") for resource in self.unreadable)
        yield from sorted((repr(resource), "unwritable") for resource in self.unwritable)


def survey(registry: OperatorRegistry, resources: Collection[Resource]) -> Survey:
    """Match all selectors of the registry with all resources of the cluster.

    A resource with unknown verbs counts as having all. Selectors of admission handlers are left out.
    """
    choices = [selector.choose(resources) for selector in registry.selectors()]
    chosen = _chosen(choices)
    patched = _chosen(selector.choose(resources) for selector in registry.patching_selectors())
    unreadable = frozenset(resource for resource in chosen if resource.verbs and not resource.verbs >= _READING)
    unwritable = frozenset(resource for resource in patched if resource.verbs and "patch" not in resource.verbs)
    return Survey(
        watched=chosen - unreadable - unwritable,
        unresolved=frozenset(choice.selector for choice in choices if choice.problem is Problem.UNRESOLVED),
        ambiguous={choice.selector: choice.candidates for choice in choices if choice.problem is Problem.AMBIGUOUS},
        passed_over={choice.selector: choice.passed_over for choice in choices if choice.passed_over},
        unreadable=unreadable,
        unwritable=unwritable - unreadable,
    )


def _chosen(choices: Iterable[Choice]) -> frozenset[Resource]:
    return frozenset(resource for choice in choices for resource in choice.resources)


def _between(item: tuple[Selector, frozenset[Resource]]) -> str:
    selector, candidates = item
    return f"{selector} ({' or '.join(sorted(map(repr, candidates)))})"
