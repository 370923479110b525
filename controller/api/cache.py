"""The informers of one resource, for all or for some namespaces, are read as one cache."""

from collections.abc import Iterable

from ...client.objects import Object
from ...client.resources import Key, Resource
from ...informers.indexers import IndexFunction, by_owner
from ...informers.informer import Informer
from ...informers.lister import Lister

OWNERS = "ctl/owners"
"""The index of objects by the uids of their owners."""


class ResourceCache:
    """The cache of one resource for one controller: one informer for the whole cluster, or one for each namespace."""

    def __init__(self, resource: Resource, informers: Iterable[Informer] = ()) -> None:
        self.resource = resource
        self._indexers: dict[str, IndexFunction] = {}
        self._take(informers)

    def _take(self, informers: Iterable[Informer]) -> None:
        self.informers = tuple(informers)
        self.lister = Lister.across(informer.store for informer in self.informers)
        """Reads from the informers that there are now."""

    def add(self, informer: Informer) -> None:
        """Read from this informer, too."""
        for index, function in self._indexers.items():
            informer.add_indexer(index, function)
        self._take([*self.informers, informer])

    def remove(self, informer: Informer) -> None:
        """Read from this informer no longer."""
        self._take(other for other in self.informers if other is not informer)

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Index the objects, also those of informers that are added later."""
        self._indexers[index] = function
        for informer in self.informers:
            informer.add_indexer(index, function)

    def get(self, key: Key) -> Object | None:
        """One object, or None."""
        return self.lister.get(key.name, key.namespace)

    def tells_of(self, key: Key) -> bool:
        """Whether an object that is not in the cache does not exist: its namespace is watched, and no selector leaves it out."""
        return any(
            informer.namespace in {None, key.namespace}
            and informer.selection.label_selector is None
            and informer.selection.field_selector is None
            for informer in self.informers
        )

    def keys(self) -> list[Key]:
        """The keys of all objects."""
        return [key for informer in self.informers for key in informer.store.keys()]  # noqa: SIM118 - no mapping

    def owned(self, owner: Object) -> list[Object]:
        """The objects whose owner references name the uid of this object."""
        self.index_owners()
        return self.lister.by_index(OWNERS, owner.uid)

    def index_owners(self) -> None:
        """Index the objects by their owners before the first call of `owned`. (A cache without indexes takes in changes faster.)"""
        if OWNERS not in self._indexers:
            self.add_indexer(OWNERS, by_owner)
