"""How each ending of an attempt is told to the queue, the metrics and the log: one table.

Pure. The labels are controller-runtime's. Unlike there, a terminal error forgets the key: its next failure is its first.
"""

import logging
from dataclasses import dataclass
from enum import Enum

from .result import Result, TerminalError


class Ending(Enum):
    """How an attempt ended."""

    DONE = "done"
    """It returned, and wants nothing more."""
    LATER = "later"
    """It returned, and wants another attempt after some time."""
    DEFERRED = "deferred"
    """It returned an error, and wants another attempt after some time."""
    FAILED = "failed"
    """It raised."""
    TIMED_OUT = "timed out"
    """It was cancelled at its deadline."""
    TERMINAL = "terminal"
    """It raised TerminalError."""
    CUT = "cut"
    """It was cancelled from outside (the gate was closed on it, the controller is stopping), or has cancelled itself."""


class Requeue(Enum):
    """What becomes of the key."""

    NO = "no"
    AFTER = "after"
    BACK_OFF = "back off"
    SOON = "soon"
    """Not at once: an attempt that cancels itself cannot be told from one that was cut, and would do so again, for ever."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is to be done. `label` is the result in `controller_runtime_reconcile_total`; None: not counted there."""

    forget: bool
    requeue: Requeue
    label: str | None
    level: int
    text: str
    is_error: bool = False
    traceback: bool = False


TABLE: dict[Ending, Settlement] = {
    Ending.DONE: Settlement(
        forget=True, requeue=Requeue.NO, label="success", level=logging.DEBUG, text="The attempt succeeded."
    ),
    Ending.LATER: Settlement(
        forget=True,
        requeue=Requeue.AFTER,
        label="requeue_after",
        level=logging.DEBUG,
        text="The attempt succeeded and is to be repeated.",
    ),
    Ending.DEFERRED: Settlement(
        forget=True,
        requeue=Requeue.AFTER,
        label="error",
        level=logging.DEBUG,
        text="The attempt failed and is to be repeated when its reconciler said.",
        is_error=True,
    ),
    Ending.FAILED: Settlement(
        forget=False,
        requeue=Requeue.BACK_OFF,
        label="error",
        level=logging.ERROR,
        text="The attempt failed and will be repeated.",
        is_error=True,
        traceback=True,
    ),
    Ending.TIMED_OUT: Settlement(
        forget=False,
        requeue=Requeue.BACK_OFF,
        label="error",
        level=logging.ERROR,
        text="The attempt took too long, was cancelled and will be repeated.",
        is_error=True,
    ),
    Ending.TERMINAL: Settlement(
        forget=True,
        requeue=Requeue.NO,
        label="error",
        level=logging.ERROR,
        text="The attempt failed for good and will not be repeated until something changes.",
        is_error=True,
        traceback=True,
    ),
    Ending.CUT: Settlement(
        forget=False,
        requeue=Requeue.SOON,
        label=None,
        level=logging.INFO,
        text="The attempt was cut short and will be repeated.",
    ),
}


def classify(
    result: Result | None, error: BaseException | None, *, timed_out: bool = False, cut: bool = False
) -> Ending:
    """Name the ending of an attempt that gave a result, or raised an error."""
    if cut:
        return Ending.CUT
    if timed_out:
        return Ending.TIMED_OUT
    if isinstance(error, TerminalError):
        return Ending.TERMINAL
    if error is not None:
        return Ending.FAILED
    if result is not None and result.error is not None:
        return Ending.DEFERRED
    return Ending.DONE if result is None or result.requeue_after is None else Ending.LATER
