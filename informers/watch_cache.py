"""What the watch and the lists of one resource have told: its objects, by name and by index.

One writer, the reflector, follows the server; own writes are no part of it (see `own_writes`). Invariant: indexers and `nbytes`
follow `objects`.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from ..client.objects import Object, version_order
from .deltas import ADDED, DELETED, UPDATED, Delta
from .indexers import Indexer, IndexFunction, Name

Order = tuple[int, str]
"""What `version_order` gives."""

BURIED = 1024
"""How many deleted objects are remembered, so that a late event does not bring one back."""


class ObjectEvent(Protocol):
    """One line of a watch, as the client gives it."""

    type: str
    object: Object


class WatchCache:
    """The objects as the server has told of them."""

    def __init__(self) -> None:
        self.objects: dict[Name, Object] = {}
        self.indexers: dict[str, Indexer] = {}
        self.resource_version = ""
        """Up to which version the watch (or a list) has been followed; bookmarks keep it fresh. Empty before the first list."""
        self.order: Order | None = None
        """The same, to compare by; None: it is not decimal, or there was no list."""
        self.nbytes = 0
        """The JSON of all objects, in bytes."""
        self.requested = 0
        """How many lists were requested."""
        self.stale = 0
        """Watch events that were dropped, since they were older than what was known, or the same again."""
        self.bookmarks = 0
        """How many came, over all watches."""
        self.malformed = 0
        """Watch events that were dropped because they had no name or an unknown type."""
        # The version of the last list.
        self._floor: Order | None = None
        # What the watch or a list has shown to be gone, by uid: the version of the deletion, where it is a number.
        self._buried: OrderedDict[str, Order | None] = OrderedDict()

    # The watch.

    def apply(self, events: Iterable[ObjectEvent]) -> list[Delta]:
        """Follow the watch; gives what changed. Events that are older than what is known are dropped and counted."""
        deltas: list[Delta] = []
        append = deltas.append
        objects, plain = self.objects, not self.indexers
        version, grown = self.resource_version, 0
        for event in events:
            obj = event.object
            new = obj.resource_version
            name = (obj.namespace, obj.name)
            old = objects.get(name)
            # The usual case at once. What is decimal is newer when it is longer, or as long and later in the alphabet, and what
            # is newer than the whole cache is newer than each object of it.
            if (
                old is not None
                and plain
                and event.type == "MODIFIED"
                and old.uid == obj.uid
                and (len(new) > len(version) or (new > version and len(new) == len(version)))
            ):
                objects[name] = obj
                grown += len(obj.raw) - len(old.raw)
                append(Delta(UPDATED, obj, old, False, "MODIFIED"))
                version = new
            else:
                version = self._apply_one(event, name, version, deltas)
        self.nbytes += grown
        self.resource_version, self.order = version, version_order(version)
        return deltas

    def _apply_one(self, event: ObjectEvent, name: Name, version: str, deltas: list[Delta]) -> str:
        """Take in one event; gives the version that the cache has come to."""
        obj = event.object
        if event.type == "BOOKMARK":
            self.bookmarks += 1
        elif event.type not in {"ADDED", "MODIFIED", "DELETED"} or not obj.name:
            self.malformed += 1
            return version
        elif self._is_stale(event, self.objects.get(name)):
            self.stale += 1
        else:
            self._change(event, name, deltas)
        # Without a version an object can be shown; where to watch from is another question.
        is_newer = bool(obj.resource_version) and _is_newer(obj.resource_version, version)
        return obj.resource_version if is_newer else version

    def _change(self, event: ObjectEvent, name: Name, deltas: list[Delta]) -> None:
        obj, old = event.object, self.objects.get(name)
        known = old
        if known is not None and known.uid != obj.uid:
            # The deletion of the former one of this name was missed.
            deltas.append(self.missed(known, obj.resource_version))
            known = None
        if event.type == "DELETED":
            self._bury(obj, obj.resource_version)
            if known is not None or old is None:
                deltas.append(Delta(DELETED, obj, known, False, event.type))
        elif known is None:
            self._buried.pop(obj.uid, None)
            deltas.append(Delta(ADDED, obj, None, False, event.type))
        else:
            deltas.append(Delta(UPDATED, obj, known, False, event.type))
        self._set(name, old, None if event.type == "DELETED" else obj)

    def _set(self, name: Name, old: Object | None, new: Object | None) -> None:
        if new is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = new
        self.nbytes += (0 if new is None else len(new.raw)) - (0 if old is None else len(old.raw))
        for indexer in self.indexers.values():
            indexer.update(name, old, new)

    def _is_stale(self, event: ObjectEvent, old: Object | None) -> bool:
        obj = event.object
        if old is not None and old.uid == obj.uid:
            # A deletion is final for its uid, whatever its version.
            return event.type != "DELETED" and not _is_newer(obj.resource_version, old.resource_version)
        order = version_order(obj.resource_version)
        if order is not None and self._floor is not None and order <= self._floor:
            # The list has told of it; a watch from the list's version has no business to.
            return True
        if obj.uid and obj.uid in self._buried:
            buried = self._buried[obj.uid]
            # Only what has left a selection and come back has the uid of something deleted, and then it is newer.
            return event.type == "DELETED" or (buried is not None and order is not None and order <= buried)
        return old is not None and not _is_newer(obj.resource_version, old.resource_version)

    def _bury(self, obj: Object, version: str) -> None:
        if obj.uid:
            self._buried[obj.uid] = version_order(version)
            if len(self._buried) > BURIED:
                self._buried.popitem(last=False)

    def is_buried(self, uid: str) -> bool:
        """Whether the deletion of an object was told of."""
        return uid in self._buried

    # Indexers.

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add a lookup, at any time; it is filled from what is there."""
        indexer = Indexer(function)
        indexer.add(self.objects.items())
        self.indexers[index] = indexer

    # Lists.

    def missed(self, obj: Object, version: str, *, told: bool = True) -> Delta:
        """Note that an object was gone by this version, and nothing told of it; gives the delta that does. `told`: subscribers know the object."""
        self._bury(obj, version)
        return Delta(DELETED, obj, obj if told else None, False, "DELETED", final_state_unknown=True)

    def swap(self, objects: dict[Name, Object], indexers: dict[str, Indexer], version: str, nbytes: int) -> bool:
        """Put a complete list in the place of everything, at once; tells whether the server may have gone back in time.

        `indexers` are filled with the list's objects; those that are missing (added meanwhile) are filled here.
        """
        order = version_order(version)
        is_rewound = order is None or self.order is None or order < self.order
        if is_rewound:
            # What was deleted may be alive.
            self._buried.clear()
        self.order = self._floor = order
        for index, old in self.indexers.items():
            if index not in indexers:
                indexers[index] = old.fresh()
                indexers[index].add(objects.items())
        self.objects, self.indexers = objects, indexers
        self.nbytes, self.resource_version = nbytes, version
        return is_rewound


def _is_newer(version: str, than: str) -> bool:
    if version == than:
        return False
    ours, theirs = version_order(version), version_order(than)
    # What cannot be compared is trusted to come in order.
    return ours is None or theirs is None or ours > theirs
