"""Deltas of an object wait while one of our own writes to it is on its way.

The watch is often faster than the answer of the write that it tells of. Whether a delta is the echo of an own write is known
only when the answer is there, so the deltas of that one object are held back until then, but no longer than `PATIENCE`: others
have a right to know what becomes of the object, however long the request takes. An echo that is not held any more is news.
"""

from collections.abc import Iterable

import msgspec

from ..client.objects import Object
from .deltas import UPDATED, Delta, collapse
from .overlays import Name

HELD = 64
"""How many deltas of one object are held before updates are joined."""
PATIENCE = 1.0
"""Seconds that a delta is held at the most."""


class Writes:
    """The objects with writes in flight, and their deltas."""

    def __init__(self) -> None:
        self._flying: dict[Name, int] = {}
        self._held: dict[Name, list[Delta]] = {}
        # When the first of those that are held of an object is told at the latest; in the order of these times.
        self._due: dict[Name, float] = {}

    def __bool__(self) -> bool:
        return bool(self._flying)

    def begin(self, name: Name) -> None:
        """A write is sent."""
        self._flying[name] = self._flying.get(name, 0) + 1

    def answered(self, obj: Object, author: str | None = None) -> None:
        """A write was answered with this object: its version is an echo, or its author's, when it comes, or has come."""
        name = (obj.namespace, obj.name)
        held = self._held.get(name)
        if held:
            self._held[name] = [
                msgspec.structs.replace(delta, echo=author is None, author=author)
                if delta.kind is UPDATED and delta.object.resource_version == obj.resource_version
                else delta
                for delta in held
            ]

    def end(self, name: Name) -> list[Delta]:
        """A write is over, however it ended; gives the deltas that nothing holds back any more."""
        left = self._flying[name] - 1
        if left:
            self._flying[name] = left
            return []
        del self._flying[name]
        return self._release(name)

    def hold(self, deltas: Iterable[Delta], now: float) -> list[Delta]:
        """Keep back what must wait; gives the rest."""
        free: list[Delta] = []
        for delta in deltas:
            name = (delta.object.namespace, delta.object.name)
            if name not in self._flying:
                free.append(delta)
                continue
            held = self._held.setdefault(name, [])
            self._due.setdefault(name, now + PATIENCE)
            held.append(delta)
            if len(held) > HELD:
                self._held[name] = collapse(held)
        return free

    def flush(self) -> list[Delta]:
        """Give all deltas that are held, whatever they wait for: a newer state is about to be shown."""
        return [delta for name in list(self._held) for delta in self._release(name)]

    @property
    def next_due(self) -> float | None:
        """When something has been held long enough; None: nothing is held."""
        return next(iter(self._due.values()), None)

    def overdue(self, now: float) -> list[Delta]:
        """Give the deltas that have been held long enough, though their writes are still on their way."""
        ripe = [name for name, due in self._due.items() if due <= now]
        return [delta for name in ripe for delta in self._release(name)]

    def _release(self, name: Name) -> list[Delta]:
        self._due.pop(name, None)
        return self._held.pop(name, [])
