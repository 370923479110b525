"""Sources ask for attempts although nothing changed in the cluster: channels that a program speaks into, and clocks."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Channel(Generic[T]):
    """What a program has to tell its controllers: sent from any thread, at any time, heard by one listener in order.

    What is sent before somebody listens waits; after `close`, what was sent is still heard, and no more is taken.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._listener: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
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
        if self._listener is not None:
            loop, event = self._listener
            # From another thread, and harmless from the loop's own.
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def __aiter__(self) -> AsyncIterator[T]:
        """Hear what is sent. Raises RuntimeError when somebody listens already."""
        if self._listener is not None:
            raise RuntimeError("The channel has a listener already; each channel tells one.")
        event = asyncio.Event()
        self._listener = (asyncio.get_running_loop(), event)
        try:
            while True:
                event.clear()
                while self._items:
                    yield self._items.popleft()
                if self._closed:
                    return
                await event.wait()
        finally:
            self._listener = None


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
