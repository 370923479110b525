"""The factory makes one informer for each resource, namespace and selection, and shares it between its users."""

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
    """The informers of one client. Belongs to the loop in which it is first used.

    Users are counted: each call of `informer` needs one of `release`, and the last release stops the informer. `transform` is the
    default transform.
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
        """All informers in use."""
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
        """Return the started informer of this resource, namespace and selection. Release it when it is no longer needed.

        Raises ValueError when the informer has another `transform` already. Raises RuntimeError after `stop`, and outside of a running
        event loop.
        """
        if self._stopped:
            raise RuntimeError(f"The informer factory is stopped; it has no informer for {resource!r}.")
        selection = ObjectSelection(namespace, label_selector or None, field_selector or None, shard_selector or None)
        shared = self._shared.get((resource, selection))
        if shared is None:
            chosen = transform or self._transform
            accept = WITHOUT_MANAGED_FIELDS if drops_managed_fields(chosen) else None
            source = RestListWatch(self._client, resource, selection, accept)
            informer = Informer(resource, selection, source, self._settings, transform=chosen)
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
        """Release an informer. The last release closes its watch and its subscriptions.

        Raises ValueError when it was released more often than requested.
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
        """Wait until the informers (None: all) have synced; returns for each whether it has. `timeout` is for all together."""
        chosen = tuple(self.informers if informers is None else informers)
        results = await asyncio.gather(*(informer.wait_synced(timeout) for informer in chosen))
        return dict(zip(chosen, results, strict=True))

    def retry_now(self) -> None:
        """Have parked informers, and those in back-off, retry at once: the server's resources have changed."""
        for informer in self.informers:
            informer.retry_now()

    async def stop(self) -> None:
        """Stop all informers, also those in use."""
        self._stopped = True
        informers = self.informers
        self._shared.clear()
        await asyncio.gather(*(informer.stop() for informer in informers))

    def samples(self) -> Iterator[Sample]:
        """The metrics of all informers: a source for `runtime.metrics.Metrics.add_source`."""
        for informer in self.informers:
            yield from informer.samples()
