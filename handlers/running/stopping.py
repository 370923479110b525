"""The wish to stop comes from a flag, a signal, or a part of the operator that cannot go on, and is heard in one place."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ...runtime.signals import caught
from .flags import Flag, wait_flag

logger = logging.getLogger("ctl.handlers.running.operator")


class Wish:
    """Whether the operator is to stop, and the error for which it must, if there is one."""

    def __init__(self, flag: Flag | None, patience: Callable[[], float | None] = lambda: None) -> None:
        """Take the flag, and what tells after a signal how many seconds the process has until it is killed; None: any time."""
        self._flag = flag
        self._patience = patience
        self._last_resort: threading.Timer | None = None
        self._asked = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        """Why the operator cannot go on; to be raised when it has stopped."""

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[None]:
        """Listen to the flag and to signals while inside."""
        with caught(self._signalled):
            self._listening = asyncio.create_task(self._listen(), name="the operator's stop flag")
            try:
                yield
            finally:
                self._listening.cancel()
                await asyncio.gather(self._listening, return_exceptions=True)
                if self._last_resort is not None:
                    self._last_resort.cancel()

    def fail(self, error: Exception) -> None:
        """Stop because of an error; the first one counts."""
        if self.error is None:
            self.error = error
        self._asked.set()

    async def wait(self) -> None:
        """Wait for the wish. Raises what a flag raises that is a future with an exception."""
        assert self._listening is not None
        await asyncio.shield(self._listening)

    async def until(self, coro: Coroutine[Any, Any, Any]) -> bool:
        """Run something of the start; false when the operator is to stop first (then it is cancelled)."""
        assert self._listening is not None
        task = asyncio.create_task(coro)
        try:
            await asyncio.wait({task, self._listening}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            return False
        task.result()
        return not self._listening.done()

    async def _listen(self) -> None:
        flag = asyncio.create_task(wait_flag(self._flag), name="stop flag")
        asked = asyncio.create_task(self._asked.wait(), name="signals")
        try:
            await asyncio.wait({flag, asked}, return_when=asyncio.FIRST_COMPLETED)
            if flag.cancelled():
                logger.info("Stop-flag is cancelled. Operator is stopping.")
            elif flag.done():
                value = flag.result()
                text = "raised" if value is None else f"set to {value!r}"
                logger.info("Stop-flag is %s. Operator is stopping.", text)
        finally:
            flag.cancel()
            asked.cancel()
            await asyncio.gather(flag, asked, return_exceptions=True)

    def _signalled(self, signum: Any) -> None:
        logger.info("Signal %s is received. Operator is stopping.", signum.name)
        self._asked.set()
        patience = self._patience()
        if patience is not None and self._last_resort is None:
            # By a thread: what hangs may be the loop.
            self._last_resort = threading.Timer(patience, _end_process, [patience])
            self._last_resort.daemon = True
            self._last_resort.start()


def _end_process(patience: float) -> None:
    logger.critical("The operator has not stopped within %s seconds after the signal; the process is killed.", patience)
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
