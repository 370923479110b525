"""A valve is a gate that is opened and closed by hand."""

import asyncio
from collections.abc import Callable

from .gates import Callback, Subscribers, Turn


class Valve:
    """A gate with `open`, `close` and `revoke`; closed at first. Belongs to one loop."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = False
        """Whether attempts may begin. To be read only; it is asked for each event, and no property for that reason."""
        self._opened = asyncio.Event()
        self._subscribers = Subscribers()
        if is_open:
            self._turn(is_open=True)

    async def wait_open(self) -> None:
        """Wait until the valve is open."""
        await self._opened.wait()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Have a function called at each change; call what is given back to end that."""
        return self._subscribers.add(callback)

    def open(self) -> None:
        """Let attempts begin. Nothing happens to an open valve."""
        if not self.is_open:
            self._turn(is_open=True)
            self._subscribers.tell(Turn.OPENED)

    def close(self) -> None:
        """Let no attempt begin; those that run go on. Nothing happens to a closed valve."""
        if self.is_open:
            self._turn(is_open=False)
            self._subscribers.tell(Turn.CLOSED)

    def revoke(self) -> None:
        """Let no attempt begin and have those that run cancelled, also when the valve was closed already."""
        self._turn(is_open=False)
        self._subscribers.tell(Turn.REVOKED)

    def _turn(self, *, is_open: bool) -> None:
        self.is_open = is_open
        if is_open:
            self._opened.set()
        else:
            self._opened.clear()
