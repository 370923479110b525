"""A list is gathered beside the copy and takes its place at once, when it is complete.

Nobody sees half a list. What the copy had and the list has not was deleted while nobody was looking: those deletions are
found here. The work is done in slices, between which the caller may let others run; the copy must have no other writer
meanwhile (own writes may be overlaid).
"""

from collections.abc import Iterable, Iterator

from ..client.objects import Object
from .deltas import ADDED, UPDATED, Delta
from .indexers import Indexer
from .overlays import Name
from .store import Event, Listed, Store

SLICE = 2_000
"""How many objects are compared in one go: a few milliseconds."""


class Listing:
    """One list, from its request to its completion."""

    def __init__(self, store: Store, *, consistent: bool = True) -> None:
        """Make it when the list is requested: own writes answered before are beaten by a consistent list, later ones are not."""
        self._store = store
        self._listed = Listed(store.mark(), consistent=consistent)
        self._objects: dict[Name, Object] = {}
        self._changes: list[Delta] = []
        self._indexers: dict[str, Indexer] = {}
        self._unchanged: list[Object] = []
        self._first = not store.resource_version

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, objects: Iterable[Object]) -> None:
        """Take in a page."""
        own, find = self._objects, self._store.delivered_as
        if self._first:
            for obj in objects:
                own[obj.namespace, obj.name] = obj
            return
        for obj in objects:
            name = (obj.namespace, obj.name)
            old = find(name)
            # What is known already is not kept twice.
            is_known = old is not None and old.resource_version == obj.resource_version and old.uid == obj.uid
            own[name] = old if old is not None and is_known else obj

    def apply(self, events: Iterable[Event]) -> None:
        """Take in events of a streamed list."""
        added: list[Object] = []
        for event in events:
            if event.type == "DELETED":
                self.add(added)
                added = []
                self._objects.pop((event.object.namespace, event.object.name), None)
            elif event.type in {"ADDED", "MODIFIED"}:
                added.append(event.object)
        self.add(added)

    def prepare(self, version: str) -> Iterator[None]:
        """Find out what a complete list changes, in slices. After the last one comes `finish`."""
        self._listed.version = version
        objects = list(self._objects.items())
        indexers = self._indexers = self._store.fresh_indexers()
        for start in range(0, len(objects), SLICE):
            part = objects[start : start + SLICE]
            self._listed.nbytes += sum([len(obj.raw) for _, obj in part])
            for indexer in indexers.values():
                indexer.add(part)
            if not self._first:
                self._compare(part)
            yield
        if not self._first:
            gone = self._store.delivered_names() - self._objects.keys()
            missed = [obj for name in gone if (obj := self._store.delivered_as(name)) is not None]
            self._changes += [self._store.missed(obj, version) for obj in missed]

    def _compare(self, part: Iterable[tuple[Name, Object]]) -> None:
        store, append = self._store, self._changes.append
        for name, obj in part:
            old = store.delivered_as(name)
            if old is obj:
                self._unchanged.append(obj)
            elif old is None:
                append(Delta(ADDED, obj, None, False, None))
            elif old.uid != obj.uid:
                append(store.missed(old, self._listed.version))
                append(Delta(ADDED, obj, None, False, None))
            else:
                # Nobody's echo, even where the version is an own write's: others may have written between the old one and that.
                store.echoed(obj)
                append(Delta(UPDATED, obj, old, False, None))

    def finish(self) -> list[Delta]:
        """Let the list take the copy's place; gives what it changed. The first list changes nothing for anyone: it is a beginning."""
        return self._changes + self._store.swap(self._objects, self._indexers, self._listed)

    def relisted(self) -> list[Delta]:
        """The listed objects that did not change, for those who want to hear of each again."""
        return [Delta(UPDATED, obj, obj, False, None) for obj in self._unchanged]
