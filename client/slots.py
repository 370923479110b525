"""Requests take turns: only so many are on their way at once, in the order in which they came.

The HTTP library has such a limit too. A request that waits for it is told of each step, and finds its connection in the end by
searching twice: that costs more than all the rest of the wait.
"""

import asyncio
from collections import deque


class Slots:
    """What each request holds while it is on its way. Belongs to one loop."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a slot; whoever has one has to `give` it back."""
        if self._free:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # It was handed over at that moment.
                self.give()
            raise

    def give(self) -> None:
        """Hand a slot over to who has waited longest, if anybody waits."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
