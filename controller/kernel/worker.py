"""The worker of a controller takes keys from the queue, attempts them in tasks, and decides what follows from each outcome."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from ...runtime.log_context import log_context, next_number, unique_name
from ...runtime.log_limits import shares
from ...runtime.tasks import Isolated, Tasks
from ...runtime.texts import cut
from ...workqueue import RateLimitingQueue, ShutDown
from ..leader.gate import Left, until_held
from .metrics import ControllerMetrics
from .outcome import SUCCESS, TERMINAL, AttemptOutcome, Requeue, outcome_of
from .reconciler import ADDED, Attempt, Reconcile, Result, Trigger

_logger = logging.getLogger("ctl.controller")
_logger.addFilter(shares)

K = TypeVar("K", bound=Hashable)
Pause: TypeAlias = Callable[[], Awaitable[object]]

LONGEST_ERROR = 4000
"""Characters of an error that are logged and explained; its traceback has more of them."""
REMEMBERED_ERRORS = 1000
"""The last error is kept for this many keys that are not retried, those that failed last."""
SOON = 1.0
"""Seconds until a cancelled attempt is repeated."""
CANCEL_GRACE = 1.0
"""Seconds that cancelled attempts have for their clean-up."""
SLICE = 0.005
"""Seconds for which attempts that never wait may share a task before the loop runs other tasks."""
STARTS = 8
"""Tasks that are started before the loop runs others; one, when all tasks started before have ended."""

RETRY, REQUEUED, RESUMED = Trigger("retry"), Trigger("requeue_after"), Trigger("resumed")


class AttemptLogContext(msgspec.Struct, eq=False):
    """The current attempt, for the log lines of the code that it calls.

    `about` returns a reference to the object, where it is known: apiVersion, kind, name, uid, namespace.
    """

    controller: str
    attempt: Attempt[Any]
    about: Callable[[], Mapping[str, Any] | None] | None = None
    number: int = msgspec.field(default_factory=next_number)

    def fields(self) -> Mapping[str, Any]:
        """Controller, key, trigger, the attempt's number, and an id that all lines of this attempt share."""
        attempt = self.attempt
        fields: dict[str, Any] = {
            "controller": self.controller,
            "key": str(attempt.key),
            "trigger": attempt.trigger.name,
            "attempt": attempt.number,
            "reconcile_id": unique_name(self.number),
        }
        if self.about is not None and (about := self.about()) is not None:
            fields["k8s_ref"] = about
        return fields


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of one key, for people who ask why it is not attempted, or why so often. Times are seconds from now or ago."""

    key: str
    state: str
    """`in work`, `waiting`, `delayed`, `in back-off` or `at rest`."""
    reason: str | None
    """The trigger of the next attempt, with the object and the change."""
    priority: int | None
    """Of the next attempt, or of the running one where none follows."""
    waited: float | None
    """Since the key became ready for an attempt."""
    failures: int
    last_error: str | None
    last_error_ago: float | None
    next_in: float | None
    gate_open: bool


@dataclass(frozen=True, slots=True)
class LastError:
    """The last error of a key, as text, with the loop's time."""

    text: str
    at: float


class KeyNotes(Generic[K]):
    """The triggers and the last errors of keys that wait or fail. Of keys at rest only the errors of those that are not retried are kept."""

    def __init__(self) -> None:
        # The first trigger since the key's last attempt began; and the one of the repetition that the last attempt requested.
        self._triggers: dict[K, Trigger] = {}
        self._repetitions: dict[K, Trigger] = {}
        self._errors: dict[K, LastError] = {}
        # The oldest first.
        self._terminal_errors: dict[K, LastError] = {}

    def request(self, key: K, trigger: Trigger) -> None:
        """Note a request for an attempt."""
        self._triggers.setdefault(key, trigger)

    def repeat(self, key: K, trigger: Trigger) -> None:
        """Note that the last attempt is to be repeated."""
        self._repetitions[key] = trigger

    def take(self, key: K, *, is_delayed: bool) -> Trigger:
        """Remove and return the trigger of the attempt that begins now. `is_delayed`: the repetition is not due yet."""
        trigger = self._triggers.pop(key, None)
        if not self._repetitions or (trigger is not None and is_delayed):
            return trigger or ADDED
        # An attempt that was requested for another reason is the repetition as well.
        repetition = self._repetitions.pop(key, ADDED)
        return trigger or repetition

    def forget_requests(self) -> None:
        """Forget all triggers: the queue was emptied."""
        self._triggers.clear()
        self._repetitions.clear()

    def failed(self, key: K, error: LastError, *, is_terminal: bool) -> None:
        """Note an error."""
        if not is_terminal:
            self._errors[key] = error
            return
        self._terminal_errors[key] = error
        if len(self._terminal_errors) > REMEMBERED_ERRORS:
            del self._terminal_errors[next(iter(self._terminal_errors))]

    def succeeded(self, key: K) -> None:
        """Forget the errors of a key."""
        if self._errors:
            self._errors.pop(key, None)
        if self._terminal_errors:
            self._terminal_errors.pop(key, None)

    def trigger(self, key: K) -> Trigger | None:
        """The trigger of the next attempt; None where there is none."""
        return self._triggers.get(key) or self._repetitions.get(key)

    def error(self, key: K) -> LastError | None:
        """The last error; None after a success."""
        return self._errors.get(key) or self._terminal_errors.get(key)

    def __len__(self) -> int:
        return len(self._triggers) + len(self._repetitions) + len(self._errors) + len(self._terminal_errors)


class Worker(Generic[K]):
    """Attempts the keys of one controller, `concurrency` of them at once (None: no limit), each for at most `timeout` seconds.

    An attempt that ends without having waited leaves its task to the next key: starting a task costs more than a short attempt.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        queue: RateLimitingQueue[K],
        *,
        concurrency: int | None,
        timeout: float | None,
        left: Left | None,
    ) -> None:
        """`left` returns the seconds in which attempts may begin; None: no limit."""
        self.metrics = ControllerMetrics(name, concurrency)
        self.running: dict[K, asyncio.Task[None]] = {}
        """The keys in work, and their tasks."""
        self.pause: Pause | None = None
        """Awaited after every STARTS tasks at the most, while only keys of priorities below 0 wait."""
        self.notes: KeyNotes[K] = KeyNotes()
        self._name = name
        self._reconcile = reconcile
        self._queue = queue
        self._timeout = timeout
        self._left = left
        self._tasks = Tasks(f"controller {name}")
        self._slots = None if concurrency is None else asyncio.Semaphore(concurrency)
        self._slice_ends = 0.0
        self._dispatcher: asyncio.Task[None] | None = None
        self._may_begin: Callable[[], bool] = bool
        # The attempts that `cancel` has cancelled.
        self._cancelled: dict[K, asyncio.Task[None]] = {}

    # Starting and stopping.

    @property
    def is_started(self) -> bool:
        """Whether `start` was called."""
        return self._dispatcher is not None

    def start(self, next_key: Callable[[], Awaitable[K]], may_begin: Callable[[], bool]) -> None:
        """Begin to attempt keys. `next_key` waits for a key that may be attempted; `may_begin` says whether one may be now."""
        self._may_begin = may_begin
        self._dispatcher = self._tasks.spawn(self._dispatch(next_key), name="dispatcher")

    def begin_no_more(self) -> None:
        """Leave the keys that wait; the running attempts go on."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
        self._queue.clear()

    async def drain(self, deadline: float) -> None:
        """Attempt the keys that wait, unless no attempt may begin, and wait for the running attempts; until the deadline in the loop's time."""
        time = asyncio.get_running_loop().time
        if self._dispatcher is not None:
            if self._may_begin():
                await self._queue.shut_down_with_drain(max(0.0, deadline - time()))
            else:
                self.begin_no_more()
        self._queue.shut_down()
        # Attempts that `cancel` has cancelled had their time.
        running = [task for key, task in self.running.items() if self._cancelled.get(key) is not task]
        if running:
            await asyncio.wait(running, timeout=max(0.0, deadline - time()))

    async def stop(self) -> None:
        """Cancel the attempts that still run. Those that go on after CANCEL_GRACE seconds are abandoned with a warning."""
        for key, task in self.running.items():
            # For the warning.
            task.set_name(f"{self._tasks.name}: attempt of {key}")
        await self._tasks.stop(CANCEL_GRACE)

    def cancel(self) -> None:
        """Cancel the running attempts."""
        for key, task in self.running.items():
            self._cancelled[key] = task
            task.add_done_callback(partial(self._has_ended, key))
            task.cancel()

    def _has_ended(self, key: K, task: asyncio.Task[None]) -> None:
        if self._cancelled.get(key) is task:
            del self._cancelled[key]

    # Tasks.

    async def _dispatch(self, next_key: Callable[[], Awaitable[K]]) -> None:
        """Start a task for each key, until the queue is shut down and empty."""
        time, starts = asyncio.get_running_loop().time, 1
        while True:
            if self._slots is not None:
                await self._slots.acquire()
            if not starts:
                # The started tasks run first: they may take the keys that wait, and do if attempts never wait.
                await asyncio.sleep(0)
                starts = STARTS if self.running else 1
                if self.pause is not None and (self._queue.highest or 0) < 0:
                    await self.pause()
            try:
                key = await next_key()
            except ShutDown:
                return
            starts -= 1
            self._slice_ends = time() + SLICE
            run = _Run(self, key)
            task = run.task = self.running[key] = self._tasks.spawn(run.attempts(), name="attempts")
            task.add_done_callback(run.ended)

    def another(self) -> K | None:
        """Take a key for a task whose attempt has ended; None if it may not have one."""
        if asyncio.get_running_loop().time() >= self._slice_ends or not self._may_begin():
            return None
        return self._queue.take()

    def release(self, key: K | None) -> None:
        """Note the end of a task; put back the key that it has not attempted, since it was cancelled before it began."""
        if key is not None:
            if not self._queue.shutting_down:
                self.notes.repeat(key, RESUMED)
                self._queue.add(key, priority=self._queue.priority(key))
            self._queue.done(key)
        if self._slots is not None:
            self._slots.release()

    # Attempts.

    def attempt(self, key: K) -> Coroutine[Any, Any, None]:
        """Attempt a key that was taken from the queue. Nothing is raised but the cancellation of the current task."""
        # Taken now: requests that come before the attempt begins are for the next one.
        return self._attempt(key, self.notes.take(key, is_delayed=self._queue.due(key) is not None))

    async def _attempt(self, key: K, trigger: Trigger) -> None:
        now = asyncio.get_running_loop().time
        attempt = self._begin(key, trigger, now())
        # Each attempt has a context of its own.
        log_context.set(AttemptLogContext(self._name, attempt))
        result: Result | None = None
        error: BaseException | None = None
        timed_out = cancelled = False
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
            # Without a request to cancel the task the reconciler has raised it itself: an error like others.
            cancelled, error = task is not None and task.cancelling() > 0, exc
            if cancelled:
                raise
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as exc:
            # The interpreter exits: the attempt did not end by itself.
            cancelled, error = True, exc
            raise
        except BaseException as exc:
            # Some libraries have errors that are no Exception.
            error = exc
        finally:
            timed_out = timed_out and isinstance(error, TimeoutError)
            outcome = outcome_of(result, error, timed_out=timed_out, cancelled=cancelled)
            try:
                self._handle(attempt, outcome, result, error, now())
            finally:
                # Also when the user's rate limiter raises: without this the key would never be attempted again.
                self._queue.done(key)

    def _begin(self, key: K, trigger: Trigger, now: float) -> Attempt[K]:
        self.metrics.started(trigger.name, None if trigger.at is None else now - trigger.at)
        queue, timeout = self._queue, self._timeout
        deadline = None if timeout is None else now + timeout
        return Attempt(key, queue.num_requeues(key) + 1, trigger, queue.priority(key), now, deadline)

    def _handle(
        self,
        attempt: Attempt[K],
        outcome: AttemptOutcome,
        result: Result | None,
        error: BaseException | None,
        now: float,
    ) -> None:
        key, trigger = attempt.key, attempt.trigger
        self.metrics.ended(outcome, now - attempt.started)
        if outcome.forget:
            self._queue.forget(key)
            self.notes.succeeded(key)
        if outcome.is_error:
            error = error if result is None else result.error
            told = LastError(cut(repr(error), LONGEST_ERROR), now)
            self.notes.failed(key, told, is_terminal=outcome is TERMINAL)
        elif outcome.forget and trigger.at is not None:
            self.metrics.done(trigger.name, now - trigger.at)
        delay = None if outcome is SUCCESS else self._requeue(attempt, outcome.requeue, result)
        if _logger.isEnabledFor(outcome.level):
            self._log(attempt, outcome, error, delay)

    def _requeue(self, attempt: Attempt[K], requeue: Requeue, result: Result | None) -> float | None:
        """Add the key again; return the seconds until the next attempt, None if it is not added."""
        key, priority, queue = attempt.key, attempt.priority, self._queue
        if requeue is Requeue.NO or queue.shutting_down:
            return None
        if requeue is Requeue.BACK_OFF:
            self.notes.repeat(key, RETRY)
            return queue.add_rate_limited(key, priority=priority)
        if requeue is Requeue.SOON:
            self.notes.repeat(key, RESUMED)
            queue.add_after(key, SOON, priority=priority)
            return SOON
        assert result is not None
        assert result.requeue_after is not None
        self.notes.repeat(key, REQUEUED if result.error is None else RETRY)
        queue.add_after(key, result.requeue_after, priority=priority if result.priority is None else result.priority)
        return result.requeue_after

    def _log(
        self, attempt: Attempt[K], outcome: AttemptOutcome, error: BaseException | None, delay: float | None
    ) -> None:
        _logger.log(
            outcome.level,
            "%s Controller %s, key %s, attempt %d, next in %s s%s",
            outcome.text,
            self._name,
            attempt.key,
            attempt.number,
            "-" if delay is None else f"{delay:.3f}",
            f": {cut(repr(error), LONGEST_ERROR)}" if outcome.is_error else "",
            exc_info=error if outcome.traceback else None,
            extra={
                "controller": self._name,
                "key": str(attempt.key),
                "attempt": attempt.number,
                "trigger": attempt.trigger.name,
            },
        )

    # Looking in.

    def explain(self, key: K, *, gate_open: bool) -> Explanation:
        """Return the state of a key."""
        now, queue = asyncio.get_running_loop().time(), self._queue
        trigger, error = self.notes.trigger(key), self.notes.error(key)
        due, since, is_running = queue.due(key), queue.waits_since(key), key in self.running
        if is_running:
            state = "in work"
        elif key in queue:
            state = "waiting"
        elif due is None:
            state = "at rest"
        else:
            state = "delayed" if queue.held_until(key) is None else "in back-off"
        rank = queue.rank(key)
        return Explanation(
            key=str(key),
            state=state,
            reason=None if trigger is None else str(trigger),
            priority=queue.priority(key) if rank is None and is_running else rank,
            waited=None if since is None else now - since,
            failures=queue.num_requeues(key),
            last_error=None if error is None else error.text,
            last_error_ago=None if error is None else now - error.at,
            next_in=None if due is None else max(0.0, due - now),
            gate_open=gate_open,
        )


class _Run(Generic[K]):
    """One task of a worker, and the key in its hands."""

    __slots__ = ("_attempt", "_key", "_worker", "task")

    task: asyncio.Task[None]

    def __init__(self, worker: Worker[K], key: K) -> None:
        self._worker = worker
        self._key: K | None = key
        self._attempt: Coroutine[Any, Any, None] | None = worker.attempt(key)

    async def attempts(self) -> None:
        worker, task = self._worker, self.task
        while (key := self._key) is not None and self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            try:
                # The next key must not see what this reconciler sets in context variables.
                await Isolated(attempt)
            finally:
                self._key = None
                # The key may be in work again, in another task: then the entry is that task's.
                if worker.running.get(key) is task:
                    del worker.running[key]
            if task.cancelling():
                return
            key = worker.another()
            if key is not None:
                self._key, self._attempt = key, worker.attempt(key)
                worker.running[key] = task

    def ended(self, task: asyncio.Task[None]) -> None:
        """Clean up after the task, which may have been cancelled before it began."""
        key = None if self._attempt is None else self._key
        if key is not None and self._attempt is not None:
            self._attempt.close()
            if self._worker.running.get(key) is task:
                del self._worker.running[key]
        self._worker.release(key)


def _checked(returned: object) -> Result | None:
    if returned is None or isinstance(returned, Result):
        return returned
    raise TypeError(
        f"A reconciler returns None, or Result(requeue_after=...) to be called again; got {returned!r}. Its work is done, but "
        "the attempt counts as failed."
    )
