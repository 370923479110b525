"""The short way to a server: exchanges over connections of the HTTP library, without what its sessions do for each request.

A session prepares each request as if it were the first of its kind, which takes half of what the whole request does. The rest
stays the library's: connections and their pool, names and TLS, the reading of answers and their compression.
"""

import asyncio
import re
from collections.abc import Mapping
from ssl import SSLContext

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from ..config.access import Access
from ..errors import AnswerTooLarge

Headers = tuple[tuple[str, str], ...]

READ_BUFFER = 2**18

LARGEST_REFUSAL = 2**20
"""So many bytes are read of an answer that is no success; servers say less."""

_LONG = 2**16
"""Bodies beyond that may be refused before they have been read."""

_HEADS = 32
"""Of how many sets of headers the text is kept; renewed credentials make new ones."""

_is_method = re.compile(r"[A-Z]+").fullmatch
_is_target = re.compile(r"/[!-\"$-~]*").fullmatch
_breaks = re.compile(r"[\r\n\0]").search


def drop(connection: Connection) -> None:
    """End a connection at once, with what has not been sent."""
    if connection.transport is not None:
        connection.transport.abort()
    connection.close()


async def read_body(
    content: aiohttp.StreamReader, status: int, headers: Mapping[str, str], largest: int
) -> tuple[bytes, bool]:
    """Read a body, decompressed; tells too whether that is all of it, as it need not be of an answer that is no success.

    Piece by piece: the library takes off its limit for what one piece may be decompressed to when it is asked for everything. Raises
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
    """The headers of a request, and before them those of the usual ones whose names are not among them."""
    given = {name.lower() for name, _ in headers}
    return (*((name, value) for name, value in usual.items() if name.lower() not in given), *headers)


class Route:
    """The way to the server of one access, with one TLS context; no proxy, no redirects.

    `headers` are sent with each request that has none of these names itself; `largest` is how many bytes an answer may have. Belongs to the
    running loop.
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
        # What connections are asked for with; and the headers that the library would have added.
        self._request = aiohttp.ClientRequest(
            "GET",
            url,
            headers=headers,
            loop=asyncio.get_running_loop(),
            ssl=True if context is None else context,
            server_hostname=access.tls.server_name,
        )
        self._heads: dict[Headers, bytes] = {}

    def leads(self, access: Access, context: SSLContext | None) -> bool:
        """Whether this is the way for that access."""
        return self._access is access and self._context is context

    def takes(self, method: str, path: str) -> bool:
        """Whether such a request can go this way: one that needs neither an error of the library nor its quoting."""
        return _is_method(method) is not None and _is_target(self._prefix + path) is not None

    async def exchange(
        self, method: str, path: str, headers: Headers, body: bytes | None, limits: aiohttp.ClientTimeout
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read its whole answer: status, headers, body. Raises what the library does, and AnswerTooLarge."""
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
            target = f"{method} {self._prefix}{path} ".encode("ascii")
            transport.write(b"%b%b%b\r\n%b" % (target, head, length, body or b""))
            message, payload = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:
                message, payload = await protocol.read()
            body_read, is_whole = await read_body(payload, message.code, message.headers, self._largest)
            answer = message.code, message.headers, body_read
        except HttpProcessingError as error:
            connection.close()
            raise aiohttp.ClientPayloadError(f"{error.code}, {error.message}") from error
        except BaseException:
            connection.close()
            raise
        if not is_whole or protocol.should_close or (len(body or b"") > _LONG and answer[0] >= 300):
            # Nobody waits for a goodbye. And what has not been read of a body would stand before the next request.
            drop(connection)
        else:
            connection.release()
        return answer

    def _head(self, headers: Headers) -> bytes:
        """What stands between the target of a request and the length of its body."""
        complete = completed(self._request.headers, headers)
        # The length is that of the body, whatever somebody copied from elsewhere.
        lines = [f"{name}: {value}" for name, value in complete if name.lower() != "content-length"]
        if any(map(_breaks, lines)):
            raise ValueError("A header of a request has a line break or a null byte in it; it is not sent.")
        head = "\r\n".join(["HTTP/1.1", *lines, ""]).encode()
        if len(self._heads) >= _HEADS:
            self._heads.clear()
        self._heads[headers] = head
        return head
