"""A factory makes one informer for each resource, namespace and selection, and shares it among all who ask."""

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..client.resources import Resource
from ..client.rest import Client
from ..client.wire.request import WITHOUT_MANAGED_FIELDS
from ..runtime.metrics import Sample
from .informer import Informer
from .listwatch import ObjectSelection, RestListWatch
from .settings import InformerSettings
from .transform import Transform, drops_managed_fields


@dataclass
class _Shared:
    informer: Informer
    users: int = 0


class SharedInformerFactory:
    """The informers of one client. Belongs to the loop on which it is first used.

    Users are counted: who asks for an informer releases it once, and the last release closes the watch and forgets the copy.
    Asking again later starts anew. `transform` is how objects are slimmed where nothing else is asked for.
    """

    def __init__(
        self,
        client: Client,
        settings: InformerSettings = InformerSettings(),  # noqa: B008 - frozen
        *,
        transform: Transform | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._transform = transform
        self._shared: dict[tuple[Resource, ObjectSelection], _Shared] = {}
        self._stopped = False

    @property
    def informers(self) -> tuple[Informer, ...]:
        """All that are in use."""
        return tuple(shared.informer for shared in self._shared.values())

    def informer(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        *,
        shard_selector: str | None = None,
        transform: Transform | None = None,
    ) -> Informer:
        """The informer of this resource, namespace and selection, started. Release it when it is no longer needed.

        Raises ValueError when it is shared already with another `transform`: there is one copy, slimmed in one way. Raises
        RuntimeError after `stop`, and outside of a running event loop.
        """
        if self._stopped:
            raise RuntimeError(f"The informer factory is stopped; {resource!r} cannot be followed any more.")
        selection = ObjectSelection(namespace, label_selector or None, field_selector or None, shard_selector or None)
        shared = self._shared.get((resource, selection))
        if shared is None:
            chosen = transform or self._transform
            accept = WITHOUT_MANAGED_FIELDS if drops_managed_fields(chosen) else None
            source = RestListWatch(self._client, resource, selection, accept)
            informer = Informer(resource, selection, source, self._settings)
            informer.set_transform(chosen)
            informer.start()
            shared = self._shared[resource, selection] = _Shared(informer)
        elif transform is not None and transform is not shared.informer.transform:
            raise ValueError(
                f"{shared.informer!r} is shared already with another transform; ask with the same one, or with a selection "
                f"of its own."
            )
        shared.users += 1
        return shared.informer

    async def release(self, informer: Informer) -> None:
        """Give an informer back. The last of its users closes its watch and its subscriptions.

        Raises ValueError when it was given back as often as it was asked for.
        """
        place = (informer.resource, informer.selection)
        shared = self._shared.get(place)
        if shared is None or shared.informer is not informer:
            if self._stopped:
                return
            raise ValueError(f"{informer!r} is not in use by this factory; it was released too often.")
        shared.users -= 1
        if not shared.users:
            del self._shared[place]
            await informer.stop()

    async def wait_for_sync(
        self, informers: Collection[Informer] | None = None, timeout: float | None = None
    ) -> dict[Informer, bool]:
        """Wait until the informers (None: all) have their first lists; gives for each whether it has. `timeout` is for all together."""
        chosen = tuple(self.informers if informers is None else informers)
        results = await asyncio.gather(*(informer.wait_synced(timeout) for informer in chosen))
        return dict(zip(chosen, results, strict=True))

    def retry_now(self) -> None:
        """What the server serves has changed: informers that are parked or backing off try again at once."""
        for informer in self.informers:
            informer.retry_now()

    async def stop(self) -> None:
        """Stop all informers, whoever uses them."""
        self._stopped = True
        informers = self.informers
        self._shared.clear()
        await asyncio.gather(*(informer.stop() for informer in informers))

    def samples(self) -> Iterator[Sample]:
        """The metrics of all informers: a source for `runtime.metrics.Metrics.add_source`."""
        for informer in self.informers:
            yield from informer.samples()
