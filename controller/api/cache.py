"""The informers of one resource, for all or for some namespaces, are read as one cache."""

from collections.abc import Iterable

from ...client.objects import Object
from ...client.resources import Key, Resource
from ...informers.indexers import IndexFunction
from ...informers.informer import Informer
from ...informers.lister import Lister

OWNERS = "ctl/owners"
"""The index of objects by the uids of their owners."""


def owner_uids(obj: Object) -> list[str]:
    """The uids of an object's owners (an index function)."""
    return [reference.uid for reference in obj.metadata().owner_references or ()]


class ResourceCache:
    """One resource as a controller looks at it: an informer for the whole cluster, or one for each namespace."""

    def __init__(self, resource: Resource, informers: Iterable[Informer] = ()) -> None:
        self.resource = resource
        self._indexers: dict[str, IndexFunction] = {}
        self._take(informers)

    def _take(self, informers: Iterable[Informer]) -> None:
        self.informers = tuple(informers)
        self.lister = Lister.across(informer.store for informer in self.informers)
        """Reads of all sorts, from the informers that there are now."""

    def add(self, informer: Informer) -> None:
        """Read from this one too."""
        for index, function in self._indexers.items():
            _index(informer, index, function)
        self._take([*self.informers, informer])

    def remove(self, informer: Informer) -> None:
        """Read from this one no more."""
        self._take(other for other in self.informers if other is not informer)

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Have objects found by more than their names, also those of informers that are added later."""
        self._indexers[index] = function
        for informer in self.informers:
            _index(informer, index, function)

    def get(self, key: Key) -> Object | None:
        """One object, or None."""
        return self.lister.get(key.name, key.namespace)

    def tells_of(self, key: Key) -> bool:
        """Whether an object that is not here is not there: it would be in a namespace that is looked at, and no selector hides it."""
        return any(
            informer.namespace in {None, key.namespace}
            and informer.selection.label_selector is None
            and informer.selection.field_selector is None
            for informer in self.informers
        )

    def keys(self) -> list[Key]:
        """Which objects there are."""
        return [key for informer in self.informers for key in informer.store.keys()]  # noqa: SIM118 - no mapping

    def owned(self, owner: Object) -> list[Object]:
        """The objects that belong to an owner, by its uid."""
        self.index_owners()
        return self.lister.by_index(OWNERS, owner.uid)

    def index_owners(self) -> None:
        """Make `owned` quick from its first call on. (Caches without any index take in changes faster.)"""
        if OWNERS not in self._indexers:
            self.add_indexer(OWNERS, owner_uids)


def _index(informer: Informer, index: str, function: IndexFunction) -> None:
    # Informers are shared, and the index of owners is everybody's.
    if index != OWNERS or OWNERS not in informer.store.indexers:
        informer.add_indexer(index, function)
