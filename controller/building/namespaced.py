"""A controller looks at a resource in some places, which come and go."""

from collections.abc import Callable, Collection

from ...client.resources import Key
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ..api.cache import ResourceCache
from ..kernel.source import Source


class Reach:
    """The places in which one resource is looked at: namespaces, or None for the cluster; each has an informer and a watch."""

    def __init__(
        self,
        factory: SharedInformerFactory,
        cache: ResourceCache,
        connect: Callable[[Informer], Source[Key]],
        selector: str | None = None,
    ) -> None:
        """`connect` has the changes of an informer ask for keys."""
        self._factory = factory
        self._cache = cache
        self._connect = connect
        self._selector = selector
        self._places: dict[str | None, tuple[Informer, Source[Key]]] = {}

    def extend(self, places: Collection[str | None]) -> None:
        """Look there too."""
        for place in places:
            if place not in self._places:
                informer = self._factory.informer(self._cache.resource, place, self._selector)
                self._cache.add(informer)
                self._places[place] = (informer, self._connect(informer))

    async def keep(self, places: Collection[str | None]) -> None:
        """Look nowhere else any more. Nothing is asked for because of that: of what is there nothing has changed."""
        for place in [place for place in self._places if place not in places]:
            self._cache.remove(self._places[place][0])
            await self._leave(place)

    async def close(self) -> None:
        """Look nowhere any more. The copy keeps the last state: an attempt that could not be ended must not find the world empty."""
        for place in tuple(self._places):
            await self._leave(place)

    async def _leave(self, place: str | None) -> None:
        informer, watched = self._places.pop(place)
        await watched.stop()
        await self._factory.release(informer)
