"""What a reconciler may return, and the error that ends the retries."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """When a reconciler that has returned is called again.

    `requeue_after`: reconcile the key again after this many seconds, also if nothing changes; 0: at once, behind the keys that wait
    already; None: only after a change. `priority`: the priority of that attempt; None: the one of this attempt.
    `error`: the attempt failed, and the next one is due after `requeue_after` instead of the back-off. It is counted as an error and
    shown where the state of a key is explained.

    Raises ValueError for a negative time and for an error without a time, TypeError for a time or a priority that is no number.
    """

    requeue_after: float | None = None
    priority: int | None = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        if self.error is not None and self.requeue_after is None:
            raise ValueError(
                "A result with an error needs the seconds until the next attempt; got requeue_after=None. For the back-off of the "
                "queue raise the error."
            )
        if self.requeue_after is not None:
            if not isinstance(self.requeue_after, (int, float)):
                raise TypeError(f"requeue_after is a number of seconds; got requeue_after={self.requeue_after!r}.")
            if not self.requeue_after >= 0:
                raise ValueError(
                    f"requeue_after is a number of seconds, 0 or more; got requeue_after={self.requeue_after}."
                )
        if self.priority is not None and not isinstance(self.priority, int):
            raise TypeError(f"A priority is an integer, higher before lower; got priority={self.priority!r}.")


class TerminalError(Exception):
    """Raised by a reconciler: do not retry. The key is not attempted until something changes, and its failures are forgotten.

    The message says what is wrong, or the cause does (`raise TerminalError(...) from exc`).
    """
