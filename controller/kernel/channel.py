"""Sources ask for attempts although nothing changed in the cluster: channels that a program speaks into, and clocks."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Self, TypeVar

T = TypeVar("T")


class Channel(AsyncIterator[T]):
    """What a program has to tell its controllers: sent from any thread, at any time, heard by one listener in order.

    What is sent before somebody listens waits; after `close`, what was sent is still heard, and no more is taken.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._closed = False

    def send(self, item: T) -> None:
        """Say something; returns at once. Raises RuntimeError after the end."""
        if self._closed:
            raise RuntimeError("The channel is closed; nobody would hear this.")
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """End it: the listener ends when it has heard all."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        waiting = self._waiting
        if waiting is not None:
            loop, event = waiting
            # From another thread, and harmless from the loop's own.
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Hear the next item. Raises RuntimeError when somebody waits for it already: each channel tells one listener."""
        if self._waiting is not None:
            raise RuntimeError("Somebody listens to the channel already; each channel tells one listener.")
        event = asyncio.Event()
        self._waiting = (asyncio.get_running_loop(), event)
        try:
            while not self._items:
                if self._closed:
                    raise StopAsyncIteration
                event.clear()
                # What was sent by a thread before it could see the event.
                if not self._items:
                    await event.wait()
            return self._items.popleft()
        finally:
            self._waiting = None


def every(seconds: float, *, at_once: bool = False) -> Callable[[], AsyncIterator[int]]:
    """A clock that ticks in a period, without drift; ticks that could not be heard in time are left out. Gives their numbers.

    The first tick is after one period, or at once. Raises ValueError for a period that is not positive.
    """
    if seconds <= 0:
        raise ValueError(f"A clock needs a positive period, in seconds; got {seconds}.")

    async def ticks() -> AsyncIterator[int]:
        now = asyncio.get_running_loop().time
        began = now()
        number = 0 if at_once else 1
        while True:
            await asyncio.sleep(began + number * seconds - now())
            yield number
            number = max(number + 1, int((now() - began) / seconds))

    return ticks
