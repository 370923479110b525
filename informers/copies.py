"""Several copies are read as one: a resource in some namespaces, each with an informer of its own."""

from collections.abc import Iterable

from ..client.objects import Object
from .indexers import IndexFunction
from .overlays import Name
from .reader import Reader


class Copies:
    """What a lister reads from, over several copies. An object that is in more than one of them is found as often."""

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
        """All objects, copy after copy."""
        return [obj for reader in self._readers for obj in reader.values()]

    @property
    def indexers(self) -> tuple[str, ...]:
        """The names of the indexers that all copies have."""
        names = dict.fromkeys(name for reader in self._readers for name in reader.indexers)
        return tuple(name for name in names if all(name in reader.indexers for reader in self._readers))

    def by_index(self, index: str, value: str) -> list[Object]:
        """The objects that the indexers find under a value. Raises KeyError when a copy has no such indexer."""
        return [obj for reader in self._readers for obj in reader.by_index(index, value)]

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add a lookup to each copy. Raises ValueError when the name stands for another function somewhere."""
        for reader in self._readers:
            reader.add_indexer(index, function)
