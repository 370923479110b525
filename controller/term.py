"""Leadership as a component: it sees to it that no attempt outlives it."""

import asyncio
from collections.abc import Callable
from typing import Any

from ..runtime.tasks import Tasks
from .controller import Controller
from .gating.gates import Turn
from .gating.leadership import Leadership


class StillWorking(RuntimeError):
    """Leadership was lost, and an attempt that was cancelled goes on."""


class Term:
    """Takes part in the election from its start to its stop.

    When leadership is lost and an attempt of a controller has not ended after half of the time until others may lead, `fail` is told: whoever
    owns the program ends it. What such an attempt writes through a fenced client is refused.
    """

    def __init__(self, leadership: Leadership, fail: Callable[[str, BaseException], None]) -> None:
        self.name = leadership.name
        self._leadership = leadership
        self._controllers: list[Controller[Any]] = []
        self._tasks = Tasks(self.name, fail)
        self._end: Callable[[], None] = lambda: None

    def oversee(self, controller: Controller[Any]) -> None:
        """See to the ends of its attempts."""
        self._controllers.append(controller)

    async def start(self) -> None:
        """Take part. Raises what `Leadership.start` raises."""
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
        if survivors:
            raise StillWorking(
                f"{self.name} was lost while attempts that were cancelled go on: {', '.join(survivors[:3])}. The program is to end, since "
                "another one may act now."
            )
