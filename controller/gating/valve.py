"""A valve is a gate that is opened and closed by hand."""

import asyncio
import logging
from collections.abc import Callable

from .gates import Callback, Turn

_logger = logging.getLogger("ctl.controller")


class Valve:
    """A gate with `open`, `close` and `revoke`; closed at first. Belongs to one loop."""

    def __init__(self, *, is_open: bool = False) -> None:
        self._opened = asyncio.Event()
        self._callbacks: dict[int, Callback] = {}
        self._next = 0
        if is_open:
            self._opened.set()

    @property
    def is_open(self) -> bool:
        """Whether attempts may begin."""
        return self._opened.is_set()

    async def wait_open(self) -> None:
        """Wait until the valve is open."""
        await self._opened.wait()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Have a function called at each change; call what is given back to end that."""
        number, self._next = self._next, self._next + 1
        self._callbacks[number] = callback

        def end() -> None:
            self._callbacks.pop(number, None)

        return end

    def open(self) -> None:
        """Let attempts begin. Nothing happens to an open valve."""
        if not self.is_open:
            self._opened.set()
            self._tell(Turn.OPENED)

    def close(self) -> None:
        """Let no attempt begin; those that run go on. Nothing happens to a closed valve."""
        if self.is_open:
            self._opened.clear()
            self._tell(Turn.CLOSED)

    def revoke(self) -> None:
        """Let no attempt begin and have those that run cancelled, also when the valve was closed already."""
        self._opened.clear()
        self._tell(Turn.REVOKED)

    def _tell(self, turn: Turn) -> None:
        for callback in tuple(self._callbacks.values()):
            try:
                callback(turn)
            except Exception:
                # Another one may have attempts to end.
                _logger.exception("A subscriber of a gate failed; the others are told all the same.")
