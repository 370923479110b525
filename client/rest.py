"""The verbs of the API, over one client."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, Self

import msgspec

from .config.access import Access, AccessSource, GivenAccess
from .deep_json import outline
from .errors import APIError, Expired, NotFound, RequestError, StreamBroken, is_outcome_unknown
from .fence import Crossing, Fence
from .lists import ListOptions, ListPage, decode_page
from .metrics import ClientMetrics
from .objects import Object
from .resources import Resource
from .selectors import FieldRequirement
from .settings import ClientSettings
from .watch import WatchOptions, WatchStream
from .wire.request import JSON, PatchKind, Request, accepting, encode, is_create_repeatable, query
from .wire.sender import Sender

__all__ = ["Client", "ListOptions", "ListPage", "PatchKind", "WatchOptions"]

Channel = Literal["request", "renewal"]
"""The connections to use: `renewal` keeps a lease alive, see `wire.request.Channel`."""

_ALL = ListOptions()
_JSON_BODY = {"Content-Type": JSON}


class Client:
    """Requests to one API server.

    Objects come back as `Object`; bodies are mappings. Every verb raises APIError by reason when the server refuses,
    RequestError when no answer came after the retries of `ClientSettings`, LostAnswer when a write that must not be
    repeated may have been applied, AccessError without usable credentials, and ValueError, before anything is sent, for names
    that cannot be parts of a URL (see `Resource.get_url`). Repeated after a lost answer are: reads,
    merge, strategic and apply patches, deletions with a uid, and creations whose name is given or that store nothing; not
    repeated: JSON patches, replacements, deletions without a uid, creations with `generateName`.

    With a fence every write is limited in time to what the fence leaves, retries included, and refused with NotLeading after that.
    Not fenced: reads, dry runs, questions about rights, and what goes by the `renewal` channel.

    A client belongs to the loop on which it is first used; another loop or thread makes its own from the same access.
    """

    fence: Fence | None
    """Limits writes to a lease; may be set and removed at any time, for writes that begin afterwards."""

    def __init__(
        self,
        access: Access | AccessSource,
        settings: ClientSettings = ClientSettings(),  # noqa: B008 - frozen
        *,
        fence: Fence | None = None,
    ) -> None:
        self._source = GivenAccess(access) if isinstance(access, Access) else access
        self.settings = settings
        self.fence = fence
        self.metrics = ClientMetrics()
        self._sender = Sender(self._source, settings, self.metrics)
        self.default_namespace = access.default_namespace if isinstance(access, Access) else None
        """The namespace that the access names, if any; with an AccessSource, that of the last `access()`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Requests and watches in flight end with errors; later ones raise AccessError."""
        await self._sender.close()

    async def room(self, seconds: float) -> None:
        """Wait, at most so many seconds, while more requests are in flight than keep the connections busy (four for each)."""
        await self._sender.in_flight.room(seconds)

    def when_back(
        self, error: BaseException, callback: Callable[[], None], trial: str | None = None
    ) -> Callable[[], None]:
        """Call back once when the outage that this error belongs to is over: the server answers, and accepts the credentials.

        An error that concerns one request only, such as a refusal, belongs to none, and nothing is called. While somebody waits so,
        `GET /readyz` is asked once in one to two seconds, for all of them together; the calls are spread over a second, by chance. A
        server that is seen to answer from the first question on was not away, and nothing is called either. Call what is
        given back to wait no longer. `trial` is the path of a cheap read that fails as long as the request does: while two of these or
        more fail with 5xx of a server that says it is ready, one of them is asked as often, and its success counts as the return.
        """
        return self._sender.outage.when_over(error, callback, trial)

    async def sleep(self, seconds: float, error: BaseException | None) -> None:
        """Sleep so long after an error, or until `when_back` would request."""
        await self._sender.outage.sleep(seconds, error)

    async def access(self) -> Access:
        """The access in use now."""
        access = await self._source.access()
        self.default_namespace = access.default_namespace
        return access

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        options: ListOptions = _ALL,
        *,
        retry: bool = True,
        channel: Channel = "request",
    ) -> ListPage:
        """One page: everything unless `options.limit` is set. The items are not decoded."""
        path = query(resource.get_url(namespace=namespace), options.params())
        request = Request("GET", path, headers=accepting(options.accept), retry=retry, channel=channel)
        page = decode_page(await self._sender.send(request), f"GET {path}")
        if page.continue_token is not None and page.continue_token == options.continue_token:
            raise StreamBroken(f"GET {path}: the page is to be followed by itself, so that the list would never end.")
        return page

    async def list(
        self, resource: Resource, namespace: str | None = None, options: ListOptions = _ALL, *, retry: bool = True
    ) -> list[Object]:
        """All objects, in pages of `ClientSettings.page_size` unless `options.limit` says otherwise.

        Pages are of one consistent state; when it expires between two pages, everything is read again in one piece.
        """
        options = replace(options, limit=options.limit or self.settings.page_size)
        page = await self.list_page(resource, namespace, options, retry=retry)
        items = page.items
        while page.continue_token:
            # The version is part of the token, and the server refuses both together.
            following = replace(
                options, continue_token=page.continue_token, resource_version=None, resource_version_match=None
            )
            try:
                page = await self.list_page(resource, namespace, following, retry=retry)
            except Expired:
                page = await self.list_page(resource, namespace, replace(options, limit=None), retry=retry)
                items = []
            items += page.items
        return items

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, channel: Channel = "request"
    ) -> Object:
        """One object, as the server has it now. Raises NotFound."""
        path = resource.get_object_url(namespace=namespace, name=name)
        return _object(await self._sender.send(Request("GET", path, channel=channel)), path)

    async def find(
        self, resource: Resource, name: str, namespace: str | None = None, *, retry: bool = True
    ) -> Object | None:
        """One object, as the server has it now, or None; asked for by a list, so that the right to `get` is not needed.

        Proxies and aggregated servers may not know field selectors: of what they list, only the object of this name and
        namespace counts.
        """
        resource.get_object_url(namespace=namespace, name=name)  # refuses a name that no object can have
        only = ListOptions(field_selector=str(FieldRequirement("metadata.name", name)))
        for obj in await self.list(resource, namespace, only, retry=retry):
            if (obj.namespace, obj.name) == (namespace, name):
                return obj
        return None

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        retry: bool = True,
        channel: Channel = "request",
    ) -> Object:
        """Create an object; the body's namespace counts when none is given. Raises AlreadyExists, Invalid.

        AlreadyExists with `after_lost_answer` may be our own success: its answer was lost, and the repetition refused.
        """
        # In a body an empty namespace is none.
        space = namespace if namespace is not None else (body.get("metadata") or {}).get("namespace") or None
        if resource.namespaced and space is None:
            raise ValueError(
                f"An object of {resource!r} is created in a namespace: expected one, in the request or in the body's metadata; found none."
            )
        path = resource.get_url(namespace=space)
        request = Request(
            "POST", path, encode(body), _JSON_BODY, repeatable=is_create_repeatable(body), retry=retry, channel=channel
        )
        return await self._write(resource, request)

    async def replace(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        namespace: str | None,
        name: str,
        subresource: str | None = None,
        channel: Channel = "request",
    ) -> Object:
        """Put a whole object in place of the old. With a resource version in the body: Conflict when it is not the newest."""
        path = resource.get_object_url(namespace=namespace, name=name, subresource=subresource)
        request = Request("PUT", path, encode(body), _JSON_BODY, repeatable=False, channel=channel)
        return await self._write(resource, request)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool | None = None,
        channel: Channel = "request",
    ) -> Object:
        """Change parts of an object. Raises NotFound, Invalid (also for a failed `test` and for a wrong uid), Conflict."""
        path = resource.get_object_url(namespace=namespace, name=name, subresource=subresource)
        if field_manager is not None or force is not None:
            path = query(path, {"fieldManager": field_manager, "force": force})
        request = Request(
            "PATCH",
            path,
            encode(patch),
            {"Content-Type": kind.value},
            repeatable=kind is not PatchKind.JSON,
            channel=channel,
        )
        return await self._write(resource, request)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_period: int | None = None,
    ) -> Object | None:
        """Ask for an object's deletion. Returns it when it stays for its finalizers or grace period, None when it is gone.

        `uid` and `resource_version` are preconditions: Conflict when they do not hold. Raises NotFound when there is no such
        object, unless an earlier sending of this deletion lost its answer: then it is our own success.
        """
        preconditions = _given(uid=uid, resourceVersion=resource_version)
        options = _given(
            preconditions=preconditions or None, propagationPolicy=propagation, gracePeriodSeconds=grace_period
        )
        path = resource.get_object_url(namespace=namespace, name=name)
        request = Request(
            "DELETE",
            path,
            encode(options) if options else None,
            _JSON_BODY if options else {},
            repeatable=uid is not None,
        )
        try:
            body = await self._send_write(resource, request)
        except NotFound as error:
            if error.after_lost_answer:
                return None
            raise
        if _kind(body) == "Status":
            return None
        return self._written(resource, request, _object(body, path))

    async def _write(self, resource: Resource, request: Request) -> Object:
        body = await self._send_write(resource, request)
        return self._written(resource, request, _object(body, request.path))

    def _written(self, resource: Resource, request: Request, obj: Object) -> Object:
        fence = self._fence_of(request)
        if fence is not None:
            fence.wrote(resource, obj.resource_version)
        return obj

    async def _send_write(self, resource: Resource, request: Request) -> bytes:
        """Send a write through the fence; the fence is told when nobody knows whether it was applied."""
        fence = self._fence_of(request)
        if fence is None:
            return await self._sender.send(request)
        try:
            return await self._sender.send(request, Crossing(fence, f"{request.method} {request.path}"))
        except (APIError, RequestError) as error:
            if is_outcome_unknown(error) or (isinstance(error, APIError) and error.after_lost_answer):
                fence.wrote(resource, None)
            raise
        except BaseException:
            # A cancelled write may be applied all the same.
            fence.wrote(resource, None)
            raise

    def _fence_of(self, request: Request) -> Fence | None:
        if self.fence is None:
            return None
        return self.fence if request.channel != "renewal" and request.stores else None

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        options: WatchOptions = WatchOptions(),  # noqa: B008
    ) -> AsyncIterator[WatchStream]:
        """Open a watch; leaving the context closes its connection. Only a 401 is retried, with fresh credentials."""
        path = query(resource.get_url(namespace=namespace), options.params())
        headers = {**accepting(options.accept), "Accept-Encoding": "identity"}
        request = Request("GET", path, headers=headers, retry=False, channel="watch")
        async with self._sender.open(request) as stream:
            yield WatchStream(stream, path, options.idle_timeout, self.settings.largest_event)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int | bool | None] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        retry: bool = True,
        repeatable: bool | None = None,
        channel: Channel = "request",
    ) -> bytes:
        """Any other request. `path` starts at the server's root; `body` is JSON unless it is bytes.

        Only GET is `repeatable` after a lost answer unless said otherwise. `timeout` is for one attempt, in seconds.
        """
        data = body if body is None or isinstance(body, bytes) else encode(body)
        request = Request(
            method,
            query(path, params or {}),
            data,
            {**(_JSON_BODY if data is not None else {}), **(headers or {})},
            repeatable=method in {"GET", "HEAD"} if repeatable is None else repeatable,
            timeout=timeout,
            retry=retry,
            channel=channel,
        )
        fence = self._fence_of(request)
        return await self._sender.send(request, None if fence is None else Crossing(fence, f"{method} {path}"))


class _Kind(msgspec.Struct):
    kind: str = ""


_decode_kind = msgspec.json.Decoder(_Kind).decode


def _kind(body: bytes) -> str:
    try:
        try:
            return _decode_kind(body).kind
        except RecursionError:
            return _decode_kind(outline(body)[0]).kind
    except (msgspec.MsgspecError, RecursionError):
        return ""


def _object(body: bytes, path: str) -> Object:
    try:
        return Object.from_raw(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StreamBroken(f"{path}: expected an object, found {body[:80]!r} ({error}).") from error


def _given(**options: object) -> dict[str, object]:
    return {key: value for key, value in options.items() if value is not None}
