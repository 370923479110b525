"""The outcomes of an attempt, and what follows from each, as one table.

Pure. The labels are controller-runtime's. Unlike there, a terminal error forgets the key: its next failure counts as its first.
"""

from dataclasses import dataclass, field
from enum import Enum
from logging import DEBUG, ERROR, INFO

from .reconciler import Result, TerminalError


class Requeue(Enum):
    """When the key is attempted again."""

    NO = "no"
    AFTER = "after"
    """After the time in the result."""
    BACK_OFF = "back off"
    SOON = "soon"
    """After a short time, not at once: a reconciler that cancels its own task looks the same, and would do so again and again."""


@dataclass(frozen=True, slots=True, eq=False)
class AttemptOutcome:
    """One way in which an attempt ends. `label` is the result in `controller_runtime_reconcile_total`; None: not counted there."""

    text: str
    label: str | None
    level: int
    requeue: Requeue
    forget: bool
    traceback: bool = False
    is_error: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_error", self.label == "error")


SUCCESS = AttemptOutcome("The attempt succeeded.", "success", DEBUG, Requeue.NO, forget=True)
REQUEUE_AFTER = AttemptOutcome(
    "The attempt succeeded and is to be repeated.", "requeue_after", DEBUG, Requeue.AFTER, forget=True
)
DEFERRED = AttemptOutcome(
    "The attempt failed and is to be repeated when its reconciler said.", "error", DEBUG, Requeue.AFTER, forget=True
)
"""A result with an error."""
FAILED = AttemptOutcome(
    "The attempt failed and will be repeated.", "error", ERROR, Requeue.BACK_OFF, forget=False, traceback=True
)
TIMED_OUT = AttemptOutcome(
    "The attempt took too long, was cancelled and will be repeated.", "error", ERROR, Requeue.BACK_OFF, forget=False
)
TERMINAL = AttemptOutcome(
    "The attempt failed for good and will not be repeated until something changes.",
    "error",
    ERROR,
    Requeue.NO,
    forget=True,
    traceback=True,
)
CANCELLED = AttemptOutcome("The attempt was cancelled and will be repeated.", None, INFO, Requeue.SOON, forget=False)
"""By the gate, by the stop of the controller, or by itself."""


def outcome_of(
    result: Result | None, error: BaseException | None, *, timed_out: bool = False, cancelled: bool = False
) -> AttemptOutcome:
    """Return the outcome of an attempt that returned a result or raised an error."""
    if cancelled:
        return CANCELLED
    if timed_out:
        return TIMED_OUT
    if isinstance(error, TerminalError):
        return TERMINAL
    if error is not None:
        return FAILED
    if result is None or result.requeue_after is None:
        return SUCCESS
    return REQUEUE_AFTER if result.error is None else DEFERRED
