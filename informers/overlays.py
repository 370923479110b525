"""What we wrote is visible before the watch has delivered it.

An overlay stands for the answer of one of our own writes. It hides the copy's own state of that object until the watch, or a
list, has reached the version of the answer. Versions of one resource are comparable integers since Kubernetes 1.35
(KEP-5504); where they are not decimal nothing is overlaid.
"""

import heapq
from collections.abc import Iterator

from ..client.objects import Object, version_order

Order = tuple[int, str]
"""What `version_order` gives."""
Name = tuple[str | None, str]
"""Namespace and name: equal to `Key`, and cheaper to make."""

PATIENCE = 2
"""How many bookmarks a deletion without a version waits for its watch event."""


class Overlay:
    """One object as our last answer has it."""

    __slots__ = ("base", "bookmarks", "floor", "mark", "order", "uid", "written")

    def __init__(self, base: Object | None, uid: str, mark: int) -> None:
        self.base = base
        """What the watch has delivered: the state under the overlay."""
        self.uid = uid
        self.written: Object | None = None
        """What readers see; None for a deletion."""
        self.order: Order | None = None
        """The version that ends the overlay; None for a deletion, which ends with its event."""
        self.floor: Order | None = None
        """For a deletion: the newest version that was known of what it hides. Answers up to there come late."""
        self.mark = mark
        """The number of the last list that was requested before the answer came."""
        self.bookmarks = 0
        """How many came since the deletion."""

    def overtakes(self, obj: Object) -> bool:
        """Whether an answer with this object comes late: something later is shown, or hidden, already."""
        if self.order is None:
            return self.hides(obj)
        order = version_order(obj.resource_version)
        return order is not None and self.order >= order

    def hides(self, obj: Object) -> bool:
        """Whether a deletion concerns this object: it is the deleted one, or one of the same name from before it."""
        order = version_order(obj.resource_version)
        return self.uid == obj.uid or (self.floor is not None and order is not None and self.floor >= order)


class Overlays:
    """All overlays of one copy, by object, the oldest first.

    Invariant: each overlay with an order has an entry in `_due`; entries of overlays that are gone are skipped when due.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_name: dict[Name, Overlay] = {}
        self._due: list[tuple[Order, str | None, str]] = []

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: Name) -> bool:
        return name in self._by_name

    def get(self, name: Name) -> Overlay | None:
        """The overlay of an object, if it has one."""
        return self._by_name.get(name)

    def names(self) -> list[Name]:
        """Which objects are overlaid."""
        return list(self._by_name)

    def put(self, name: Name, overlay: Overlay) -> Name | None:
        """Keep an overlay. Gives the name of the oldest when there are too many now: the caller takes that off."""
        self._by_name.pop(name, None)
        self._by_name[name] = overlay
        if overlay.order is not None:
            heapq.heappush(self._due, (overlay.order, name[0] or "", name[1]))
        if len(self._by_name) > self._limit:
            return next(iter(self._by_name))
        return None

    def pop(self, name: Name) -> Overlay | None:
        """Take an overlay off."""
        overlay = self._by_name.pop(name, None)
        if not self._by_name:
            self._due.clear()
        return overlay

    def reached(self, order: Order) -> Iterator[Name]:
        """Which overlays end because the watch has reached this version. The caller takes each off before the next."""
        while self._due and self._due[0][0] <= order:
            _, namespace, name = heapq.heappop(self._due)
            key = (namespace or None, name)
            overlay = self._by_name.get(key)
            if overlay is not None and overlay.order is not None and overlay.order <= order:
                yield key

    def outwaited(self) -> Iterator[tuple[Name, str]]:
        """Count a bookmark; which deletions (by name and uid) end because their event should have come long ago."""
        for name, overlay in list(self._by_name.items()):
            if overlay.order is None:
                overlay.bookmarks += 1
                if overlay.bookmarks >= PATIENCE:
                    yield name, overlay.uid
