"""The copy of a resource has one writer, who follows the watch, and any number of readers.

Readers see, for each object, the newest state that is known: what the watch has delivered, or the answer of an own write
that the watch has yet to deliver (an overlay). Deltas, on the other hand, follow the watch alone, but for one: what readers had
seen of an own write, and a list shows to be gone before the watch has told of it, is told as deleted.

Invariants. `_objects` is what readers see. For an overlaid name the watch's own state is `overlay.base`, for all others it is
what readers see. Indexers and `nbytes` follow what readers see.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from ..client.objects import Object, version_order
from .deltas import ADDED, DELETED, UPDATED, Delta
from .indexers import Indexer
from .overlays import Name, Order, Overlay, Overlays
from .reader import Reader

__all__ = ["Event", "Listed", "Reader", "Store"]

ANSWERS = 20_000
"""How many answers of own writes are remembered until the watch delivers them."""
BURIED = 1024
"""How many deleted objects are remembered, so that a late event does not bring one back."""


class Event(Protocol):
    """One line of a watch, as the client gives it."""

    type: str
    object: Object


class Store(Reader):
    """The copy as its one writer sees it."""

    def __init__(self, own_writes_limit: int = 20_000) -> None:
        super().__init__()
        self._overlays = Overlays(own_writes_limit)
        self._order: Order | None = None
        self._floor: Order | None = None
        self._mark = 0
        # What the watch or a list has shown to be gone, by uid: the version of the deletion, where it is a number.
        self._buried: OrderedDict[str, Order | None] = OrderedDict()
        # The versions of answers of own writes that the watch has yet to deliver: the author, and the last list requested before.
        self._echoes: OrderedDict[str, tuple[str | None, int]] = OrderedDict()
        # What own writes have deleted, by uid: its name, and the number of the last list requested before.
        self._deleted: OrderedDict[str, tuple[Name, int]] = OrderedDict()
        # Answers with objects that the copy does not have and that could not be overlaid, with the number of the last list requested before.
        self._owed: OrderedDict[Name, tuple[Object, int]] = OrderedDict()
        self.stale = 0
        """Watch events that were dropped, since they were older than what was known, or the same again."""
        self.bookmarks = 0
        """How many came, over all watches."""
        self.malformed = 0
        """Watch events that were dropped because they had no name or an unknown type."""

    @property
    def overlaid(self) -> int:
        """How many own writes are visible that the watch has yet to deliver."""
        return len(self._overlays)

    def delivered(self) -> list[Object]:
        """All objects as the watch has delivered them: what a subscriber that comes now must be told."""
        if not self._overlays:
            return list(self._objects.values())
        found = {name: obj for name, obj in self._objects.items() if name not in self._overlays}
        bases = ((name, self._overlays.get(name)) for name in self._overlays.names())
        found |= {name: overlay.base for name, overlay in bases if overlay is not None and overlay.base is not None}
        return list(found.values())

    # The watch.

    def apply(self, events: Iterable[Event]) -> list[Delta]:
        """Follow the watch; gives what changed. Events that are older than what is known are dropped and counted."""
        deltas: list[Delta] = []
        append = deltas.append
        objects, overlays, echoes, plain = self._objects, self._overlays, self._echoes, not self._indexers
        version, grown = self.resource_version, 0
        for event in events:
            obj = event.object
            new = obj.resource_version
            name = (obj.namespace, obj.name)
            old = objects.get(name)
            # The usual case at once. What is decimal is newer when it is longer, or as long and later in the alphabet, and what
            # is newer than the whole copy is newer than each object of it.
            if (
                old is not None
                and plain
                and event.type == "MODIFIED"
                and old.uid == obj.uid
                and (len(new) > len(version) or (new > version and len(new) == len(version)))
                and not (overlays and name in overlays)
                and not (echoes and new in echoes)
            ):
                objects[name] = obj
                grown += len(obj.raw) - len(old.raw)
                append(Delta(UPDATED, obj, old, False, "MODIFIED"))
                version = new
            else:
                version = self._apply_one(event, version, deltas)
        self.nbytes += grown
        self._advance(version)
        return deltas

    def _apply_one(self, event: Event, version: str, deltas: list[Delta]) -> str:
        obj = event.object
        if event.type == "BOOKMARK":
            self.bookmarks += 1
            if not obj.resource_version or not self._is_newer(obj.resource_version, version):
                return version
            for name, uid in self._overlays.outwaited():
                self._deleted.pop(uid, None)
                self._uncover(name)
            return obj.resource_version
        if event.type not in {"ADDED", "MODIFIED", "DELETED"} or not obj.name:
            self.malformed += 1
            return version
        name = (obj.namespace, obj.name)
        self._owed.pop(name, None)
        overlay = self._overlays.get(name)
        old = self._objects.get(name) if overlay is None else overlay.base
        changed = self._judge(event, old, deltas)
        if overlay is None:
            if changed:
                self._show(name, None if event.type == "DELETED" else obj)
                # Created and deleted by us before the watch has told of either.
                self._hide_deleted(name)
        elif changed:
            overlay.base = None if event.type == "DELETED" else obj
            if overlay.order is None and (overlay.base is None or not overlay.hides(obj)):
                self._uncover(name)
        # Without a version an object can be shown; where to watch from is another question.
        is_newer = bool(obj.resource_version) and self._is_newer(obj.resource_version, version)
        return obj.resource_version if is_newer else version

    def _judge(self, event: Event, old: Object | None, deltas: list[Delta]) -> bool:
        """Tell subscribers what an event means to an object that was `old`; whether it changes the copy."""
        obj, wire = event.object, event.type
        if self._is_stale(event, old):
            self.stale += 1
            return False
        echo, author = self.echoed(obj)
        if old is not None and old.uid != obj.uid:
            # The deletion of the former one of this name was missed.
            deltas.append(self.missed(old, obj.resource_version))
            old = None
            if wire == "DELETED":
                self._bury(obj, obj.resource_version)
                return True
        if wire == "DELETED":
            self._bury(obj, obj.resource_version)
            deltas.append(Delta(DELETED, obj, old, False, wire))
        elif old is None:
            self._buried.pop(obj.uid, None)
            deltas.append(Delta(ADDED, obj, None, False, wire))
        else:
            deltas.append(Delta(UPDATED, obj, old, False, wire, echo, False, author))
        return True

    def _is_stale(self, event: Event, old: Object | None) -> bool:
        obj = event.object
        if old is not None and old.uid == obj.uid:
            # A deletion is final for its uid, whatever its version.
            return event.type != "DELETED" and not self._is_newer(obj.resource_version, old.resource_version)
        order = version_order(obj.resource_version)
        if order is not None and self._floor is not None and order <= self._floor:
            # The list has told of it; a watch from the list's version has no business to.
            return True
        if obj.uid and obj.uid in self._buried:
            buried = self._buried[obj.uid]
            # Only what has left a selection and come back has the uid of something deleted, and then it is newer.
            return event.type == "DELETED" or (buried is not None and order is not None and order <= buried)
        return old is not None and not self._is_newer(obj.resource_version, old.resource_version)

    @staticmethod
    def _is_newer(version: str, than: str) -> bool:
        if version == than:
            return False
        ours, theirs = version_order(version), version_order(than)
        # What cannot be compared is trusted to come in order.
        return ours is None or theirs is None or ours > theirs

    def _bury(self, obj: Object, version: str) -> None:
        if obj.uid:
            self._buried[obj.uid] = version_order(version)
            if len(self._buried) > BURIED:
                self._buried.popitem(last=False)

    def _advance(self, version: str) -> None:
        self.resource_version = version
        self._order = version_order(version)
        if self._overlays and self._order is not None:
            for name in self._overlays.reached(self._order):
                self._uncover(name)
                # The answer to its deletion may have come before the one that is reached now.
                self._hide_deleted(name)

    # Own writes.

    def overlay(self, obj: Object, *, hidden: bool = False, author: str | None = None, echo: bool = True) -> bool:
        """Show the answer of an own write to all readers at once, or hide the object if the write took it out of sight.

        With an author its delta will be that author's and no echo to others; without `echo` it will be news to all.

        False when versions cannot be compared, or nothing was listed yet: then it is not shown, and whoever needs it waits for
        the watch. Harmless for answers that the watch has overtaken already, and in any order.
        """
        order = version_order(obj.resource_version)
        name = (obj.namespace, obj.name)
        if order is None or self._order is None:
            if not hidden and name not in self._objects and obj.uid not in self._buried:
                self._owed[name] = (obj, self._mark)
                if len(self._owed) > ANSWERS:
                    self._owed.popitem(last=False)
            return False
        present = self._overlays.get(name)
        base = self._objects.get(name) if present is None else present.base
        if self._order >= order:
            # Everything up to here was delivered.
            return True
        if base is not None and not self._is_newer(obj.resource_version, base.resource_version):
            return True
        if echo:
            self._echoes[obj.resource_version] = author, self._mark
            if len(self._echoes) > ANSWERS:
                self._echoes.popitem(last=False)
        if present is not None and present.overtakes(obj):
            return True
        overlay = Overlay(base, obj.uid, self._mark)
        overlay.written = None if hidden or obj.uid in self._deleted else obj
        overlay.order = order
        self._cover(name, overlay)
        return True

    def overlay_deleted(self, key: Name, uid: str) -> None:
        """Hide an object that an own write has deleted, until its deletion comes by the watch.

        A later object of the same name is not hidden. For deletions that leave the object there for its finalizers, `overlay`
        the answer instead.
        """
        name = (key[0], key[1])
        self._owed.pop(name, None)
        self._deleted[uid] = (name, self._mark)
        if len(self._deleted) > BURIED:
            self._deleted.popitem(last=False)
        seen = self._objects.get(name)
        if seen is not None and seen.uid == uid:
            self._hide(name, uid, self._mark)

    def _hide_deleted(self, name: Name) -> None:
        """Hide what is shown under a name if an own write has deleted it."""
        shown = self._objects.get(name)
        if shown is not None and shown.uid in self._deleted:
            self._hide(name, shown.uid, self._deleted[shown.uid][1])

    def _hide(self, name: Name, uid: str, mark: int) -> None:
        present = self._overlays.get(name)
        base = self._objects.get(name) if present is None else present.base
        seen = self._objects.get(name)
        overlay = Overlay(base, uid, mark)
        overlay.floor = None if seen is None else version_order(seen.resource_version)
        self._cover(name, overlay)

    def _cover(self, name: Name, overlay: Overlay) -> None:
        surplus = self._overlays.put(name, overlay)
        self._show(name, overlay.written)
        if surplus is not None:
            self._uncover(surplus)

    def _uncover(self, name: Name) -> None:
        overlay = self._overlays.pop(name)
        if overlay is not None:
            self._show(name, overlay.base)

    def _show(self, name: Name, new: Object | None) -> None:
        """Change what readers see."""
        old = self._objects.get(name)
        if old is new:
            return
        if new is None:
            del self._objects[name]
        else:
            self._objects[name] = new
        self.nbytes += (0 if new is None else len(new.raw)) - (0 if old is None else len(old.raw))
        for indexer in self._indexers.values():
            indexer.update(name, old, new)

    # Lists.

    def mark(self) -> int:
        """Note that a list is requested now. Its result beats the own writes answered before, see `replace`."""
        self._mark += 1
        return self._mark

    def delivered_as(self, name: Name) -> Object | None:
        """One object as the watch has delivered it."""
        overlay = self._overlays.get(name)
        return self._objects.get(name) if overlay is None else overlay.base

    def delivered_names(self) -> set[Name]:
        """The names of all objects as the watch has delivered them."""
        names = set(self._objects)
        for name in self._overlays.names():
            overlay = self._overlays.get(name)
            if overlay is not None and overlay.base is not None:
                names.add(name)
            else:
                names.discard(name)
        return names

    def fresh_indexers(self) -> dict[str, Indexer]:
        """Empty indexers with the functions of those that there are."""
        return {name: indexer.fresh() for name, indexer in self._indexers.items()}

    def missed(self, obj: Object, version: str) -> Delta:
        """Note that a list of this version shows an object to be gone; gives the delta that says so."""
        self._bury(obj, version)
        return Delta(DELETED, obj, obj, False, "DELETED", final_state_unknown=True)

    def echoed(self, obj: Object) -> tuple[bool, str | None]:
        """Whether this version of an object is an echo to all, and its author if it has one; asked once, when it is delivered."""
        if obj.resource_version not in self._echoes:
            return False, None
        author, _ = self._echoes.pop(obj.resource_version)
        return author is None, author

    def swap(self, objects: dict[Name, Object], indexers: dict[str, Indexer], listed: "Listed") -> list[Delta]:
        """Put a complete list in the place of everything, at once. Overlays that it does not beat stay on top.

        `indexers` are filled with the list's objects; those that are missing (added meanwhile) are filled here. Gives the deletions
        of what own writes had made, and readers had seen, before any watch or list could tell of it.
        """
        order = version_order(listed.version)
        if order is None or self._order is None or order < self._order:
            # The server went back in time: what was deleted may be alive.
            self._buried.clear()
            self._deleted.clear()
        self._order = self._floor = order
        kept = {name: overlay for name in self._overlays.names() if (overlay := self._outlives(name, listed))}
        unheard = self._unpaid(objects, listed)
        for name in self._overlays.names():
            overlay = self._overlays.pop(name)
            if overlay and overlay.base is None and overlay.written and not (name in objects or name in kept):
                unheard.append(overlay.written)
        for index, old in self._indexers.items():
            if index not in indexers:
                indexers[index] = old.fresh()
                indexers[index].add(objects.items())
        self._objects, self._indexers = objects, indexers
        self.nbytes, self.resource_version = listed.nbytes, listed.version
        for name, overlay in kept.items():
            overlay.base = objects.get(name)
            self._cover(name, overlay)
        for uid, (name, mark) in list(self._deleted.items()):
            there = self._objects.get(name)
            if listed.consistent and mark < listed.mark:
                del self._deleted[uid]
            elif there is not None and there.uid == uid:
                self._hide(name, uid, mark)
        for version, (_, mark) in list(self._echoes.items()):
            # No watch brings it any more; what bears its version after a restore of the server is another write.
            if listed.consistent and mark < listed.mark:
                del self._echoes[version]
        for obj in unheard:
            self._bury(obj, listed.version)
        return [Delta(DELETED, obj, None, False, "DELETED", final_state_unknown=True) for obj in unheard]

    def _unpaid(self, objects: dict[Name, Object], listed: "Listed") -> list[Object]:
        """What own writes had made, could not be shown, and is not in a list that was requested after that."""
        gone = []
        for name, (obj, mark) in list(self._owed.items()):
            is_gone = listed.consistent and mark < listed.mark and name not in objects
            if is_gone:
                gone.append(obj)
            if is_gone or name in objects:
                del self._owed[name]
        return gone

    def _outlives(self, name: Name, listed: "Listed") -> Overlay | None:
        overlay = self._overlays.get(name)
        if overlay is None or self._order is None or (listed.consistent and overlay.mark < listed.mark):
            return None
        end = overlay.floor if overlay.order is None else overlay.order
        return None if end is None or end <= self._order else overlay


class Listed:
    """What is known about a complete list."""

    __slots__ = ("consistent", "mark", "nbytes", "version")

    def __init__(self, mark: int, *, consistent: bool) -> None:
        self.mark = mark
        self.consistent = consistent
        self.version = ""
        self.nbytes = 0
