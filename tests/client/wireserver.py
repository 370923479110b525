"""A real HTTP server whose answers are written byte by byte by a test, so that they can be cut anywhere."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def reply(self, code: int = 200, body: Any = None, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {code} Said", "Content-Type: application/json", f"Content-Length: {len(data)}"]
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        await self.writer.drain()

    async def begin_stream(self) -> None:
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        if data:
            self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await self.writer.drain()

    async def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def cut(self) -> None:
        self.writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait until the client has gone."""
        async with asyncio.timeout(10):
            while await self.reader.read(65536):
                pass


Behaviour = Callable[[Seen, Wire], Awaitable[None]]


@dataclass
class Server:
    """Listens on a free port; each request is recorded and handed to `behave`."""

    behave: Behaviour
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        wire = Wire(reader, writer)
        try:
            while (seen := await read_request(reader)) is not None:
                self.seen.append(seen)
                await self.behave(seen, wire)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> Seen | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    first, *lines = head.decode().split("\r\n")
    if not first:
        return None
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Seen(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def serving(behave: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(behave, tls)
    tasks: set[asyncio.Task[None]] = set()

    failures: list[BaseException] = []

    def ended(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            failures.append(failure)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(ended)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if failures:
            raise failures[0]


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def pod(name: str = "a", version: str = "1", **extra: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version, **extra},
    }


PODS = Resource("", "v1", "pods", kind="Pod", namespaced=True)
QUICK = ClientSettings(error_backoffs=(0, 0), refused_backoff=0, request_timeout=10)


@asynccontextmanager
async def talking(behave: Behaviour, settings: ClientSettings = QUICK) -> AsyncIterator[tuple[Server, Client]]:
    async with serving(behave) as server, Client(Access(server.url), settings) as client:
        yield server, client


def replies(*answers: tuple[int, Any] | tuple[int, Any, dict[str, str]]) -> Behaviour:
    """Answer one after the other; the last one for ever."""
    queue = list(answers)

    async def behave(seen: Seen, wire: Wire) -> None:
        code, body, *headers = queue.pop(0) if len(queue) > 1 else queue[0]
        await wire.reply(code, body, **(headers[0] if headers else {}))

    return behave
