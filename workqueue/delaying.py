"""A queue to which keys can be added for later, with one timer for all of them."""

import asyncio
from collections.abc import Hashable
from typing import TypeVar

from .ledger import Ageing
from .queue import Queue
from .schedule import Schedule

K = TypeVar("K", bound=Hashable)


class DelayingQueue(Queue[K]):
    """A queue with `add_after`.

    As in client-go a delayed key is apart from a waiting one: `add` does not remove the delayed one, which comes in its time.
    """

    def __init__(self, name: str = "", *, ageing: Ageing = Ageing(), controller: str | None = None) -> None:  # noqa: B008 (frozen)
        super().__init__(name, ageing=ageing, controller=controller)
        self._schedule: Schedule[K] = Schedule()
        # Invariant: armed for the schedule's next time, or both are None.
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: float | None = None

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._schedule)

    def due(self, key: K) -> float | None:
        """When (in the loop's time) a delayed key is due; None if it is not delayed."""
        return self._schedule.time(key)

    def rank(self, key: K) -> int | None:
        """The priority with which the key waits, for a worker or for its time; None when it does neither."""
        waiting = super().rank(key)
        return self._schedule.priority(key) if waiting is None else waiting

    def add_after(self, key: K, delay: float, *, priority: int = 0) -> None:
        """Add the key in `delay` seconds; of several delays of a key, the earliest end counts. At once without a delay."""
        if self.shutting_down:
            return
        now = self._time()
        if delay <= 0:
            self._put(key, priority, now)
        else:
            self.metrics.retries += 1
            self._put_at(key, now + delay, priority)

    def add_threadsafe(self, key: K, *, priority: int = 0, after: float = 0.0) -> None:
        """Add from any thread, now or `after` seconds later; see `Queue.add_threadsafe`."""
        if after <= 0:
            super().add_threadsafe(key, priority=priority)
            return
        if self._loop is None:
            raise RuntimeError(
                f"The queue {self.name!r} is not used by any loop yet; start its controller before adding from threads."
            )
        self._loop.call_soon_threadsafe(lambda: self.add_after(key, after, priority=priority))

    def discard(self, key: K) -> bool:
        """Remove a delayed key; one that waits already, or is in work, stays. Tells whether it was delayed."""
        found = self._schedule.discard(key)
        if found:
            self._arm()
        return found

    def _put_at(self, key: K, time: float, priority: int) -> None:
        if self._schedule.add(key, time, priority):
            self._arm()

    def _arm(self) -> None:
        time = self._schedule.next_time()
        if self._timer is not None:
            # Not asked of the handle: uvloop gives one that does not know when the time has come already.
            if self._armed_for == time:
                return
            self._timer.cancel()
            self._timer = None
        if time is not None:
            self._timer, self._armed_for = self._bound().call_at(time, self._release), time

    def _release(self) -> None:
        self._timer = None
        # The loop fires timers up to its clock's resolution early: what the timer was set for is due.
        now = max(self._time(), self._schedule.next_time() or 0.0)
        for key, priority in self._schedule.take_due(now):
            self._come_due(key, priority, now)
        self._arm()

    def _come_due(self, key: K, priority: int, now: float) -> None:
        self._put(key, priority, self._time())

    def clear(self) -> None:
        """Forget all keys that wait, the delayed ones as well."""
        self._schedule.clear()
        self._arm()
        super().clear()

    def shut_down(self) -> None:
        """Take no more keys, drop the delayed ones, hand out those that wait."""
        self._schedule.clear()
        self._arm()
        super().shut_down()
