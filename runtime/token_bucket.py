"""A rate limit: a burst at once, and then so many in each second."""

from collections.abc import Hashable


class TokenBucket:
    """Grants `burst` tokens at once and `qps` in each second after that, in the order of asking.

    Pure: time is an argument, in seconds of any clock that does not go back; the caller waits. It is also a limiter for a workqueue, with
    one bucket for all keys (client-go's `BucketRateLimiter`, with its numbers as defaults).
    """

    def __init__(self, qps: float = 10.0, burst: int = 100) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"A token bucket needs a positive qps and a burst of 1 at least; got {qps} and {burst}.")
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._since: float | None = None

    def reserve(self, now: float) -> float:
        """Take the next token; returns in how many seconds it may be used. It cannot be returned."""
        if self._since is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._since) * self._qps)
        self._since = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)

    def take(self, now: float) -> float:
        """Take a token if there is one; returns 0, or the seconds until there is one."""
        wait = self.reserve(now)
        # A sum of fractions may be slightly less than one.
        if wait * self._qps <= 1e-6:
            return 0.0
        self._tokens += 1.0
        return wait

    def when(self, key: Hashable, now: float, random: float) -> float:
        """Take the next token, whatever the key is."""
        return self.reserve(now)

    def forget(self, key: Hashable) -> None:
        """Does nothing: the tokens are not counted by key."""

    def failures(self, key: Hashable) -> int:
        """0: the tokens are not counted by key."""
        return 0
