"""The queue of a controller: keys at once, later, or after a back-off that grows with their failures."""

import random
from collections.abc import Hashable
from typing import TypeVar

from .delaying import DelayingQueue
from .ledger import Ageing
from .ratelimit import Exponential, RateLimiter

K = TypeVar("K", bound=Hashable)


class RateLimitingQueue(DelayingQueue[K]):
    """A queue with `add_rate_limited` and `forget`.

    A key that was added rate-limited is in back-off until its delay is over. Unlike in client-go, its back-off holds for
    all adds (kubernetes issue 112325): adds that come meanwhile wait for its end and become one hand-out with it, and
    a failure during the back-off (of an attempt that was urgent) is not counted. So neither does a stream of events make a
    failing key run more often than its back-off allows, nor does it make the back-off grow faster. `forget` ends a
    back-off: what waits for its end comes at that time all the same, what is added from then on comes at once.

    The default limiter is the exponential one, 5 ms to 1000 s with jitter, and no bucket, as controller-runtime has it.
    """

    def __init__(
        self,
        name: str = "",
        *,
        limiter: RateLimiter[K] | None = None,
        ageing: Ageing = Ageing(),  # noqa: B008 (frozen)
        controller: str | None = None,
    ) -> None:
        super().__init__(name, ageing=ageing, controller=controller)
        self._limiter: RateLimiter[K] = limiter if limiter is not None else Exponential()
        # The loop's time at which the back-off of a key ends; perhaps in the past. Only for keys that failed last time.
        self._until: dict[K, float] = {}
        # Keys in work that were added as urgent meanwhile: a failure of the work does not hold them back.
        self._urgent: set[K] = set()

    def add(self, key: K, *, priority: int = 0, urgent: bool = False) -> None:
        """Let the key be worked on: soon, or when its back-off is over. `urgent` does not wait for that."""
        if self.shutting_down:
            return
        now = self._time()
        if self._until and not urgent:
            until = self._until.get(key)
            if until is not None and until > now:
                self._put_at(key, until, priority)
                return
        self._put(key, priority, now)
        if urgent and key in self._ledger.in_work:
            self._urgent.add(key)

    def add_after(self, key: K, delay: float, *, priority: int = 0) -> None:
        """Add the key in `delay` seconds, and not before its back-off is over; the earliest end counts."""
        if self.shutting_down:
            return
        now = self._time()
        self.metrics.retries += delay > 0
        time = max(now + max(0.0, delay), self._until.get(key, 0.0))
        if time > now:
            self._put_at(key, time, priority)
        else:
            self._put(key, priority, now)

    def add_rate_limited(self, key: K, *, priority: int = 0) -> float:
        """Count a failure of the key and add it when its back-off is over; gives the seconds until then."""
        if self.shutting_down:
            return 0.0
        now = self._time()
        self.metrics.retries += 1
        until = self._until.get(key, 0.0)
        if until <= now:
            until = self._until[key] = now + self._limiter.when(key, now, random.random())
        if until > now:
            self._put_at(key, until, priority)
        else:
            self._put(key, priority, now)
        return until - now

    def forget(self, key: K) -> None:
        """Forget the failures of the key: its back-off ends, and the next failure is its first."""
        self._limiter.forget(key)
        if self._until:
            self._until.pop(key, None)

    def num_requeues(self, key: K) -> int:
        """How many failures of the key were counted since it was forgotten."""
        return self._limiter.failures(key)

    def held_until(self, key: K) -> float | None:
        """When (in the loop's time) the back-off of the key ends; None when it is not in back-off."""
        until = self._until.get(key)
        return until if until is not None and until > self._time() else None

    def _come_due(self, key: K, priority: int, now: float) -> None:
        until = self._until.get(key)
        if until is not None:
            if until > now:
                # It was scheduled before the failure; the back-off counts for that as well.
                self._put_at(key, until, priority)
                return
            self._until[key] = min(until, self._time())
        super()._come_due(key, priority, now)

    def done(self, key: K) -> None:
        """Say that the work on the key has ended. What was added meanwhile waits again, for the end of a back-off too."""
        if self._until:
            self._hold(key)
        if self._urgent:
            self._urgent.discard(key)
        super().done(key)

    def _hold(self, key: K) -> None:
        """Move what was added during a failed work behind the back-off."""
        until = self._until.get(key)
        if until is None or key in self._urgent or until <= self._time() or key not in self._ledger.in_work:
            return
        priority = self._ledger.withdraw(key)
        if priority is not None:
            self._put_at(key, until, priority)

    def clear(self) -> None:
        """Forget all keys that wait, those in back-off as well; how often they failed in a row is kept."""
        self._until.clear()
        self._urgent.clear()
        super().clear()

    def shut_down(self) -> None:
        """Take no more keys, drop the delayed ones and those in back-off, hand out those that wait."""
        self._until.clear()
        super().shut_down()
