"""The copy of a resource as everyone may see it: objects by name, and by index."""

from collections.abc import Iterator

from ..client.objects import Object
from ..client.resources import Key
from .indexers import Indexer, IndexFunction
from .overlays import Name


class Reader:
    """The copy as everyone may see it. Objects are immutable; nothing here changes the copy."""

    def __init__(self) -> None:
        self._objects: dict[Name, Object] = {}
        self._indexers: dict[str, Indexer] = {}
        self.resource_version = ""
        """Up to which version the watch (or a list) has been followed; bookmarks keep it fresh. Empty before the first list."""
        self.nbytes = 0
        """The JSON of all objects, in bytes."""

    def get(self, key: Name) -> Object | None:
        """The object of this namespace and name, or None."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """Which objects there are."""
        return [Key(*name) for name in self._objects]

    def values(self) -> list[Object]:
        """All objects. The list is the caller's own; the objects are shared."""
        return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Name) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[Object]:
        return iter(self.values())

    @property
    def indexers(self) -> tuple[str, ...]:
        """The names of the indexers that there are."""
        return tuple(self._indexers)

    def by_index(self, index: str, value: str) -> list[Object]:
        """The objects that an indexer finds under a value. Raises KeyError when there is no such indexer."""
        return [self._objects[name] for name in self._indexer(index).names(value)]

    def index_values(self, index: str) -> list[str]:
        """All values that an indexer knows. Raises KeyError when there is no such indexer."""
        return self._indexer(index).values()

    def _indexer(self, index: str) -> Indexer:
        try:
            return self._indexers[index]
        except KeyError:
            known = ", ".join(self._indexers) or "none"
            raise KeyError(f"There is no indexer {index!r} here; known are: {known}. Add it first.") from None

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add a lookup, at any time; it is filled from what is there. The same function under the same name is no change.

        Raises ValueError when the name stands for another function.
        """
        if index in self._indexers:
            if self._indexers[index].function is function:
                return
            raise ValueError(f"The indexer {index!r} exists with another function; choose another name.")
        indexer = Indexer(function)
        indexer.add(self._objects.items())
        self._indexers[index] = indexer
