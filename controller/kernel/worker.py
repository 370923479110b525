"""A worker attempts a key within a limit of time, and settles how that ended."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ...runtime.log_context import log_context, next_number, unique_name
from ...runtime.log_limits import shares
from ...runtime.texts import cut
from ...workqueue import RateLimitingQueue
from ..leader.lease_guard import Left, until_held
from .metrics import ControllerMetrics
from .notes import Failure, Notes
from .outcome import TABLE, Ending, Requeue, Settlement, classify
from .reconciler import Attempt, Reason, Reconcile
from .result import Result

_logger = logging.getLogger("ctl.controller")
_logger.addFilter(shares)

LONGEST_ERROR = 4000
"""Characters of an error that are logged and explained; its traceback has more of them."""

K = TypeVar("K", bound=Hashable)

_DONE = TABLE[Ending.DONE]
_NOTED = frozenset({Ending.FAILED, Ending.TIMED_OUT, Ending.DEFERRED})

SOON = 1.0
"""After how many seconds an attempt that was cut short is made again."""

RETRY, AFTER, RESUMED = Reason("retry"), Reason("requeue_after"), Reason("resumed")


class Attempting(msgspec.Struct, eq=False):
    """The attempt that is being made by a controller, for the log lines of what it calls.

    `about` gives the object, where somebody knows it: apiVersion, kind, name, uid, namespace.
    """

    controller: str
    attempt: Attempt[Any]
    about: Callable[[], Mapping[str, Any] | None] | None = None
    number: int = msgspec.field(default_factory=next_number)

    def fields(self) -> Mapping[str, Any]:
        """Controller, key, trigger, attempt, and a name that all lines of this attempt have in common."""
        attempt = self.attempt
        fields: dict[str, Any] = {
            "controller": self.controller,
            "key": str(attempt.key),
            "trigger": attempt.reason.trigger,
            "attempt": attempt.number,
            "reconcile_id": unique_name(self.number),
        }
        if self.about is not None and (about := self.about()) is not None:
            fields["k8s_ref"] = about
        return fields


def _checked(returned: object) -> Result | None:
    if returned is None or isinstance(returned, Result):
        return returned
    raise TypeError(
        f"A reconciler returns None, or Result(requeue_after=...) to be called again; this one has returned {returned!r}. What it has done is done; "
        "the attempt counts as failed."
    )


class Worker(Generic[K]):
    """Makes the attempts of one controller; any number of them at once, each in a task of its own.

    An attempt ends in one place, `_settle`, whatever the reconciler returns or raises.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        queue: RateLimitingQueue[K],
        metrics: ControllerMetrics,
        *,
        timeout: float | None,
        left: Left | None = None,
    ) -> None:
        """`left`: for how long attempts may begin; None: for ever."""
        self._name = name
        self._reconcile = reconcile
        self._queue = queue
        self._metrics = metrics
        self._timeout = timeout
        self._left = left
        self.notes: Notes[K] = Notes()

    def work(self, key: K) -> Coroutine[Any, Any, None]:
        """Attempt a key that was got from the queue, settle, and say to the queue that it is done.

        What is awaited raises nothing but the cancellation of its own task; a key whose attempt was cancelled is added again.
        """
        # The reason is taken now: what asks for the key before the attempt has begun is the reason of the next one.
        return self._work(key, self.notes.take(key, is_delayed=self._queue.due(key) is not None))

    async def _work(self, key: K, reason: Reason) -> None:
        now = asyncio.get_running_loop().time
        attempt = self._begin(key, reason, now())
        # Whoever runs attempts gives each a context of its own.
        log_context.set(Attempting(self._name, attempt))
        result: Result | None = None
        error: BaseException | None = None
        timed_out = cut = False
        try:
            if self._left is not None and self._left() <= 0:
                await until_held(self._left)
            if self._timeout is None:
                returned = await self._reconcile(key, attempt)
            else:
                async with asyncio.timeout(self._timeout) as limit:
                    try:
                        returned = await self._reconcile(key, attempt)
                    finally:
                        timed_out = limit.expired()
            result = _checked(returned)
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            # A cancellation that nobody asked this task for is an error of the reconciler's own doing.
            cut, error = task is not None and task.cancelling() > 0, exc
            if cut:
                raise
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as exc:
            # The interpreter is told to exit: the attempt did not end by itself.
            cut, error = True, exc
            raise
        except BaseException as exc:
            # Some libraries have errors that are no Exception. They are errors all the same, and wait as long as others.
            error = exc
        finally:
            ending = classify(result, error, timed_out=timed_out and isinstance(error, TimeoutError), cut=cut)
            if result is not None and result.error is not None:
                error = result.error
            try:
                self._settle(attempt, ending, result, error, now())
            finally:
                # Whatever a limiter of the user's raises: a key that is never done would never be attempted again.
                self._queue.done(key)

    def skip(self, key: K) -> None:
        """Put a key back that was got from the queue and not attempted: its attempt was cancelled before it began."""
        if not self._queue.shutting_down:
            self.notes.wants_later(key, RESUMED)
            self._queue.add(key, priority=self._queue.priority(key))
        self._queue.done(key)

    def _begin(self, key: K, reason: Reason, now: float) -> Attempt[K]:
        self._metrics.started(reason.trigger, None if reason.at is None else now - reason.at)
        queue, timeout = self._queue, self._timeout
        deadline = None if timeout is None else now + timeout
        return Attempt(key, queue.num_requeues(key) + 1, reason, queue.priority(key), now, deadline)

    def _settle(
        self, attempt: Attempt[K], ending: Ending, result: Result | None, error: BaseException | None, now: float
    ) -> None:
        # Nearly all attempts end in the same way; and asking a table by a member of an enum is slow.
        settlement = _DONE if ending is Ending.DONE else TABLE[ending]
        key, reason = attempt.key, attempt.reason
        self._metrics.ended(ending, settlement, now - attempt.started)
        if settlement.forget:
            self._queue.forget(key)
            self.notes.recovered(key)
            if reason.at is not None and not settlement.is_error:
                self._metrics.done(reason.trigger, now - reason.at)
        if error is not None:
            if ending in _NOTED:
                self.notes.failed(key, Failure(cut(repr(error), LONGEST_ERROR), now))
            elif ending is Ending.TERMINAL:
                self.notes.gave_up(key, Failure(cut(repr(error), LONGEST_ERROR), now))
        delay = None if settlement.requeue is Requeue.NO else self._requeue(attempt, settlement.requeue, result)
        if _logger.isEnabledFor(settlement.level):
            self._log(attempt, settlement, error, delay)

    def _requeue(self, attempt: Attempt[K], requeue: Requeue, result: Result | None) -> float | None:
        """Add the key again as the settlement says; gives the seconds until then, None if it is not added."""
        key, priority = attempt.key, attempt.priority
        if self._queue.shutting_down:
            return None
        if requeue is Requeue.BACK_OFF:
            self.notes.wants_later(key, RETRY)
            return self._queue.add_rate_limited(key, priority=priority)
        if requeue is Requeue.SOON:
            self.notes.wants_later(key, RESUMED)
            self._queue.add_after(key, SOON, priority=priority)
            return SOON
        assert result is not None
        assert result.requeue_after is not None
        self.notes.wants_later(key, AFTER if result.error is None else RETRY)
        self._queue.add_after(
            key, result.requeue_after, priority=priority if result.priority is None else result.priority
        )
        return result.requeue_after

    def _log(
        self, attempt: Attempt[K], settlement: Settlement, error: BaseException | None, delay: float | None
    ) -> None:
        _logger.log(
            settlement.level,
            "%s Controller %s, key %s, attempt %d, next in %s s%s",
            settlement.text,
            self._name,
            attempt.key,
            attempt.number,
            "-" if delay is None else f"{delay:.3f}",
            f": {cut(repr(error), LONGEST_ERROR)}" if settlement.is_error else "",
            exc_info=error if settlement.traceback else None,
            extra={
                "controller": self._name,
                "key": str(attempt.key),
                "attempt": attempt.number,
                "trigger": attempt.reason.trigger,
            },
        )
