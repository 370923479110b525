"""The HTTP library lives here and nowhere else: connections are pooled, requests sent, answers read or streamed.

Nothing here knows of Kubernetes, retries or errors by reason: an answer of any status is an answer. The absence of one
is a RequestError that says whether the request can have reached the server.
"""

import asyncio
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from ssl import SSLContext
from typing import Any, Literal, NoReturn, TypedDict
from weakref import WeakSet

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from ...runtime.texts import redacted
from ..config.access import Access, Authentication
from ..config.tls import Contexts
from ..errors import AccessError, AnswerTooLarge, RequestError, StreamStalled
from ..metrics import ClientMetrics
from ..settings import ClientSettings
from .http1 import LARGEST_REFUSAL, READ_BUFFER, Route, completed, drop, read_body
from .outage import Outage

Channel = Literal["request", "watch", "renewal"]
"""Connections of their own: a flood of requests must delay neither a watch nor the renewal of a lease."""

KEEPALIVE = 30.0
"""How long an idle connection is kept: shorter than servers (90 s) and load balancers (60 s) keep it."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 10

_NO_LIMIT = nullcontext()

# The library says "Session is closed" and "Connection closed" by RuntimeError.
_FAILURES = (aiohttp.ClientError, OSError, RuntimeError)


class Request(msgspec.Struct):
    """One HTTP exchange. `path` is relative to the server and may have a query. It is not changed once it is under way."""

    # Not what it holds: credentials, or a secret, may be among it.
    __repr__ = object.__repr__

    method: str
    path: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = None
    """For the whole exchange; for a stream, until its headers are there."""
    connect_timeout: float | None = None
    channel: Channel = "request"
    check: Callable[[], None] | None = None
    """Called last before the first byte leaves; what it raises ends the exchange. Not with a ready session of somebody else's."""


class Answer(msgspec.Struct):
    """What came back: any status."""

    # Not what it holds: credentials, or a secret, may be among it.
    __repr__ = object.__repr__

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream:
    """The body of an answer, chunk by chunk as the network gives it."""

    def __init__(self, response: aiohttp.ClientResponse, what: str, metrics: ClientMetrics) -> None:
        self._response = response
        self._content = response.content
        self._what = what
        self._metrics = metrics
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.cut = False
        """Whether the stream ended without the server's end mark: the last line may be incomplete."""
        self._time = asyncio.get_running_loop().time
        self.heard = self._time()
        """When something has last come, in the loop's time."""

    def cut_off(self) -> None:
        """End it as a connection that breaks does."""
        self._response.close()

    async def read(self, idle_timeout: float | None) -> bytes:
        """The rest, as far as it is read of a refusal. Raises as `chunk` does."""
        chunks, size = [], 0
        while size <= LARGEST_REFUSAL and (chunk := await self.chunk(idle_timeout)):
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)

    async def chunk(self, idle_timeout: float | None) -> bytes:
        """Everything that has arrived, waiting for some; empty at the end, clean or cut.

        Raises StreamStalled when nothing arrives for `idle_timeout` seconds.
        """
        try:
            if idle_timeout is None:
                chunk = await self._content.readany()
            else:
                async with asyncio.timeout(idle_timeout):
                    chunk = await self._content.readany()
        except TimeoutError as error:
            raise StreamStalled(
                f"The stream of {self._what} was silent for {idle_timeout:g} s, which is its limit."
            ) from error
        except _FAILURES:
            self.cut = True
            return b""
        self.heard = self._time()
        self._metrics.bytes_received += len(chunk)
        return chunk


class _Security(TypedDict, total=False):
    """What the library takes for each request."""

    proxy: str | None
    ssl: SSLContext
    server_hostname: str | None


class _Sent:
    """Whether the bytes of a request may have left; set when it has its connection, and writes the first one next."""

    __slots__ = ("_transport", "check", "maybe")

    def __init__(self, check: Callable[[], None] | None = None) -> None:
        self.maybe = False
        self.check = check
        self._transport: asyncio.Transport | None = None

    def over(self, transport: asyncio.Transport | None) -> None:
        """The request is about to be sent over this connection."""
        self.maybe = True
        self._transport = transport

    def hang_up(self) -> None:
        """Take down the connection if it has been closed: under TLS it would stay for 30 s where the server does not take leave too."""
        if self._transport is not None and self._transport.is_closing():
            self._transport.abort()


_under_way: ContextVar[_Sent | None] = ContextVar("request", default=None)
"""The request that this task has begun last."""


class _Connector(aiohttp.TCPConnector):
    """Gives connections to the requests of this module, and notes that. (Traces of the library would tell it too, for four times the price.)

    What the server has said without being asked, over a connection that was idle, is the answer to no request.
    """

    def __init__(self, outage: Outage, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._outage = outage
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def _create_connection(self, *args: Any, **kwargs: Any) -> ResponseHandler:
        # The system repeats what gets no answer ever more rarely, at last once a minute: it is begun anew when an outage is over.
        async with asyncio.timeout(None) as dial:
            stop = self._outage.interrupt(dial)
            try:
                return await super()._create_connection(*args, **kwargs)
            finally:
                stop()

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        connection = await super().connect(*args, **kwargs)
        while (protocol := connection.protocol) is not None and protocol.should_close and protocol in self._used:
            drop(connection)
            connection = await super().connect(*args, **kwargs)
        if protocol is not None:
            self._used.add(protocol)
        sent = _under_way.get()
        if sent is not None:
            try:
                if sent.check is not None:
                    sent.check()
            except BaseException:
                connection.release()
                raise
            sent.over(connection.transport)
        return connection


class Transport:
    """The connections of one client. Belongs to the loop on which it is first used; `close` it there."""

    def __init__(self, settings: ClientSettings, metrics: ClientMetrics, outage: Outage) -> None:
        self._settings = settings
        self._outage = outage
        self._metrics = metrics
        self._contexts = Contexts(settings.credentials_period)
        # Requests wait here and not for the library's connections, which would tell of each step, and search twice in the end.
        self._turns = asyncio.Semaphore(settings.connections) if settings.connections else _NO_LIMIT
        self._largest = sys.maxsize if settings.largest_answer is None else settings.largest_answer
        self._sessions: dict[Channel, aiohttp.ClientSession] = {}
        self._routes: dict[Channel, Route] = {}
        self._closed = False

    async def close(self) -> None:
        """Close all connections; streams that are still open end."""
        self._closed = True
        self._routes.clear()
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()

    def look_again(self) -> None:
        """Certificates that come from files are looked at again at the next request, whenever that was done last."""
        self._contexts.look_again()

    async def send(self, request: Request, access: Access, grant: Authentication) -> Answer:
        """One exchange. Raises RequestError when no complete answer came, AccessError when none can be asked for."""
        sent = _Sent(request.check)
        time = asyncio.get_running_loop().time
        began = time()
        try:
            # A session of somebody else's has limits of its own.
            turns = self._turns if request.channel == "request" and access.session is None else _NO_LIMIT
            async with asyncio.timeout(request.timeout) as limit, turns:
                # A read that the server has swallowed does no harm when it is begun anew; what is a renewal has its own deadline.
                is_read = request.method == "GET" and request.channel != "renewal"
                stop = self._outage.interrupt(limit) if is_read else None
                try:
                    answer = await self._exchange(request, access, grant, sent)
                finally:
                    if stop is not None:
                        stop()
        except BaseException as error:
            sent.hang_up()
            if isinstance(error, AnswerTooLarge):
                self._metrics.count(None, request.method, _parsed(access.server).authority, time() - began)
                raise AnswerTooLarge(f"{request.method} {access.shown}{request.path}: {error}") from None
            if not isinstance(error, _FAILURES):
                raise
            self._metrics.count(None, request.method, _parsed(access.server).authority, time() - began)
            self._fail(error, request, access, sent)
        self._metrics.count(answer.status, request.method, _parsed(access.server).authority, time() - began)
        self._metrics.bytes_received += len(answer.body)
        return answer

    @asynccontextmanager
    async def open(self, request: Request, access: Access, grant: Authentication) -> AsyncIterator[Stream]:
        """Open a stream; its connection is closed with the context. Raises as `send`, but never for a cut stream."""
        sent = _Sent()
        what = f"{request.method} {access.shown}{request.path}"
        time = asyncio.get_running_loop().time
        began = time()
        response: aiohttp.ClientResponse | None = None
        try:
            try:
                async with asyncio.timeout(request.timeout) as limit:
                    stop = self._outage.interrupt(limit)
                    try:
                        response = await self._begin(request, access, grant, sent)
                    finally:
                        stop()
            except _FAILURES as error:
                self._metrics.count(None, request.method, _parsed(access.server).authority, time() - began)
                self._fail(error, request, access, sent)
            self._metrics.count(response.status, request.method, _parsed(access.server).authority, time() - began)
            stream = Stream(response, what, self._metrics)
            self._outage.streams.add(stream)
            try:
                yield stream
            finally:
                self._outage.streams.discard(stream)
        finally:
            if response is not None:
                response.close()
            sent.hang_up()

    async def _exchange(self, request: Request, access: Access, grant: Authentication, sent: _Sent) -> Answer:
        route = self._route(request, access, grant)
        if route is not None:
            _under_way.set(sent)
            headers = (*request.headers.items(), *grant.headers)
            status, told, body = await route.exchange(
                request.method, request.path, headers, request.body, _limited(request.connect_timeout)
            )
            # The library follows a read that is sent elsewhere.
            if request.method != "GET" or status not in REDIRECTS:
                return Answer(status, told, body)
        response = await self._begin(request, access, grant, sent)
        # At the end, or when it fails, the library gives the connection back by itself.
        try:
            body, is_whole = await read_body(response.content, response.status, response.headers, self._largest)
        except AnswerTooLarge:
            response.close()
            raise
        if not is_whole:
            response.close()
        return Answer(response.status, response.headers, body)

    def _route(self, request: Request, access: Access, grant: Authentication) -> Route | None:
        """The short way for a request, if it can take one."""
        if access.session is not None or access.proxy is not None or access.trust_env or self._settings.trust_env:
            return None
        context = self._context(access, grant) if _parsed(access.server).scheme == "https" else None
        route = self._routes.get(request.channel)
        if route is None or not route.leads(access, context):
            connector = self._session(request.channel).connector
            assert connector is not None  # the session is open
            route = self._routes[request.channel] = Route(
                access, context, connector, self._usual(access), self._largest
            )
        return route if route.takes(request.method, request.path) else None

    def _usual(self, access: Access) -> dict[str, str]:
        """The headers of every request that has none of its own by these names."""
        usual = {"User-Agent": self._settings.user_agent}
        if not access.compression:
            usual["Accept-Encoding"] = "identity"
        return usual

    async def _begin(
        self, request: Request, access: Access, grant: Authentication, sent: _Sent
    ) -> aiohttp.ClientResponse:
        """The answer, as far as its headers; a read is sent on as often as the server says, but to no other origin."""
        url = URL(access.server + request.path, encoded=True)
        for _ in range(MAX_REDIRECTS):
            response = await self._begin_at(url, request, access, grant, sent)
            onward = _onward(url, request, response)
            if onward is None:
                return response
            response.release()
            url = onward
        raise aiohttp.TooManyRedirects(response.request_info, ())

    def _begin_at(
        self, url: URL, request: Request, access: Access, grant: Authentication, sent: _Sent
    ) -> Awaitable[aiohttp.ClientResponse]:
        session = access.session or self._session(request.channel)
        _under_way.set(sent)
        # The library resends PUT and DELETE by itself when a kept-alive connection breaks; whether a write may be
        # repeated is decided above this module.
        session._retry_connection = False
        headers = completed(self._usual(access), (*request.headers.items(), *grant.headers))
        security: _Security = {} if access.session is not None else self._security(url, access, grant)
        return session.request(
            request.method,
            url,
            headers=headers,
            data=request.body,
            # A write must not be replayed elsewhere, nor what we are let in with be shown to others.
            allow_redirects=False,
            timeout=_limited(request.connect_timeout),
            **security,
        )

    def _security(self, url: URL, access: Access, grant: Authentication) -> _Security:
        proxy = access.proxy
        if proxy is None and (access.trust_env or self._settings.trust_env):
            proxy = _environment_proxy(url)
        if proxy is not None and URL(proxy).scheme not in {"http", "https"}:
            raise AccessError(
                f"The proxy {redacted(proxy)} of {access.origin} is not supported: expected http://HOST[:PORT]."
            )
        if url.scheme != "https":
            return {"proxy": proxy}
        return {"proxy": proxy, "ssl": self._context(access, grant), "server_hostname": access.tls.server_name}

    def _context(self, access: Access, grant: Authentication) -> SSLContext:
        return self._contexts.get(access, grant, asyncio.get_running_loop().time())

    def _session(self, channel: Channel) -> aiohttp.ClientSession:
        if self._closed:
            raise AccessError("This client is closed; make a new one.")
        session = self._sessions.get(channel)
        if session is None:
            session = self._sessions[channel] = aiohttp.ClientSession(
                connector=_Connector(self._outage, limit=0, keepalive_timeout=KEEPALIVE),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER,
            )
        return session

    def _fail(self, error: Exception, request: Request, access: Access, sent: _Sent) -> NoReturn:
        what = f"{request.method} {access.shown}{request.path}"
        host = _parsed(access.server).authority
        maybe = sent.maybe or (access.session is not None and not isinstance(error, aiohttp.ClientConnectorError))
        if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)):
            reason = getattr(error, "certificate_error", None) or _plainly(error)
            is_plain = "WRONG_VERSION_NUMBER" in str(reason)
            raise RequestError(
                f"{what}: no trusted connection to {host} ({access.origin}): "
                + (
                    "no TLS is spoken there. Check the port of the server, or whether its address should begin with http://."
                    if is_plain
                    else f"{reason}. Check the certificate authority, the client certificate and the server's name in that configuration."
                ),
                retriable=not isinstance(error, aiohttp.ClientConnectorCertificateError),
            ) from _shown(error)
        if not maybe:
            found = "it took too long" if isinstance(error, TimeoutError) else _plainly(error)
            raise RequestError(
                f"{what}: no connection to {host} ({access.origin}): {found}. Is the server running and reachable there?"
            ) from _shown(error)
        if isinstance(error, aiohttp.TooManyRedirects):
            raise RequestError(
                f"{what}: the server sends the request on in circles. Check its address in {access.origin}.", sent=True
            ) from _shown(error)
        self._metrics.lost_answers += 1
        raise RequestError(f"{what}: the answer was lost: {_lost(error)}.", sent=True) from _shown(error)


@lru_cache(maxsize=16)
def _limited(connect: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(sock_connect=connect)


@lru_cache(maxsize=16)
def _parsed(server: str) -> URL:
    """The URL of a server, without its login."""
    return URL(server).with_user(None)


def _onward(url: URL, request: Request, response: aiohttp.ClientResponse) -> URL | None:
    """Where an answer sends a read on to, on the same origin."""
    where = response.headers.get("Location")
    if request.method != "GET" or response.status not in REDIRECTS or not where:
        return None
    try:
        onward = url.join(URL(where))
        return onward if onward.origin() == url.origin() else None
    except ValueError:
        return None


def _environment_proxy(url: URL) -> str | None:
    if urllib.request.proxy_bypass(url.host or ""):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _lost(error: Exception) -> str:
    """What became of an answer, in one line."""
    if isinstance(error, TimeoutError):
        return "none came in time"
    if isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str):
        # It is the half of the headers that has come.
        return "Server disconnected"
    return redacted(" ".join(str(error).split())) or type(error).__name__


def _plainly(error: Exception) -> str:
    """What the system said, without the library's own words about it."""
    return getattr(error, "strerror", None) or redacted(str(error))


def _shown(error: Exception) -> Exception | None:
    """The error as a cause, unless there is a login in what a traceback would show of it."""
    text = f"{error} {error!r}"
    return error if redacted(text) == text else None
