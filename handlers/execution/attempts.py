"""Make one attempt of one handler: call it unless it is refused, judge how it ended, and say so in the log."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import Context
from datetime import datetime, timedelta
from types import FrameType
from typing import Any, Final

import msgspec

from ...controller.leader.gate import LeaseOverError, Left, lease_left, only_while_held, until_held
from ...runtime import clock
from ...runtime.log_context import LogContext, log_context, next_number, unique_name
from ...runtime.watchdog import Blame
from ..causes.causes import (
    Activity,
    ActivityCause,
    Cause,
    ChangingCause,
    DaemonCause,
    IndexingCause,
    ResourceCause,
    WatchingCause,
    current_cause,
)
from ..causes.patch import Unwritable, make_plain
from ..declaration.specs import DaemonSpec, HandlerSpec, TimerSpec
from ..errors import ErrorsMode
from ..loggers import reference
from ..settings import OperatorSettings
from . import outcomes, statistics
from .outcomes import AttemptsSoFar, LoggedOutcome, Outcome, UnfinishedSubhandlers
from .pools import in_thread
from .possible_writes import PossibleWrites
from .progression import Progress
from .statistics import Statistics

_KINDS: Final[tuple[tuple[type[Cause], str], ...]] = ((WatchingCause, "event"), (IndexingCause, "index"))
_TASKS: Final[tuple[tuple[type[HandlerSpec], str], ...]] = ((DaemonSpec, "daemon"), (TimerSpec, "timer"))
_OURS = __name__.partition(".")[0]


class Call(msgspec.Struct, eq=False):
    """A handler, the cause it is called for, and what is known of its earlier attempts.

    `executor` runs a sync function instead of the handlers' pool. `writes` is told whether the function may have written by another client.
    `root` is the handler that a sub-handler is below of, at whatever level.
    """

    spec: HandlerSpec
    cause: Cause
    progress: Progress
    default_errors: ErrorsMode = ErrorsMode.TEMPORARY
    extra: Mapping[str, Any] | None = None
    executor: Executor | None = None
    writes: PossibleWrites | None = None
    root: HandlerSpec | None = None


async def attempt(
    call: Call,
    settings: OperatorSettings,
    subrefs: Callable[[], Collection[str]] = tuple,
    after: Callable[[], Any] | None = None,
) -> Outcome:
    """Call the handler once and give the outcome; whatever the handler raises becomes one.

    `after` is awaited when the function has returned, as a part of the attempt (implicit sub-handlers); `subrefs` tells
    then which sub-handlers were declared. Cancellation is logged and passed on. The cause is let go of.
    """
    spec, cause, left = call.spec, call.cause, lease_left.get() and await _begin(call.cause)
    logger, now, time = cause.logger, clock.now(), asyncio.get_running_loop().time
    pools = statistics.current()
    counts = pools.of(spec, call.root)
    counts.running += 1
    began, ended = time(), "cancelled"
    doing = log_context.set(HandlerLogContext(cause, log_context.get(), spec, call.progress.retries))
    handled = current_cause.set(cause)
    try:
        if spec.timeout is not None or spec.retries is not None:
            refused = outcomes.refuse(spec, _known(call, settings, now))
            if refused is not None:
                ended = "failed"
                return _report(call, refused)
        # Who hears of the end need not hear of the beginning, but not the other way round.
        is_told = logger.isEnabledFor(logging.INFO)
        if is_told and logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s is invoked.", outcomes.label(spec))
        if spec.is_async:
            result = await _called(call, kwargs(call, now))
        else:
            result = await _call_in_thread(call, settings, now, pools, left)
        if after is not None:
            await after()
        _insist_on_writable(call)
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            logger.warning("%s is cancelled. Will escalate.", outcomes.label(spec))
            raise
        outcome, ended = _fail(call, _cancelled_elsewhere(exc), settings, subrefs())
        return outcome
    except (SystemExit, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:  # any error of a user's function is an outcome
        outcome, ended = _fail(call, _as_exception(exc), settings, subrefs())
        return outcome
    else:
        ended = "succeeded"
        if is_told:
            logger.info("%s succeeded.", outcomes.label(spec))
        return Outcome(True, None, result, None, subrefs())
    finally:
        counts.ended(ended, time() - began)
        current_cause.reset(handled)
        log_context.reset(doing)
        cause.let_go()


def _cancelled_elsewhere(exc: asyncio.CancelledError) -> RuntimeError:
    """The error of a function whose task nobody cancels: it waited for something of its own that was cancelled."""
    error = RuntimeError("it waited for something that was cancelled")
    error.__cause__ = exc
    return error


async def _begin(cause: Cause) -> Left | None:
    """Wait until somebody may be called for a cause, and give how long that may be; None where that is for ever.

    Indices and most activities are everybody's, and not only a leader's.
    """
    left = lease_left.get()
    if left is None or isinstance(cause, IndexingCause):
        return None
    if isinstance(cause, ActivityCause) and cause.activity is not Activity.LEADING:
        return None
    if left() <= 0:
        await until_held(left)
    return left


def _called(call: Call, given: Mapping[str, Any]) -> Awaitable[Any]:
    """Call a function that runs in the loop. (Who need not be watched is awaited as it is.)"""
    return call.spec.fn(**given) if call.writes is None else _watched(call.spec, given, call.writes)


async def _watched(spec: HandlerSpec, given: Mapping[str, Any], writes: PossibleWrites) -> Any:
    writes.begin()
    try:
        return await spec.fn(**given)
    finally:
        writes.end()


async def _call_in_thread(
    call: Call, settings: OperatorSettings, now: datetime, pools: Statistics, left: Left | None
) -> Any:
    spec = call.spec
    fn = spec.fn if call.writes is None else call.writes.timed(spec.fn)
    executor, pool = (
        (settings.execution.executor, pools.pool) if call.executor is None else (call.executor, pools.threads)
    )
    if left is None:
        return await in_thread(fn, kwargs(call, now), executor, pool, spec.id)
    while True:
        try:
            return await in_thread(only_while_held(fn, left), kwargs(call, now), executor, pool, spec.id)
        except LeaseOverError:
            await until_held(left)


def _unwritable(call: Call) -> list[Unwritable]:
    """What the handler has put into its patch that cannot be written, and is taken out of it."""
    cause = call.cause
    if not isinstance(cause, ResourceCause) or not len(cause.patch) or isinstance(cause, IndexingCause):
        return []
    return make_plain(cause.patch)


def _insist_on_writable(call: Call) -> None:
    """Raise what is wrong with the patch of a handler that has returned: it has not done what it seems to have done."""
    unwritable = _unwritable(call)
    if unwritable:
        _tell(call, unwritable[1:])
        raise unwritable[0].with_traceback(None) from None


def _tell(call: Call, unwritable: Sequence[Unwritable]) -> None:
    for one in unwritable:
        call.cause.logger.error("%s left what cannot be written. %s", outcomes.label(call.spec), one)


def accuse(frames: Sequence[FrameType]) -> Blame | None:
    """Find out of the stack of a callback of the loop whose attempt it belongs to: the handler, and the object if there is one."""
    frame = next((frame for frame in frames if frame.f_code is attempt.__code__), None)
    call = None if frame is None else frame.f_locals.get("call")
    if not isinstance(call, Call):
        return None
    text = outcomes.label(call.spec)
    if isinstance(call.cause, ResourceCause):
        metadata = call.cause.body.metadata
        name = "/".join(part for part in (metadata.namespace, metadata.name) if part)
        text = f"{text} of {call.cause.resource!r} {name}"
    return Blame((call.root or call.spec).id, text)


def kwargs(call: Call, now: datetime) -> dict[str, Any]:
    """What the function is given: the attempt's arguments, and the cause's own last (they and the indices win)."""
    progress = call.progress
    runtime: timedelta = now - progress.started
    return {
        "param": call.spec.param,
        "retry": progress.retries,
        "started": progress.started,
        "runtime": runtime,
        **(call.extra or {}),
        **call.cause.kwargs,
    }


def _as_exception(exc: BaseException) -> Exception:
    """Errors of some libraries are no Exception (a panic in an extension, for instance), and are none the less errors."""
    if isinstance(exc, Exception):
        return exc
    error = RuntimeError(f"{type(exc).__name__}: {exc}")
    error.__cause__ = exc
    return error


def _fail(call: Call, exc: Exception, settings: OperatorSettings, subrefs: Collection[str]) -> tuple[Outcome, str]:
    """The outcome of an attempt that raised, and its name in the statistics."""
    _tell(call, _unwritable(call))
    known = _known(call, settings, clock.now())
    outcome = _report(call, outcomes.fail(call.spec, exc, known, subrefs), exc)
    if not outcome.final:
        return outcome, "waiting" if isinstance(exc, UnfinishedSubhandlers) else "retried"
    return outcome, "ignored" if outcome.exception is None else "failed"


def _known(call: Call, settings: OperatorSettings, now: datetime) -> AttemptsSoFar:
    progress = call.progress
    runtime = (now - progress.started).total_seconds()
    return AttemptsSoFar(progress.retries, runtime, call.default_errors, settings.execution.default_backoff)


def _report(call: Call, verdict: LoggedOutcome, exc: Exception | None = None) -> Outcome:
    if call.cause.logger.isEnabledFor(verdict.level):
        call.cause.logger.log(verdict.level, "%s", verdict.text, exc_info=exc if verdict.traceback else None)
    return verdict.outcome


class HandlerLogContext(msgspec.Struct, eq=False):
    """A cause that is being handled, or one handler's attempt for it; within the attempt of a key (`outer`), if there is one."""

    cause: Cause
    outer: LogContext | None
    spec: HandlerSpec | None = None
    retries: int = 0
    number: int = msgspec.field(default_factory=next_number)

    def fields(self) -> Mapping[str, Any]:
        """Cause, handler, attempt (1 for the first), the object, and a name that all lines of the key's attempt have in common."""
        outer = self.outer
        name = unique_name(self.number) if outer is None else outer.fields().get("reconcile_id")
        told: dict[str, Any] = {"cause": word(self.cause, self.spec), "reconcile_id": name}
        if self.spec is not None:
            told |= {"handler": str(self.spec.id), "attempt": self.retries + 1}
        if isinstance(self.cause, ResourceCause):
            told["k8s_ref"] = reference(self.cause.body)
        return told


def word(cause: Cause, spec: HandlerSpec | None = None) -> str:
    """What a cause is called: create, update, delete, resume; event, index, daemon, timer; startup, cleanup and so on."""
    if isinstance(cause, ChangingCause):
        return cause.reason.value
    if isinstance(cause, ActivityCause):
        return cause.activity.value
    found = next((text for kind, text in _KINDS if isinstance(cause, kind)), None)
    return found or next((text for kind, text in _TASKS if isinstance(spec, kind)), "other")


def born_in_handlers(indices: Mapping[str, Any]) -> dict[asyncio.Task[Any], str]:
    """The tasks of this loop that run in the context of a handler of objects, or of `on.leading`, and how people know them.

    `indices` are those of the operator: causes of others in the same loop have others. Tasks of this toolkit are left out.
    """
    found: dict[asyncio.Task[Any], str] = {}
    for task in asyncio.all_tasks():
        context = _context(task)
        cause = None if context is None else context.get(current_cause)
        if cause is not None and cause.indices is indices and _is_a_leaders(cause) and not _is_ours(task):
            found[task] = f"the task {task.get_name()!r}, which a handler has started"
    return found


def _is_a_leaders(cause: Cause) -> bool:
    if isinstance(cause, ActivityCause):
        return cause.activity is Activity.LEADING
    return isinstance(cause, (ChangingCause, DaemonCause, WatchingCause))


def _context(task: asyncio.Task[Any]) -> Context | None:
    get_context = getattr(task, "get_context", None)
    if get_context is not None:
        found: Context = get_context()
        return found
    # Python 3.11 keeps it to itself; of what a task refers to, its own context comes before those of its callbacks.
    return next((item for item in gc.get_referents(task) if isinstance(item, Context)), None)


def _is_ours(task: asyncio.Task[Any]) -> bool:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _OURS
