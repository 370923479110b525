"""A thread detects a blocked event loop, and logs where and for how long it was blocked.

While one callback runs, nothing else of the loop does: no watch is read, no lease renewed, no probe answered. The loop
notes the time of its ticks, and the thread notices when a tick is late. Two kinds of time do not count: time in which
the whole process was stopped (SIGSTOP, a debugger, a machine that slept), and, on Linux, time in which the loop's
thread could run and got no CPU. C code that holds the interpreter's lock blocks the thread too: such a block is
detected when the lock is free again.
"""

import asyncio
import logging
import os
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from weakref import WeakKeyDictionary

from .metrics import Families, Sample

_logger = logging.getLogger("ctl.loop")

FAMILIES = Families()
LAG = FAMILIES.gauge("ctl_loop_lag_seconds", "The longest delay of the event loop in the last 30 seconds.")
BLOCKS = FAMILIES.counter(
    "ctl_loop_blocks_total",
    "How often the event loop did not turn for longer than the limit, by the handler, or the controller of the reconciler, that blocked it; "
    "empty: neither's call.",
    "handler",
)
BLOCKED = FAMILIES.counter(
    "ctl_loop_blocked_seconds_total", "Seconds for which the event loop was blocked, in total.", "handler"
)

LIMIT = 0.5
"""Seconds without a turn of the loop that count as a block."""
WINDOW = 30.0
"""How far back, in seconds, the lag is remembered."""
TICKS = 5
"""Ticks within the limit. A block longer than the limit by one tick is always detected, a shorter one perhaps, one below the
limit never. Each tick wakes the loop, which costs more than everything else here."""

_OURS = __name__.partition(".")[0]
_MACHINERY = frozenset({"asyncio", "concurrent", "contextvars", "selectors", "threading", "uvloop", _OURS})
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(frozen=True, slots=True)
class Blame:
    """The call that blocks the loop: a short name for the metrics, and a text for people."""

    name: str
    text: str


Accuse = Callable[[Sequence[FrameType]], Blame | None]
"""Finds the call to blame in the stack of the running callback, the innermost frame first; called in the thread. None: not known."""

NOBODY = Blame("", "something")


@dataclass(slots=True)
class _Gap:
    """A time without turns: `beat` is the last tick, `began` when the next one was due, `ended` when it came.

    For `starved` seconds since the last tick this thread, or the loop's, got no CPU though it could have run.
    """

    beat: float
    began: float
    ended: float
    starved: float = 0.0


class _Starving:
    """How long threads waited for a CPU: the one that made this, and those that called `join`. Always 0 where the system has no such figures."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._state = self._opened("stat")
        self.join()

    def _opened(self, name: str) -> int | None:
        try:
            return os.open(f"/proc/self/task/{threading.get_native_id()}/{name}", os.O_RDONLY)
        except OSError:
            return None

    def join(self) -> None:
        """Add the calling thread."""
        file = self._opened("schedstat")
        if file is not None:
            self._files.append(file)

    def used(self) -> tuple["_Used", ...]:
        """The times of each thread until now; from any thread."""
        return tuple(_Used(*(int(word) / 1e9 for word in os.pread(file, 64, 0).split()[:2])) for file in self._files)

    def since(self, before: tuple["_Used", ...]) -> float:
        """For how long a thread has waited for a CPU since `before`, in seconds; the longest of them, as they may have at once."""
        return max((now.waited - then.waited for now, then in zip(self.used(), before, strict=False)), default=0.0)

    def is_waiting(self, before: tuple["_Used", ...], enough: float) -> bool:
        """Whether the first thread could run now, and has not for so many seconds since `before`; what it waits now is in no sum yet."""
        if self._state is None or not before:
            return False
        state = os.pread(self._state, 256, 0).rpartition(b") ")[2][:1]
        return state == b"R" and self.used()[0].ran - before[0].ran < enough

    def close(self) -> None:
        """Close the files of all threads."""
        files, self._files = self._files, []
        for file in files if self._state is None else [*files, self._state]:
            os.close(file)
        self._state = None


@dataclass(frozen=True, slots=True)
class _Used:
    """For how long a thread had a CPU, and for how long it waited for one, in seconds."""

    ran: float
    waited: float


class LoopWatchdog:
    """Watches the loop in which it is started, until it is stopped there.

    `limit` is called again and again; None: nothing is a block. Of several watchdogs of one loop each counts, and one logs. Does nothing
    in a loop that is not of real time (one with a false attribute `real_time`).
    """

    def __init__(self, limit: Callable[[], float | None] = lambda: LIMIT, accuse: Accuse = lambda _: None) -> None:
        self._limit = limit
        self._accuse = accuse
        self.blocks: dict[str, int] = {"": 0}
        """The number of blocks, by the name of their `Blame`. Written by the thread."""
        self.blocked: dict[str, float] = {"": 0.0}
        """Seconds of blocks that are over."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        # Written by the loop, read by the thread: when the loop turned last, and late ticks that wait for a judgement.
        self._beat = 0.0
        self._due = 0.0
        self._starving: _Starving  # once it is started
        self._used: tuple[_Used, ...] = ()
        self._depth = 0
        self._late: deque[_Gap] = deque(maxlen=64)
        self._lags: deque[_Gap] = deque(maxlen=1024)
        # Written by the thread: when the whole process stood still.
        self._pauses: deque[_Gap] = deque(maxlen=16)

    # The loop's side.

    def start(self) -> None:
        """Begin to watch the running loop."""
        loop = asyncio.get_running_loop()
        if not getattr(loop, "real_time", True):
            return
        self._loop = loop
        _watched.setdefault(loop, []).append(self)
        self._beat = self._due = time.monotonic()
        self._starving = _Starving()
        self._used = self._starving.used()
        self._timer = loop.call_later(0.0, self._tick)
        target = _Watch(self, threading.get_ident())
        self._thread = threading.Thread(target=target.run, name="loop watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; in the loop."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._thread is not None:
            self._thread.join(1.0)
            # A thread that is still at work would find another file under the number.
            if not self._thread.is_alive():
                self._starving.close()
            self._thread = None
        if self._loop is not None:
            _watched.get(self._loop, []).remove(self)
            self._loop = None

    def _tick(self) -> None:
        assert self._loop is not None
        now = time.monotonic()
        period = self._period()
        if now - self._due > 0.001:
            gap = _Gap(self._beat, self._due, now, self._starving.since(self._used))
            self._lags.append(gap)
            if now - self._due > period:
                self._late.append(gap)
        self._beat, self._due = now, now + period
        self._used = self._starving.used()
        # The frames below this callback are the loop's and its callers'. (Those of uvloop cannot be seen.)
        self._depth = sum(1 for _ in _frames(sys._getframe().f_back))
        self._timer = self._loop.call_later(period, self._tick)

    def _period(self) -> float:
        return min(max((self._limit() or LIMIT) / TICKS, 0.005), 0.25)

    # Findings.

    @property
    def lag(self) -> float:
        """The longest delay of a timer in the last WINDOW seconds, without the times in which the whole process stood still."""
        since = time.monotonic() - WINDOW
        return max((self._worth(gap) for gap in tuple(self._lags) if gap.ended > since), default=0.0)

    def _worth(self, gap: _Gap) -> float:
        pauses = sum(
            max(0.0, min(gap.ended, pause.ended) - max(gap.began, pause.began)) for pause in tuple(self._pauses)
        )
        return max(0.0, gap.ended - gap.began - max(pauses, gap.starved))

    def stood(self, resumed: float) -> float:
        """For how long the loop has not turned, without the time in which it got no CPU, and the time before the process went on at `resumed`."""
        beat = self._beat
        starved = self._starving.since(self._used)
        seconds = time.monotonic() - beat - max(resumed - beat, starved, 0.0)
        return seconds if beat == self._beat else 0.0

    def is_starving(self, limit: float) -> bool:
        """Whether the loop's thread could run now and only lacks a CPU; not if it had one for so long that it is a block."""
        return self._starving.is_waiting(self._used, limit)

    def samples(self) -> Iterator[Sample]:
        """All samples at this moment (a source for `ctl.runtime.metrics`)."""
        yield Sample(LAG, (), self.lag)
        for name, count in tuple(self.blocks.items()):
            yield Sample(BLOCKS, (name,), count)
        for name, seconds in tuple(self.blocked.items()):
            yield Sample(BLOCKED, (name,), seconds)


@dataclass(frozen=True, slots=True)
class _Stall:
    """Where the loop stood when it had not turned for the limit; `beat` is the last tick before."""

    beat: float
    blame: Blame
    place: str


class _Watch:
    """The thread's side: one block at most is open, and it is logged once.

    The loop is looked at as soon as a block is possible, and judged when it is certain: in between the tick may just be late.
    """

    def __init__(self, dog: LoopWatchdog, thread: int) -> None:
        self._dog = dog
        self._loop_thread = thread
        self._resumed = time.monotonic()
        self._sight: _Stall | None = None
        self._open: _Stall | None = None

    def run(self) -> None:
        dog = self._dog
        # While this thread has the interpreter's lock and no CPU, the loop has neither.
        dog._starving.join()
        while True:
            limit, period = dog._limit(), dog._period()
            if self._sleep(max(self._wait(limit, period), 0.002), max((limit or LIMIT) / 2, 0.1)):
                return
            if limit is not None:
                self._look(limit, period)

    def _wait(self, limit: float | None, period: float) -> float:
        if limit is None:
            return 1.0
        if self._open is not None:
            return period
        seen = self._sight is not None and self._sight.beat == self._dog._beat
        left = limit + (period if seen else 0.0) - self._dog.stood(self._resumed)
        return left if left > 0 else period

    def _sleep(self, seconds: float, tolerance: float) -> bool:
        """Sleep, and note when that took much longer than it should: then the process stood still. True: the watchdog was stopped."""
        began, used = time.monotonic(), time.process_time()
        if self._dog._stop.wait(seconds):
            return True
        now = time.monotonic()
        over = now - began - seconds
        # A thread of ours that works without giving away the interpreter's lock uses the time that is missing here.
        if over > tolerance and time.process_time() - used < over / 2:
            self._dog._pauses.append(_Gap(0.0, now - over, now))
            self._resumed = now
        return False

    def _look(self, limit: float, period: float) -> None:
        beat, stood = self._dog._beat, self._dog.stood(self._resumed)
        if self._open is None and stood >= limit and not self._dog.is_starving(limit):
            if self._sight is None or self._sight.beat != beat:
                self._sight = self._see(beat)
            if self._sight is not None and stood > limit + period:
                self._begin(self._sight, limit)
        while self._dog._late:
            gap = self._dog._late.popleft()
            seconds = self._dog._worth(gap)
            if self._open is not None and gap.ended > self._open.beat:
                # For so long at least, or it would not have been judged a block.
                self._end(self._open, max(seconds, limit))
            elif seconds > limit:
                sight = self._sight if self._sight is not None and self._sight.beat == gap.beat else None
                sight = sight or _Stall(gap.beat, NOBODY, "a place that could not be seen in time")
                self._begin(sight, limit)
                self._end(sight, seconds)

    def _see(self, beat: float) -> _Stall | None:
        """Find where the loop is blocked; None when it turns again, or waits for events."""
        frames = _above_loop(list(_frames(sys._current_frames().get(self._loop_thread))), self._dog._depth)
        if self._dog._beat != beat or not frames or _module(frames[0]) == "selectors":
            return None
        return _Stall(beat, self._dog._accuse(frames) or NOBODY, _place(frames))

    def _begin(self, sight: _Stall, limit: float) -> None:
        self._open, name = sight, sight.blame.name
        self._dog.blocks[name] = self._dog.blocks.get(name, 0) + 1
        self._dog.blocked.setdefault(name, 0.0)
        if self._logs():
            _logger.warning(
                "The event loop has not turned for %.1f s: it is blocked by %s at %s. Nothing else of this process is done meanwhile: "
                "await what takes long, or do it in a thread: handlers that are plain functions run in one, others take asyncio.to_thread.",
                limit,
                sight.blame.text,
                sight.place,
            )

    def _end(self, sight: _Stall, seconds: float) -> None:
        self._open = None
        if self._logs():
            _logger.warning("The event loop turns again. It was blocked for %.1f s by %s.", seconds, sight.blame.text)
        self._dog.blocked[sight.blame.name] += seconds

    def _logs(self) -> bool:
        loop = self._dog._loop
        return loop is not None and next(iter(_watched.get(loop, ())), None) is self._dog


_watched: WeakKeyDictionary[asyncio.AbstractEventLoop, list[LoopWatchdog]] = WeakKeyDictionary()


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _above_loop(frames: list[FrameType], depth: int) -> list[FrameType]:
    """The frames of the callback that runs, without those of the loop and its callers: `depth` of them, if the loop's cannot be seen."""
    for index, frame in enumerate(frames):
        if frame.f_code.co_name == "_run_once" and _module(frame) == "asyncio":
            return frames[:index]
    return frames[: max(0, len(frames) - depth)]


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def _place(frames: Sequence[FrameType]) -> str:
    """Where the loop stands: the innermost frame that is neither asyncio's nor ours; if that is a library's, its caller too."""
    outside = [frame for frame in frames if _module(frame) not in _MACHINERY]
    if not outside:
        return _written(frames[0])
    own = next((frame for frame in outside if not frame.f_code.co_filename.startswith(_LIBRARIES)), None)
    if own is None or own is outside[0]:
        return _written(outside[0])
    return f"{_written(outside[0])}, called from {_written(own)}"


def _written(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path}:{frame.f_lineno} in {frame.f_code.co_qualname}"
