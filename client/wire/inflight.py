"""Requests on their way are counted, and whoever begins what ends in requests can wait while there are too many."""

import asyncio

PER_CONNECTION = 4
"""How many requests for each connection are enough to keep it busy."""


class Crowd:
    """The requests of one client that are on their way or wait for a connection. Belongs to one loop."""

    __slots__ = ("_count", "_most", "_room")

    def __init__(self, connections: int) -> None:
        self._most = connections * PER_CONNECTION
        self._count = 0
        self._room = asyncio.Event()
        self._room.set()

    def enter(self) -> None:
        """One more; each has to `leave`."""
        self._count += 1
        if self._count > self._most:
            self._room.clear()

    def leave(self) -> None:
        """One less."""
        self._count -= 1
        if self._count <= self._most and not self._room.is_set():
            self._room.set()

    async def room(self, seconds: float) -> None:
        """Wait until there are no more than PER_CONNECTION for each connection, at most so many seconds."""
        if self._room.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._room.wait()
        except TimeoutError:
            return
