"""Lists and watches of the objects of one informer."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..client.errors import Expired
from ..client.lists import ListOptions, ListPage
from ..client.objects import Object
from ..client.resources import Resource
from ..client.rest import Client
from ..client.selectors import FieldSelector, LabelSelector
from ..client.watch import WatchEvent, WatchOptions
from ..client.wire.request import query


class EventStream(Protocol):
    """An open watch: batches of events until its end, as the network gives them."""

    nbytes: int
    """Bytes read so far."""

    @property
    def unfinished(self) -> int:
        """Bytes of an event that is not complete."""

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]: ...


class ListWatch(Protocol):
    """The source of the objects of one informer. Errors are those of the client."""

    async def list_page(self, options: ListOptions) -> ListPage:
        """One page; the source adds its selectors."""

    def watch(self, options: WatchOptions) -> AbstractAsyncContextManager[EventStream]:
        """Open a watch; leaving the context closes it."""

    def when_back(self, error: Exception, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the server is back, if the error concerned all of it; the returned function ends that."""


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects of a resource that an informer has; None is no restriction."""

    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    shard_selector: str | None = None

    def __str__(self) -> str:
        parts = [f"in {self.namespace}" if self.namespace is not None else ""]
        parts += [self.label_selector or "", self.field_selector or "", self.shard_selector or ""]
        return ", ".join(part for part in parts if part)


class SelectionMatcher:
    """Decides whether an object belongs to a selection, as the server would, as far as that can be known here.

    Field selectors are matched with the object's JSON, as servers do for custom resources; the defaults that a server computes for
    fields of its built-in kinds are not known, nor are shards.
    """

    def __init__(self, selection: ObjectSelection) -> None:
        """Raises `SelectorError` for selectors that are not in the API's syntax."""
        self._namespace = selection.namespace
        self._labels = LabelSelector.parse(selection.label_selector) if selection.label_selector else None
        self._fields = FieldSelector.parse(selection.field_selector) if selection.field_selector else None

    def covers(self, namespace: str | None) -> bool:
        """Whether the selection includes this namespace."""
        return self._namespace is None or self._namespace == namespace

    def matches(self, obj: Object) -> bool:
        """Whether the selection includes an object of a covered namespace."""
        if self._labels is not None and not self._labels.matches(obj.metadata().labels):
            return False
        return self._fields is None or self._fields.matches(obj.body())


class RestListWatch:
    """The objects of a resource on an API server.

    Pages are requested without the client's retries: the reflector decides when to retry. `accept` is the media type; None: plain
    JSON. Versions belong to one server: when the client uses another one (the kubeconfig has changed), a watch ends as Expired.
    """

    def __init__(
        self, client: Client, resource: Resource, selection: ObjectSelection, accept: str | None = None
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = selection.namespace
        self._selectors: dict[str, Any] = {
            "label_selector": selection.label_selector,
            "field_selector": selection.field_selector,
            "shard_selector": selection.shard_selector,
        }
        self._accept = accept
        # The server of the last list.
        self._listed: object = None

    async def _server(self) -> object:
        access = await self._client.access()
        return access.server, access.tls.ca_data, access.tls.ca_file

    async def list_page(self, options: ListOptions) -> ListPage:
        """One page."""
        if options.continue_token is None:
            self._listed = await self._server()
        options = replace(options, accept=self._accept, **self._selectors)
        return await self._client.list_page(self._resource, self._namespace, options, retry=False)

    @asynccontextmanager
    async def watch(self, options: WatchOptions) -> AsyncIterator[EventStream]:
        """Open a watch."""
        if options.send_initial_events:
            self._listed = await self._server()
        options = replace(options, accept=self._accept, **self._selectors)
        async with self._client.watch(self._resource, self._namespace, options) as stream:
            if await self._server() != self._listed:
                raise Expired(410, {"message": "the list came from another server"})
            yield stream

    def when_back(self, error: Exception, callback: Callable[[], None]) -> Callable[[], None]:
        """As `Client.when_back`; the probe is a page of one object."""
        one = ListOptions(limit=1, **self._selectors)
        trial = query(self._resource.get_url(namespace=self._namespace), one.params())
        return self._client.when_back(error, callback, trial)
