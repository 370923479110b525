"""What a reconcile may return, and the error that says: do not try again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """How a reconcile that has returned wants to be followed.

    `after`: seconds until the key is reconciled again without any change; 0 is at once (behind what waits already), None:
    not before something changes. `priority`: with which priority then; None: as this attempt had.
    `error`: the attempt failed, and the reconciler itself says when the next one is due, instead of the back-off; it is counted as a
    failure, and told when somebody asks about the key. Raises ValueError for a time that is negative or no number, and for an error
    without a time, TypeError for what cannot be compared with other times and priorities.
    """

    after: float | None = None
    priority: int | None = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        if self.error is not None and self.after is None:
            raise ValueError(
                "A result with an error says after how many seconds to try again; got after=None. For the back-off of the queue "
                "raise the error."
            )
        if self.after is not None:
            if not isinstance(self.after, (int, float)):
                raise TypeError(f"A reconcile is repeated after a number of seconds; got after={self.after!r}.")
            if not self.after >= 0:
                raise ValueError(
                    f"A reconcile can be repeated after some seconds, not before now; got after={self.after}."
                )
        if self.priority is not None and not isinstance(self.priority, int):
            raise TypeError(f"A priority is an integer, higher before lower; got priority={self.priority!r}.")


class TerminalError(Exception):
    """Trying again is of no use: the key is not attempted until something changes, and its failures are forgotten.

    What was wrong is the message, or the cause (`raise TerminalError(...) from exc`).
    """
