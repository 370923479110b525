"""An HTTP server for the few pages that a program shows of itself: bound to one address, started and stopped with the rest."""

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from aiohttp import web


class Query(dict[str, str]):
    """The parameters of a request, the first of each name; `getall` gives the others too."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple(pairs)
        super().__init__(reversed(self._pairs))

    def getall(self, name: str) -> list[str]:
        """All values of a name."""
        return [value for known, value in self._pairs if known == name]


@dataclass(frozen=True, slots=True)
class Request:
    """What a page is asked."""

    query: Query = field(default_factory=Query)
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page says."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Page = Callable[[Request], Awaitable[Answer]]


class AddressError(OSError):
    """It cannot be listened there; the message says where and why."""


class AddressTaken(AddressError):
    """The port is in use by somebody else; the message names the address."""


class HTTPServer:
    """Serves pages by GET and HEAD. A page that raises gives 500 with its error and takes nobody down.

    Port 0 takes a free one; `port` tells which. Pages can be added until the start.
    """

    def __init__(self, host: str = "", port: int = 8080, *, tls: ssl.SSLContext | None = None) -> None:
        self._host = host
        self.port = port
        """Where it listens; after the start, the real one."""
        self._tls = tls
        self._pages: dict[str, Page] = {}
        self._runner: web.AppRunner | None = None

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
        app = web.Application()
        for path, page in self._pages.items():
            app.router.add_get(path, _handler(page))
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
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
                f"Nobody can listen at {self._host or '*'}:{self.port}: {error.strerror or error}. Choose an address of this machine, and "
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

    async def stop(self, grace: float) -> None:
        """Listen no more; answers that are being given have `grace` seconds."""
        runner, self._runner = self._runner, None
        if runner is not None:
            try:
                async with asyncio.timeout(max(grace, 1.0)):
                    await runner.cleanup()
            except TimeoutError:
                return


def _handler(page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        try:
            answer = await page(Request(Query(request.query.items()), request.headers.get("Accept", "")))
        except Exception as error:
            answer = Answer(f"{type(error).__name__}: {error}\n".encode(), 500)
        return web.Response(body=answer.body, status=answer.status, headers={"Content-Type": answer.content_type})

    return handle
