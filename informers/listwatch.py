"""What a reflector needs from the API: one page of a list, and a watch."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from ..client.errors import Expired
from ..client.lists import ListOptions, ListPage
from ..client.resources import Resource
from ..client.rest import Client
from ..client.watch import WatchEvent, WatchOptions
from ..client.wire.request import query


class EventStream(Protocol):
    """An open watch: batches of events until its end, as the network gives them."""

    nbytes: int
    """How much has been read."""

    @property
    def unfinished(self) -> int:
        """How many bytes have come of an event whose end has not."""
        ...

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]: ...


class ListWatch(Protocol):
    """Where the objects of one informer come from. Errors are those of the client."""

    async def list_page(self, options: ListOptions) -> ListPage:
        """One page. Selectors are the source's own business."""
        ...

    def watch(self, options: WatchOptions) -> AbstractAsyncContextManager[EventStream]:
        """Open a watch; leaving the context closes it."""
        ...

    def when_back(self, error: Exception, callback: Callable[[], None]) -> Callable[[], None]:
        """Have a callback called once when the server is back, if an error was everybody's; what is given back ends that."""
        ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a resource; None is no restriction."""

    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    shard_selector: str | None = None

    def __str__(self) -> str:
        parts = [f"in {self.namespace}" if self.namespace is not None else ""]
        parts += [self.label_selector or "", self.field_selector or "", self.shard_selector or ""]
        return ", ".join(part for part in parts if part)


class RestListWatch:
    """The objects of a resource, asked from an API server.

    Pages are asked without the client's own retries: when to try again is the reflector's decision. `accept` is the media type
    to ask for; None: plain JSON. Versions are one server's: when the client has come to another (a kubeconfig was written anew), a
    watch ends as Expired.
    """

    def __init__(self, client: Client, resource: Resource, selection: Selection, accept: str | None = None) -> None:
        self._client = client
        self._resource = resource
        self._selection = selection
        self._accept = accept
        # The server that the list came from.
        self._listed: object = None

    async def _server(self) -> object:
        access = await self._client.access()
        return access.server, access.tls.ca_data, access.tls.ca_file

    async def list_page(self, options: ListOptions) -> ListPage:
        """One page."""
        chosen = self._selection
        options = replace(
            options,
            label_selector=chosen.label_selector,
            field_selector=chosen.field_selector,
            shard_selector=chosen.shard_selector,
            accept=self._accept,
        )
        if options.continue_token is None:
            self._listed = await self._server()
        return await self._client.list_page(self._resource, chosen.namespace, options, retry=False)

    @asynccontextmanager
    async def watch(self, options: WatchOptions) -> AsyncIterator[EventStream]:
        """Open a watch."""
        chosen = self._selection
        options = replace(
            options,
            label_selector=chosen.label_selector,
            field_selector=chosen.field_selector,
            shard_selector=chosen.shard_selector,
            accept=self._accept,
        )
        if options.send_initial_events:
            self._listed = await self._server()
        async with self._client.watch(self._resource, chosen.namespace, options) as stream:
            if await self._server() != self._listed:
                raise Expired(410, {"message": "the server is another one than the list came from"})
            yield stream

    def when_back(self, error: Exception, callback: Callable[[], None]) -> Callable[[], None]:
        """As `Client.when_back`; a page of one object is what fails as long as all of them do."""
        chosen = self._selection
        one = ListOptions(
            limit=1,
            label_selector=chosen.label_selector,
            field_selector=chosen.field_selector,
            shard_selector=chosen.shard_selector,
        )
        trial = query(self._resource.get_url(namespace=chosen.namespace), one.params())
        return self._client.when_back(error, callback, trial)
