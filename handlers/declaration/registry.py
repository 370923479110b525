"""The registry keeps the declared handlers in their order, and answers which of them a cause is for.

Declare before the operator runs; afterwards the registry belongs to the operator's thread. Callbacks of filters run inside
the methods below, and their errors pass through.
"""

from collections.abc import Container, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

from ...client.objects import Object
from ...client.resources import Resource
from ..causes.causes import (
    Activity,
    ChangingCause,
    IndexingCause,
    Reason,
    ResourceCause,
    SpawningCause,
    WatchingCause,
    current_cause,
)
from ..causes.fields import FieldPath
from .filters import match_meta
from .specs import (
    ActivitySpec,
    ChangingSpec,
    DaemonSpec,
    HandlerId,
    HandlerSpec,
    IndexingSpec,
    ResourceSpec,
    SpawningSpec,
    TimerSpec,
    WatchingSpec,
    WebhookSpec,
)
from .targets import Selector

SpecT = TypeVar("SpecT", bound=HandlerSpec)
ResourceSpecT = TypeVar("ResourceSpecT", bound=ResourceSpec)

_HANDLED = frozenset({Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME})


def deduplicated(specs: Iterable[SpecT]) -> list[SpecT]:
    """Each handler once, where it was declared first: the same function under the same id is the same handler."""
    unique: dict[tuple[object, ...], SpecT] = {}
    for spec in specs:
        unique.setdefault(spec.identity, spec)
    return list(unique.values())


class Interest(NamedTuple):
    """Which kinds of handlers there are for a resource. False when there are none at all (webhooks aside)."""

    watching: bool
    indexing: bool
    changing: bool
    spawning: bool
    is_selective: bool = False
    """Whether labels or annotations alone may rule out all of them."""

    def __bool__(self) -> bool:
        return self.watching or self.indexing or self.changing or self.spawning

    @property
    def is_only_indexed(self) -> bool:
        """Whether there are index functions, and nothing else."""
        return self.indexing and not (self.watching or self.changing or self.spawning)


@dataclass(frozen=True, slots=True, eq=False)
class _Specs(Generic[ResourceSpecT]):
    """The handlers of one kind for one resource, in the order of their declaration, duplicates included."""

    all: tuple[ResourceSpecT, ...]
    is_unfiltered: bool
    is_unique: bool

    def matching(self, cause: ResourceCause) -> list[ResourceSpecT]:
        """The handlers whose filters the cause fulfils, each once."""
        specs = list(self.all) if self.is_unfiltered else [spec for spec in self.all if spec.match(cause)]
        return specs if self.is_unique else deduplicated(specs)


@dataclass(frozen=True, slots=True, eq=False)
class ResourceHandlers:
    """The handlers of one resource, and what follows from them whatever happens to its objects."""

    resource: Resource
    interest: Interest
    watching: _Specs[WatchingSpec]
    indexing: _Specs[IndexingSpec]
    changing: _Specs[ChangingSpec]
    spawning: _Specs[SpawningSpec]
    changing_ids: tuple[HandlerId, ...]
    """Those of the handlers of changes, each once."""
    guards: tuple[ChangingSpec, ...]
    """The handlers of changes that deletions wait for."""
    fields: frozenset[FieldPath]
    """Fields that belong to the essence of the resource's objects because filters of handlers name them."""
    may_let_go: bool
    """Whether a handled change can end the need for the finalizer: filters compare both sides of a change, and afterwards there is one."""
    is_steady: bool
    """Whether no filter of a handler of changes calls a function: the same object has the same answers."""
    selective: tuple[ResourceSpec, ...] | None
    """All handlers but webhooks, if each has filters of labels or annotations."""
    selective_of_changes: tuple[ResourceSpec, ...] | None
    """The handlers of changes, daemons and timers, if each has."""


class OperatorRegistry:
    """All handlers of one operator."""

    def __init__(self) -> None:
        self._activities: list[ActivitySpec] = []
        self._watching: list[WatchingSpec] = []
        self._indexing: list[IndexingSpec] = []
        self._changing: list[ChangingSpec] = []
        self._spawning: list[SpawningSpec] = []
        self._webhooks: list[WebhookSpec] = []
        # Asked for several times at each event; forgotten when a handler is declared.
        self._by_resource: dict[Resource, ResourceHandlers] = {}
        # The one asked for last: mostly it is asked for again.
        self._latest: ResourceHandlers | None = None
        self._passed_over: Mapping[Selector, frozenset[Resource]] = {}
        self.revision = 0
        """Changes when a handler is declared, or means other resources."""

    def append(self, spec: HandlerSpec) -> None:
        """Add a handler. Raises TypeError for an unknown kind."""
        self._forget_resources()
        match spec:
            case ActivitySpec():
                self._activities.append(spec)
            case WatchingSpec():
                self._watching.append(spec)
            case IndexingSpec():
                self._indexing.append(spec)
            case ChangingSpec():
                self._changing.append(spec)
            case DaemonSpec() | TimerSpec():
                self._spawning.append(spec)
            case WebhookSpec():
                self._webhooks.append(spec)
            case _:
                raise TypeError(f"Expected a handler of a known kind; got {spec!r}.")

    # Which handlers match a cause, each once, in the order of declaration.

    def activities(self, activity: Activity) -> list[ActivitySpec]:
        """The handlers of an activity of the operator itself."""
        return deduplicated(spec for spec in self._activities if spec.activity is activity)

    def watching(self, cause: WatchingCause) -> list[WatchingSpec]:
        """The handlers of a raw event."""
        return self.of(cause.resource).watching.matching(cause)

    def indexing(self, cause: IndexingCause) -> list[IndexingSpec]:
        """The index functions for an object."""
        return self.of(cause.resource).indexing.matching(cause)

    def spawning(self, cause: SpawningCause) -> list[SpawningSpec]:
        """The daemons and timers that an object should have now."""
        return self.of(cause.resource).spawning.matching(cause)

    def changing(self, cause: ChangingCause) -> list[ChangingSpec]:
        """The handlers for a change; none when there is nothing to handle (noop, free, gone).

        Resume handlers join any reason while the object is initial; a deletion only when they say so.
        """
        if cause.reason not in _HANDLED:
            return []
        known = self.of(cause.resource).changing
        specs = [spec for spec in known.all if _is_due(spec, cause) and spec.match(cause)]
        return specs if known.is_unique else deduplicated(specs)

    def specs(self) -> list[HandlerSpec]:
        """All handlers of all kinds."""
        return [*self._activities, *self._resource_specs(), *self._webhooks]

    # What is known of a resource, whatever happens to its objects.

    def of(self, resource: Resource) -> ResourceHandlers:
        """The handlers of a resource."""
        known = self._latest
        if known is not None and known.resource is resource:
            return known
        known = self._by_resource.get(resource)
        # Equal resources can differ in what selectors compare: kind, short names, whether the version is preferred.
        if known is None or (known.resource is not resource and vars(known.resource) != vars(resource)):
            known = self._by_resource[resource] = self._look_up(resource)
        self._latest = known
        return known

    def _look_up(self, resource: Resource) -> ResourceHandlers:
        watching, indexing = self._for(resource, self._watching), self._for(resource, self._indexing)
        changing, spawning = self._for(resource, self._changing), self._for(resource, self._spawning)
        guards = tuple(spec for spec in changing.all if spec.requires_finalizer)
        selective = _selective(*watching.all, *indexing.all, *changing.all, *spawning.all)
        observing = (*watching.all, *changing.all, *spawning.all)
        return ResourceHandlers(
            resource,
            Interest(
                watching=bool(watching.all),
                indexing=bool(indexing.all),
                changing=bool(changing.all),
                spawning=bool(spawning.all),
                is_selective=selective is not None,
            ),
            watching,
            indexing,
            changing,
            spawning,
            changing_ids=tuple(dict.fromkeys(spec.id for spec in changing.all)),
            guards=guards,
            fields=frozenset(spec.field for spec in observing if spec.field is not None),
            may_let_go=any(spec.field is not None or spec.when is not None for spec in guards),
            is_steady=not any(spec.is_volatile for spec in changing.all),
            selective=selective,
            selective_of_changes=_selective(*changing.all, *spawning.all),
        )

    def _for(self, resource: Resource, declared: Iterable[ResourceSpecT]) -> _Specs[ResourceSpecT]:
        specs = tuple(spec for spec in declared if self._means(spec.selector, resource))
        return _Specs(
            specs,
            is_unfiltered=all(spec.is_unfiltered for spec in specs),
            is_unique=len({spec.identity for spec in specs}) == len(specs),
        )

    def _means(self, selector: Selector | None, resource: Resource) -> bool:
        if selector is None:
            return True
        return selector.check(resource) and resource not in self._passed_over.get(selector, ())

    def _forget_resources(self) -> None:
        self.revision += 1
        self._by_resource.clear()
        self._latest = None

    def passes_over(self, resource: Resource, obj: Object, *, raw: bool = True) -> bool:
        """Tell whether an object's labels and annotations rule out all handlers but webhooks.

        Without `raw`, handlers of raw events and indices are left out. True is certain, False is not: other filters may
        differ. Only the metadata is decoded, and only where each handler has a criterion for it.
        """
        known = self.of(resource)
        specs = known.selective if raw else known.selective_of_changes
        if specs is None:
            return False
        metadata = obj.metadata()
        labels, annotations = metadata.labels or {}, metadata.annotations or {}
        return not any(
            match_meta(spec.label_criteria, labels, None) and match_meta(spec.annotation_criteria, annotations, None)
            for spec in specs
        )

    def prematch(self, cause: ResourceCause) -> bool:
        """Tell whether the object is of interest to any handler of changes, whatever has changed now.

        If it is not, it is left alone: no log, no annotation, no diff-base.
        """
        return any(spec.prematch(cause) for spec in self.of(cause.resource).changing.all)

    def requires_finalizer(
        self, resource: Resource, cause: ResourceCause, *, excluded: Container[HandlerId] = frozenset()
    ) -> bool:
        """Tell whether the object's deletion must wait for a handler: a daemon, a timer, a delete handler not optional.

        `excluded` are ids of daemons and timers that have ended by themselves and will not be started again.
        """
        known = self.of(resource)
        return any(spec.id not in excluded and spec.match(cause) for spec in known.spawning.all) or any(
            spec.prematch(cause) for spec in known.guards
        )

    def webhooks(self) -> tuple[WebhookSpec, ...]:
        """All admission handlers."""
        return tuple(self._webhooks)

    def index_ids(self) -> list[HandlerId]:
        """The names of the indices, each once."""
        return list(dict.fromkeys(spec.id for spec in self._indexing))

    # What discovery looks for in the cluster.

    def selectors(self) -> list[Selector]:
        """The selectors of all handlers of objects but webhooks, each once."""
        return _selectors(self._resource_specs())

    def patching_selectors(self) -> list[Selector]:
        """The selectors of the handlers whose progress or finalizer is written to the objects."""
        return _selectors([*self._changing, *self._spawning])

    def webhook_selectors(self) -> list[Selector]:
        """The selectors of the admission handlers, each once."""
        return _selectors(self._webhooks)

    def pass_over(self, passed_over: Mapping[Selector, frozenset[Resource]]) -> None:
        """Except resources from selectors by name that match them and do not mean them: several have the name.

        Handlers with these selectors are not called for them, also where other handlers have them watched. Operators that
        share a registry share this: the last call counts.
        """
        if passed_over != self._passed_over:
            self._passed_over = dict(passed_over)
            self._forget_resources()

    def _resource_specs(self) -> list[ResourceSpec]:
        return [*self._watching, *self._indexing, *self._changing, *self._spawning]


class SmartOperatorRegistry(OperatorRegistry):
    """The class of the default registry. (Under Kopf it adds login handlers; here an operator without any finds its credentials itself.)"""


_default: OperatorRegistry | None = None


def get_default_registry() -> OperatorRegistry:
    """The registry of decorators without `registry`; made at the first call."""
    global _default  # noqa: PLW0603 (one per process by definition: decorators have no other place)
    if _default is None:
        _default = SmartOperatorRegistry()
    return _default


def set_default_registry(registry: OperatorRegistry) -> None:
    """Use another registry for decorators without `registry`, from now on."""
    global _default  # noqa: PLW0603 (as above)
    _default = registry


class SubRegistry(msgspec.Struct, eq=False):
    """The sub-handlers that one run of a handler has declared so far, in that order."""

    parent: HandlerSpec
    specs: list[ChangingSpec] = msgspec.field(default_factory=list)

    def changing(self, cause: ChangingCause) -> list[ChangingSpec]:
        """The sub-handlers whose filters the cause fulfils, each once, in the order of declaration."""
        return deduplicated(spec for spec in self.specs if spec.match(cause))


current_subregistry: ContextVar[SubRegistry] = ContextVar("current_subregistry")
"""Set around each call of a handler of changes; `subhandler` and `register` declare there. Threads get it with their context."""


def running_subregistry() -> SubRegistry:
    """The registry of the change handler that runs in this context.

    Raises LookupError where no handler runs at all, and TypeError in handlers of other kinds.
    """
    found = current_subregistry.get(None)
    if found is not None:
        return found
    refusal = LookupError if current_cause.get(None) is None else TypeError
    raise refusal(
        "Sub-handlers are only supported for resource-changing handlers. Sub-handlers are declared inside a running handler of create, update, delete, resume or field; none runs here. "
        "Move the declaration into the handler, or use a decorator of a resource."
    )


def _is_due(spec: ChangingSpec, cause: ChangingCause) -> bool:
    if spec.reason is not None and spec.reason is not cause.reason:
        return False
    if not spec.initial:
        return True
    return cause.initial and (spec.deleted or cause.reason is not Reason.DELETE)


def _selective(*specs: ResourceSpec) -> tuple[ResourceSpec, ...] | None:
    return specs if all(spec.labels or spec.annotations for spec in specs) else None


def _selectors(specs: Iterable[ResourceSpec]) -> list[Selector]:
    return list(dict.fromkeys(spec.selector for spec in specs if spec.selector is not None))
