"""The schedule holds the times of delayed keys; of several times of a key the earliest counts.

Pure: time is an argument, in seconds of any clock that does not go back.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Due(NamedTuple, Generic[K]):
    """A key whose time has come."""

    key: K
    priority: int


class Schedule(Generic[K]):
    """Keys and their times. A key is there once: with the earliest of its times and the highest of its priorities.

    Adding and taking out cost the logarithm of the number of keys. Keys of the same time are due in the order of adding.
    """

    __slots__ = ("_count", "_heap", "_times")

    def __init__(self) -> None:
        # The truth: time, priority and the number of the heap's entry that counts for each key.
        self._times: dict[K, tuple[float, int, int]] = {}
        # (time, number, key). An entry whose number is not that of `_times` is void. Invariant: the first is not void.
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: object) -> bool:
        return key in self._times

    def add(self, key: K, time: float, priority: int = 0) -> bool:
        """Schedule the key for a time; an earlier time that it has counts. Tells whether it is due sooner than before."""
        known = self._times.get(key)
        if known is not None:
            priority = max(priority, known[1])
            if known[0] <= time:
                self._times[key] = (known[0], priority, known[2])
                return False
        self._count += 1
        self._times[key] = (time, priority, self._count)
        heapq.heappush(self._heap, (time, self._count, key))
        self._settle()
        return True

    def discard(self, key: K) -> bool:
        """Remove a key. Tells whether it was there."""
        found = self._times.pop(key, None) is not None
        if found:
            self._settle()
        return found

    def time(self, key: K) -> float | None:
        """When the key is due; None if it is not scheduled."""
        known = self._times.get(key)
        return None if known is None else known[0]

    def priority(self, key: K) -> int | None:
        """The priority of the key; None if it is not scheduled."""
        known = self._times.get(key)
        return None if known is None else known[1]

    def next_time(self) -> float | None:
        """When the first key is due; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> list[Due[K]]:
        """Take out all keys whose time has come, the earliest first."""
        found: list[Due[K]] = []
        while self._heap and self._heap[0][0] <= now:
            _, _, key = heapq.heappop(self._heap)
            found.append(Due(key, self._times.pop(key)[1]))
            self._settle()
        return found

    def clear(self) -> None:
        """Remove all keys."""
        self._times.clear()
        self._heap.clear()

    def _settle(self) -> None:
        """Restore the invariant, and keep the void entries fewer than twice the keys."""
        heap, times = self._heap, self._times
        while heap and self._is_void(heap[0]):
            heapq.heappop(heap)
        if len(heap) > 64 and len(heap) > 3 * len(times):
            self._heap = [(time, number, key) for key, (time, _, number) in times.items()]
            heapq.heapify(self._heap)

    def _is_void(self, entry: tuple[float, int, K]) -> bool:
        known = self._times.get(entry[2])
        return known is None or known[2] != entry[1]
