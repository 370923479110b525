"""One resource as everyone may see it: what the watch has told, and above that the answers of own writes."""

from collections.abc import Iterable, Iterator

from ..client.objects import Object
from ..client.resources import Key
from .indexers import IndexFunction, Name
from .own_writes import OwnWrites
from .watch_cache import WatchCache


class Reader:
    """Reads by name and by index. Objects are immutable; nothing here changes them."""

    def __init__(self, cache: WatchCache, own_writes: OwnWrites) -> None:
        self._cache = cache
        self._own = own_writes

    @property
    def resource_version(self) -> str:
        """Up to which version the watch (or a list) has been followed; bookmarks keep it fresh. Empty before the first list."""
        return self._cache.resource_version

    def get(self, key: Name) -> Object | None:
        """The object of this namespace and name, or None."""
        own = self._own
        return own.see(key) if own.answers or own.deletions else self._cache.objects.get(key)

    def _objects(self) -> dict[Name, Object]:
        if not self._own:
            return self._cache.objects
        found = dict(self._cache.objects)
        for name in self._own.names():
            obj = self._own.see(name)
            if obj is None:
                found.pop(name, None)
            else:
                found[name] = obj
        return found

    @property
    def nbytes(self) -> int:
        """The JSON of all objects, in bytes."""
        cached, own = self._cache.objects, self._own.names()
        return (
            self._cache.nbytes
            + sum(len(obj.raw) for name in own if (obj := self.get(name)) is not None)
            - sum(len(cached[name].raw) for name in own if name in cached)
        )

    def keys(self) -> list[Key]:
        """Which objects there are."""
        return [Key(*name) for name in self._objects()]

    def values(self) -> list[Object]:
        """All objects. The list is the caller's own; the objects are shared."""
        return list(self._objects().values())

    def __len__(self) -> int:
        return len(self._objects())

    def __contains__(self, key: Name) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[Object]:
        return iter(self.values())

    @property
    def indexers(self) -> tuple[str, ...]:
        """The names of the indexers that there are."""
        return tuple(self._cache.indexers)

    def by_index(self, index: str, value: str) -> list[Object]:
        """The objects that an indexer finds under a value. Raises KeyError when there is no such indexer."""
        self._check(index)
        objects, cached, own = self._cache.objects, self._cache.indexers[index], self._own
        names = cached.names(value)
        if not own:
            return [objects[name] for name in names]
        answered, changed = own.indexers[index], own.names()

        def see(name: Name) -> Object | None:
            obj = own.see(name)
            indexer = cached if obj is objects.get(name) else answered
            return obj if indexer.has(value, name) else None

        found = [see(name) if name in changed else objects[name] for name in names]
        found += [see(name) for name in answered.names(value) if not cached.has(value, name)]
        return [obj for obj in found if obj is not None]

    def index_values(self, index: str) -> list[str]:
        """All values that an indexer knows. Raises KeyError when there is no such indexer."""
        self._check(index)
        values = self._cache.indexers[index].values()
        if not self._own:
            return values
        both = dict.fromkeys([*values, *self._own.indexers[index].values()])
        return [value for value in both if self.by_index(index, value)]

    def _check(self, index: str) -> None:
        if index not in self._cache.indexers:
            known = ", ".join(self.indexers) or "none"
            raise KeyError(f"There is no indexer {index!r} here; known are: {known}. Add it first.")

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add a lookup, at any time; it is filled from what is there. The same function under the same name is no change.

        Raises ValueError when the name stands for another function.
        """
        present = self._cache.indexers.get(index)
        if present is None:
            self._cache.add_indexer(index, function)
            self._own.add_indexer(index, function)
        elif present.function is not function:
            raise ValueError(f"The indexer {index!r} exists with another function; choose another name.")


class Readers:
    """Several as one, for a resource in some namespaces. An object that is in more than one of them is found as often."""

    def __init__(self, readers: Iterable[Reader]) -> None:
        self._readers = tuple(readers)

    def get(self, key: Name) -> Object | None:
        """The object of this namespace and name, or None."""
        for reader in self._readers:
            obj = reader.get(key)
            if obj is not None:
                return obj
        return None

    def values(self) -> list[Object]:
        """All objects, reader after reader."""
        return [obj for reader in self._readers for obj in reader.values()]

    @property
    def indexers(self) -> tuple[str, ...]:
        """The names of the indexers that all of them have."""
        names = dict.fromkeys(name for reader in self._readers for name in reader.indexers)
        return tuple(name for name in names if all(name in reader.indexers for reader in self._readers))

    def by_index(self, index: str, value: str) -> list[Object]:
        """The objects that the indexers find under a value. Raises KeyError when one of them has no such indexer."""
        return [obj for reader in self._readers for obj in reader.by_index(index, value)]

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add a lookup to each. Raises ValueError when the name stands for another function somewhere."""
        for reader in self._readers:
            reader.add_indexer(index, function)
