"""Specs: one frozen record for each declared handler, by kind, with its filters.

A spec holds the checked options of its decorator. Specs are compared by identity.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from types import MethodType
from typing import Any, Literal, NewType, TypeAlias

from ..causes.causes import Activity, ChangingCause, Reason, ResourceCause
from ..causes.fields import FieldPath, resolve
from ..errors import ErrorsMode
from .filters import (
    MISSING,
    Criterion,
    MetaCriteria,
    MetaFilter,
    WhenFilterFn,
    compile_meta,
    match_meta,
    match_value,
)
from .signatures import layers
from .targets import Selector

HandlerId = NewType("HandlerId", str)
"""The name under which a handler's progress and result are kept; should be unique among the handlers of a resource."""

DelayFn: TypeAlias = Callable[..., float]
"""Gives the seconds before a daemon or timer starts; called with the keyword arguments of its handler."""

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""The operation of an admission request."""


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling the function gives a coroutine; partials and wrappers are looked through."""
    inner = fn
    for inner in layers(fn):
        if inspect.iscoroutinefunction(inner):
            return True
    return inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004 (callable objects)


@dataclass(frozen=True, kw_only=True, eq=False)
class HandlerSpec:
    """A function, its id, and how often it may fail. None means the default of its kind."""

    id: HandlerId
    fn: Callable[..., Any]
    param: Any = None
    errors: ErrorsMode | None = None
    timeout: float | None = None
    """No attempt begins later than so many seconds after the first one."""
    retries: int | None = None
    """Attempts in total, the first included."""
    backoff: float | None = None
    """Seconds between attempts after an arbitrary exception."""

    @cached_property
    def is_async(self) -> bool:
        """Whether the function runs on the loop; else it runs in a thread."""
        return is_async(self.fn)

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """Two specs with the same identity are one handler: the same function under the same id."""
        # A bound method is a new object at each look-up; its function and its object stay the same.
        fn = self.fn
        return (id(fn.__func__), id(fn.__self__), self.id) if isinstance(fn, MethodType) else (id(fn), self.id)


@dataclass(frozen=True, kw_only=True, eq=False)
class ActivitySpec(HandlerSpec):
    """A handler of the operator itself: startup, cleanup, login, probe, leading, standby."""

    activity: Activity


@dataclass(frozen=True, kw_only=True, eq=False)
class ResourceSpec(HandlerSpec):
    """A handler of objects: its resource, and its filters.

    All filters must be fulfilled; None is no filter. A `field` without `value` asks for the field to be there.
    """

    selector: Selector | None
    """None for sub-handlers: their parent's resource."""
    labels: MetaFilter | None = None
    annotations: MetaFilter | None = None
    when: WhenFilterFn | None = None
    field: FieldPath | None = None
    value: Criterion = None

    @cached_property
    def is_unfiltered(self) -> bool:
        """Whether every object of the resource matches."""
        return not self.labels and not self.annotations and self.when is None and self.field is None

    @property
    def is_volatile(self) -> bool:
        """Whether filters call functions: their answers may change although the object does not."""
        criteria = (*(self.labels or {}).values(), *(self.annotations or {}).values(), self.value)
        return self.when is not None or any(callable(criterion) for criterion in criteria)

    @cached_property
    def label_criteria(self) -> MetaCriteria:
        """The label filters, cheapest first."""
        return compile_meta(self.labels)

    @cached_property
    def annotation_criteria(self) -> MetaCriteria:
        """The annotation filters, cheapest first."""
        return compile_meta(self.annotations)

    def match(self, cause: ResourceCause) -> bool:
        """Tell whether a cause fulfils all filters, those on changes included. The resource is not compared."""
        return self.is_unfiltered or self._match(cause, with_changes=True)

    def prematch(self, cause: ResourceCause) -> bool:
        """Tell whether the object is of interest to the handler, whatever has or has not changed now.

        `old`, `new` and a required change of the field are left out: an object that no handler prematches is left alone
        completely, while one that may match after a later change must be remembered now.
        """
        return self.is_unfiltered or self._match(cause, with_changes=False)

    def _match(self, cause: ResourceCause, *, with_changes: bool) -> bool:
        # In Kopf's order: the cheap ones first, `when` last.
        if self.labels and not match_meta(self.label_criteria, cause.body.metadata.labels, cause):
            return False
        if self.annotations and not match_meta(self.annotation_criteria, cause.body.metadata.annotations, cause):
            return False
        if self.field is not None and not self._match_field(cause, self.field, with_changes=with_changes):
            return False
        return self.when is None or bool(self.when(**cause.kwargs))

    def _match_field(self, cause: ResourceCause, field: FieldPath, *, with_changes: bool) -> bool:
        return match_value(self.value, resolve(cause.body, field, MISSING), cause)


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchingSpec(ResourceSpec):
    """A handler of raw events, called once for each event, whether it succeeds or fails."""


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexingSpec(ResourceSpec):
    """A function whose results fill an index of the same name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangingSpec(ResourceSpec):
    """A handler of changes, whose progress is kept on the object."""

    reason: Reason | None = None
    """The only reason it runs for; None for any of create, update, delete, resume."""
    initial: bool = False
    """Only for objects that were there before this process (resume handlers)."""
    deleted: bool = False
    """An initial handler that also runs for objects marked for deletion."""
    requires_finalizer: bool = False
    """Deletion waits for this handler (delete handlers that are not optional)."""
    field_needs_change: bool = False
    """The field must differ between old and new."""
    old: Criterion = None
    new: Criterion = None

    def _match_field(self, cause: ResourceCause, field: FieldPath, *, with_changes: bool) -> bool:
        """Of a change, `value` is compared with both sides."""
        if not isinstance(cause, ChangingCause):
            return super()._match_field(cause, field, with_changes=with_changes)
        old, new = resolve(cause.old, field, MISSING), resolve(cause.new, field, MISSING)
        if not match_value(self.value, new, cause) and not match_value(self.value, old, cause):
            return False
        if not with_changes:
            return True
        if self.field_needs_change and old == new:
            return False
        return (self.old is None or match_value(self.old, old, cause)) and (
            self.new is None or match_value(self.new, new, cause)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class DaemonSpec(ResourceSpec):
    """A function that runs for as long as its object exists and matches. Times are seconds."""

    initial_delay: float | DelayFn | None = None
    cancellation_backoff: float | None = None
    cancellation_timeout: float | None = None
    cancellation_polling: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TimerSpec(ResourceSpec):
    """A function that is called at intervals for as long as its object exists and matches. Times are seconds."""

    initial_delay: float | DelayFn | None = None
    interval: float | None = None
    sharp: bool = False
    idle: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class WebhookSpec(ResourceSpec):
    """A function that is called before a change is stored."""

    type: Literal["validating", "mutating"]
    operations: Collection[Operation] | None = None
    subresource: str | None = None
    persistent: bool = False
    side_effects: bool = False
    ignore_failures: bool = False


SpawningSpec: TypeAlias = DaemonSpec | TimerSpec
"""A daemon or a timer: it runs beside the changes of its object, and always needs the finalizer."""
