"""The options of decorators, each stated and explained once.

A decorator takes one of the typed dicts at the end as `**options: Unpack[...]`, which editors and type checkers expand.
None is always the same as an option not given. Times are seconds.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict

from ..causes.fields import FieldSpec
from ..errors import ErrorsMode
from .criteria import MetaFilter, MetaFilterFn, MetaFilterToken, WhenFilterFn
from .specs import DelayFn, Operation
from .targets import TargetOptions

if TYPE_CHECKING:
    from .registry import OperatorRegistry

ValueFilter: TypeAlias = Any | MetaFilterToken | MetaFilterFn
"""A literal, PRESENT, ABSENT, or a callback of the value (None when absent) and of the keyword arguments of the cause."""


class _Identity(TypedDict, total=False):
    id: str | None
    """The id of the handler instead of the function's name: progress and results are kept under it."""
    param: Any
    """Passed to the function as `param`: tells apart the declarations of one function."""


class _Place(TypedDict, total=False):
    registry: "OperatorRegistry | None"
    """Where to declare the handler, instead of the default registry."""


class _Retrying(TypedDict, total=False):
    errors: ErrorsMode | None
    """What an arbitrary exception means: retry (the default for most handlers), failure, or nothing."""
    timeout: float | None
    """No attempt begins later than so many seconds after the first one."""
    retries: int | None
    """Attempts in total, the first included."""
    backoff: float | None
    """Seconds between attempts after an arbitrary exception (`settings.execution.default_backoff`)."""


class _MetaFiltering(TypedDict, total=False):
    labels: MetaFilter | None
    """Labels that the object must have: name to literal, PRESENT, ABSENT or callback."""
    annotations: MetaFilter | None
    """Annotations that the object must have, as `labels`."""
    when: WhenFilterFn | None
    """A callback that gets the keyword arguments of the cause and tells whether the handler is for it; asked last."""


class _Filtering(_MetaFiltering, total=False):
    field: FieldSpec
    """The field that the object must have; a handler of changes gets `old`, `new` and `diff` of this field alone."""
    value: ValueFilter
    """What the field must be; for changes, before or after."""


class _ChangeFiltering(_Filtering, total=False):
    old: ValueFilter
    """What the field must have been before the change. Not together with `value`."""
    new: ValueFilter
    """What the field must be after the change. Not together with `value`."""


class ActivityOptions(_Identity, _Retrying, _Place, total=False):
    """Options of handlers of the operator itself."""


class EventOptions(TargetOptions, _Identity, _Filtering, _Place, total=False):
    """Options of `on.event`, which is never retried."""


class IndexOptions(TargetOptions, _Identity, _Retrying, _Filtering, _Place, total=False):
    """Options of `index`."""


class CreateOptions(TargetOptions, _Identity, _Retrying, _Filtering, _Place, total=False):
    """Options of `on.create`."""


class ResumeOptions(CreateOptions, total=False):
    """Options of `on.resume`."""

    deleted: bool | None
    """Run for an object that is under deletion too."""


class DeleteOptions(CreateOptions, total=False):
    """Options of `on.delete`."""

    optional: bool | None
    """Do not make the deletion wait for the handler: no finalizer is put because of it."""


class UpdateOptions(TargetOptions, _Identity, _Retrying, _ChangeFiltering, _Place, total=False):
    """Options of `on.update`."""


class FieldOptions(TargetOptions, _Identity, _Retrying, _ChangeFiltering, _Place, total=False):
    """Options of `on.field`: those of `on.update`, and the field is mandatory."""

    field: Required[FieldSpec]  # type: ignore[misc]


class _Spawning(TargetOptions, _Identity, _Retrying, _Filtering, _Place, total=False):
    initial_delay: float | DelayFn | None
    """Seconds before the start, or a callback that gives them and gets the keyword arguments of the handler."""


class DaemonOptions(_Spawning, total=False):
    """Options of `daemon`."""

    cancellation_backoff: float | None
    """Seconds between the request to stop and the cancellation of the task."""
    cancellation_timeout: float | None
    """Seconds between the cancellation and giving the task up; None: it is asked for ever and never cancelled."""
    cancellation_polling: float | None
    """Seconds between looks at a task that does not stop (`settings.background.cancellation_polling`)."""


class TimerOptions(_Spawning, total=False):
    """Options of `timer`."""

    interval: float | None
    """Seconds from the end of one call to the next."""
    sharp: bool | None
    """Count the interval from the start of a call: its duration does not shift the next one."""
    idle: float | None
    """Call only when the object has not changed for so many seconds."""


class WebhookOptions(TargetOptions, _Identity, _Filtering, _Place, total=False):
    """Options of `on.validate` and `on.mutate`."""

    operation: Operation | None
    """One operation; deprecated for `operations`."""
    operations: Collection[Operation] | None
    """The operations to be asked about; not empty; None: all."""
    subresource: str | None
    """The subresource to be asked about, `*` for the object and all of them; None: the object alone."""
    persistent: bool | None
    """Leave the webhook in the cluster when the operator ends: changes are refused until it is back."""
    side_effects: bool | None
    """The handler does more than answer; the server then does not ask it in dry runs."""
    ignore_failures: bool | None
    """Let changes through when the handler cannot be reached."""


class RegisterOptions(_Identity, _Retrying, _MetaFiltering, total=False):
    """Options of `register`."""


class SubhandlerOptions(_Identity, _Retrying, _ChangeFiltering, total=False):
    """Options of `subhandler`."""
