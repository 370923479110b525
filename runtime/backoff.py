"""Delays between attempts grow exponentially, are capped and jittered, and start anew after a calm time.

Pure: time and randomness are arguments. The defaults are those of client-go's reflector: 0.8 s doubling to 30 s, jitter
of 1.0 on top (so that the plateau is between 30 and 60 s), anew after two minutes without a failure.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """How delays grow. Times are in seconds.

    Each delay is `factor` times the one before, at most `cap`, and then lengthened by up to `jitter` times itself.
    `reset_after`: a failure that comes so long after the one before begins anew with `initial`; None: never.
    Raises ValueError for values that make no sequence of growing delays.
    """

    initial: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float | None = 120.0

    def __post_init__(self) -> None:
        if self.initial < 0 or self.factor < 1 or self.cap < self.initial or self.jitter < 0:
            raise ValueError(f"A back-off needs 0 <= initial <= cap, factor >= 1 and jitter >= 0; got {self}.")

    def start(self) -> "Delays":
        """A new sequence, with no failure counted yet."""
        return Delays(self)


class Delays:
    """The sequence of one caller. Not for use by several."""

    __slots__ = ("_base", "_last", "config", "failures")

    def __init__(self, config: Backoff) -> None:
        self.config = config
        self.failures = 0
        """How many failures were counted since the beginning or the last reset."""
        # Invariant: the un-jittered delay that comes next.
        self._base = config.initial
        self._last: float | None = None

    def next(self, now: float, random: float) -> float:
        """Count a failure that happened now; returns the seconds to wait.

        `now` is any clock that does not go back; `random` is in [0, 1).
        """
        config = self.config
        if config.reset_after is not None and self._last is not None and now - self._last >= config.reset_after:
            self.reset()
        base = self._base
        self._last = now
        self._base = min(config.cap, base * config.factor)
        self.failures += 1
        return base * (1.0 + config.jitter * random)

    def reset(self) -> None:
        """Begin anew: the next delay is the first."""
        self.failures = 0
        self._base = self.config.initial
        self._last = None
