"""The election's thread: a loop of its own, which renews the lease also while something blocks the program's loop.

Three parts: the thread; the check whether the program's loop still turns; and the program's credentials, as seen from the thread.
"""

import asyncio
import concurrent.futures
import logging
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...client.config.access import Access, AccessSource
from ...client.errors import AccessError

_logger = logging.getLogger("ctl.controller")

T = TypeVar("T")

JOIN = 1.0
"""Seconds that the thread has for its end after its loop was told to stop."""


def _new_loop() -> asyncio.AbstractEventLoop:
    # Not the policy's: the time of these loops is `time.monotonic`, which other threads may ask for as well.
    if sys.platform == "win32":
        return asyncio.ProactorEventLoop()
    return asyncio.SelectorEventLoop()


class ElectionThread:
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
            _logger.exception("The thread %r failed.", self._thread.name)
        finally:
            self._ended.set_result(None)

    async def _live(self) -> None:
        stopped = asyncio.Event()
        self._stopped = stopped
        self._started.set_result(asyncio.get_running_loop())
        await stopped.wait()

    async def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and return its result; a cancellation is passed on to it.

        Raises RuntimeError when the thread does not run.
        """
        if self._loop is None or self._ended.done():
            coro.close()
            raise RuntimeError(f"The thread {self._thread.name!r} does not run.")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coro, self._loop))

    async def stop(self) -> bool:
        """End the loop and the thread, with all tasks that are left; returns whether the thread has ended in time."""
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


class LoopCheck:
    """Checks from the election's thread whether another loop turns: an idle loop does, a blocked or closed one does not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float) -> None:
        """`limit`: the seconds that an answer of the loop may take."""
        self._loop = loop
        self._limit = limit
        # Since when an answer is outstanding; None: the last question was answered.
        self._asked: float | None = None

    def turns(self, now: float) -> bool:
        """Ask the loop, and return whether it may be alive; `now`: seconds of any clock that does not go back."""
        # Read once: the loop answers at any moment.
        asked = self._asked
        if asked is None:
            asked = self._asked = now
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                # It is closed: the answer will never come.
                asked = self._asked = now - self._limit
        return now - asked < self._limit

    def _answer(self) -> None:
        self._asked = None


class ProgramAccess:
    """The access source of the program's loop, for the election's thread: returns the last access, so that a blocked loop stops no renewal.

    Each call requests a newer access without waiting for it. It waits for the program's loop only if there is no access yet, or the last
    one was refused. An access with a ready HTTP session raises AccessError, since the session belongs to the program's loop.
    """

    def __init__(self, source: AccessSource, home: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._home = home
        self._known: Access | None = None
        self._newer: concurrent.futures.Future[Access] | None = None

    async def access(self) -> Access:
        """The last access; asks the source if there is none, and raises what the source raises."""
        if self._known is None:
            self._known = _without_session(await self._ask(self._source.access))
        elif self._newer is None or self._newer.done():
            newer, self._newer = self._newer, None
            if newer is not None and not newer.cancelled() and newer.exception() is None:
                self._known = _without_session(newer.result())
            if not self._home.is_closed():
                self._newer = asyncio.run_coroutine_threadsafe(_coroutine(self._source.access), self._home)
        return self._known

    async def refused(self, access: Access) -> None:
        """Pass a refusal on; the next call waits for a new access."""
        if self._known is access:
            self._known = self._newer = None
        await self._ask(lambda: self._source.refused(access))

    async def _ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._home.is_closed():
            raise AccessError("The loop in which logins run is closed; there are no credentials.")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_coroutine(question), self._home))


async def _coroutine(question: Callable[[], Coroutine[Any, Any, T]]) -> T:
    # Called in the program's loop: the source may look at the loop it runs in.
    return await question()


def _without_session(access: Access) -> Access:
    if access.session is not None:
        raise AccessError(
            f"{access.origin} gave a ready HTTP session, which belongs to the operator's loop: a lease cannot be renewed by it from "
            "a thread. Give connection info instead, or have the lease renewed in the operator's loop."
        )
    return access
