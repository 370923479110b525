"""Take turns: of those who work on one key, one at a time does."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
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
