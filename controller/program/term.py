"""Leadership as a component: it sees to it that no attempt outlives it."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ...runtime.tasks import Tasks
from ..kernel.controller import Controller
from ..leader.gates import Turn
from ..leader.leadership import Leadership

_logger = logging.getLogger("ctl.leadership")

LastResort = Callable[[Exception], object]

WORDS_SECONDS = 0.5
"""How long last words may take: what blocks the loop may hold the lock of a log, or be a full pipe."""


class StillWorking(RuntimeError):
    """Leadership was lost, and an attempt that was cancelled goes on."""


def say_last(error: Exception) -> None:
    """Have the log say why all ends, from any thread, within WORDS_SECONDS."""
    _briefly(lambda: _logger.critical("%s", error))


def end_process(error: Exception) -> None:
    """End the process with exit code 1, from any thread, without waiting for anything: a last resort for programs of their own.

    The error is written to stderr, and what was said before is flushed, as far as that does not take longer than WORDS_SECONDS.
    """

    def words() -> None:
        sys.stderr.write(f"Error: {error}\n")
        sys.stderr.flush()
        logging.shutdown()
        sys.stdout.flush()

    _briefly(words)
    os._exit(1)


def _briefly(words: Callable[[], object]) -> None:
    thread = threading.Thread(target=words, name="last words", daemon=True)
    thread.start()
    thread.join(WORDS_SECONDS)


def resort_to(last_resort: LastResort, error: Exception, seconds: float) -> None:
    """Call a last resort in that time, once: by the running loop, or by a thread somewhat later if the loop is blocked or has ended by then.

    A program that has ended otherwise may still wait for the threads of handlers, for as long as they like.
    """
    once = threading.Lock()

    def call() -> None:
        if once.acquire(blocking=False):
            last_resort(error)

    asyncio.get_running_loop().call_later(seconds, call)
    thread = threading.Timer(1.5 * seconds, call)
    thread.daemon = True
    thread.start()


class Term:
    """Takes part in the election from its start to its stop.

    When leadership is lost and an attempt of a controller has not ended after half of the time until others may lead, `fail` is told: whoever
    owns the program ends it. What such an attempt writes through a fenced client is refused. `last_resort` is called shortly before
    others may act, by another thread if the event loop is blocked or has ended.
    """

    def __init__(
        self,
        leadership: Leadership,
        fail: Callable[[str, BaseException], None],
        last_resort: LastResort | None = None,
    ) -> None:
        self.name = leadership.name
        self._leadership = leadership
        self._fail = fail
        self._last_resort = last_resort
        self._controllers: list[Controller[Any]] = []
        self._tasks = Tasks(self.name, fail)
        self._end: Callable[[], None] = lambda: None

    def oversee(self, controller: Controller[Any]) -> None:
        """See to the ends of its attempts."""
        self._controllers.append(controller)

    async def start(self) -> None:
        """Take part. Raises what `Leadership.start` raises."""
        if self._last_resort is not None:
            self._leadership.unheard = self._resort
        self._end = self._leadership.subscribe(self._turned)
        await self._leadership.start()

    async def stop(self, grace: float) -> None:
        """Give the lease back."""
        self._end()
        await self._tasks.stop(0.0)
        await self._leadership.stop(grace)

    def _turned(self, turn: Turn) -> None:
        if turn is Turn.REVOKED and not self._tasks.stopping:
            self._tasks.spawn(self._see_out(), name="what must end")

    async def _see_out(self) -> None:
        # A turn later, when the controllers have heard of it as well, whoever was told first.
        await asyncio.sleep(0)
        left = self._leadership.spare()
        found = await asyncio.gather(*(controller.survivors(left / 2) for controller in self._controllers))
        survivors = [f"{one.name} {key}" for one, keys in zip(self._controllers, found, strict=True) for key in keys]
        if not survivors:
            return
        error = self._lost(f"attempts that were cancelled go on: {', '.join(survivors[:3])}")
        self._fail(self.name, error)
        if self._last_resort is not None:
            resort_to(self._last_resort, error, left / 4)

    def _lost(self, what: str) -> StillWorking:
        return StillWorking(f"{self.name} was lost while {what}. The program is to end, since another one may act now.")

    def _resort(self) -> None:
        """In the thread of the election: the event loop has not heard of the loss, and nothing can be cancelled in it."""
        assert self._last_resort is not None
        error = self._lost("something blocks the event loop")
        say_last(error)
        self._last_resort(error)
