"""The registry keeps what was declared, in that order, and answers which handlers a cause is for.

Declare before the operator runs; afterwards the registry belongs to the operator's thread. Callbacks in filters run inside of
the questions below, and what they raise passes through.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...client.objects import Object
from ...client.resources import Resource
from ..causes.causes import Activity, ChangingCause, IndexingCause, Reason, ResourceCause, SpawningCause, WatchingCause
from ..causes.fields import FieldPath
from .criteria import match_meta
from .families import Family, deduplicated
from .filters import match, prematch
from .specs import (
    ActivitySpec,
    ChangingSpec,
    DaemonSpec,
    HandlerId,
    IndexingSpec,
    ResourceSpec,
    SpawningSpec,
    Spec,
    TimerSpec,
    WatchingSpec,
    WebhookSpec,
)
from .targets import Selector

_HANDLED = frozenset({Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME})


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


@dataclass(slots=True)
class _Regard:
    """What the handlers declared have to do with one resource, whatever happens to its objects."""

    resource: Resource
    interest: Interest
    changing: tuple[ChangingSpec, ...]
    ids: tuple[HandlerId, ...]
    """Those of the handlers of changes, each once."""
    is_unique: bool
    """Whether none of the handlers of changes was declared twice."""
    guards: tuple[ChangingSpec, ...]
    """The handlers of changes that deletions wait for."""
    spawning: tuple[SpawningSpec, ...]
    fields: frozenset[FieldPath]
    may_let_go: bool
    is_steady: bool
    """Whether no filter of the handlers of changes calls a function."""
    selective: tuple[ResourceSpec, ...] | None
    """All handlers but webhooks, if each asks for labels or annotations."""
    selective_of_changes: tuple[ResourceSpec, ...] | None
    """The handlers of changes, daemons and timers, if each does."""


@dataclass(frozen=True, slots=True)
class Review:
    """What an admission request asks about: None and empty mean any."""

    webhook: str | None = None
    """The id of the one handler that the server asks."""
    type: Literal["validating", "mutating"] | None = None
    operation: str | None = None
    subresource: str | None = None


class OperatorRegistry:
    """All handlers of one operator."""

    def __init__(self) -> None:
        self._activities: list[ActivitySpec] = []
        self._watching: Family[WatchingSpec] = Family()
        self._indexing: Family[IndexingSpec] = Family()
        self._changing: Family[ChangingSpec] = Family()
        self._spawning: Family[SpawningSpec] = Family()
        self._webhooks: Family[WebhookSpec] = Family()
        # Asked for several times at each event; forgotten when a handler is declared.
        self._regards: dict[Resource, _Regard] = {}
        # The one asked for last: mostly it is asked for again.
        self._latest: _Regard | None = None
        self._passed_over: Mapping[Selector, frozenset[Resource]] = {}
        self.revision = 0
        """Becomes another one when a handler is declared, or means other resources."""

    @property
    def uses_default_login(self) -> bool:
        """Whether the operator finds its credentials itself: there are no login handlers, and it may."""
        return False

    def append(self, spec: Spec) -> None:
        """Take one more handler. Raises TypeError for a kind that is not known."""
        self._forget_regards()
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
        return self._watching.matching(cause)

    def indexing(self, cause: IndexingCause) -> list[IndexingSpec]:
        """The index functions that the object is for."""
        return self._indexing.matching(cause)

    def spawning(self, cause: SpawningCause) -> list[SpawningSpec]:
        """The daemons and timers that the object is to have now."""
        return self._spawning.matching(cause)

    def changing(self, cause: ChangingCause) -> list[ChangingSpec]:
        """The handlers that a change is for; none when there is nothing to handle (noop, free, gone).

        Resume handlers join any reason while the object is initial; a deletion only when they say so.
        """
        if cause.reason not in _HANDLED:
            return []
        regard = self._regard(cause.resource)
        specs = [spec for spec in regard.changing if _is_due(spec, cause) and match(spec, cause)]
        return specs if regard.is_unique else deduplicated(specs)

    def reviewing(self, cause: ResourceCause, review: Review) -> list[WebhookSpec]:
        """The admission handlers that a request is for. `operations` are the server's business: it filters by them."""
        return deduplicated(
            spec for spec in self._webhooks.of(cause.resource) if _is_asked(spec, review) and match(spec, cause)
        )

    def specs(self) -> list[Spec]:
        """All handlers of all kinds."""
        families = [*self._families(), self._webhooks]
        return [*self._activities, *(spec for family in families for spec in family)]

    # What is known of a resource, whatever happens.

    def handles(self, resource: Resource) -> Interest:
        """Which kinds of handlers there are for a resource."""
        return self._regard(resource).interest

    def _regard(self, resource: Resource) -> _Regard:
        known = self._latest
        if known is not None and known.resource is resource:
            return known
        known = self._regards.get(resource)
        # Equal resources can differ in what selectors look at.
        if known is None or (known.resource is not resource and vars(known.resource) != vars(resource)):
            known = self._regards[resource] = self._regard_anew(resource)
        self._latest = known
        return known

    def _regard_anew(self, resource: Resource) -> _Regard:
        changing, spawning = self._changing.of(resource), self._spawning.of(resource)
        watching, indexing = self._watching.of(resource), self._indexing.of(resource)
        guards = tuple(spec for spec in changing if spec.requires_finalizer)
        selective = _selective(*watching, *indexing, *changing, *spawning)
        return _Regard(
            resource,
            Interest(
                watching=bool(watching),
                indexing=bool(indexing),
                changing=bool(changing),
                spawning=bool(spawning),
                is_selective=selective is not None,
            ),
            changing,
            ids=tuple(dict.fromkeys(spec.id for spec in changing)),
            is_unique=len({spec.identity for spec in changing}) == len(changing),
            guards=guards,
            spawning=spawning,
            fields=self._watching.fields(resource) | self._changing.fields(resource) | self._spawning.fields(resource),
            may_let_go=any(spec.field is not None or spec.when is not None for spec in guards),
            is_steady=not any(spec.is_volatile for spec in changing),
            selective=selective,
            selective_of_changes=_selective(*changing, *spawning),
        )

    def _forget_regards(self) -> None:
        self.revision += 1
        self._regards.clear()
        self._latest = None

    def passes_over(self, resource: Resource, obj: Object, *, raw: bool = True) -> bool:
        """Tell whether an object's labels and annotations rule out all handlers but webhooks.

        Without `raw`, those of raw events and indices are not asked. True is certain, False is not: other filters may differ. Only
        the metadata is decoded, and only where each handler has a criterion for it.
        """
        regard = self._regard(resource)
        specs = regard.selective if raw else regard.selective_of_changes
        if specs is None:
            return False
        metadata = obj.metadata()
        labels, annotations = metadata.labels or {}, metadata.annotations or {}
        return not any(
            match_meta(spec.label_criteria, labels, None) and match_meta(spec.annotation_criteria, annotations, None)
            for spec in specs
        )

    def prematch(self, cause: ResourceCause) -> bool:
        """Tell whether any handler of changes takes interest in the object, whatever has changed now.

        An object that none does is left alone: no log, no annotation, no diff-base.
        """
        return any(prematch(spec, cause) for spec in self._regard(cause.resource).changing)

    def requires_finalizer(
        self, resource: Resource, cause: ResourceCause, *, excluded: Container[HandlerId] = frozenset()
    ) -> bool:
        """Tell whether the object's deletion must wait for a handler: a daemon, a timer, a delete handler not optional.

        `excluded` are ids of daemons and timers that have ended by themselves and will not be started again.
        """
        regard = self._regard(resource)
        return any(spec.id not in excluded and match(spec, cause) for spec in regard.spawning) or any(
            prematch(spec, cause) for spec in regard.guards
        )

    def may_require_finalizer(self, resource: Resource) -> bool:
        """Whether there are handlers for which the deletion of an object may have to wait, whatever their filters say."""
        regard = self._regard(resource)
        return bool(regard.spawning or regard.guards)

    def may_let_go(self, resource: Resource) -> bool:
        """Whether an object whose deletion waits for a handler may be none of it once a change is handled.

        Filters look at both sides of a change: of a field, or of anything in callbacks. Afterwards there is one side only.
        """
        return self._regard(resource).may_let_go

    def is_steady(self, resource: Resource) -> bool:
        """Whether the filters of all handlers of changes say the same as long as labels, annotations and fields are the same."""
        return self._regard(resource).is_steady

    def extra_fields(self, resource: Resource) -> frozenset[FieldPath]:
        """Fields that belong to the essence of the resource's objects because a handler looks at them."""
        return self._regard(resource).fields

    def changing_specs(self, resource: Resource) -> tuple[ChangingSpec, ...]:
        """All handlers of changes of a resource, duplicates included: whose progress may be found on its objects."""
        return self._regard(resource).changing

    def changing_ids(self, resource: Resource) -> tuple[HandlerId, ...]:
        """The ids of all handlers of changes of a resource, each once."""
        return self._regard(resource).ids

    def spawning_specs(self, resource: Resource) -> tuple[SpawningSpec, ...]:
        """All daemons and timers of a resource, duplicates included."""
        return self._regard(resource).spawning

    def indexing_specs(self, resource: Resource) -> tuple[IndexingSpec, ...]:
        """All index functions of a resource, duplicates included."""
        return self._indexing.of(resource)

    def webhooks(self, resource: Resource | None = None) -> tuple[WebhookSpec, ...]:
        """All admission handlers, or those for a resource."""
        return tuple(self._webhooks) if resource is None else self._webhooks.of(resource)

    def index_ids(self) -> list[HandlerId]:
        """The names of the indices, each once."""
        return list(dict.fromkeys(spec.id for spec in self._indexing))

    # What is to be looked for in the cluster.

    def selectors(self) -> list[Selector]:
        """The selectors of all handlers of objects but webhooks, each once."""
        return list(dict.fromkeys(selector for family in self._families() for selector in family.selectors()))

    def patching_selectors(self) -> list[Selector]:
        """The selectors of the handlers whose progress or finalizer is written to the objects."""
        return list(dict.fromkeys([*self._changing.selectors(), *self._spawning.selectors()]))

    def webhook_selectors(self) -> list[Selector]:
        """The selectors of the admission handlers, each once."""
        return self._webhooks.selectors()

    def pass_over(self, passed_over: Mapping[Selector, frozenset[Resource]]) -> None:
        """Be told which resources selectors by name match and do not mean: there are several of the name in the cluster.

        Handlers are not called for what they do not mean, also where other handlers have it watched. Operators that share
        a registry share this: the last one told counts.
        """
        if passed_over != self._passed_over:
            self._passed_over = dict(passed_over)
            self._forget_regards()
            for family in self._families():
                family.pass_over(self._passed_over)

    def _families(
        self,
    ) -> tuple[Family[WatchingSpec] | Family[IndexingSpec] | Family[ChangingSpec] | Family[SpawningSpec], ...]:
        return (self._watching, self._indexing, self._changing, self._spawning)


class SmartOperatorRegistry(OperatorRegistry):
    """A registry whose operator finds its credentials itself as long as no login handler is declared in it."""

    @property
    def uses_default_login(self) -> bool:
        """Whether no login handler is declared."""
        return not self.activities(Activity.AUTHENTICATION)


_default: OperatorRegistry | None = None


def get_default_registry() -> OperatorRegistry:
    """The registry that decorators use when they are given none; made at the first question."""
    global _default  # noqa: PLW0603 (one per process by definition: decorators have no other place)
    if _default is None:
        _default = SmartOperatorRegistry()
    return _default


def set_default_registry(registry: OperatorRegistry) -> None:
    """Use another registry where decorators are given none, from now on."""
    global _default  # noqa: PLW0603 (as above)
    _default = registry


def _is_due(spec: ChangingSpec, cause: ChangingCause) -> bool:
    if spec.reason is not None and spec.reason is not cause.reason:
        return False
    if not spec.initial:
        return True
    return cause.initial and (spec.deleted or cause.reason is not Reason.DELETE)


def _selective(*specs: ResourceSpec) -> tuple[ResourceSpec, ...] | None:
    return specs if all(spec.labels or spec.annotations for spec in specs) else None


def _is_asked(spec: WebhookSpec, review: Review) -> bool:
    if review.webhook is not None and review.webhook != spec.id:
        return False
    if review.type is not None and review.type != spec.type:
        return False
    if spec.subresource not in {"*", review.subresource}:
        return False
    # There is nothing left to mutate in a deletion, so only a handler of nothing else means it.
    only_deletions = set(spec.operations or ()) == {"DELETE"}
    return review.operation != "DELETE" or spec.type != "mutating" or only_deletions
