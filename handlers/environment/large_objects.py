"""Large objects are worked on one after another, so that a hundred of them do not take the memory of a hundred."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

AT_ONCE = 2**21
"""How many bytes of large objects are worked on at once: one object of the largest size that a server takes, or several smaller ones."""
PATIENCE = 3.0
"""Seconds that the next one waits for those before it. Then it goes all the same: handlers may take for ever."""


class LargeObjectLimit:
    """The limit of bytes, for all attempts of one operator."""

    def __init__(self) -> None:
        self._door = asyncio.Lock()
        self._freed = asyncio.Event()
        self._used = 0

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait for room for a large object, and take it for the time of the block."""
        async with self._door:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    while self._used and self._used + size > AT_ONCE:
                        self._freed.clear()
                        await self._freed.wait()
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            self._freed.set()
