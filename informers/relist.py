"""A list is collected beside the watch cache and replaces its contents at once, when it is complete: readers never see half a list.

Objects that the cache has and the list lacks were deleted while there was no watch; those deletions are found here. The comparison is done in
slices, between which the caller may let other tasks run; nothing else may change the cache meanwhile.
"""

from collections.abc import Iterable, Iterator

from ..client.objects import Object
from .deltas import ADDED, UPDATED, Delta
from .indexers import Indexer, Name
from .watch_cache import ObjectEvent, WatchCache

SLICE = 2_000
"""How many objects are compared in one slice: a few milliseconds."""


class Listing:
    """One list, from its request to its completion."""

    def __init__(self, cache: WatchCache, *, consistent: bool = True) -> None:
        """Make it when the list is requested. `consistent`: the list has all earlier writes."""
        self._cache = cache
        cache.requested += 1
        self.number = cache.requested
        """The number of the request."""
        self.consistent = consistent
        self.rewound = False
        """Whether the server may have gone back in time; known after `finish`."""
        self._version, self._nbytes = "", 0
        self._objects: dict[Name, Object] = {}
        self._changes: list[Delta] = []
        self._indexers: dict[str, Indexer] = {}
        self._unchanged: list[Object] = []
        self._first = not cache.resource_version

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, objects: Iterable[Object]) -> None:
        """Add a page."""
        own, find = self._objects, self._cache.objects.get
        if self._first:
            for obj in objects:
                own[obj.namespace, obj.name] = obj
            return
        for obj in objects:
            name = (obj.namespace, obj.name)
            old = find(name)
            # Keep one copy of unchanged objects.
            is_known = old is not None and old.resource_version == obj.resource_version and old.uid == obj.uid
            own[name] = old if old is not None and is_known else obj

    def apply(self, events: Iterable[ObjectEvent]) -> None:
        """Add events of a streamed list."""
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
        """Compare the complete list with the cache, in slices. After the last one call `finish`."""
        self._version = version
        objects = list(self._objects.items())
        indexers = self._indexers = {name: indexer.fresh() for name, indexer in self._cache.indexers.items()}
        for start in range(0, len(objects), SLICE):
            part = objects[start : start + SLICE]
            self._nbytes += sum([len(obj.raw) for _, obj in part])
            for indexer in indexers.values():
                indexer.add(part)
            if not self._first:
                self._compare(part)
            yield
        if not self._first:
            cache = self._cache
            gone = cache.objects.keys() - self._objects.keys()
            self._changes += [cache.missed(cache.objects[name], version) for name in gone]

    def _compare(self, part: Iterable[tuple[Name, Object]]) -> None:
        cache, append = self._cache, self._changes.append
        for name, obj in part:
            old = cache.objects.get(name)
            if old is obj:
                self._unchanged.append(obj)
            elif old is None:
                append(Delta(ADDED, obj, None, False, None))
            elif old.uid != obj.uid:
                append(cache.missed(old, self._version))
                append(Delta(ADDED, obj, None, False, None))
            else:
                # No echo, even where the version is an own write's: others may have written between the old one and that.
                append(Delta(UPDATED, obj, old, False, None))

    def finish(self) -> list[Delta]:
        """Replace the cache's contents; return the changes. The first list has none: subscribers receive it as their initial state."""
        self.rewound = self._cache.swap(self._objects, self._indexers, self._version, self._nbytes)
        return self._changes

    def relisted(self) -> list[Delta]:
        """The unchanged objects, as deltas, for subscribers that want them repeated."""
        return [Delta(UPDATED, obj, obj, False, None) for obj in self._unchanged]
