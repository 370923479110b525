"""Take turns: of those who work on one key, one at a time does; of those who work on large objects, a few at a time do."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Turns(Generic[K]):
    """A lock for each key that somebody works on; nothing is kept for the others. Belongs to one loop."""

    def __init__(self) -> None:
        # With how many hold it or wait for it.
        self._locks: dict[K, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def of(self, key: K) -> AsyncIterator[None]:
        """Wait for the turn, in the order of asking, and keep it while inside. Not to be nested for one key."""
        lock, users = self._locks.get(key) or (asyncio.Lock(), 0)
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = lock, users - 1


AT_ONCE = 2**21
"""How many bytes of large objects are worked on at once: one of those that are as large as they may be, or several smaller ones."""
PATIENCE = 1.0
"""Seconds that the next one waits for those before it."""


class Scales:
    """Large objects are worked on one after another, so that a hundred of them do not take the memory of a hundred.

    One that is held up for PATIENCE goes all the same: handlers may take for ever.
    """

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
