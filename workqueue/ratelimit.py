"""Rate limiters: how long a key has to wait before its next attempt.

Pure: time and randomness are arguments. Names and numbers are client-go's; new is the jitter, so that a thousand keys that failed
together do not come back together.
"""

from collections.abc import Hashable
from typing import Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Gives a queue the delays of failed keys. `now` is in seconds of any clock that does not go back, `random` in [0, 1)."""

    def when(self, key: K_contra, now: float, random: float) -> float:
        """Count a failure of the key; give the seconds to wait."""

    def forget(self, key: K_contra) -> None:
        """Forget the failures of the key: the next one is the first."""

    def failures(self, key: K_contra) -> int:
        """How many failures of the key were counted since it was forgotten."""


class Exponential(RateLimiter[K]):
    """For each key: `base` doubling with each failure, at most `cap`; then shortened by up to `jitter` times itself.

    The default is client-go's 5 ms to 1000 s, of which a delay takes between the half and the whole.
    """

    def __init__(self, base: float = 0.005, cap: float = 1000.0, jitter: float = 0.5) -> None:
        if base <= 0 or cap < base or not 0 <= jitter <= 1:
            raise ValueError(
                f"An exponential limiter needs 0 < base <= cap and 0 <= jitter <= 1; got {base}, {cap}, {jitter}."
            )
        self._base, self._cap, self._jitter = base, cap, jitter
        self._failures: dict[K, int] = {}

    def when(self, key: K, now: float, random: float) -> float:
        """Count a failure; the first gives about `base`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Beyond 2**64 any cap is long reached; a float would overflow at 2**1024.
        delay = min(self._cap, self._base * (1 << min(failures, 64)))
        return delay * (1.0 - self._jitter * random)

    def forget(self, key: K) -> None:
        """Begin anew with `base`."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How many failures were counted."""
        return self._failures.get(key, 0)


class FastSlow(RateLimiter[K]):
    """For each key: `fast` seconds for the first `attempts` failures, `slow` after that."""

    def __init__(self, fast: float, slow: float, attempts: int) -> None:
        self._fast, self._slow, self._attempts = fast, slow, attempts
        self._failures: dict[K, int] = {}

    def when(self, key: K, now: float, random: float) -> float:
        """Count a failure."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return self._fast if failures <= self._attempts else self._slow

    def forget(self, key: K) -> None:
        """Begin anew with `fast`."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How many failures were counted."""
        return self._failures.get(key, 0)


class MaxOf(RateLimiter[K]):
    """The longest delay of several limiters; each is asked, and counts, every time."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        if not limiters:
            raise ValueError("MaxOf needs at least one limiter.")
        self._limiters = limiters

    def when(self, key: K, now: float, random: float) -> float:
        """Count a failure with each; the longest delay."""
        return max([limiter.when(key, now, random) for limiter in self._limiters])

    def forget(self, key: K) -> None:
        """Forget the key with each."""
        for limiter in self._limiters:
            limiter.forget(key)

    def failures(self, key: K) -> int:
        """The highest count of any."""
        return max(limiter.failures(key) for limiter in self._limiters)


class Capped(RateLimiter[K]):
    """The delays of another limiter, at most `longest` seconds."""

    def __init__(self, limiter: RateLimiter[K], longest: float) -> None:
        self._limiter, self._longest = limiter, longest

    def when(self, key: K, now: float, random: float) -> float:
        """Count a failure with the other limiter."""
        return min(self._longest, self._limiter.when(key, now, random))

    def forget(self, key: K) -> None:
        """Forget the key with the other."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """The count of the other."""
        return self._limiter.failures(key)
