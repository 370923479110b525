"""May I act now? A gate answers that: for the next attempt (`is_open`), and for the next call by the clock of a lease (`left`).

A controller asks its gate before each attempt. Every program has one gate (`controller.program.terms`), which follows leadership and peering.

The event loop may learn late that a lease is over: a process that was stopped, a machine that slept, or a blocked loop continues with all
that was ready to run, before anything can be cancelled. The lease guard below therefore asks the clock right before each call.
"""

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ...client.resources import Resource

_logger = logging.getLogger("ctl.controller")

Left: TypeAlias = Callable[[], float]
"""Returns the seconds for which this process may act; from any thread."""

POLL = 0.02
"""Seconds between two looks whether an expired lease is held again."""

lease_left: ContextVar[Left | None] = ContextVar("lease_left", default=None)
"""The time that is left for calls in this context; None: no lease limits them."""


class Turn(Enum):
    """How a gate changed."""

    OPENED = "opened"
    """Attempts may begin."""
    CLOSED = "closed"
    """No attempt may begin; running attempts continue (a pause)."""
    REVOKED = "revoked"
    """No attempt may begin, and running attempts must end now (leadership was lost)."""


Callback = Callable[[Turn], None]


class Gate(Protocol):
    """What a controller asks before each attempt."""

    @property
    def is_open(self) -> bool:
        """Whether attempts may begin."""

    async def wait_open(self) -> None:
        """Wait until the gate opens. It may be closed again when the caller runs: check `is_open`."""

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call a function at each change, at once and in the loop. Returns a function that ends the subscription."""


class Cache(Protocol):
    """A cache of a resource (an informer), as a gate sees it."""

    @property
    def resource(self) -> Resource:
        """The cached resource."""

    async def catch_up(self, version: str | None, heard_after: float | None) -> bool:
        """Wait until the cache shows that version and was in touch since then; see `Informer.catch_up`."""


@runtime_checkable
class LeaseGate(Protocol):
    """A gate that opens for the term of a lease: after another process has acted, and for a time that the clock knows."""

    def left(self) -> float:
        """The seconds for which attempts may begin without another renewal; 0 also when no subscriber knows of the end yet."""

    async def catch_up(self, cache: Cache) -> None:
        """Wait until attempts may rely on this cache.

        A controller waits so for each of its sources in each term: from an opening to the next revocation. A pause does not end a term.
        """


class AlwaysOpen:
    """A gate for programs that need none."""

    is_open = True

    async def wait_open(self) -> None:
        """Return at once."""

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Never call the function."""
        return lambda: None


class ManualGate:
    """A gate that its owner opens and closes; closed at first. Belongs to one loop.

    Subscribers are called in the order of their subscriptions. One that fails is logged; the others are called all the same.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = is_open
        """Whether attempts may begin. Read only; no property, since it is asked for each event."""
        self._opened = asyncio.Event()
        self._subscribers: dict[object, Callback] = {}
        if is_open:
            self._opened.set()

    async def wait_open(self) -> None:
        """Wait until the gate opens."""
        await self._opened.wait()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call a function at each change. Returns a function that ends the subscription."""
        mark = object()
        self._subscribers[mark] = callback

        def end() -> None:
            self._subscribers.pop(mark, None)

        return end

    def open(self) -> None:
        """Let attempts begin; does nothing if the gate is open."""
        if not self.is_open:
            self.is_open = True
            self._opened.set()
            self._tell(Turn.OPENED)

    def close(self) -> None:
        """Let no attempt begin; running attempts continue. Does nothing if the gate is closed."""
        if self.is_open:
            self._shut(Turn.CLOSED)

    def revoke(self) -> None:
        """Let no attempt begin and have running attempts cancelled, also if the gate was closed already."""
        self._shut(Turn.REVOKED)

    def _shut(self, turn: Turn) -> None:
        self.is_open = False
        self._opened.clear()
        self._tell(turn)

    def _tell(self, turn: Turn) -> None:
        for callback in tuple(self._subscribers.values()):
            try:
                callback(turn)
            except Exception:
                # Another subscriber may have attempts to end.
                _logger.exception("A subscriber of a gate failed; the others are told all the same.")


# The lease guard.


class LeaseOverError(Exception):
    """A function was not called in its thread: the lease had ended by then."""


async def until_held(left: Left) -> None:
    """Return when this process may act, at once if it may now. A loss, once the loop knows of it, cancels the caller."""
    while left() <= 0:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # It was cancelled, and went on.
            raise asyncio.CancelledError
        await asyncio.sleep(POLL)


def only_while_held(fn: Callable[..., Any], left: Left) -> Callable[..., Any]:
    """The same function for a thread, in which it may have to queue; it raises LeaseOverError instead of a late call."""

    def call(**kwargs: Any) -> Any:
        if left() <= 0:
            raise LeaseOverError
        return fn(**kwargs)

    return call
