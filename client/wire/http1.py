"""The inner parts of aiohttp, used in this module alone: connections and parsers without its sessions.

A session prepares each request as if it were the first of its kind, which takes half of the CPU of a request. aiohttp promises nothing
about these parts, so they serve with the versions that they were tested with (TESTED). With any other version `is_tested` is false,
and `transport` sends all requests by aiohttp's public session, which is slower.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache
from ssl import SSLContext
from typing import Any, Final
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from ..config.access import Access
from ..errors import AnswerTooLarge
from .outage import Outage
from .request import Request, Response

logger = logging.getLogger(__name__)

TESTED: Final = ((3, 14, 1), (3, 15))
"""The versions of aiohttp from the first up to, and without, the second. `make aiohttp` tests the lowest, `make test` the newest.

Older ones decompress more of a response than its bound before it is refused.
"""

Headers = tuple[tuple[str, str], ...]

READ_BUFFER = 2**18

LARGEST_REFUSAL = 2**20
"""How many bytes are read of a response that is no success; servers send less."""

_LONG = 2**16
"""A server may refuse a longer body before it has read it."""

_HEADS = 32
"""For how many sets of headers the text is kept; renewed credentials make new ones."""

_is_method = re.compile(r"[A-Z]+").fullmatch
_is_target = re.compile(r"/[!-\"$-~]*").fullmatch
_breaks = re.compile(r"[\r\n\0]").search


def is_tested(version: str) -> bool:
    """Whether the inner parts of this version of aiohttp were tested."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    return TESTED[0] <= numbers < TESTED[1] and re.fullmatch(r"[\d.]+", version) is not None


@cache
def is_used() -> bool:
    """Whether the inner parts serve in this process; logs once if they do not."""
    if is_tested(aiohttp.__version__):
        return True
    lowest, above = (".".join(map(str, version)) for version in TESTED)
    logger.warning(
        "Requests take more CPU with this version of aiohttp: %s; the fast path was tested with %s up to %s (excluded).",
        aiohttp.__version__,
        lowest,
        above,
    )
    return False


class Sending:
    """Whether the bytes of a request may have left: it has got its connection, and writes the first byte next."""

    __slots__ = ("_check", "_transport", "is_read", "maybe")

    def __init__(self, check: Callable[[], None] | None = None, *, is_read: bool) -> None:
        self.maybe = False
        self.is_read = is_read
        self._check = check
        self._transport: asyncio.Transport | None = None

    def begin(self, transport: asyncio.Transport | None) -> None:
        """The request is sent next, over this connection."""
        if self._check is not None:
            self._check()
        self.maybe = True
        self._transport = transport

    def hang_up(self) -> None:
        """Abort a connection that is closing: under TLS it would stay for 30 s with a server that does not close it too."""
        if self._transport is not None and self._transport.is_closing():
            self._transport.abort()


sending: Final[ContextVar[Sending | None]] = ContextVar("sending", default=None)
"""The request that this task has begun last."""


class Connector(aiohttp.TCPConnector):
    """Tells each request that it has got its connection. (The library's tracing would tell it too, for four times the price.)

    A connection on which the server has sent something unasked is not used: it would be taken for the response to the next request.
    """

    def __init__(self, outage: Outage, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._outage = outage
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def _create_connection(self, *args: Any, **kwargs: Any) -> ResponseHandler:
        # The system repeats a dial without an answer ever more rarely, at last once a minute: the end of an outage interrupts it.
        async with asyncio.timeout(None) as dial:
            stop = self._outage.interrupt(dial)
            try:
                return await super()._create_connection(*args, **kwargs)
            finally:
                stop()

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        """Get a connection for the request of this task."""
        connection = await super().connect(*args, **kwargs)
        while (protocol := connection.protocol) is not None and protocol.should_close and protocol in self._used:
            _drop(connection)
            connection = await super().connect(*args, **kwargs)
        if protocol is not None:
            self._used.add(protocol)
        sent = sending.get()
        if sent is not None:
            try:
                sent.begin(connection.transport)
            except BaseException:
                connection.release()
                raise
        return connection


def never_resend(session: aiohttp.ClientSession) -> None:
    """Keep a session from sending a request again when a kept-alive connection breaks; an untested version may not let it."""
    if hasattr(session, "_retry_connection"):
        session._retry_connection = False


def _drop(connection: Connection) -> None:
    """End a connection at once, and discard what has not been sent."""
    if connection.transport is not None:
        connection.transport.abort()
    connection.close()


async def read_body(
    content: aiohttp.StreamReader, status: int, headers: Mapping[str, str], largest: int
) -> tuple[bytes, bool]:
    """Read a body, decompressed; returns also whether it is whole, as one of a response that is no success need not be.

    It is read piece by piece: the library does not limit what a piece is decompressed to when it is asked for everything. Raises
    AnswerTooLarge for a success of more than `largest` bytes.
    """
    is_success = 200 <= status < 300
    if (
        not content.is_eof()
        and is_success
        and "Content-Encoding" not in headers
        and int(headers.get("Content-Length") or 0) > largest
    ):
        raise _too_large(largest)
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = await content.readany()
        size += len(piece)
        is_refused = not is_success and size > LARGEST_REFUSAL
        if size > largest and not is_refused:
            raise _too_large(largest)
        if is_refused or content.at_eof():
            return b"".join([*pieces, piece]) if pieces else piece, not is_refused
        pieces.append(piece)


def _too_large(largest: int) -> AnswerTooLarge:
    return AnswerTooLarge(
        f"the answer has more than {largest} bytes, which is the limit (settings.networking.largest_answer). Raise it, or ask for less: "
        "settings.watching.chunk_size says how many objects a page of a list has."
    )


def completed(usual: Mapping[str, str], headers: Headers) -> Headers:
    """The headers of a request, after the usual ones whose names are not among them. Raises ValueError if one would be read as two."""
    given = {name.lower() for name, _ in headers}
    complete = (
        *((name, value) for name, value in usual.items() if name.lower() not in given),
        # The length is that of the body, whatever the caller copied from elsewhere.
        *(header for header in headers if header[0].lower() != "content-length"),
    )
    if any(_breaks(name) or _breaks(value) for name, value in complete):
        raise ValueError("A header of a request has a line break or a null byte in it; it is not sent.")
    return complete


class Route:
    """Sends requests to the server of one access, with one TLS context; no proxy, no redirects.

    `headers` go with each request that has none of these names itself; a response may have `largest` bytes. Belongs to the running loop.
    """

    def __init__(
        self,
        access: Access,
        context: SSLContext | None,
        connector: aiohttp.BaseConnector,
        headers: Mapping[str, str],
        largest: int,
    ) -> None:
        self._access = access
        self._largest = largest
        self._context = context
        self._connector = connector
        url = URL(f"{access.server}/", encoded=True)
        self._prefix = url.raw_path.removesuffix("/")
        # Asks the connector for connections, and has the headers that the library would have added.
        self._request = aiohttp.ClientRequest(
            "GET",
            url,
            headers=headers,
            loop=asyncio.get_running_loop(),
            ssl=True if context is None else context,
            server_hostname=access.tls.server_name,
        )
        self._heads: dict[Headers, bytes] = {}

    def fits(self, access: Access, context: SSLContext | None) -> bool:
        """Whether it sends requests of this access."""
        return self._access is access and self._context is context

    def takes(self, request: Request) -> bool:
        """Whether it can send the request: one that needs neither an error of the library nor its quoting."""
        return _is_method(request.method) is not None and _is_target(self._prefix + request.path) is not None

    async def exchange(self, request: Request, credentials: Headers, limits: aiohttp.ClientTimeout) -> Response:
        """Send a request and read its whole response. Raises the library's errors, and AnswerTooLarge."""
        method, body = request.method, request.body
        headers = (*request.headers.items(), *credentials)
        head = self._heads.get(headers) or self._head(headers)
        length = b"" if body is None and method in {"GET", "HEAD"} else b"Content-Length: %d\r\n" % len(body or b"")
        connection = await self._connector.connect(self._request, [], limits)
        try:
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None:
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(
                skip_payload=method == "HEAD", read_until_eof=True, auto_decompress=True, read_bufsize=READ_BUFFER
            )
            target = f"{method} {self._prefix}{request.path} ".encode("ascii")
            transport.write(b"%b%b%b\r\n%b" % (target, head, length, body or b""))
            message, payload = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:
                message, payload = await protocol.read()
            body_read, is_whole = await read_body(payload, message.code, message.headers, self._largest)
        except HttpProcessingError as error:
            connection.close()
            raise aiohttp.ClientPayloadError(f"{error.code}, {error.message}") from error
        except BaseException:
            connection.close()
            raise
        if not is_whole or protocol.should_close or (len(body or b"") > _LONG and message.code >= 300):
            # Closing would wait for the server; and the server would take the unread rest of a body for the next request.
            _drop(connection)
        else:
            connection.release()
        return Response(message.code, message.headers, body_read)

    def _head(self, headers: Headers) -> bytes:
        """The text between the target of a request and the length of its body."""
        lines = (f"{name}: {value}" for name, value in completed(self._request.headers, headers))
        head = "\r\n".join(["HTTP/1.1", *lines, ""]).encode()
        if len(self._heads) >= _HEADS:
            self._heads.clear()
        self._heads[headers] = head
        return head
