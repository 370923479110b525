"""An event loop in virtual time makes hours pass in milliseconds, with real sockets and no mocks.

`VirtualTimeLoop` behaves as asyncio's own loop does, except for waiting: when nothing is ready to run it does not sleep until the
next timer, it sets its clock to that timer. `loop.time()` and `ctl.runtime.clock` (wall time, while the loop runs) go together.

What is promised. Timers fire in order and at their times, to the microsecond. The clock never jumps while a job of an executor is at
work: it stands still for `THREAD_PATIENCE` real seconds, and passes at the speed of reality after that (a thread that waits
for the loop would otherwise hang). Sockets whose both ends live in this loop work as ever: the clock does not jump
while their bytes are on the way, since a jump comes only after some real time (`patience`, a millisecond) without traffic.

What is not. Code that reads `time.time()` or `time.monotonic()` or sleeps in a thread of its own sees real time. Peers outside
the process (subprocesses, real clusters) and threads with loops of their own are waited for no longer than `patience`.

In tests with pytest-asyncio, mark what shall run so (`ctl.testing.plugin` brings the mark; it needs `-p ctl.testing.plugin`
or a line `pytest_plugins = ["ctl.testing.plugin"]` in the conftest of the root):

    pytestmark = pytest.mark.virtual_time              # the whole module, or @pytest.mark.virtual_time on one test

    async def test_a_day_passes() -> None:
        await asyncio.sleep(86_400)                     # returns at once, a day later

Async fixtures of a marked test run in the same loop. `@pytest.mark.virtual_time(start="2031-05-06T07:08:09Z")` says at which wall
time it begins; the present is the default. Without pytest: `asyncio.Runner(loop_factory=VirtualTimeLoop)`.
"""

import asyncio
import concurrent.futures
import contextlib
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from ..runtime import clock

IDLE_POLLS = 4
"""How often the sockets are looked at, within `patience`, before the clock jumps."""

THREAD_PATIENCE = 1.0
"""Real seconds for which time stands still while a thread of an executor is at work."""

BEGINNING = 1000.0
"""The loop's time when it is made: not 0, which too many programs take for "never"."""


RESOLUTION = 1e-6
"""Timers that are closer to each other than this fire together."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's selector loop with a clock that jumps over the waiting. See the module for what is promised.

    `start` is the wall time at the beginning (aware; None is the present). `patience` is how long, in real seconds, the
    sockets are given before each jump; without sockets there is no wait.
    """

    real_time = False
    """Whether the clock is that of the process; read by who measures real delays."""

    def __init__(self, *, start: datetime | None = None, patience: float = 0.001) -> None:
        self._virtual = BEGINNING
        self._start = start if start is not None else datetime.now(UTC)
        self._patience = patience
        self._jobs = 0
        # Real time since which jobs keep the clock from jumping; None while there are none.
        self._held_since: float | None = None
        self._pool: Executor | None = None
        super().__init__(_Selector(self._wait))
        # asyncio runs what is due within its clock's resolution. After years, the resolution of the real clock would be lost in
        # the rounding of a float, and a timer would never be due.
        self._clock_resolution = RESOLUTION

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._virtual

    def wall(self) -> datetime:
        """The virtual wall time."""
        return self._start + timedelta(seconds=self._virtual - BEGINNING)

    def run_forever(self) -> None:
        """Run until stopped; meanwhile wall time is virtual in the whole process."""
        with clock.replaced(self.wall):
            super().run_forever()

    def _wait(self, poll: "_Poll", timeout: float | None, sockets: int) -> "list[_Ready]":
        """Wait as a selector does, and make the time pass."""
        ready = poll(0)
        if ready or (timeout is not None and timeout <= 0):
            self._round_up()
            return ready
        if self._jobs:
            return self._wait_for_threads(poll, timeout)
        if timeout is None:
            return poll(None)
        if sockets:
            for _ in range(IDLE_POLLS):
                time.sleep(self._patience / IDLE_POLLS)
                ready = poll(0)
                if ready:
                    return ready
        self._virtual += timeout
        return ready

    def _round_up(self) -> None:
        """Come to the time of a timer that is about to fire for being within the resolution: who asks to be woken then finds that it is then."""
        timers = self._scheduled  # type: ignore[attr-defined]
        if timers and self._virtual < timers[0].when() <= self._virtual + RESOLUTION:
            self._virtual = timers[0].when()

    def _wait_for_threads(self, poll: "_Poll", timeout: float | None) -> "list[_Ready]":
        began = time.monotonic()
        if self._held_since is None:
            self._held_since = began
        still = THREAD_PATIENCE - (began - self._held_since)
        if still > 0:
            return poll(still)
        ready = poll(timeout)
        passed = time.monotonic() - began
        self._virtual += passed if timeout is None else min(passed, timeout)
        return ready

    # Executors: a job holds the clock until its result has reached the loop.

    def set_default_executor(self, executor: ThreadPoolExecutor) -> None:  # type: ignore[override]
        """Use this executor where none is named, as any loop does."""
        super().set_default_executor(executor)
        self._pool = executor

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function in a thread, as any loop does; the clock does not jump until it has ended."""
        self._check_closed()  # type: ignore[attr-defined]
        if executor is None and self._pool is None:
            self.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
        pool = executor if executor is not None else self._pool
        assert pool is not None
        job = pool.submit(func, *args)
        self._jobs += 1
        wrapped = asyncio.wrap_future(job, loop=self)
        # Added after the wrapping: the result is on its way to the loop before the clock is let go.
        job.add_done_callback(self._job_ended)
        return wrapped

    def _job_ended(self, _: concurrent.futures.Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed while the thread was at work
            self.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._jobs -= 1
        if not self._jobs:
            self._held_since = None

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the threads of the default executor, in real time."""
        self._jobs += 1
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._release()


_Ready = tuple[selectors.SelectorKey, int]
_Poll = Callable[[float | None], list[_Ready]]
_Wait = Callable[[_Poll, float | None, int], list[_Ready]]


class _Selector(selectors.DefaultSelector):
    """The platform's selector; how it waits is the loop's business."""

    def __init__(self, wait: _Wait) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[_Ready]:
        # One descriptor is always there: the loop's own pipe for wake-ups from threads.
        return self._wait(super().select, timeout, len(self.get_map()) - 1)
