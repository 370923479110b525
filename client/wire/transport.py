"""Connections of one client: requests are sent over them, responses read or streamed.

This module knows nothing of Kubernetes, retries or errors by reason: a response of any status is a response. Without one it raises
RequestError, which says whether the request can have reached the server.

Plain exchanges go by `http1`. Everything else (proxies, redirects of reads, a session of the user's, streams) goes by aiohttp's sessions, and
so do all requests where `http1` does not know the version of aiohttp.
"""

import asyncio
import io
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import lru_cache
from ssl import SSLContext
from typing import Any, NoReturn, TypedDict

import aiohttp
from yarl import URL

from ...runtime.texts import redacted
from ..config.access import Access, Authentication
from ..config.tls import Contexts
from ..errors import AccessError, AnswerTooLarge, RequestError, StreamStalled
from ..metrics import ClientMetrics
from ..settings import ClientSettings
from . import http1
from .http1 import LARGEST_REFUSAL, READ_BUFFER, Connector, Route, Sending, completed, read_body
from .outage import Outage
from .request import Channel, Request, Response

KEEPALIVE = 30.0
"""How long an idle connection is kept: shorter than servers (90 s) and load balancers (60 s) keep it."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 10

_LONG = 2**20

_NO_LIMIT: nullcontext[None] = nullcontext()

# The library says "Session is closed" and "Connection closed" by RuntimeError.
_FAILURES = (aiohttp.ClientError, OSError, RuntimeError)


class Stream:
    """The body of a response, chunk by chunk as the network gives it."""

    def __init__(self, response: aiohttp.ClientResponse, what: str, metrics: ClientMetrics) -> None:
        self._response = response
        self._content = response.content
        self._what = what
        self._metrics = metrics
        self.status = response.status
        self.cut = False
        """Whether the stream ended without the server's end mark: the last line may be incomplete."""
        self._time = asyncio.get_running_loop().time
        self.heard = self._time()
        """When the last bytes came, in the loop's time."""

    def cut_off(self) -> None:
        """End it as a broken connection does."""
        self._response.close()

    async def whole(self, idle_timeout: float | None) -> Response:
        """The response with its body, as far as the body of a refusal is read. Raises as `chunk` does."""
        chunks, size = [], 0
        while size <= LARGEST_REFUSAL and (chunk := await self.chunk(idle_timeout)):
            chunks.append(chunk)
            size += len(chunk)
        return Response(self.status, self._response.headers, b"".join(chunks))

    async def chunk(self, idle_timeout: float | None) -> bytes:
        """Wait for bytes; returns all that have arrived, none at the end, whether clean or cut.

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
    """Arguments of the library for each request."""

    proxy: str | None
    ssl: SSLContext
    server_hostname: str | None


async def _has_connection(*_: Any) -> None:
    """Tell the request of this task that it has got its connection."""
    sent = http1.sending.get()
    if sent is not None:
        sent.begin(None)


def _tracing() -> aiohttp.TraceConfig:
    """What `http1.Connector` does, with the public means of the library: slower, and it notices no bytes that a server sends unasked."""
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(_has_connection)
    tracing.on_connection_reuseconn.append(_has_connection)
    return tracing


class _Unrepeated(aiohttp.ClientError):
    """A connection broke. The library would send the request again, had it the error itself."""

    def __init__(self, error: aiohttp.ClientError) -> None:
        super().__init__()
        self.error = error


async def _never_resend(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """What `http1.never_resend` does, with the public means of the library. Whether a request is repeated is decided above this module."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if isinstance(error, aiohttp.ClientConnectorError):
            raise  # it was not sent, and the library gives up by itself
        raise _Unrepeated(error) from error


class Transport:
    """The connections of one client. Belongs to the loop on which it is first used; `close` it there."""

    def __init__(self, settings: ClientSettings, metrics: ClientMetrics, outage: Outage) -> None:
        self._settings = settings
        self._outage = outage
        self._metrics = metrics
        self._contexts = Contexts(settings.credentials_period)
        # Requests wait here: the library would wake each of them for every connection that becomes free.
        self._turns = asyncio.Semaphore(settings.connections) if settings.connections else _NO_LIMIT
        self._largest = sys.maxsize if settings.largest_answer is None else settings.largest_answer
        self._is_fast = http1.is_used()
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
        """Look at certificate files again before the next request."""
        self._contexts.look_again()

    async def send(
        self,
        request: Request,
        access: Access,
        authentication: Authentication,
        check: Callable[[], None] | None = None,
    ) -> Response:
        """One exchange; `check` is called before the first byte leaves, and its error ends the exchange.

        Raises RequestError when no complete response came, AccessError when none can be asked for.
        """
        sent = Sending(check, is_read=request.method == "GET")
        time = asyncio.get_running_loop().time
        began = time()
        try:
            # A session of the user's has limits of its own.
            turns = self._turns if request.channel == "request" and access.session is None else _NO_LIMIT
            async with asyncio.timeout(self._timeout(request)) as limit, turns:
                # A read that the server has swallowed can be sent again; a renewal has a deadline of its own.
                stop = self._outage.interrupt(limit) if sent.is_read and request.channel != "renewal" else None
                try:
                    response = await self._exchange(request, access, authentication, sent)
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
        self._metrics.count(response.status, request.method, _parsed(access.server).authority, time() - began)
        self._metrics.bytes_received += len(response.body)
        return response

    @asynccontextmanager
    async def open(self, request: Request, access: Access, grant: Authentication) -> AsyncIterator[Stream]:
        """Open a stream; its connection is closed with the context. Raises as `send`, but never for a cut stream."""
        sent = Sending(is_read=True)
        what = f"{request.method} {access.shown}{request.path}"
        time = asyncio.get_running_loop().time
        began = time()
        response: aiohttp.ClientResponse | None = None
        try:
            try:
                async with asyncio.timeout(self._timeout(request)) as limit:
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

    def _timeout(self, request: Request) -> float | None:
        return request.timeout if request.timeout is not None else self._settings.request_timeout

    def _limits(self, request: Request) -> aiohttp.ClientTimeout:
        settings = self._settings
        connect = settings.watch_connect_timeout if request.channel == "watch" else None
        if connect is None:
            connect = settings.connect_timeout
        return _limited(connect if connect is not None else self._timeout(request))

    async def _exchange(
        self, request: Request, access: Access, authentication: Authentication, sent: Sending
    ) -> Response:
        route = self._route(request, access, authentication)
        if route is not None:
            http1.sending.set(sent)
            answer = await route.exchange(request, authentication.headers, self._limits(request))
            # A read that the server redirects is sent again, by a session.
            if request.method != "GET" or answer.status not in REDIRECTS:
                return answer
        response = await self._begin(request, access, authentication, sent)
        # At the end the library gives the connection back by itself.
        try:
            body, is_whole = await read_body(response.content, response.status, response.headers, self._largest)
        except BaseException:
            response.close()
            raise
        if not is_whole:
            response.close()
        return Response(response.status, response.headers, body)

    def _route(self, request: Request, access: Access, authentication: Authentication) -> Route | None:
        """The fast path for a request; None if it cannot take one."""
        if (
            not self._is_fast
            or access.session is not None
            or access.proxy is not None
            or access.trust_env
            or self._settings.trust_env
        ):
            return None
        context = self._context(access, authentication) if _parsed(access.server).scheme == "https" else None
        route = self._routes.get(request.channel)
        if route is None or not route.fits(access, context):
            connector = self._session(request.channel).connector
            assert connector is not None  # the session is open
            route = self._routes[request.channel] = Route(
                access, context, connector, self._usual(access), self._largest
            )
        return route if route.takes(request) else None

    def _usual(self, access: Access) -> dict[str, str]:
        """The headers of each request that has none of these names itself."""
        usual = {"User-Agent": self._settings.user_agent}
        if not access.compression:
            usual["Accept-Encoding"] = "identity"
        return usual

    async def _begin(
        self, request: Request, access: Access, grant: Authentication, sent: Sending
    ) -> aiohttp.ClientResponse:
        """The response, as far as its headers. Redirects of a read are followed, but to no other origin."""
        url = URL(access.server + request.path, encoded=True)
        for _ in range(MAX_REDIRECTS):
            try:
                response = await self._begin_at(url, request, access, grant, sent)
            except _Unrepeated as error:
                raise error.error from None
            onward = _onward(url, request, response)
            if onward is None:
                return response
            response.release()
            url = onward
        raise aiohttp.TooManyRedirects(response.request_info, ())

    def _begin_at(
        self, url: URL, request: Request, access: Access, grant: Authentication, sent: Sending
    ) -> Awaitable[aiohttp.ClientResponse]:
        session = access.session or self._session(request.channel)
        http1.sending.set(sent)
        http1.never_resend(session)
        headers = completed(self._usual(access), (*request.headers.items(), *grant.headers))
        security: _Security = {} if access.session is not None else self._security(url, access, grant)
        return session.request(
            request.method,
            url,
            headers=headers,
            # The library warns of long bytes: it would send them in one piece.
            data=request.body if request.body is None or len(request.body) <= _LONG else io.BytesIO(request.body),
            # Neither a write nor credentials go to another server.
            allow_redirects=False,
            timeout=self._limits(request),
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
                connector=Connector(self._outage, limit=0, keepalive_timeout=KEEPALIVE)
                if self._is_fast
                else aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER,
                trace_configs=[] if self._is_fast else [_tracing()],
                middlewares=() if self._is_fast else (_never_resend,),
            )
        return session

    def _fail(self, error: Exception, request: Request, access: Access, sent: Sending) -> NoReturn:
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
    """The URL that a response redirects a read to, if it is of the same origin."""
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
    """Why there is no response, in one line."""
    if isinstance(error, TimeoutError):
        return "none came in time"
    if isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str):
        # It is the half of the headers that has come.
        return "Server disconnected"
    return redacted(" ".join(str(error).split())) or type(error).__name__


def _plainly(error: Exception) -> str:
    """The system's message, without the library's words around it."""
    return getattr(error, "strerror", None) or redacted(str(error))


def _shown(error: Exception) -> Exception | None:
    """The error as a cause, unless a traceback of it would show a login."""
    text = f"{error} {error!r}"
    return error if redacted(text) == text else None
