"""Derives the rights that an operator needs from its declarations and its setup.

Pure: the facts about the cluster and the code are arguments. The rights cover all requests of the toolkit itself.
Requests that handlers and reconcilers make with clients of their own cannot be known; a note says so.
"""

import dis
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import CodeType
from typing import Any, Final

from ...client.resources import Resource
from ...handlers.declaration.registry import OperatorRegistry
from ...handlers.declaration.specs import IndexingSpec, ResourceSpec, WatchingSpec, WebhookSpec
from ...handlers.declaration.targets import By, Problem, Selector

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*")
"""The verbs in the order in which they are shown."""
READING: Final = ("list", "watch")
PATCHING: Final = ("patch",)


class RightScope(Enum):
    """Where a right is needed."""

    SERVED = "the namespaces that are served"
    CLUSTER = "the cluster as a whole"
    HOME = "the namespace of the operator's Lease"


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on the objects of one resource, where they are needed, and why."""

    group: str
    resource: str
    """The plural, or `plural/subresource`; `*` for all."""
    verbs: tuple[str, ...]
    scope: RightScope
    why: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """The names of the objects; empty: all."""


@dataclass(frozen=True, slots=True)
class DeclaredController:
    """A controller's name, and the resources it watches; the reconciled one is the first."""

    name: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSetup:
    """The cluster in which an operator is to run, and its settings there."""

    resources: Collection[Resource]
    """The resources that the server has, as far as they are known."""
    is_clusterwide: bool = True
    has_patterns: bool = False
    """Whether namespaces are given by patterns, so that the operator must list them."""
    elects: bool = True
    lease: str | None = None
    """The name of the Lease; None: not known before the operator starts."""
    posts: bool = True
    peerings: Collection[Resource] = ()
    """The resources of its peering objects, if it has any."""
    follows_definitions: bool = True
    """Whether resources that are installed later are served without a restart."""
    keeps_configmaps: bool = False
    manages_webhooks: bool = False
    controllers: tuple[DeclaredController, ...] = ()
    extra: tuple[Right, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirements:
    """The rights that an operator needs: each resource once for each scope, in the order of display."""

    rights: tuple[Right, ...]
    unresolved: tuple[str, ...] = ()
    """One sentence for each handled resource whose group or plural is not known."""
    notes: tuple[str, ...] = ()


def required(registry: OperatorRegistry, setup: OperatorSetup) -> Requirements:
    """Derive the rights from the handlers, the controllers and the setup of the operator."""
    found: list[Right] = []
    unresolved: dict[str, None] = {}
    notes: dict[str, None] = {}
    for spec in registry.specs():
        if isinstance(spec, ResourceSpec) and not isinstance(spec, WebhookSpec) and spec.selector is not None:
            found += _handled(spec, spec.selector, setup, unresolved, notes)
    for controller in setup.controllers:
        found += _controlled(controller, setup, unresolved, notes)
    found += _own(registry, setup)
    return Requirements(merged([*found, *setup.extra]), tuple(unresolved), tuple(notes))


def merged(rights: Iterable[Right]) -> tuple[Right, ...]:
    """Join the rights on the same resource in the same scope, with all verbs and reasons, in their order.

    Rights on objects by name stay separate.
    """
    known: dict[tuple[str, str, RightScope, tuple[str, ...]], tuple[set[str], dict[str, None]]] = {}
    for right in rights:
        verbs, why = known.setdefault((right.group, right.resource, right.scope, right.names), (set(), {}))
        verbs.update(right.verbs)
        why.update(dict.fromkeys(right.why))
    return tuple(
        Right(group, resource, tuple(verb for verb in VERBS if verb in verbs), scope, tuple(why), names)
        for (group, resource, scope, names), (verbs, why) in known.items()
    )


def may_patch(fn: Callable[..., Any]) -> bool:
    """Whether a function could use its `patch` argument; true where its code cannot be read."""
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
    """Whether the code, or a function inside it, uses a variable."""
    ignored = {"MAKE_CELL", "COPY_FREE_VARS", "STORE_FAST", "STORE_DEREF"}
    return any(
        instruction.opname not in ignored
        and (instruction.argval == name or (isinstance(instruction.argval, tuple) and name in instruction.argval))
        for instruction in dis.get_instructions(code)
        if instruction.opcode not in dis.hasconst and instruction.opcode not in dis.hasname
    ) or any(_uses(const, name) for const in code.co_consts if isinstance(const, CodeType))


def _handled(
    spec: ResourceSpec, selector: Selector, setup: OperatorSetup, unresolved: dict[str, None], notes: dict[str, None]
) -> Iterator[Right]:
    patches = may_patch(spec.fn) if isinstance(spec, WatchingSpec) else not isinstance(spec, IndexingSpec)
    verbs = READING + PATCHING * patches
    why = (f"handler {spec.id}",)
    if selector.by is By.EVERYTHING:
        # Including resources that are installed later.
        group = "*" if selector.group is None else selector.group
        yield Right(group, "*", verbs, RightScope.CLUSTER if setup.is_clusterwide else RightScope.SERVED, why)
        return
    choice = selector.choose(setup.resources)
    if choice.problem is not None:
        yield from _by_name(selector, verbs, why, setup, unresolved, ambiguous=choice.problem is Problem.AMBIGUOUS)
        return
    if not selector.is_specific:
        notes[
            f"{selector} covers the resources that are served now; run this again when more of them are installed."
        ] = None
    for resource in sorted(choice.resources, key=repr):
        yield from _on(resource, verbs, why, setup)
        if setup.keeps_configmaps and patches and not isinstance(spec, WatchingSpec):
            kept = ("list", "create", "patch", "delete")
            yield Right("", "configmaps", kept, _scope(setup), ("progress of handlers, kept in ConfigMaps",))


def _on(resource: Resource, verbs: tuple[str, ...], why: tuple[str, ...], setup: OperatorSetup) -> Iterator[Right]:
    scope = RightScope.CLUSTER if resource.namespaced is False else _scope(setup)
    yield Right(resource.group, resource.plural, verbs, scope, why)
    if "patch" in verbs and "status" in resource.subresources:
        yield Right(
            resource.group, f"{resource.plural}/status", PATCHING, scope, ("results of handlers, and patch.status",)
        )


def _by_name(
    selector: Selector,
    verbs: tuple[str, ...],
    why: tuple[str, ...],
    setup: OperatorSetup,
    unresolved: dict[str, None],
    *,
    ambiguous: bool = False,
) -> Iterator[Right]:
    """The rights by the selector's own words, where the cluster has no such resource, or several."""
    name = selector.criterion
    wanted = ", ".join(why)
    if ambiguous:
        unresolved[f"{selector} ({wanted}) is served by several groups; name the group in the decorator."] = None
    elif selector.by in {By.ANY_NAME, By.PLURAL} and isinstance(name, str) and selector.group is not None:
        # It may have a status; a right on a status that does not exist does no harm.
        yield from _on(
            Resource(selector.group, selector.version or "", name.lower(), subresources=frozenset({"status"})),
            verbs,
            (*why, "taken to be the plural"),
            setup,
        )
        unresolved[f"{selector} ({wanted}) is not served; {name.lower()!r} is taken to be its plural."] = None
    else:
        unresolved[
            f"{selector} ({wanted}) is not served, so its group and plural are not known: nothing is granted for it. Install its "
            "definition, give it by --manifest, or write 'plural.group' in the decorator."
        ] = None


def _controlled(
    controller: DeclaredController, setup: OperatorSetup, unresolved: dict[str, None], notes: dict[str, None]
) -> Iterator[Right]:
    why = (f"controller {controller.name}",)
    for name in controller.resources:
        matching = [one for one in setup.resources if name in {one.name, repr(one)}]
        if not matching:
            plural, _, group = name.partition(".")
            yield from _on(Resource(group, "", plural), READING, why, setup)
            unresolved[f"{name} ({why[0]}) is not served; it is taken to be namespaced."] = None
        for resource in matching[:1]:
            yield from _on(resource, READING, why, setup)
    notes[
        f"The writes of the controller {controller.name} are not known here; add them, for example: "
        f"--also {controller.resources[0]}/status=patch --also configmaps=create,patch,delete"
    ] = None


def _own(registry: OperatorRegistry, setup: OperatorSetup) -> Iterator[Right]:
    """The rights that the operator needs whatever it handles."""
    scope = _scope(setup)
    if setup.posts:
        yield Right("", "events", ("create", "patch"), scope, ("Events that are posted about objects",))
    for resource in sorted(setup.peerings, key=repr):
        yield from _on(resource, READING + PATCHING, ("peering",), setup)
    if setup.elects:
        why = ("leader election among the replicas",)
        names = () if setup.lease is None else (setup.lease,)
        # RBAC cannot restrict `create` by name.
        yield Right("coordination.k8s.io", "leases", ("create",), RightScope.HOME, why)
        yield Right("coordination.k8s.io", "leases", ("get", "update", "watch"), RightScope.HOME, why, names)
    if setup.follows_definitions:
        why = ("to serve what is installed or changed later",)
        yield Right("apiextensions.k8s.io", "customresourcedefinitions", READING, RightScope.CLUSTER, why)
    if setup.has_patterns:
        yield Right("", "namespaces", READING, RightScope.CLUSTER, ("namespaces by patterns",))
    if setup.manages_webhooks:
        types: Mapping[str, str] = {spec.type: f"{spec.type}webhookconfigurations" for spec in registry.webhooks()}
        for plural in types.values():
            why = ("webhook configurations that the operator keeps",)
            yield Right("admissionregistration.k8s.io", plural, ("create", "patch"), RightScope.CLUSTER, why)


def _scope(setup: OperatorSetup) -> RightScope:
    return RightScope.CLUSTER if setup.is_clusterwide else RightScope.SERVED
