"""Timers: when each is called next, and the delaying queue in which all of them wait.

The rules are those of Kopf's documentation:

- the interval counts from the end of a call; a sharp one from its beginning, on a grid that does not drift;
- the delay of an error replaces the interval;
- with `idle`, there is no call before the object has been unchanged for so long; without an interval beside it, each
  change is followed by one call;
- with neither, there is one call.
"""

import asyncio
import enum
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from ...runtime.tasks import Tasks
from ...workqueue.delaying import DelayingQueue
from ..causes.causes import DaemonCause
from ..declaration.specs import HandlerId, TimerSpec
from .daemons import Spawned, seconds

TimerKey: TypeAlias = tuple[str, HandlerId]
"""The uid of the object, and the id of the handler."""

SPREAD = 600.0
"""The longest time, in seconds, over which the first calls for objects that were there at the start are spread."""
GOLDEN = (math.sqrt(5) - 1) / 2
GRAINS = ((5.0, 0.05), (1.0, 0.01))
"""For delays of so many seconds, or more: calls that are due between two multiples of this are made together at the second."""
RECOVERY = 60.0
"""Seconds before the next tick of a timer whose last one failed by an error of ours."""


class Rest(enum.Enum):
    """When there is no next time."""

    UNTIL_CHANGE = enum.auto()
    """The next call follows the object's next change."""
    FOR_EVER = enum.auto()
    """There is no further call."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When a timer is called, as declared, in seconds. Pure: all times are arguments, those of the loop."""

    interval: float | None = None
    sharp: bool = False
    idle: float | None = None

    @classmethod
    def of(cls, spec: TimerSpec) -> "Rhythm":
        """The rhythm of a handler."""
        interval = None if spec.interval is None else seconds(spec.interval)
        return cls(interval, spec.sharp, None if spec.idle is None else seconds(spec.idle))

    def offset(self, number: int) -> float:
        """The delay of the first call for an object that was there when the operator started.

        `number` counts these objects from 0. However many there are, their calls are spread evenly over the interval, or over
        `SPREAD` seconds of a longer one, so that restarts do not keep rare timers from ever being called.
        """
        if self.interval is None:
            return 0.0
        return math.modf(number * GOLDEN)[0] * min(self.interval, SPREAD)

    def settled(self, due: float, changed: float) -> float:
        """The time of a call that was due, put off until the object has been unchanged for long enough."""
        return due if self.idle is None else max(due, changed + self.idle)

    def after(self, due: float, now: float, began: float, changed: float) -> float | Rest:
        """The time of the next call, after one that was due and began, ended now, and is not repeated for an error."""
        if self.interval is not None and self.interval > 0 and self.sharp:
            passed = math.floor((now - due) / self.interval) + 1
            # Rounding must not make a call due in its own past.
            following = due + max(1, passed) * self.interval
            return following if following > now else following + self.interval
        if self.interval is not None:
            return now + self.interval
        if self.idle is not None:
            return changed + self.idle if changed > began else Rest.UNTIL_CHANGE
        return Rest.FOR_EVER


@dataclass(slots=True, eq=False, repr=False)
class Timer(Spawned[TimerSpec]):
    """One timer of one object."""

    wake: Callable[[], None]
    """Has the object observed."""
    dormant: bool = field(default=False, kw_only=True)
    """It does not match: it only checks its filters at each interval."""
    rhythm: Rhythm = field(init=False)
    due: float | None = field(default=None, init=False)
    """The time of its next call (the loop's); None: not before a change of the object."""

    def __post_init__(self) -> None:
        self.rhythm = Rhythm.of(self.spec)

    @property
    def key(self) -> TimerKey:
        """Its key in the queue."""
        return self.owner.obj.identity, self.spec.id

    async def tick(self, due: float) -> float | Rest:
        """Call the function if the filters still match and the object has been idle; gives the time of the next tick.

        When the filters have changed their answer, the object is observed anew: that ends or starts timers.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        settled = self.rhythm.settled(due, self.owner.changed)
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
            self.wake()
        if self.dormant or not matches:
            return Rest.UNTIL_CHANGE if self.rhythm.interval is None else now + self.rhythm.interval
        outcome = await self.call(cause)
        await self.write(cause.patch, again=True)
        ended = loop.time()
        if not outcome.final:
            return ended + max(0.0, outcome.delay or 0.0)
        return self.rhythm.after(due, ended, now, self.owner.changed)

    def _matches(self, cause: DaemonCause) -> bool:
        try:
            return self.spec.match(cause)
        except Exception as exc:  # filters are the user's functions; when the object is observed, this is logged again
            self.log("is not called now, since its filters failed: %r", exc, level=logging.ERROR)
            return False


class Timers:
    """All timers of an operator. `ended` is called with each timer that ends in its own tick."""

    def __init__(self, tasks: Tasks, ended: Callable[[Timer], None]) -> None:
        self._tasks = tasks
        self._ended = ended
        # Each timer knows its own time; a key that comes out of the queue too early is added again.
        self._queue: DelayingQueue[TimerKey] = DelayingQueue("timers")
        self._live: dict[TimerKey, Timer] = {}
        self._dispatcher: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._live)

    def start(self, timer: Timer, delay: float) -> None:
        """Add a timer; its first tick comes after so many seconds: without any, before the next write is answered."""
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
        """Remove a timer. A tick that runs now goes on to its end, without effect on the timer."""
        if self._live.get(timer.key) is timer:
            del self._live[timer.key]
            self._queue.discard(timer.key)

    async def _dispatch(self) -> None:
        while True:
            self._begin(await self._queue.get())

    def _begin(self, key: TimerKey) -> None:
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
        except Exception as exc:  # an error of ours must not end the timer
            timer.log("met an error that is not its own: %r", exc, level=logging.ERROR)
            following = asyncio.get_running_loop().time() + RECOVERY
        finally:
            self._ticked(timer, following)

    def _over(self, timer: Timer, task: asyncio.Task[None]) -> None:
        """Note the end of a task that was cancelled before its first step."""
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
