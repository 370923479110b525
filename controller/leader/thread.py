"""A thread with a loop of its own carries out coroutines for another loop, also while that one is blocked."""

import asyncio
import concurrent.futures
import logging
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_logger = logging.getLogger("ctl.controller")

T = TypeVar("T")

JOIN = 1.0
"""Seconds that the thread has for its end after its loop was told to stop."""


def _new_loop() -> asyncio.AbstractEventLoop:
    # Not the policy's: the time of these loops is `time.monotonic`, which other threads may ask for as well.
    if sys.platform == "win32":
        return asyncio.ProactorEventLoop()
    return asyncio.SelectorEventLoop()


class LoopThread:
    """A daemon thread that runs a loop until it is stopped; the interpreter does not wait for it.

    All methods belong to the loop that owns it.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._loop is not None and not self._ended.done()

    async def start(self) -> None:
        """Start the thread and wait until its loop runs."""
        self._thread.start()
        self._loop = await asyncio.wrap_future(self._started)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._live())
        except BaseException:
            _logger.exception("The thread %r has failed.", self._thread.name)
        finally:
            self._ended.set_result(None)

    async def _live(self) -> None:
        stopped = asyncio.Event()
        self._stopped = stopped
        self._started.set_result(asyncio.get_running_loop())
        await stopped.wait()

    async def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Carry a coroutine out in the thread and wait for what it gives or raises; a cancellation is passed on to it.

        Raises RuntimeError when the thread does not run.
        """
        if self._loop is None or self._ended.done():
            coro.close()
            raise RuntimeError(f"The thread {self._thread.name!r} does not run.")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coro, self._loop))

    async def stop(self) -> bool:
        """End the loop and the thread, whatever tasks are left; tells whether the thread has ended in time."""
        if self._loop is None or self._ended.done():
            return True
        self._loop.call_soon_threadsafe(self._stopped.set)
        try:
            async with asyncio.timeout(JOIN):
                await asyncio.wrap_future(self._ended)
        except TimeoutError:
            return False
        self._thread.join(JOIN)
        return not self._thread.is_alive()
