"""Nothing begins under a lease that may be over: who is about to call something asks the clock, since the loop may not have heard yet.

A process that was stopped, a machine that slept, or a loop that was blocked goes on where it was, with everything that was ready to run,
before anything can be cancelled. What waits here is cancelled as soon as the loop hears of the loss.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

Left: TypeAlias = Callable[[], float]
"""For how many seconds this process may act; from any thread."""

LOOK = 0.02
"""How often to look whether a lease that was over is held again, in seconds."""

tenure: ContextVar[Left | None] = ContextVar("tenure", default=None)
"""How long those who act in this context may do so; None: nobody else ever does."""


class TenureOverError(Exception):
    """A function was not called in its thread: the lease was over by then."""


async def until_held(left: Left) -> None:
    """Return when this process may act, at once if it may now. A loss, once it is heard of, cancels who waits."""
    while left() <= 0:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # It has heard, and went on.
            raise asyncio.CancelledError
        await asyncio.sleep(LOOK)


def only_while_held(fn: Callable[..., Any], left: Left) -> Callable[..., Any]:
    """The same function for a thread, in which some time may pass before its turn comes; it raises TenureOverError instead of a late call."""

    def call(**kwargs: Any) -> Any:
        if left() <= 0:
            raise TenureOverError
        return fn(**kwargs)

    return call
