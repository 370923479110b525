"""A stopper asks a daemon or a timer to end, in its own thread or task, and says why."""

import abc
import asyncio
import contextlib
import enum
import threading
from dataclasses import dataclass
from typing import Any, Self


class DaemonStoppingReason(enum.Flag):
    """Why a daemon or a timer should end, and the state of its termination; several can be true. The values are Kopf's."""

    DONE = enum.auto()
    """It has ended."""
    FILTERS_MISMATCH = enum.auto()
    """The object does not match its filters any more."""
    RESOURCE_DELETED = enum.auto()
    """The object is marked for deletion, or gone."""
    OPERATOR_PAUSING = enum.auto()
    """The operator may not act for a while."""
    OPERATOR_EXITING = enum.auto()
    """The operator ends."""
    DAEMON_SIGNALLED = enum.auto()
    """It did not end at once, and has its `cancellation_backoff`."""
    DAEMON_CANCELLED = enum.auto()
    """Its task was cancelled."""
    DAEMON_ABANDONED = enum.auto()
    """It is not waited for any more."""


@dataclass(slots=True, eq=False)
class Stopper:
    """Asks one daemon or timer to end. It belongs to the loop; its checkers for sync functions are used in threads.

    Once set it stays set; further reasons are added.
    """

    reason: DaemonStoppingReason | None = None
    _event: asyncio.Event | None = None
    _in_thread: threading.Event | None = None

    def is_set(self) -> bool:
        """Whether the end is asked for."""
        return self.reason is not None

    def set(self, reason: DaemonStoppingReason) -> None:
        """Ask to end, or add a reason."""
        self.reason = reason if self.reason is None else self.reason | reason
        if self._event is not None:
            self._event.set()
        if self._in_thread is not None:
            self._in_thread.set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most so many seconds; returns whether it is."""
        if self.reason is None:
            if self._event is None:
                self._event = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._event.wait()
        return self.is_set()

    def checker(self, *, in_thread: bool) -> "DaemonStopped":
        """The argument `stopped` of the function: a sync one for a function in a thread."""
        if not in_thread:
            return AsyncDaemonStopperChecker(self)
        if self._in_thread is None:
            self._in_thread = threading.Event()
            if self.is_set():
                self._in_thread.set()
        return SyncDaemonStopperChecker(self, self._in_thread)


class DaemonStopped(abc.ABC):
    """The argument `stopped` of daemons and timers: true when they should end.

    `wait` sleeps until then; it is awaited in coroutines and called in plain functions.
    """

    __slots__ = ("_stopper",)

    def __init__(self, stopper: Stopper) -> None:
        self._stopper = stopper

    def __bool__(self) -> bool:
        return self._stopper.is_set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.reason or 'not stopped'}>"

    def is_set(self) -> bool:
        """Whether it should end."""
        return self._stopper.is_set()

    @property
    def reason(self) -> DaemonStoppingReason | None:
        """Why it should end: one flag or several; None while it should not."""
        return self._stopper.reason

    @abc.abstractmethod
    def wait(self, timeout: float | None = None) -> Any:
        """Sleep until the end is asked for, at most so many seconds (None: any time); returns itself, for its truth.

        Coroutines await it, plain functions do not. The annotation `stopped: DaemonStopped` does not tell which, so both
        are allowed.
        """


class AsyncDaemonStopperChecker(DaemonStopped):
    """`stopped` of a coroutine function."""

    __slots__ = ()

    async def wait(self, timeout: float | None = None) -> Self:
        """Sleep until the end is asked for, at most so many seconds (None: any time); returns itself, for its truth."""
        await self._stopper.wait(timeout)
        return self


class SyncDaemonStopperChecker(DaemonStopped):
    """`stopped` of a plain function, which runs in a thread."""

    __slots__ = ("_event",)

    def __init__(self, stopper: Stopper, event: threading.Event) -> None:
        super().__init__(stopper)
        self._event = event

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the end is asked for, at most so many seconds (None: any time); returns itself, for its truth."""
        self._event.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        return self
