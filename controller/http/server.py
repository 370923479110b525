"""An HTTP server for the few pages that a program shows of itself: bound to one address, started and stopped with the rest."""

import asyncio
import errno
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import web

REQUEST_PATIENCE = 10.0
"""Seconds from the opening of a connection until its first request is there, headers and all."""
ANSWER_PATIENCE = 30.0
"""Seconds from an answer until it has been read and the next request of its connection is there."""
CONNECTIONS = 128
"""How many connections there are at once. One more takes the place of the oldest that waits for its client."""


class Query(dict[str, str]):
    """The parameters of a request, the first of each name; `getall` gives the others too."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple(pairs)
        super().__init__(reversed(self._pairs))

    def getall(self, name: str) -> list[str]:
        """All values of a name."""
        return [value for known, value in self._pairs if known == name]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a page is asked."""

    query: Query = field(default_factory=Query)
    accept: str = ""
    is_local: bool = False
    """Whether the connection has both of its ends on the loopback interface of this machine (in a cluster: of this pod)."""


@dataclass(frozen=True, slots=True)
class PageResponse:
    """What a page says."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Page = Callable[[PageRequest], Awaitable[PageResponse]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AddressError(OSError):
    """It cannot be listened there; the message says where and why."""


class AddressTaken(AddressError):
    """The port is in use by somebody else; the message names the address."""


class HTTPServer:
    """Serves pages by GET and HEAD. A page that raises gives 500 with its error and takes nobody down.

    Port 0 takes a free one; `port` tells which. Pages can be added until the start. Clients that do not send their request, or do not
    read their answer, lose their connection (REQUEST_PATIENCE, ANSWER_PATIENCE), and there are CONNECTIONS at most.
    """

    def __init__(self, host: str = "", port: int = 8080, *, tls: ssl.SSLContext | None = None) -> None:
        self._host = host
        self.port = port
        """Where it listens; after the start, the real one."""
        self._tls = tls
        self._pages: dict[str, Page] = {}
        self._runner: _Runner | None = None

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return 0 if self._runner is None else len(self._runner.guards)

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return f"http server {self._host or '*'}:{self.port}"

    def add(self, path: str, page: Page) -> None:
        """Serve a page at a path. Raises ValueError when there is one already, and RuntimeError after the start."""
        if self._runner is not None:
            raise RuntimeError(f"{self.name} runs already; the page {path} comes too late.")
        if path in self._pages:
            raise ValueError(f"{self.name} has a page at {path} already.")
        self._pages[path] = page

    async def start(self) -> None:
        """Listen. Raises AddressTaken when the port is in use, and AddressError for other troubles with the address."""
        app = web.Application(middlewares=[self._timed])
        for path, page in self._pages.items():
            app.router.add_get(path, _handler(page))
        self._runner = _Runner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await self._listen(self._runner, self._host or None)
        except OSError as error:
            await self.stop(0.0)
            if error.errno in {errno.EADDRINUSE, 10048}:
                raise AddressTaken(
                    f"The port {self.port} is in use by another program; choose another one, or 0 for any."
                ) from error
            raise AddressError(
                f"This process cannot listen at {self._host or '*'}:{self.port}: {error.strerror or error}. Choose an address of this machine, and "
                "a port that this user may take."
            ) from error
        self.port = self._runner.addresses[0][1]

    async def _listen(self, runner: web.AppRunner, host: str | None) -> None:
        try:
            await web.TCPSite(runner, host, self.port, ssl_context=self._tls).start()
        except OSError as error:
            # Containers often have the protocol IPv6 and no address for it.
            if host is not None or error.errno != errno.EADDRNOTAVAIL:
                raise
            await web.TCPSite(runner, "0.0.0.0", self.port, ssl_context=self._tls).start()  # noqa: S104 (as asked for)

    @web.middleware
    async def _timed(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        guard = None if self._runner is None else self._runner.guards.get(request.protocol)
        if guard is None:
            return await handler(request)
        guard.work()
        try:
            return await handler(request)
        finally:
            guard.wait(ANSWER_PATIENCE)

    async def stop(self, grace: float) -> None:
        """Listen no more; answers that are being given have `grace` seconds."""
        runner, self._runner = self._runner, None
        if runner is not None:
            try:
                async with asyncio.timeout(max(grace, 1.0)):
                    await runner.cleanup()
            except TimeoutError:
                return


class _Runner(web.AppRunner):
    """The library's runner, with a guard before each of its connections."""

    def __init__(self, app: web.Application, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self.guards: dict[asyncio.Protocol, _Guard] = {}
        """By the library's protocol of the connection; the oldest first."""

    @property
    def server(self) -> Any:
        """What makes the protocol of a new connection."""
        return self._guarded

    def _guarded(self) -> asyncio.Protocol:
        protocols = super().server
        assert protocols is not None  # it is set up
        return _Guard(protocols(), self.guards)


class _Guard(asyncio.Protocol):
    """One connection: passes everything on, and ends it when its client takes too long or too many others come."""

    def __init__(self, inner: asyncio.Protocol, guards: "dict[asyncio.Protocol, _Guard]") -> None:
        self._inner = inner
        self._guards = guards
        self._transport: asyncio.Transport | None = None
        self._end: asyncio.TimerHandle | None = None
        # The methods that are called for each piece of data.
        self.data_received = inner.data_received  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn."""
        return self._end is not None

    def wait(self, seconds: float) -> None:
        """Wait for the client, so many seconds at most."""
        self.work()
        if self._transport is not None:
            self._end = asyncio.get_running_loop().call_later(seconds, self.abort)

    def work(self) -> None:
        """Wait for the client no longer: an answer is made."""
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def abort(self) -> None:
        """End the connection at once, with what has not been sent."""
        self.work()
        self._guards.pop(self._inner, None)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, in place of the oldest idle one where there are too many; without an idle one, close it."""
        transport = cast("asyncio.Transport", transport)  # of other loops, such as uvloop's, it is none by its class
        if len(self._guards) >= CONNECTIONS:
            oldest = next((guard for guard in self._guards.values() if guard.is_waiting), None)
            if oldest is None:
                transport.abort()
                return
            oldest.abort()
        self._transport = transport
        self._guards[self._inner] = self
        self._inner.connection_made(transport)
        self.wait(REQUEST_PATIENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self.work()
        self._guards.pop(self._inner, None)
        if self._transport is not None:
            self._transport = None
            self._inner.connection_lost(exc)


def _is_loopback(name: Any) -> bool:
    """Whether an end of a connection is at the loopback address itself, where no proxy of another machine's requests is expected."""
    try:
        address = ipaddress.ip_address(name[0])
    except (TypeError, ValueError, IndexError):
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address) in {"127.0.0.1", "::1"}


def _handler(page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        told = request.get_extra_info
        is_local = _is_loopback(told("peername")) and _is_loopback(told("sockname"))
        try:
            answer = await page(PageRequest(Query(request.query.items()), request.headers.get("Accept", ""), is_local))
        except Exception as error:
            answer = PageResponse(f"{type(error).__name__}: {error}\n".encode(), 500)
        return web.Response(body=answer.body, status=answer.status, headers={"Content-Type": answer.content_type})

    return handle
