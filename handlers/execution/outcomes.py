"""Judge how one attempt of a handler ended: final or not, when to try again, and what the log says.

The rules and the sentences are Kopf's: error modes, back-offs, and the look-ahead that fails a handler at once when
its next attempt would be refused anyway.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from numbers import Real
from typing import Any, Final

import msgspec

from ...client.wire.request import plain
from ..causes.causes import Logger
from ..causes.patch import Patch
from ..declaration.specs import ActivitySpec, DaemonSpec, HandlerSpec, IndexingSpec, TimerSpec, WebhookSpec
from ..errors import ErrorsMode, HandlerRetriesError, HandlerTimeoutError, PermanentError, TemporaryError

LONGEST_DELAY: Final = 1e10
"""Seconds; some centuries. There are no dates for much longer ones."""
DEFAULT_BACKOFF: Final = 60
"""Seconds; what Kopf's settings say by default."""


class UnfinishedSubhandlers(TemporaryError):
    """A handler's sub-handlers are not all done: the handler is to be called again after `delay` seconds."""

    def __init__(self, delay: float | None) -> None:
        super().__init__(None, delay=delay)


class Outcome(msgspec.Struct):
    """How one attempt of a handler ended.

    `final`: the handler is not to be called again for this cause. `delay`: seconds until the next attempt of one that
    is not final; None is as soon as possible. `exception` of a final outcome is a failure; without one it succeeded.
    `subrefs`: ids of the sub-handlers that the attempt declared, at all levels.
    """

    final: bool
    delay: float | None = None
    result: Any = None
    exception: Exception | None = None
    subrefs: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """An outcome and the log line that goes with it."""

    outcome: Outcome
    level: int
    text: str
    traceback: bool = False


@dataclass(frozen=True, slots=True)
class AttemptsSoFar:
    """What is known of an attempt when it is judged: how many were before it, and the seconds since the first began."""

    retry: int
    runtime: float
    default_errors: ErrorsMode = ErrorsMode.TEMPORARY
    default_backoff: float = 60


_LABELS: tuple[tuple[type[HandlerSpec], str], ...] = (
    (ActivitySpec, "Activity"),
    (DaemonSpec, "Daemon"),
    (TimerSpec, "Timer"),
    (IndexingSpec, "Indexer"),
    (WebhookSpec, "Webhook"),
)


def label(spec: HandlerSpec) -> str:
    """Name a handler in a log line: `Handler 'id'`, `Activity 'id'`, `Daemon 'id'` and so on (Kopf's wording)."""
    kind = next((text for cls, text in _LABELS if isinstance(spec, cls)), "Handler")
    return f"{kind} {str(spec.id)!r}"


def refuse(spec: HandlerSpec, attempt: AttemptsSoFar) -> LoggedOutcome | None:
    """Say whether the handler may not even be called: its time or its attempts are used up. None: call it."""
    if spec.timeout is not None and attempt.runtime >= spec.timeout:
        text = f"{label(spec)} has timed out after {timedelta(seconds=attempt.runtime)}."
        return LoggedOutcome(Outcome(final=True, exception=HandlerTimeoutError(text)), logging.ERROR, text)
    if spec.retries is not None and attempt.retry >= spec.retries:
        text = f"{label(spec)} has exceeded {attempt.retry} retries."
        return LoggedOutcome(Outcome(final=True, exception=HandlerRetriesError(text)), logging.ERROR, text)
    return None


def fail(spec: HandlerSpec, exc: Exception, attempt: AttemptsSoFar, subrefs: Collection[str] = ()) -> LoggedOutcome:
    """Judge an attempt that raised."""
    name, what = label(spec), str(exc) or repr(exc)
    if isinstance(exc, UnfinishedSubhandlers):
        waiting = Outcome(final=False, delay=exc.delay, exception=exc, subrefs=subrefs)
        return LoggedOutcome(waiting, logging.DEBUG, f"{name} has unfinished sub-handlers. Will retry soon.")
    if isinstance(exc, PermanentError):
        failed = Outcome(final=True, exception=exc, subrefs=subrefs)
        return LoggedOutcome(failed, logging.ERROR, f"{name} failed permanently: {what}")
    if isinstance(exc, TemporaryError):
        delay, what = (None, what) if exc.delay is None else _dated(attempt, ("delay", exc.delay), what)
        retry = Outcome(final=False, delay=delay, exception=exc, subrefs=subrefs)
        again = f"{name} failed temporarily: {what}"
        timeout = f"{name} failed temporarily but will time out after {spec.timeout} seconds: {what}"
        exceed = f"{name} failed temporarily but will exceed {spec.retries} retries: {what}"
        return _retry(spec, attempt, retry, (again, timeout, exceed), traceback=False)
    mode = spec.errors if spec.errors is not None else attempt.default_errors
    if mode is ErrorsMode.IGNORED:
        ignored = Outcome(final=True, subrefs=subrefs)
        text = f"{name} failed with an exception and will ignore it: {what}"
        return LoggedOutcome(ignored, logging.ERROR, text, traceback=True)
    if mode is ErrorsMode.PERMANENT:
        failed = Outcome(final=True, exception=exc, subrefs=subrefs)
        return LoggedOutcome(
            failed, logging.ERROR, f"{name} failed with an exception and will stop now: {what}", traceback=True
        )
    backoff, what = _dated(attempt, None if spec.backoff is None else ("backoff", spec.backoff), what)
    stop = f"{name} failed with an exception and will stop now"
    again = f"{name} failed with an exception and will try again in {backoff} seconds: {what}"
    timeout = f"{stop} (it would time out in {spec.timeout} seconds on the next attempt): {what}"
    exceed = f"{stop} (it would exceed {spec.retries} retries on the next attempt): {what}"
    retry = Outcome(final=False, delay=backoff, exception=exc, subrefs=subrefs)
    return _retry(spec, attempt, retry, (again, timeout, exceed), traceback=True)


def leads_to_date(delay: Any) -> bool:
    """Whether something is a number of seconds after which there is a date."""
    is_number = isinstance(delay, Real)
    return is_number and -LONGEST_DELAY < delay < LONGEST_DELAY


def _dated(attempt: AttemptsSoFar, own: tuple[str, Any] | None, what: str) -> tuple[float, str]:
    """The seconds until the next attempt: the handler's own, the default, or Kopf's: the first that lead to a date.

    The text says which do not. Every outcome comes from here, so that nobody after it meets what is no date.
    """
    asked = (own, ("settings.execution.default_backoff", attempt.default_backoff), ("", DEFAULT_BACKOFF))
    left = [each for each in asked if each is not None]
    taken = next(number for number, (_, delay) in enumerate(left) if leads_to_date(delay))
    seconds = left[taken][1]
    if taken:
        wrong = ", ".join(f"{name}={delay!r}" for name, delay in left[:taken])
        what = f"{what} ({wrong} is no number of seconds until a date: {seconds} are taken)"
    return seconds if isinstance(seconds, (int, float)) else float(seconds), what


def _retry(
    spec: HandlerSpec, attempt: AttemptsSoFar, again: Outcome, texts: tuple[str, str, str], *, traceback: bool
) -> LoggedOutcome:
    """Try again after the delay, unless the next attempt would be refused: then fail now (look-ahead)."""
    retried, timeout, exceed = texts
    if spec.timeout is not None and attempt.runtime + (again.delay or 0) >= spec.timeout:
        final = Outcome(final=True, exception=HandlerTimeoutError(timeout), subrefs=again.subrefs)
        return LoggedOutcome(final, logging.ERROR, timeout, traceback)
    if spec.retries is not None and attempt.retry + 1 >= spec.retries:
        final = Outcome(final=True, exception=HandlerRetriesError(exceed), subrefs=again.subrefs)
        return LoggedOutcome(final, logging.ERROR, exceed, traceback)
    return LoggedOutcome(again, logging.ERROR, retried, traceback)


def deliver(patch: Patch, handler_id: str, result: Any, logger: Logger) -> None:
    """Put a handler's result into the status under its id: mappings merge at the top level (Kopf behaviour).

    One that is nothing for JSON is logged and dropped: the handler has done its work, and is not called again for that.
    """
    try:
        told = plain(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        logger.error(  # noqa: TRY400 - where it was encoded tells the author of the handler nothing
            "The result of handler %r cannot be written to the status, and is dropped: %s", handler_id, exc
        )
        return
    known = patch.status.get(handler_id)
    if isinstance(told, dict):
        patch.status[handler_id] = {**(known if isinstance(known, Mapping) else {}), **told}
    else:
        patch.status[handler_id] = told
