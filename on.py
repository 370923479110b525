"""The decorators by which functions become handlers.

A resource is named by up to three positional parts (group, version, name; see `handlers.declaration.targets`) or by keywords; the
options are explained in `handlers.declaration.declaring`. A handler is called with keyword arguments only, so it names those it
needs and takes the rest as `**kwargs` or `**_`; it may be sync or async. Decorators give the function back unchanged, and can be
stacked: the lowest is the first. Handlers of one cause run in the order of their declaration.

All decorators raise TypeError or ValueError at the line of the declaration when it cannot work.
"""

import warnings
from collections.abc import Collection
from typing import Never, TypeVar, Unpack

from .handlers.causes.causes import Activity, Reason
from .handlers.declaration.declaring import (
    ActivityOptions,
    CreateOptions,
    DaemonOptions,
    Decorator,
    DeleteOptions,
    EventOptions,
    FieldOptions,
    HandlerFn,
    IndexOptions,
    Kind,
    RegisterOptions,
    ResumeOptions,
    SubhandlerOptions,
    TimerOptions,
    UpdateOptions,
    WebhookOptions,
    declare,
    declare_subhandler,
)
from .handlers.declaration.registry import running_subregistry
from .handlers.declaration.specs import (
    ActivitySpec,
    ChangingSpec,
    DaemonSpec,
    IndexingSpec,
    Operation,
    TimerSpec,
    WatchingSpec,
    WebhookSpec,
)
from .handlers.declaration.targets import Target

_FnT = TypeVar("_FnT", bound=HandlerFn)

_STARTUP = Kind("on.startup", ActivitySpec, ActivityOptions, {"activity": Activity.STARTUP})
_CLEANUP = Kind("on.cleanup", ActivitySpec, ActivityOptions, {"activity": Activity.CLEANUP})
_LOGIN = Kind("on.login", ActivitySpec, ActivityOptions, {"activity": Activity.AUTHENTICATION})
_PROBE = Kind("on.probe", ActivitySpec, ActivityOptions, {"activity": Activity.PROBE})
_LEADING = Kind("on.leading", ActivitySpec, ActivityOptions, {"activity": Activity.LEADING})
_STANDBY = Kind("on.standby", ActivitySpec, ActivityOptions, {"activity": Activity.STANDBY})
_EVENT = Kind("on.event", WatchingSpec, EventOptions)
_INDEX = Kind("index", IndexingSpec, IndexOptions, has_field_in_id=False)
_CREATE = Kind("on.create", ChangingSpec, CreateOptions, {"reason": Reason.CREATE})
_RESUME = Kind("on.resume", ChangingSpec, ResumeOptions, {"initial": True})
_UPDATE = Kind("on.update", ChangingSpec, UpdateOptions, {"reason": Reason.UPDATE, "field_needs_change": True})
_DELETE = Kind("on.delete", ChangingSpec, DeleteOptions, {"reason": Reason.DELETE})
_FIELD = Kind("on.field", ChangingSpec, FieldOptions, {"field_needs_change": True})
_DAEMON = Kind("daemon", DaemonSpec, DaemonOptions)
_TIMER = Kind("timer", TimerSpec, TimerOptions)
_VALIDATE = Kind("on.validate", WebhookSpec, WebhookOptions, {"type": "validating"})
_MUTATE = Kind("on.mutate", WebhookSpec, WebhookOptions, {"type": "mutating"})
_SUBHANDLER = Kind("subhandler", ChangingSpec, SubhandlerOptions)
_REGISTER = Kind("register", ChangingSpec, RegisterOptions)


def startup(*misplaced: Never, **options: Unpack[ActivityOptions]) -> Decorator:
    """Run before the operator talks to the cluster. When it fails for good, the operator does not start."""
    return declare(_STARTUP, misplaced, options)


def cleanup(*misplaced: Never, **options: Unpack[ActivityOptions]) -> Decorator:
    """Run when the operator ends, after all other handlers."""
    return declare(_CLEANUP, misplaced, options)


def login(*misplaced: Never, **options: Unpack[ActivityOptions]) -> Decorator:
    """Give the credentials for the cluster; run at the start and whenever the server refuses the present ones."""
    return declare(_LOGIN, misplaced, options)


def probe(*misplaced: Never, **options: Unpack[ActivityOptions]) -> Decorator:
    """Give a value for the liveness answer, under the handler's id; a failure makes the operator unhealthy."""
    return declare(_PROBE, misplaced, options)


def leading(*misplaced: Never, **options: Unpack[ActivityOptions]) -> Decorator:
    """Run each time this operator becomes the leader, before it attempts anything; without an election, once after the start.

    For what only one replica may start. When it fails for good the operator ends, and another replica takes over.
    """
    return declare(_LEADING, misplaced, options)


def standby(*misplaced: Never, **options: Unpack[ActivityOptions]) -> Decorator:
    """Run when another replica leads at the start, each time leadership is lost, and before it is given back at the end.

    For stopping what `on.leading` has started; without an election it runs at the end. When it fails for good the operator ends.
    """
    return declare(_STANDBY, misplaced, options)


def event(*target: Target, **options: Unpack[EventOptions]) -> Decorator:
    """Run for each raw event of the resource's objects, and once for each object that is there at the start.

    Nothing is remembered on the object, and an error is logged and never retried.
    """
    return declare(_EVENT, target, options)


def index(*target: Target, **options: Unpack[IndexOptions]) -> Decorator:
    """Fill an index, named as the function or as `id`, that all handlers get as an argument of that name.

    A dict maps keys of the index to values; anything else is a value without a key; None changes nothing.
    """
    return declare(_INDEX, target, options)


def create(*target: Target, **options: Unpack[CreateOptions]) -> Decorator:
    """Run once for each object that was never handled before, as long as its creation is not handled completely."""
    return declare(_CREATE, target, options)


def resume(*target: Target, **options: Unpack[ResumeOptions]) -> Decorator:
    """Run once for each object that was there, and handled, before this operator process."""
    return declare(_RESUME, target, options)


def update(*target: Target, **options: Unpack[UpdateOptions]) -> Decorator:
    """Run when the object differs from what was handled last; with `field`, when that field does."""
    return declare(_UPDATE, target, options)


def delete(*target: Target, **options: Unpack[DeleteOptions]) -> Decorator:
    """Run when the deletion of an object is asked for, and make it wait until the handler is done (unless `optional`)."""
    required = not options.pop("optional", None)
    return declare(_DELETE, target, options, requires_finalizer=required)


def field(*target: Target, **options: Unpack[FieldOptions]) -> Decorator:
    """Run when the field differs from what was handled last, whether by creation, update or deletion of the object."""
    return declare(_FIELD, target, options)


def daemon(*target: Target, **options: Unpack[DaemonOptions]) -> Decorator:
    """Run in the background for as long as the object exists and matches; `stopped` tells when to end."""
    return declare(_DAEMON, target, options)


def timer(*target: Target, **options: Unpack[TimerOptions]) -> Decorator:
    """Run again and again for as long as the object exists and matches; never beside itself.

    With neither `interval` nor `idle` it is called once.
    """
    return declare(_TIMER, target, options)


def validate(*target: Target, **options: Unpack[WebhookOptions]) -> Decorator:
    """Decide whether a change of an object is allowed: any error refuses it, AdmissionError with a message and a code."""
    return declare(_VALIDATE, target, options, operations=_operations(options))


def mutate(*target: Target, **options: Unpack[WebhookOptions]) -> Decorator:
    """Change an object before it is stored, through `patch`; any error refuses the change."""
    return declare(_MUTATE, target, options, operations=_operations(options))


def subhandler(**options: Unpack[SubhandlerOptions]) -> Decorator:
    """Declare a part of the running handler that succeeds, fails and is retried by itself; the handler waits for its parts.

    Raises LookupError where no handler runs, and TypeError in a handler that is none of changes.
    """
    return declare_subhandler(_SUBHANDLER, running_subregistry(), options)


def register(fn: _FnT, **options: Unpack[RegisterOptions]) -> _FnT:
    """Declare the function as `subhandler` does, without the syntax of a decorator."""
    return declare_subhandler(_REGISTER, running_subregistry(), options)(fn)


def _operations(options: WebhookOptions) -> Collection[Operation] | None:
    """Merge the deprecated option into the present one, and take both out of the options."""
    single, several = options.pop("operation", None), options.pop("operations", None)
    if single is not None:
        warnings.warn("operation= is deprecated; use operations=[...].", DeprecationWarning, stacklevel=3)
    if isinstance(several, str):
        raise TypeError(f"operations= is a collection, for instance [{several!r}]; got {several!r}.")
    if several is not None and not several:
        raise ValueError("operations= must not be empty: leave it out to be asked about all operations.")
    merged = [*(several or ()), *([single] if single is not None else ())]
    return tuple(dict.fromkeys(merged)) or None
