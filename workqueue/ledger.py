"""The ledger holds the keys that wait and those in work, and decides which comes next.

Pure: time is an argument, of any clock that does not go back. The rules are those of client-go's workqueue:

- a key waits at most once: adding it again changes nothing, except that its priority can rise;
- a key is in work at most once: when it is added meanwhile, that is remembered, and it waits again when the work is done.

Order: the highest priority first; within one priority, first come first served. A key whose priority rises goes to the end of
its new level.

Ageing, so that no level starves: of any `every` keys handed out in a row, one is the key that has stood longest in its level,
whatever its priority, provided it has stood there for `after` seconds. So the bounds are, in keys handed out:

- a key that has stood in its level for `after` seconds and has `n` keys standing longer than itself is handed out within
  `every * (n + 1)`;
- a key with `m` keys before it in the levels at and above its own, while none is added above it, is handed out within
  `(m + 1) * every / (every - 1) + 1`: a low backlog takes no more than one turn in `every`.
"""

from bisect import insort
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Ageing:
    """When a key is handed out before its turn: see the module. `after` is in seconds; `every` is at least 2."""

    after: float = 5.0
    every: int = 8

    def __post_init__(self) -> None:
        if self.after < 0 or self.every < 2:
            raise ValueError(
                f"Ageing needs after >= 0 and every >= 2 (one turn of how many is for the oldest); got {self}."
            )


class Entry(msgspec.Struct, Generic[K], eq=False):
    """A key as it waits or is in work."""

    key: K
    priority: int
    added: float
    """When the key began to wait (for the time in the queue)."""
    stood: float
    """When it came into its level (for the order, and for ageing)."""
    since: float = 0.0
    """When it was handed out. Meaningless while it waits."""


class Ledger(Generic[K]):
    """The keys that wait and those in work. Adding and handing out take constant time for a fixed number of priorities."""

    __slots__ = ("_again", "_ageing", "_dead", "_levels", "_order", "_turn", "_waiting", "in_work")

    def __init__(self, ageing: Ageing = Ageing()) -> None:
        self._ageing = ageing
        # The key waits: it has an entry here, and the same entry in the level of its priority.
        self._waiting: dict[K, Entry[K]] = {}
        # By priority; each is ordered by `stood`. Invariant: no level is empty, and the first entry of each is alive: it
        # is the one in `_waiting`. Dead ones behind it are left from keys that rose or were withdrawn.
        self._levels: dict[int, deque[Entry[K]]] = {}
        # The priorities of `_levels`, ascending.
        self._order: list[int] = []
        self.in_work: dict[K, Entry[K]] = {}
        """The keys in work. Not to be changed. Invariant: none of them is in `_waiting`."""
        # The key was added while in work. Invariant: a subset of `in_work`.
        self._again: dict[K, Entry[K]] = {}
        # Keys handed out since the longest-standing one was.
        self._turn = 0
        self._dead = 0

    def __len__(self) -> int:
        """How many keys wait; those in work do not count, nor what is remembered for them."""
        return len(self._waiting)

    def __contains__(self, key: object) -> bool:
        """Whether the key waits, or will wait when its work is done."""
        return key in self._waiting or key in self._again

    @property
    def returning(self) -> int:
        """How many keys will wait when their work is done."""
        return len(self._again)

    def waiting(self, key: K) -> Entry[K] | None:
        """The entry of a key that waits, or will wait when its work is done. Not to be changed."""
        return self._waiting.get(key) or self._again.get(key)

    @property
    def highest(self) -> int | None:
        """The highest priority at which a key waits; None when none does."""
        return self._order[-1] if self._order else None

    def depths(self) -> dict[int, int]:
        """How many keys wait at each priority."""
        found: dict[int, int] = {}
        for entry in self._waiting.values():
            found[entry.priority] = found.get(entry.priority, 0) + 1
        return found

    def add(self, key: K, priority: int, now: float) -> bool:
        """Let the key wait. Tells whether that is new: False when it waits already (its priority may have risen)."""
        entry = self._waiting.get(key)
        if entry is not None:
            if priority > entry.priority:
                self._raise(entry, priority, now)
            return False
        if key in self.in_work:
            entry = self._again.get(key)
            if entry is None:
                self._again[key] = Entry(key, priority, now, now)
                return True
            entry.priority = max(entry.priority, priority)
            return False
        self._push(Entry(key, priority, now, now))
        return True

    def _push(self, entry: Entry[K]) -> None:
        self._waiting[entry.key] = entry
        level = self._levels.get(entry.priority)
        if level is None:
            self._levels[entry.priority] = deque((entry,))
            insort(self._order, entry.priority)
        else:
            level.append(entry)

    def _raise(self, entry: Entry[K], priority: int, now: float) -> None:
        self._push(Entry(entry.key, priority, entry.added, now))
        self._bury(entry)

    def _bury(self, entry: Entry[K]) -> None:
        """Forget an entry that is not in `_waiting` any more: at once at the front of its level, else when it gets there."""
        level = self._levels[entry.priority]
        if level[0] is entry:
            level.popleft()
            self._trim(entry.priority, level)
            return
        self._dead += 1
        if self._dead > 64 and self._dead > len(self._waiting):
            self._sweep()

    def _trim(self, priority: int, level: "deque[Entry[K]]") -> None:
        """Restore the invariant of a level whose first entry was taken away."""
        waiting = self._waiting
        while level:
            first = level[0]
            if waiting.get(first.key) is first:
                return
            level.popleft()
            self._dead -= 1
        del self._levels[priority]
        self._order.remove(priority)

    def _sweep(self) -> None:
        """Drop all dead entries: their number stays below that of the living, so this costs a constant for each."""
        waiting = self._waiting
        for level in self._levels.values():
            alive = [entry for entry in level if waiting.get(entry.key) is entry]
            level.clear()
            level.extend(alive)
        self._dead = 0

    def take(self, now: float) -> Entry[K] | None:
        """Hand out the next key; it is in work from now on. None when nothing waits."""
        order = self._order
        if not order:
            return None
        priority = order[-1]
        self._turn += 1
        if len(order) == 1:
            self._turn = 0
        elif self._turn >= self._ageing.every:
            oldest = min(order, key=self._standing)
            if now - self._levels[oldest][0].stood >= self._ageing.after:
                priority = oldest
                self._turn = 0
        level = self._levels[priority]
        entry = level.popleft()
        key = entry.key
        del self._waiting[key]
        if not level or self._dead:
            self._trim(priority, level)
        self.in_work[key] = entry
        entry.since = now
        return entry

    def _standing(self, priority: int) -> float:
        return self._levels[priority][0].stood

    def done(self, key: K, now: float) -> Entry[K] | None:
        """End the work on a key: it waits again if it was added meanwhile. Gives the entry of the work, None if there was none."""
        entry = self.in_work.pop(key, None)
        if self._again:
            again = self._again.pop(key, None)
            if again is not None:
                again.stood = now
                self._push(again)
        return entry

    def clear(self) -> None:
        """Forget the keys that wait, now or after their work. Keys in work stay there."""
        self._waiting.clear()
        self._levels.clear()
        self._order.clear()
        self._again.clear()
        self._turn = self._dead = 0

    def withdraw(self, key: K) -> int | None:
        """Forget that the key waits, now or after its work; gives its priority, None if it did not wait."""
        entry = self._again.pop(key, None)
        if entry is None:
            entry = self._waiting.pop(key, None)
            if entry is None:
                return None
            self._bury(entry)
        return entry.priority
