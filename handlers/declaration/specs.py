"""What was declared: one frozen record for each handler, by kind.

A spec holds what the decorator was given, already checked. It decides nothing: `filters` says whether it matches, `registry`
which ones do, execution what becomes of it. Specs are compared by identity.
"""

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from types import MethodType
from typing import Any, Literal, NewType, TypeAlias

from ..causes.causes import Activity, Reason
from ..causes.fields import FieldPath
from ..errors import ErrorsMode
from .criteria import Criterion, MetaCriterion, MetaFilter, WhenFilterFn, compile_meta
from .targets import Selector

HandlerId = NewType("HandlerId", str)
"""The name under which a handler's progress and result are kept; unique among the handlers of a resource, if all is well."""

DelayFn: TypeAlias = Callable[..., float]
"""Gives the seconds before a daemon or timer starts; called with the keyword arguments of its handler."""

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""What an admission request wants to do with the object."""


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling the function gives a coroutine; partials and wrapped functions are looked through."""
    while True:
        if inspect.iscoroutinefunction(fn):
            return True
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        else:
            return inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 (callable objects)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """A function, the id it is known by, and how often it may fail. None means the default of its kind."""

    id: HandlerId
    fn: Callable[..., Any]
    param: Any = None
    errors: ErrorsMode | None = None
    timeout: float | None = None
    """Seconds from the first attempt after which no other is begun."""
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
        # A bound method is made anew each time it is looked up; the method and its object are what stays.
        fn = self.fn
        return (id(fn.__func__), id(fn.__self__), self.id) if isinstance(fn, MethodType) else (id(fn), self.id)


@dataclass(frozen=True, kw_only=True, eq=False)
class ActivitySpec(Spec):
    """A handler of the operator itself: startup, cleanup, login, probe."""

    activity: Activity


@dataclass(frozen=True, kw_only=True, eq=False)
class ResourceSpec(Spec):
    """A handler of objects: of which resource, and of which of its objects.

    The filters are all to be fulfilled; None is no filter. A `field` without `value` asks for the field to be there.
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
        """Whether the filters may say something else though what they look at stays as it is: they call functions."""
        criteria = (*(self.labels or {}).values(), *(self.annotations or {}).values(), self.value)
        return self.when is not None or any(callable(criterion) for criterion in criteria)

    @cached_property
    def label_criteria(self) -> tuple[MetaCriterion, ...]:
        """The label filters, cheapest first."""
        return compile_meta(self.labels)

    @cached_property
    def annotation_criteria(self) -> tuple[MetaCriterion, ...]:
        """The annotation filters, cheapest first."""
        return compile_meta(self.annotations)


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchingSpec(ResourceSpec):
    """A handler of raw events. It is called once for each event, whatever comes of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexingSpec(ResourceSpec):
    """A function whose results fill an index of the same name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangingSpec(ResourceSpec):
    """A handler of changes, whose progress is kept on the object."""

    reason: Reason | None = None
    """The one reason it runs for; None for any of create, update, delete, resume."""
    initial: bool = False
    """Only for objects that were there before this process (resume handlers)."""
    deleted: bool = False
    """An initial handler that runs for objects under deletion too."""
    requires_finalizer: bool = False
    """Deletion waits for this handler (delete handlers that are not optional)."""
    field_needs_change: bool = False
    """The field must differ between old and new."""
    old: Criterion = None
    new: Criterion = None


@dataclass(frozen=True, kw_only=True, eq=False)
class DaemonSpec(ResourceSpec):
    """A function that runs for as long as its object exists and matches. Times are seconds."""

    initial_delay: float | DelayFn | None = None
    cancellation_backoff: float | None = None
    cancellation_timeout: float | None = None
    cancellation_polling: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TimerSpec(ResourceSpec):
    """A function that is called again and again for as long as its object exists and matches. Times are seconds."""

    initial_delay: float | DelayFn | None = None
    interval: float | None = None
    sharp: bool = False
    idle: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class WebhookSpec(ResourceSpec):
    """A function that is asked before a change is stored."""

    type: Literal["validating", "mutating"]
    operations: Collection[Operation] | None = None
    subresource: str | None = None
    persistent: bool = False
    side_effects: bool = False
    ignore_failures: bool = False


SpawningSpec: TypeAlias = DaemonSpec | TimerSpec
"""A handler that has a life of its own beside the changes of its object; it always needs the finalizer."""
