"""A gate answers one question: may I act now?

Leadership and peering are gates; a controller passes one before each attempt. Pure: who opens and closes them is elsewhere.
"""

import logging
from collections.abc import Callable
from enum import Enum
from typing import Protocol, runtime_checkable

from ...client.resources import Resource

_logger = logging.getLogger("ctl.controller")


class Turn(Enum):
    """How a gate changed."""

    OPENED = "opened"
    """Attempts may begin."""
    CLOSED = "closed"
    """No attempt may begin; those that run go on to their ends (a pause)."""
    REVOKED = "revoked"
    """No attempt may begin, and those that run must end now (leadership was lost)."""


Callback = Callable[[Turn], None]


class Subscribers:
    """Functions that are called at each turn of a gate. One that fails is logged, and keeps nothing from the others."""

    def __init__(self) -> None:
        self._callbacks: dict[int, Callback] = {}
        self._next = 0

    def add(self, callback: Callback) -> Callable[[], None]:
        """Tell this one too; call what is given back to end that."""
        number, self._next = self._next, self._next + 1
        self._callbacks[number] = callback

        def end() -> None:
            self._callbacks.pop(number, None)

        return end

    def tell(self, turn: Turn) -> None:
        """Call all of them, in the order in which they came."""
        for callback in tuple(self._callbacks.values()):
            try:
                callback(turn)
            except Exception:
                # Another one may have attempts to end.
                _logger.exception("A subscriber of a gate failed; the others are told all the same.")


class Gate(Protocol):
    """What a controller asks before it attempts anything."""

    @property
    def is_open(self) -> bool:
        """Whether attempts may begin."""

    async def wait_open(self) -> None:
        """Wait until the gate is open. It may be closed again when the caller gets to run: look at `is_open`."""

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Have a function called at each change, at once and in the loop; call what is given back to end that."""


class Copy(Protocol):
    """A local copy of a resource, as a gate asks it to keep up with what others have written (an informer is one)."""

    @property
    def resource(self) -> Resource:
        """What it is a copy of."""

    async def catch_up(self, version: str | None, heard_after: float | None) -> bool:
        """Wait until it shows that version and was in touch since then; see `Informer.catch_up`."""


@runtime_checkable
class Heir(Protocol):
    """A gate that opens after somebody else has acted: a copy must catch up before anything is attempted by it.

    A controller asks it for each of its sources in each term: from an opening to the next revocation. A pause does not end a term.
    """

    async def catch_up(self, copy: Copy) -> None:
        """Wait until attempts may go by this copy."""


@runtime_checkable
class Timed(Protocol):
    """A gate that is open for some time only, if nobody prolongs it, and knows by the clock for how long."""

    def left(self) -> float:
        """For how many seconds whoever has passed may begin something; 0 also while nobody has yet heard of the end."""


class AlwaysOpen:
    """The gate of those who need none."""

    is_open = True

    async def wait_open(self) -> None:
        """Return at once."""

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Never call the function."""
        return lambda: None
