"""A fence limits writes in time: only the holder of the lease may write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from .errors import RequestError
from .resources import Resource


class NotLeading(RequestError):
    """A write was refused on our side, or given up, because the lease is over.

    `sent` is false when the write provably never left; true when an earlier sending of it, or the one that was given up, may have
    been applied. It is never repeated by the client, not even when the lease is won back: somebody else may have written since.
    """

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message, sent=sent, retriable=False)


class Fence(Protocol):
    """Limits the writes of a client. All of it may be called from any thread, at any time."""

    @property
    def term(self) -> int:
        """A number that changes each time the lease is won. A write belongs to the term in which it began."""

    def left(self) -> float | None:
        """For how many seconds writes may still be made, by the clock as it is now; 0 or less: not at all; None: without an end.

        Renewals move the end, so it is asked again and again.
        """

    def wrote(self, resource: Resource, version: str | None) -> None:
        """A write was answered with this resource version; None: it may have been applied, and nobody knows as which."""


class Crossing:
    """One write, from its beginning to its answer."""

    def __init__(self, fence: Fence, what: str) -> None:
        self._fence = fence
        self._term = fence.term
        self._what = what

    def left(self) -> float | None:
        """For how many seconds this write may go on; 0 when it may not, also when the term is another one by now."""
        left = self._fence.left()
        if self._fence.term != self._term:
            return 0.0
        return left if left is None else max(0.0, left)

    def check(self) -> None:
        """Raise NotLeading when the write may not go on. Called last before the first byte leaves."""
        if self.left() == 0.0:
            raise NotLeading(
                f"{self._what}: this process does not hold the lease, so the write was not sent. It is done by whoever leads."
            )

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """Limit the body of the context to the lease, as it is renewed. Raises NotLeading at its end."""
        self.check()
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        try:
            async with asyncio.timeout(None) as guard:

                def look() -> None:
                    nonlocal timer
                    left = self.left()
                    if left == 0.0:
                        guard.reschedule(loop.time())
                    elif left is not None:
                        # The rest may be less than the resolution of the clock.
                        timer = loop.call_later(max(left, 0.001), look)

                look()
                try:
                    yield
                finally:
                    if timer is not None:
                        timer.cancel()
        except TimeoutError as error:
            if not guard.expired():
                raise
            raise NotLeading(
                f"{self._what}: the lease ended before the answer came; the write was given up and may have been applied.",
                sent=True,
            ) from error
