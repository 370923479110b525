"""The rights that an operator needs follow from what it declares and how it is set up.

Pure: what the cluster serves and what the operator's code shows are arguments. Promised is what the toolkit itself asks the server for;
what handlers and reconcilers ask by clients of their own cannot be known, and is said in a note.
"""

import dis
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import CodeType
from typing import Any, Final

from ..client.resources import Resource
from ..handlers.declaration.registry import OperatorRegistry
from ..handlers.declaration.specs import IndexingSpec, ResourceSpec, WatchingSpec, WebhookSpec
from ..handlers.declaration.targets import By, Problem, Selector

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*")
"""The verbs in the order in which they are shown."""
READING: Final = ("list", "watch")
PATCHING: Final = ("patch",)


class Place(Enum):
    """Where a right is needed."""

    SERVED = "the namespaces that are served"
    CLUSTER = "the cluster as a whole"
    HOME = "the namespace of the operator's Lease"


@dataclass(frozen=True, slots=True)
class Right:
    """What may be done to the objects of one resource, where, and what for."""

    group: str
    resource: str
    """The plural, or `plural/subresource`; `*` for all."""
    verbs: tuple[str, ...]
    place: Place
    why: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Of which objects; none: of all."""


@dataclass(frozen=True, slots=True)
class Controlled:
    """A declared controller: its name, and the resources that it looks at, the one that it reconciles first."""

    name: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """In which cluster an operator is to run, and how."""

    resources: Collection[Resource]
    """What is served there, as far as it is known."""
    is_clusterwide: bool = True
    has_patterns: bool = False
    """Whether namespaces are served by patterns, so that they are to be listed."""
    elects: bool = True
    lease: str | None = None
    """The name of the Lease; None: it is not known before the operator starts."""
    posts: bool = True
    peerings: Collection[Resource] = ()
    """Where the operator meets its peers, if it does."""
    follows_definitions: bool = True
    """Whether resources that are installed later are to be served without a restart."""
    keeps_configmaps: bool = False
    manages_webhooks: bool = False
    controllers: tuple[Controlled, ...] = ()
    extra: tuple[Right, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """What an operator needs: rights, each resource of a place once, in the order in which they are to be shown."""

    rights: tuple[Right, ...]
    unresolved: tuple[str, ...] = ()
    """What is handled, and cannot be granted since it is not known which resource it is; one sentence each."""
    notes: tuple[str, ...] = ()


def needs(registry: OperatorRegistry, situation: Situation) -> Needs:
    """Derive the rights from the handlers and controllers, and the situation that they are to run in."""
    found: list[Right] = []
    unresolved: dict[str, None] = {}
    notes: dict[str, None] = {}
    for spec in registry.specs():
        if isinstance(spec, ResourceSpec) and not isinstance(spec, WebhookSpec) and spec.selector is not None:
            found += _handled(spec, spec.selector, situation, unresolved, notes)
    for controller in situation.controllers:
        found += _controlled(controller, situation, unresolved, notes)
    found += _own(registry, situation)
    return Needs(merged([*found, *situation.extra]), tuple(unresolved), tuple(notes))


def merged(rights: Iterable[Right]) -> tuple[Right, ...]:
    """Each resource of each place once, with all that is allowed on it and all reasons for it, in the order of their appearance.

    What is allowed on some objects only stays apart.
    """
    known: dict[tuple[str, str, Place, tuple[str, ...]], tuple[set[str], dict[str, None]]] = {}
    for right in rights:
        verbs, why = known.setdefault((right.group, right.resource, right.place, right.names), (set(), {}))
        verbs.update(right.verbs)
        why.update(dict.fromkeys(right.why))
    return tuple(
        Right(group, resource, tuple(verb for verb in VERBS if verb in verbs), place, tuple(why), names)
        for (group, resource, place, names), (verbs, why) in known.items()
    )


def may_patch(fn: Callable[..., Any]) -> bool:
    """Tell whether a function could use the `patch` it is given; true where its code cannot be looked at."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if not isinstance(code, CodeType):
        return True
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if "patch" in names:
        return True
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return False
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)]
    return _uses(code, rest)


def _uses(code: CodeType, name: str) -> bool:
    """Whether the code, or a function inside of it, does anything with a variable but declare it."""
    ignored = {"MAKE_CELL", "COPY_FREE_VARS", "STORE_FAST", "STORE_DEREF"}
    return any(
        instruction.opname not in ignored
        and (instruction.argval == name or (isinstance(instruction.argval, tuple) and name in instruction.argval))
        for instruction in dis.get_instructions(code)
        if instruction.opcode not in dis.hasconst and instruction.opcode not in dis.hasname
    ) or any(_uses(const, name) for const in code.co_consts if isinstance(const, CodeType))


def _handled(
    spec: ResourceSpec,
    selector: Selector,
    situation: Situation,
    unresolved: dict[str, None],
    notes: dict[str, None],
) -> Iterator[Right]:
    """What one handler of objects needs."""
    patches = may_patch(spec.fn) if isinstance(spec, WatchingSpec) else not isinstance(spec, IndexingSpec)
    verbs = READING + PATCHING * patches
    why = (f"handler {spec.id}",)
    if selector.by is By.EVERYTHING:
        # Also what nobody knows of yet.
        group = "*" if selector.group is None else selector.group
        yield Right(group, "*", verbs, Place.CLUSTER if situation.is_clusterwide else Place.SERVED, why)
        return
    choice = selector.choose(situation.resources)
    if choice.problem is not None:
        yield from _by_name(selector, verbs, why, situation, unresolved, ambiguous=choice.problem is Problem.AMBIGUOUS)
        return
    if not selector.is_specific:
        notes[f"{selector} means what is served now; grant anew when more of it is installed."] = None
    for resource in sorted(choice.resources, key=repr):
        yield from _on(resource, verbs, why, situation)
        if situation.keeps_configmaps and patches and not isinstance(spec, WatchingSpec):
            kept = ("list", "create", "patch", "delete")
            yield Right("", "configmaps", kept, _place(situation), ("progress of handlers, kept in ConfigMaps",))


def _on(resource: Resource, verbs: tuple[str, ...], why: tuple[str, ...], situation: Situation) -> Iterator[Right]:
    place = Place.CLUSTER if resource.namespaced is False else _place(situation)
    yield Right(resource.group, resource.plural, verbs, place, why)
    if "patch" in verbs and "status" in resource.subresources:
        yield Right(
            resource.group, f"{resource.plural}/status", PATCHING, place, ("results of handlers, and patch.status",)
        )


def _by_name(
    selector: Selector,
    verbs: tuple[str, ...],
    why: tuple[str, ...],
    situation: Situation,
    unresolved: dict[str, None],
    *,
    ambiguous: bool = False,
) -> Iterator[Right]:
    """What the selector itself says, where the cluster does not know the resource, or knows several."""
    name = selector.criterion
    wanted = ", ".join(why)
    if ambiguous:
        unresolved[f"{selector} ({wanted}) is served by several groups; name the group in the decorator."] = None
    elif selector.by in {By.ANY_NAME, By.PLURAL} and isinstance(name, str) and selector.group is not None:
        # Whether it has a status cannot be known, and costs nothing if it has none.
        yield from _on(
            Resource(selector.group, selector.version or "", name.lower(), subresources=frozenset({"status"})),
            verbs,
            (*why, "taken to be the plural"),
            situation,
        )
        unresolved[f"{selector} ({wanted}) is not served; {name.lower()!r} is taken to be its plural."] = None
    else:
        unresolved[
            f"{selector} ({wanted}) is not served, so its group and plural are not known: nothing is granted for it. Install its "
            "definition, give it by --manifest, or write 'plural.group' in the decorator."
        ] = None


def _controlled(
    controller: Controlled, situation: Situation, unresolved: dict[str, None], notes: dict[str, None]
) -> Iterator[Right]:
    why = (f"controller {controller.name}",)
    for name in controller.resources:
        matching = [one for one in situation.resources if name in {one.name, repr(one)}]
        if not matching:
            plural, _, group = name.partition(".")
            yield from _on(Resource(group, "", plural), READING, why, situation)
            unresolved[f"{name} ({why[0]}) is not served; it is taken to be namespaced."] = None
        for resource in matching[:1]:
            yield from _on(resource, READING, why, situation)
    notes[
        f"What the controller {controller.name} writes cannot be seen from here; add it, for example: "
        f"--also {controller.resources[0]}/status=patch --also configmaps=create,patch,delete"
    ] = None


def _own(registry: OperatorRegistry, situation: Situation) -> Iterator[Right]:
    """What the operator needs for itself, whatever it handles."""
    place = _place(situation)
    if situation.posts:
        yield Right("", "events", ("create", "patch"), place, ("Events that are posted about objects",))
    for resource in sorted(situation.peerings, key=repr):
        yield from _on(resource, READING + PATCHING, ("peering",), situation)
    if situation.elects:
        why = ("leader election among the replicas",)
        names = () if situation.lease is None else (situation.lease,)
        # What is not there yet has no name that a rule could ask for.
        yield Right("coordination.k8s.io", "leases", ("create",), Place.HOME, why)
        yield Right("coordination.k8s.io", "leases", ("get", "update", "watch"), Place.HOME, why, names)
    if situation.follows_definitions:
        why = ("to serve what is installed or changed later",)
        yield Right("apiextensions.k8s.io", "customresourcedefinitions", READING, Place.CLUSTER, why)
    if situation.has_patterns:
        yield Right("", "namespaces", READING, Place.CLUSTER, ("namespaces by patterns",))
    if situation.manages_webhooks:
        types: Mapping[str, str] = {spec.type: f"{spec.type}webhookconfigurations" for spec in registry.webhooks()}
        for plural in types.values():
            why = ("webhook configurations that the operator keeps",)
            yield Right("admissionregistration.k8s.io", plural, ("create", "patch"), Place.CLUSTER, why)


def _place(situation: Situation) -> Place:
    return Place.CLUSTER if situation.is_clusterwide else Place.SERVED
