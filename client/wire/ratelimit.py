"""A token bucket limits how many requests start in a time."""


class Bucket:
    """Grant `burst` requests at once and `rate` in each second after that, in the order of asking.

    Pure: the caller says what time it is, in seconds of any clock that does not go back, and does the waiting.
    A reservation cannot be returned.
    """

    def __init__(self, rate: float, burst: int) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"A rate limit needs a positive rate and a burst of 1 at least; got {rate} and {burst}.")
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._since: float | None = None

    def reserve(self, now: float) -> float:
        """Take the next turn; returns how many seconds from now it is."""
        if self._since is not None:
            self._tokens = min(float(self.burst), self._tokens + max(0.0, now - self._since) * self.rate)
        self._since = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.rate)
