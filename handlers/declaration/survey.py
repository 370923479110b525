"""A survey matches what was declared with what the cluster serves: what to watch, and what cannot be had and why.

It is made anew whenever the cluster's resources change. The problems are data; `warnings` puts them into Kopf's sentences.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...client.resources import Resource
from .registry import OperatorRegistry
from .targets import Choice, Problem, Selector

_READING = frozenset({"list", "watch"})


@dataclass(frozen=True, slots=True)
class Survey:
    """What handlers ask for, as far as the cluster has it."""

    watched: frozenset[Resource]
    """The resources to be watched; each can be, and patched if its handlers need it."""
    reviewed: frozenset[Resource]
    """The resources with admission handlers."""
    unresolved: frozenset[Selector]
    """Selectors without any resource, maybe only until its CRD is created."""
    ambiguous: Mapping[Selector, frozenset[Resource]]
    """Selectors by name that could mean any of several resources, so none of them."""
    passed_over: Mapping[Selector, frozenset[Resource]]
    """What selectors by name match and do not mean: their handlers are not called for these though others' are."""
    unreadable: frozenset[Resource]
    """Resources that cannot be listed and watched."""
    unwritable: frozenset[Resource]
    """Resources that cannot be patched, though their handlers keep their progress on the objects."""

    def warnings(self) -> list[str]:
        """One sentence for each sort of problem there is, the same for the same problems."""
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
        """Whatever handlers are declared for and do not get, with the reason in one word, in a stable order.

        `kept` are resources that are served all the same: the server did not tell of them this time.
        """
        missing = [selector for selector in self.unresolved if not any(selector.check(one) for one in kept)]
        yield from sorted((str(selector), "unresolved") for selector in missing)
        yield from sorted((str(selector), "ambiguous") for selector in self.ambiguous)
        yield from sorted((repr(resource), "unreadable") for resource in self.unreadable)
        yield from sorted((repr(resource), "unwritable") for resource in self.unwritable)


def survey(registry: OperatorRegistry, resources: Collection[Resource]) -> Survey:
    """Match all selectors of the registry with all resources of the cluster.

    A resource whose verbs are not known is taken to have all. Admission handlers are served for whatever they match, and
    what they do not match is no problem: the server asks about nothing else.
    """
    choices = [selector.choose(resources) for selector in registry.selectors()]
    chosen = _chosen(choices)
    patched = _chosen(selector.choose(resources) for selector in registry.patching_selectors())
    unreadable = frozenset(resource for resource in chosen if resource.verbs and not resource.verbs >= _READING)
    unwritable = frozenset(resource for resource in patched if resource.verbs and "patch" not in resource.verbs)
    webhooks = registry.webhook_selectors()
    return Survey(
        watched=chosen - unreadable - unwritable,
        reviewed=frozenset(
            resource for resource in resources if any(selector.check(resource) for selector in webhooks)
        ),
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
