"""The wire carries requests and watch streams between HTTP clients and the API."""

import asyncio
import contextlib
import random
import socket
import ssl
import struct
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader

from . import rendering, status
from .api import Answer, Api, Request, answer_refusal
from .faults import Faults, LoggedRequest, RequestLog
from .hosts import guard
from .patterns import Patience
from .reading import switched_on, timeout_of
from .rendering import JSON
from .rights import ADMIN
from .status import Refused
from .verbs import Call
from .watches import Feed, Hub, View

BODY_LIMIT = 3 * 1024 * 1024
HEADER_LIMIT = 1024 * 1024
# The alphabet of the server's generated names: no vowels, no look-alikes.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class WireSettings:
    """How the wire behaves. Times are seconds.

    A watch without timeoutSeconds ends after `watch_timeout` and a random part of it more.
    """

    now: Callable[[], str]
    bookmark_interval: float
    watch_timeout: float


class OpenWatch:
    """A watch stream that faults can act on."""

    def __init__(self, request: LoggedRequest, feed: Feed, transport: asyncio.Transport) -> None:
        self.request = request
        self.feed = feed
        self.silent = False
        self._transport = transport
        feed.on_overflow = self.cut

    def end(self) -> None:
        """End as a time-out would."""
        self.feed.end()

    def cut(self) -> None:
        """Close the connection in the middle."""
        self._transport.close()
        self.feed.end()

    def reset(self) -> None:
        """Close the connection with a TCP reset."""
        found = self._transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
        self.feed.end()

    def stall(self, stalled: bool) -> None:
        """Stay open and silent, or go on."""
        self.silent = stalled
        self.feed.stall(stalled)

    def fail(self, refused: Refused) -> None:
        """Send an ERROR event and end."""
        self.feed.offer(rendering.error(refused), bounded=False)
        self.feed.end()


class Listener:
    """An open port and its connections."""

    def __init__(self, runner: web.ServerRunner) -> None:
        self._runner = runner
        self.port: int = runner.addresses[0][1]

    async def close(self) -> None:
        """Listen no more and close all connections; requests that are being answered have a second to end."""
        await self._runner.cleanup()


class Wire:
    """The handler of one server's requests. All of it runs on the loop of the server."""

    def __init__(self, api: Api, hub: Hub, settings: WireSettings) -> None:
        self.faults = Faults()
        self.log = RequestLog(200_000)
        self._api = api
        self._hub = hub
        self._settings = settings
        self._guard = guard("127.0.0.1")

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> "Listener":
        """Serve on a port; 0 takes a free one. Raises OSError when the port is taken."""
        # A client that hangs up cancels its handler: an idle watch would else live on until its next line.
        self._guard = guard(host)
        server = web.Server(
            self._handle,
            request_factory=_request,
            access_log=None,
            handler_cancellation=True,
            # As on the real server: selectors may be long, and what is compressed is no JSON.
            max_line_size=HEADER_LIMIT,
            max_field_size=HEADER_LIMIT,
            auto_decompress=False,
        )
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError:
            await runner.cleanup()
            raise
        return Listener(runner)

    def call(self) -> Call:
        """What a write takes from the world now."""
        return Call(self._settings.now(), lambda: str(uuid.uuid4()), _suffix, Patience(time.perf_counter))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._guard(request.headers.get("Host", ""), request.headers.get("Origin", ""))
        except Refused as refused:
            return _response(answer_refusal(refused))
        try:
            body = await request.read() if request.can_read_body else b""
        except web.HTTPRequestEntityTooLarge:
            return _response(answer_refusal(status.too_large(f"limit is {BODY_LIMIT}")))
        entry = LoggedRequest(
            request.method,
            request.path,
            request.query,
            request.headers.get("User-Agent", ""),
            request.headers.get("Content-Type", ""),
            body,
        )
        rules = list(self.faults.take(entry))
        for rule in rules:
            if rule.delay:
                await asyncio.sleep(rule.delay)
        if any(rule.refuse for rule in rules):
            return self._hang_up(request, entry)
        found = self._answer(request, entry, next((rule.answer for rule in rules if rule.answer), None))
        if any(rule.lose for rule in rules):
            return self._hang_up(request, entry)
        if isinstance(found, Answer):
            self.log.add(replace(entry, code=found.code))
            return _response(found)
        view, feed = found
        self.log.add(replace(entry, code=200))
        return await self._stream(request, entry, view, feed)

    def _answer(
        self, request: web.BaseRequest, entry: LoggedRequest, instead: Refused | None
    ) -> Answer | tuple[View, Feed]:
        """The answer, or an opened feed. No await stands between reading the state and opening the feed."""
        asked = Request(
            entry.method,
            entry.path,
            entry.query,
            request.headers.get("Accept", ""),
            entry.content_type or JSON,
            entry.body,
            entry.user_agent,
        )
        try:
            if instead is not None:
                raise instead
            call = self.call()
            user = self._api.access.user(request.headers, call.now)
            found = self._api.answer(asked if user is ADMIN else replace(asked, user=user), call)
            return (found, self._hub.open(found, asked.query)) if isinstance(found, View) else found
        except Refused as refused:
            return answer_refusal(refused)
        except RecursionError:
            # Deeper than what was measured when the body was decoded: a schema, or many small patches.
            return answer_refusal(status.bad_request("the request is nested too deeply: exceeded max depth"))

    def _hang_up(self, request: web.BaseRequest, entry: LoggedRequest) -> web.StreamResponse:
        self.log.add(entry)
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    async def _stream(
        self, request: web.BaseRequest, entry: LoggedRequest, view: View, feed: Feed
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        transport = request.transport
        if transport is None:
            self._hub.close(feed)
            return response
        watch = OpenWatch(entry, feed, transport)
        self.faults.streams.add(watch)
        try:
            await response.prepare(request)
            await self._pump(response, watch, entry)
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
        except ConnectionError:
            # The client went away, or a fault or an overflow closed the connection.
            feed.end()
        finally:
            self.faults.streams.discard(watch)
            self._hub.close(feed)
        return response

    async def _pump(self, response: web.StreamResponse, watch: OpenWatch, entry: LoggedRequest) -> None:
        """Write lines as they come, bookmarks in between, until the feed or the time ends."""
        loop = asyncio.get_running_loop()
        bookmarks = switched_on(entry.query, "allowWatchBookmarks")
        deadline = loop.time() + self._duration(entry)
        interval = self._settings.bookmark_interval
        next_bookmark = loop.time() + interval
        while True:
            until = min(deadline, next_bookmark) if bookmarks else deadline
            chunk = await watch.feed.take(max(until - loop.time(), 0))
            if chunk is None:
                return
            if chunk:
                await response.write(chunk)
            now = loop.time()
            ending = now >= deadline
            due = self._hub.news(watch.feed) if ending else now >= next_bookmark
            if bookmarks and due and not watch.silent:
                await response.write(self._hub.bookmark(watch.feed))
                next_bookmark = now + interval
            elif now >= next_bookmark:
                next_bookmark = now + interval
            if ending:
                return

    def _duration(self, entry: LoggedRequest) -> float:
        if given := timeout_of(entry.query):
            return float(given)
        return self._settings.watch_timeout * (1 + random.random())


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: Any,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)


def _suffix() -> str:
    return "".join(random.choices(_ALPHABET, k=5))


def _response(answer: Answer) -> web.Response:
    headers = {"Content-Type": answer.content_type, "Cache-Control": "no-cache, private", **answer.headers}
    response = web.Response(status=answer.code, body=answer.body, headers=headers)
    for warning in answer.warnings:
        response.headers.add("Warning", warning)
    return response
