"""Timers are entries in one delaying queue: each is called when it is due, beside everything but itself."""

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ...runtime.tasks import Tasks
from ...workqueue.delaying import DelayingQueue
from ..causes.causes import DaemonCause
from ..declaration.filters import match
from ..declaration.specs import HandlerId, TimerSpec
from .base import Companion, Ground, Host
from .rhythm import Rest, Rhythm

TimerKey: TypeAlias = tuple[str, HandlerId]
"""The uid of the object, and the handler."""

GRAINS = ((5.0, 0.05), (1.0, 0.01))
"""For delays of so many seconds, or more: calls that are due between two multiples of this are made together at the second."""
RECOVERY = 60.0
"""Seconds before the next tick of a timer whose last one failed by a fault of ours."""


class Timer(Companion[TimerSpec]):
    """One timer of one object.

    `due` is the time of its next call (the loop's); None: not before a change of the object. One that is `dormant` does
    not match: it only looks at each interval whether it does by now. `wake` has the object observed.
    """

    __slots__ = ("_wake", "dormant", "due", "rhythm")

    def __init__(
        self, spec: TimerSpec, host: Host, ground: Ground, wake: Callable[[], None], *, dormant: bool = False
    ) -> None:
        super().__init__(spec, host, ground)
        self._wake = wake
        self.rhythm = Rhythm.of(spec)
        self.due: float | None = None
        self.dormant = dormant

    @property
    def key(self) -> TimerKey:
        """What it is known by in the queue."""
        return self.host.obj.identity, self.spec.id

    async def tick(self, due: float) -> float | Rest:
        """Do what is due now, if the filters still match and the object has been idle; gives the time of the next tick.

        When the filters say something else than before, the object is to be observed anew: that ends or starts timers.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        settled = self.rhythm.settled(due, self.host.changed)
        if settled > now and not self.dormant:
            return settled
        obj = await self.newest()
        if self.stopper.is_set():
            return Rest.UNTIL_CHANGE
        cause = None if obj is None else self.cause(obj)
        if cause is None or cause.body.metadata.deletion_timestamp is not None:
            return Rest.UNTIL_CHANGE
        matches = self.spec.is_unfiltered or self._matches(cause)
        if matches is self.dormant:
            self._wake()
        if self.dormant or not matches:
            return Rest.UNTIL_CHANGE if self.rhythm.interval is None else now + self.rhythm.interval
        outcome = await self.call(cause)
        await self.write(cause.patch, again=True)
        ended = loop.time()
        if not outcome.final:
            return ended + max(0.0, outcome.delay or 0.0)
        return self.rhythm.after(due, ended, now, self.host.changed)

    def _matches(self, cause: DaemonCause) -> bool:
        try:
            return match(self.spec, cause)
        except Exception as exc:  # filters are the user's functions; observing the object tells of it too
            self.log("is not called now, since its filters failed: %r", exc, level=logging.ERROR)
            return False


class Timers:
    """All timers of an operator. `ended` is told of each that comes to its end in its own tick."""

    def __init__(self, tasks: Tasks, ended: Callable[[Timer], None]) -> None:
        self._tasks = tasks
        self._ended = ended
        # An alarm clock: when a timer is due is known by the timer, and an alarm that comes early is set again.
        self._queue: DelayingQueue[TimerKey] = DelayingQueue("timers")
        self._live: dict[TimerKey, Timer] = {}
        self._dispatcher: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._live)

    def start(self, timer: Timer, delay: float) -> None:
        """Take a timer in; its first tick comes after so many seconds: without any, before an answer to what is written next."""
        if self._dispatcher is None:
            self._dispatcher = self._tasks.spawn(self._dispatch(), name="timers")
        self._live[timer.key] = timer
        self.arm(timer, asyncio.get_running_loop().time() + delay)
        while (key := self._queue.take()) is not None:
            self._begin(key)

    def arm(self, timer: Timer, due: float) -> None:
        """Set the time of the next tick. One that is a second away, or more, may come a hundredth of that later."""
        now = asyncio.get_running_loop().time()
        timer.due = due
        # Thousands of timers then wake the loop some times a second, not hundreds of times: most of their cost is that.
        grain = next((grain for least, grain in GRAINS if due - now >= least), None)
        alarm = due if grain is None else math.ceil(due / grain - 1e-6) * grain
        self._queue.add_after(timer.key, max(due, alarm) - now)

    def drop(self, timer: Timer) -> None:
        """Let a timer out. A tick that runs now goes on to its end; nothing else comes of it."""
        if self._live.get(timer.key) is timer:
            del self._live[timer.key]
            self._queue.discard(timer.key)

    async def _dispatch(self) -> None:
        while True:
            self._begin(await self._queue.get())

    def _begin(self, key: TimerKey) -> None:
        """Begin a tick, if the timer that the alarm was for is due."""
        timer = self._live.get(key)
        if timer is None or timer.due is None:
            self._queue.done(key)
        elif timer.due > asyncio.get_running_loop().time():
            self._queue.done(key)
            self.arm(timer, timer.due)
        else:
            timer.task = self._tasks.spawn(self._tick(timer, timer.due), name=f"timer {timer}")
            timer.task.add_done_callback(partial(self._over, timer))

    async def _tick(self, timer: Timer, due: float) -> None:
        timer.due = None
        following: float | Rest = Rest.FOR_EVER
        try:
            following = await timer.tick(due)
        except Exception as exc:  # a fault of ours: the timer is not to end by it
            timer.log("met an error that is not its own: %r", exc, level=logging.ERROR)
            following = asyncio.get_running_loop().time() + RECOVERY
        finally:
            self._ticked(timer, following)

    def _over(self, timer: Timer, task: asyncio.Task[None]) -> None:
        """A task is over. One that was cancelled before its first step has noted nothing itself."""
        if timer.task is task:
            self._ticked(timer, Rest.FOR_EVER)

    def _ticked(self, timer: Timer, following: float | Rest) -> None:
        timer.task = None
        self._queue.done(timer.key)
        if timer.stopper.is_set() or following is Rest.FOR_EVER:
            self.drop(timer)
            self._ended(timer)
        elif isinstance(following, float) and self._live.get(timer.key) is timer:
            self.arm(timer, following)
