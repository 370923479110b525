"""A controller joins sources of changes, a queue and attempts, and starts and stops them together."""

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ...runtime.metrics import Sample
from ...runtime.tasks import Tasks
from ...workqueue import RateLimitingQueue
from ..leader.gates import AlwaysOpen, Gate, Heir, Timed, Turn
from .asked import Asked
from .mappers import Mapper
from .metrics import ControllerMetrics
from .predicates import Predicate
from .reconciler import Reason, Reconciler, as_function
from .result import Result
from .runners import Pause, Runners
from .source import Informed, Rules, Watch
from .worker import Worker

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_logger = logging.getLogger("ctl.controller")

CATCH_UP_PAUSE = 1.0
"""Seconds before a copy that could not be brought up to what predecessors wrote is tried again."""
CANCEL_GRACE = 1.0
"""Seconds that cancelled attempts have for their clean-up when a controller is stopped."""


class Watched:
    """A running watch, to be stopped by whoever began it."""

    def __init__(
        self, name: str, synced: asyncio.Event, is_open: Callable[[], bool], close: "Callable[[Watched], None]"
    ) -> None:
        self.name = name
        self.synced = synced
        """Set when what was there at the beginning has been delivered to the trigger."""
        self.tasks = Tasks(f"watch {name}")
        self._is_open = is_open
        self._close = close

    @property
    def is_open(self) -> bool:
        """Whether the keys that its trigger gives are taken now: the gate is open, and the copy as new as what a predecessor wrote."""
        return self._is_open()

    async def stop(self) -> None:
        """Take no more changes. Keys that were asked for stay in the queue. May be called again."""
        self._close(self)
        await self.tasks.stop(CANCEL_GRACE)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a key stands: for people who ask why nothing happens, or why so much does. Times are seconds from now or ago."""

    key: str
    state: str
    """`in work`, `waiting`, `delayed`, `in back-off` or `at rest`."""
    reason: str | None
    """Which trigger asked for the next attempt, and the object and change it named."""
    priority: int | None
    """With which the next attempt waits; with which this one runs, if none does."""
    waited: float | None
    """For how long the key has been ready for an attempt."""
    failures: int
    last_error: str | None
    last_error_ago: float | None
    next_in: float | None
    gate_open: bool


class Controller(Generic[K]):
    """Attempts keys when something asks for it.

    `reconcile` gets a key and what is to know about the attempt (`Attempt`); see `Reconciler` for its promises. `concurrency` is how many
    keys are in work at once; None: all that there are, each in a task of its own. `timeout` is the longest an attempt may take,
    in seconds. The gate is passed before each attempt: while it is closed no attempt begins and nothing is asked for; when it opens every
    stored object is asked for at low priority; when it is revoked the running attempts are cancelled.

    With a gate that opens after others have acted (an `Heir`, such as leadership) each opening after a revocation begins a term: the
    queue is emptied, and a watch asks for nothing until its copy has caught up, then for every stored object.

    Sources can be added and removed at any time, before the start as well: then the queue fills and attempts begin with the start.
    """

    def __init__(
        self,
        name: str,
        reconcile: "Reconciler[K] | Callable[..., Awaitable[Result | None]]",
        *,
        queue: RateLimitingQueue[K] | None = None,
        concurrency: int | None = 1,
        gate: Gate | None = None,
        timeout: float | None = None,
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise ValueError(
                f"The controller {name} needs a concurrency of 1 at least, or None for no limit; got {concurrency}."
            )
        self.name = name
        self.queue: RateLimitingQueue[K] = RateLimitingQueue(name) if queue is None else queue
        self.metrics = ControllerMetrics(name, concurrency)
        self._gate: Gate = AlwaysOpen() if gate is None else gate
        left = self._gate.left if isinstance(self._gate, Timed) else None
        self._worker = Worker(name, as_function(reconcile), self.queue, self.metrics, timeout=timeout, left=left)
        self._heir: Heir | None = self._gate if isinstance(self._gate, Heir) else None
        # Whether the gate has opened and was not revoked since; and how many terms have begun.
        self._in_term = False
        self._terms = 0
        self._watches: dict[Watched, Watch[K] | None] = {}
        self._asked: Asked[K] = Asked()
        # Those without which no attempt begins, and whether one of them has come nearer to that.
        self._awaited: list[Watch[K]] = []
        self._progress = asyncio.Event()
        self._tasks = Tasks(f"controller {name}")
        self._dispatcher: asyncio.Task[None] | None = None
        self._runners = Runners(self._tasks, self.queue, self._worker, self._may_begin, concurrency)
        # The attempts that a revocation has cancelled.
        self._cut: dict[K, asyncio.Task[None]] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._stopping = False

    # Sources.

    def watch(
        self,
        informer: Informed,
        trigger: Mapper[K],
        *,
        predicate: Predicate | None = None,
        urgent: Predicate | None = None,
        name: str | None = None,
        wait: bool = False,
    ) -> Watched:
        """Have the deltas of an informer ask for keys, from now on; inside the running loop only.

        Each stored object comes first (at priority -100, as everything that is listed), then each delta, in order. `predicate`, `urgent`:
        see `Rules`. `wait`: no attempt of this controller begins until this source has told all that is stored, and in each term has
        caught up, so that a reconciler which looks at several informers never takes an unfilled one for an empty world.
        """
        watch = Watch(
            repr(informer.resource) if name is None else name,
            informer,
            Rules(trigger, predicate, urgent),
            self._ask,
            self.metrics.trigger_errors,
        )
        watch.held = self._heir is not None
        watched = self._begin(watch.name, watch.follow(), watch)
        if wait:
            self._awaited.append(watch)
            watched.tasks.spawn(self._note_synced(watch), name="first list")
        if self._in_term:
            self._admit(watched, watch, replay=False)
        return watched

    def follow(
        self, source: AsyncIterable[T], keys: Callable[[T], Iterable[K]], *, name: str, remember: bool = True
    ) -> Watched:
        """Have anything that can be iterated ask for keys: a channel, a timer, another system's stream; in the running loop only.

        What it asks for while the gate is closed, and what a lost term left undone, is asked for at the next opening: the 10,000 keys
        that came last. Without `remember` it is passed over. An exception of the source, or of `keys`, ends it with an error
        in the log; the controller goes on.
        """

        async def pump() -> None:
            async for item in source:
                at = asyncio.get_running_loop().time()
                reason = Reason(name, at)
                for key in keys(item):
                    if remember and not self._asked.note(key, reason, is_open=self._gate.is_open):
                        self.metrics.trigger_errors[name] = self.metrics.trigger_errors.get(name, 0) + 1
                    self._ask(key, reason, 0, False)

        return self._begin(name, pump(), None)

    def _begin(self, name: str, following: Coroutine[Any, Any, None], watch: Watch[K] | None) -> Watched:
        synced = asyncio.Event() if watch is None else watch.synced
        watched = Watched(f"{name} for {self.name}", synced, partial(self._takes, watch), partial(self._end, name))
        self._watches[watched] = watch
        self.metrics.follows(name)
        watched.tasks.spawn(following, name="changes")
        return watched

    def _end(self, name: str, watched: Watched) -> None:
        if watched in self._watches:
            self.metrics.leaves(name)
        watch = self._watches.pop(watched, None)
        if watch is not None:
            watch.close()
            # Nobody waits for what a stopped watch would still tell. At the stop of the controller all watches end, and what is missing stays so.
            if not self._stopping:
                self._awaited = [awaited for awaited in self._awaited if awaited is not watch]
                self._progress.set()

    def _takes(self, watch: Watch[K] | None) -> bool:
        return self._gate.is_open and not (watch is not None and watch.held)

    async def _note_synced(self, watch: Watch[K]) -> None:
        await watch.synced.wait()
        self._progress.set()

    def _ask(self, key: K, reason: Reason, priority: int, urgent: bool) -> None:
        if self._gate.is_open:
            self._worker.notes.wants(key, reason)
            self.queue.add(key, priority=priority, urgent=urgent)

    # Life.

    def pace(self, pause: Pause) -> None:
        """Have this awaited from now on after every few attempts of a backlog (priorities below 0): no more begin until it returns."""
        self._runners.pause = pause

    async def start(self) -> None:
        """Begin to attempt what is asked for. Raises RuntimeError when it was started or stopped before."""
        if self._dispatcher is not None:
            raise RuntimeError(f"The controller {self.name} was started before; a controller runs once.")
        self._unsubscribe = self._gate.subscribe(self._turned)
        if self._gate.is_open:
            self._begin_term()
            self._ask_again()
        self._dispatcher = self._tasks.spawn(self._runners.dispatch(self._next), name="dispatcher")

    async def stop(self, grace: float = 30.0) -> None:
        """Stop within `grace` seconds and CANCEL_GRACE: end the watches, let the attempts and what waits be done, cancel the rest.

        What waits is left while no attempt may begin: the gate is closed, or an awaited source has not told all that is stored. Attempts
        that outlive their cancellation are abandoned with a warning.
        """
        time = asyncio.get_running_loop().time
        self._stopping, deadline = True, time() + grace
        for watched in tuple(self._watches):
            await watched.stop()
        if self._dispatcher is not None:
            if self._may_begin():
                await self.queue.shut_down_with_drain(grace)
            else:
                self._begin_no_more()
        self.queue.shut_down()
        # Those that a revocation has cancelled have had their time.
        going_on = [task for key, task in self._runners.running.items() if self._cut.get(key) is not task]
        if going_on:
            await asyncio.wait(going_on, timeout=max(0.0, deadline - time()))
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._runners.name()
        await self._tasks.stop(CANCEL_GRACE)

    async def _next(self) -> K:
        """Wait for a key that may be attempted now."""
        while True:
            await self._until_ready()
            key = await self.queue.get()
            terms = self._terms
            try:
                await self._until_ready()
            except asyncio.CancelledError:
                self.queue.done(key)
                raise
            if terms == self._terms:
                return key
            # It was in hand when a term ended; the next one asks for everything anew.
            self.queue.done(key)

    def _may_begin(self) -> bool:
        if not self._gate.is_open:
            return False
        return not self._awaited or all(watch.synced.is_set() and not watch.held for watch in self._awaited)

    async def _until_ready(self) -> None:
        while not self._may_begin():
            await self._gate.wait_open()
            self._progress.clear()
            if self._gate.is_open and not self._may_begin():
                await self._progress.wait()

    def _begin_no_more(self) -> None:
        """At the stop: leave what waits."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
        self.queue.clear()

    # The gate.

    def _turned(self, turn: Turn) -> None:
        if self._stopping and turn is not Turn.REVOKED:
            # An opening comes too late: what the watches have not told meanwhile is not known.
            self._begin_no_more()
        elif turn is Turn.OPENED:
            if not self._in_term:
                self._begin_term()
            for watched, watch in self._watches.items():
                if watch is not None and not watch.held and not watched.tasks.stopping:
                    watched.tasks.spawn(watch.replay(), name="replay")
            self._ask_again()
        elif turn is Turn.REVOKED:
            if self._stopping:
                self._begin_no_more()
            self._end_term()

    def _begin_term(self) -> None:
        self._in_term = True
        if self._heir is None:
            return
        self._terms += 1
        self._asked.put_back(lambda key: key in self._runners.running or self.queue.rank(key) is not None)
        self.queue.clear()
        self._worker.notes.forget_wishes()
        for watched, watch in self._watches.items():
            if watch is not None and not watched.tasks.stopping:
                self._admit(watched, watch, replay=True)

    def _ask_again(self) -> None:
        for key, reason in self._asked.take().items():
            self._ask(key, reason, 0, False)

    def _end_term(self) -> None:
        self._in_term = False
        for watch in self._watches.values():
            if watch is not None and self._heir is not None:
                watch.held = True
        for key, task in self._runners.running.items():
            self._cut[key] = task
            task.add_done_callback(partial(self._forget_cut, key))
            task.cancel()

    def _forget_cut(self, key: K, task: asyncio.Task[None]) -> None:
        if self._cut.get(key) is task:
            del self._cut[key]

    def _admit(self, watched: Watched, watch: Watch[K], *, replay: bool) -> None:
        """Let a watch ask for attempts as soon as its copy has caught up."""
        if self._heir is not None:
            watched.tasks.spawn(self._catch_up(self._heir, watch, replay=replay), name="taking over")

    async def _catch_up(self, heir: Heir, watch: Watch[K], *, replay: bool) -> None:
        terms = self._terms
        while True:
            try:
                await heir.catch_up(watch.informer)
            except Exception:
                # Whatever it is: who gave up would lead and do nothing for a whole term.
                _logger.exception(
                    "Catching up failed and will be tried again: the watch %s of the controller %s.",
                    watch.name,
                    self.name,
                )
                await asyncio.sleep(CATCH_UP_PAUSE)
            else:
                break
        if terms != self._terms or not self._in_term:
            return
        watch.held = False
        self._progress.set()
        # In a pause nothing is asked for; its end is an opening, which shows everything.
        if self._gate.is_open and (replay or watch.dropped):
            await watch.replay()

    async def survivors(self, grace: float = CANCEL_GRACE) -> tuple[K, ...]:
        """Wait for the ends of the attempts that a revocation has cancelled; gives the keys of those that live on after `grace` seconds.

        They act without being allowed to: whoever owns the process ends it. Their writes through a fenced client are refused. What an
        attempt has left behind in threads or in tasks of its own is not known here.
        """
        if self._cut:
            await asyncio.wait(self._cut.values(), timeout=grace)
        return tuple(self._cut)

    # Looking in.

    @property
    def running(self) -> tuple[K, ...]:
        """The keys whose attempts run now."""
        return tuple(self._runners.running)

    @property
    def attempts(self) -> dict[K, asyncio.Task[None]]:
        """The keys whose attempts run now, and the tasks in which they do."""
        return dict(self._runners.running)

    def explain(self, key: K) -> Explanation:
        """Say where a key stands, and why."""
        loop_time = asyncio.get_running_loop().time()
        reason, failure = self._worker.notes.reason(key), self._worker.notes.failure(key)
        due, held, since = self.queue.due(key), self.queue.held_until(key), self.queue.waits_since(key)
        if key in self._runners.running:
            state = "in work"
        elif key in self.queue:
            state = "waiting"
        elif due is None:
            state = "at rest"
        else:
            state = "in back-off" if held is not None else "delayed"
        told = (
            None
            if reason is None
            else " ".join(part for part in (reason.trigger, reason.change, reason.object) if part)
        )
        return Explanation(
            key=str(key),
            state=state,
            reason=told,
            priority=self._priority(key),
            waited=None if since is None else loop_time - since,
            failures=self.queue.num_requeues(key),
            last_error=None if failure is None else failure.error,
            last_error_ago=None if failure is None else loop_time - failure.at,
            next_in=None if due is None else max(0.0, due - loop_time),
            gate_open=self._gate.is_open,
        )

    def _priority(self, key: K) -> int | None:
        rank = self.queue.rank(key)
        return self.queue.priority(key) if rank is None and key in self._runners.running else rank

    @property
    def is_acting(self) -> bool:
        """Whether attempts may begin: the gate is open."""
        return self._gate.is_open

    def samples(self) -> Iterator[Sample]:
        """The metrics of the controller and its queue at this moment (a source for `ctl.runtime.metrics`)."""
        yield from self.metrics.samples(is_open=self._gate.is_open)
        yield from self.queue.samples()
