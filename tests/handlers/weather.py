"""What lies between an operator and its server: bad weather, by chance, in each way that the wire allows."""

import asyncio
import contextlib
import random
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

Headers = dict[str, str]

HTML = b"<html><body><h1>Bad Gateway</h1></body></html>"
_BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)
_UID = re.compile(rb',\s*"uid":\s*"[^"]*"')
_VERSION = re.compile(rb'("resourceVersion":\s*")(\d+)"')


@dataclass(frozen=True)
class Asked:
    """One request, as the operator sent it."""

    method: str
    path: str
    query: dict[str, str]
    headers: Headers
    body: bytes

    @property
    def watching(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def writing(self) -> bool:
        return self.method != "GET"

    @property
    def listing(self) -> bool:
        return self.method == "GET" and not self.watching and "limit" in self.query


@dataclass(frozen=True)
class Refusal:
    """An answer in the place of the server's."""

    code: int
    body: bytes = b""
    headers: Headers = field(default_factory=dict)


@dataclass(frozen=True)
class Fate:
    """What becomes of one request. `lose`: it is applied, and the answer never comes, or half of it."""

    delay: float = 0.0
    reset: bool = False
    refusal: Refusal | None = None
    lose: bool = False
    half: bool = False
    stream: str = ""
    """How a watch is ill; see `Streams`."""
    asked: Callable[[Asked], Asked] | None = None
    answered: Callable[[bytes], bytes] | None = None


FAIR = Fate()


@dataclass
class Manner:
    """How this server speaks HTTP: each of these is allowed."""

    gzip: bool = False
    framing: str = "length"
    """`length`, `chunked`, `close`: how the end of an answer is told."""
    keep: str = "alive"
    """`alive`; `close`: said in each answer; `quietly`, `late`: closed without a word, at once or a moment after the answer."""
    version: Callable[[int], str] = str
    """How versions are written, and back."""
    unversion: Callable[[bytes], bytes] = bytes
    uids: bool = True
    streams_lists: bool = True
    bookmarks: bool = True


class Weather:
    """A server of its own address that asks the real one, and does to the answers what `judge` says."""

    def __init__(self, server: str, chance: random.Random) -> None:
        self._target = urlsplit(server)
        self.chance = chance
        self.manner = Manner()
        self.judge: Callable[[Asked], Fate] = lambda _: FAIR
        self.hold: Callable[[bytes], Awaitable[object]] | None = None
        """Awaited before each line of a watch is passed on."""
        self.log: list[tuple[float, Asked, int]] = []
        self.open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._told: dict[str, list[bytes]] = {}

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def reset_all(self) -> None:
        """Every connection breaks."""
        for writer in list(self.open):
            writer.transport.abort()

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        try:
            with contextlib.suppress(*_BROKEN):
                while (asked := await _read_request(reader)) is not None and await self._answer(asked, reader, writer):
                    pass
        finally:
            self.open.discard(writer)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _answer(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; gives whether the connection lives on."""
        fate = self.judge(asked)
        time = asyncio.get_running_loop().time
        entry = len(self.log)
        self.log.append((time(), asked, 0))
        if fate.delay:
            await asyncio.sleep(fate.delay)
        if fate.reset:
            writer.transport.abort()
            return False
        if fate.refusal is not None:
            self.log[entry] = (self.log[entry][0], asked, fate.refusal.code)
            return await self._write(writer, fate.refusal.code, fate.refusal.headers, fate.refusal.body)
        sent = fate.asked(asked) if fate.asked is not None else asked
        there, back = await self._ask(sent)
        try:
            code, headers = await _read_head(there)
            self.log[entry] = (self.log[entry][0], asked, code)
            if asked.watching and code == 200:
                await Streams(self, fate, asked, reader, writer).run(there)
                return False
            body = await _read_body(there, headers)
        finally:
            back.transport.abort()
        body = self.told(body)
        body = fate.answered(body) if fate.answered is not None and code == 200 else body
        if fate.lose:
            writer.transport.abort()
            return False
        if fate.half:
            writer.write(_head(code, {"Content-Type": "application/json", "Content-Length": str(len(body))}))
            writer.write(body[: len(body) // 2])
            await writer.drain()
            writer.transport.abort()
            return False
        kept = {name: value for name, value in headers.items() if name in {"content-type", "retry-after"}}
        return await self._write(writer, code, kept, body)

    def told(self, text: bytes) -> bytes:
        """What the server says, in its manner."""
        text = _VERSION.sub(self._versioned, text)
        return text if self.manner.uids else _UID.sub(b"", text)

    def _versioned(self, found: re.Match[bytes]) -> bytes:
        return found[1] + self.manner.version(int(found[2])).encode() + b'"'

    async def _write(self, writer: asyncio.StreamWriter, code: int, headers: Headers, body: bytes) -> bool:
        manner = self.manner
        headers = dict(headers)
        if manner.gzip and body:
            compressor = zlib.compressobj(wbits=31)
            body = compressor.compress(body) + compressor.flush()
            headers["Content-Encoding"] = "gzip"
        closing = manner.keep == "close" or manner.framing == "close"
        if closing:
            headers["Connection"] = "close"
        if manner.framing == "length":
            writer.write(_head(code, {**headers, "Content-Length": str(len(body))}) + body)
        elif manner.framing == "chunked":
            writer.write(_head(code, {**headers, "Transfer-Encoding": "chunked"}))
            at = self.chance.randrange(len(body) + 1)
            writer.write(b"".join(_chunk(part) for part in (body[:at], body[at:]) if part) + b"0\r\n\r\n")
        else:
            writer.write(_head(code, headers) + body)
        await writer.drain()
        if manner.keep in {"quietly", "late"}:
            await asyncio.sleep(0.01 if manner.keep == "late" else self.chance.choice([0.0, 0.0, 0.01]))
            return False
        return not closing

    async def _ask(self, asked: Asked) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._target.hostname is not None
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port, limit=2**24)
        query = {key: self.manner.unversion(value.encode()).decode() for key, value in asked.query.items()}
        if asked.watching and not self.manner.streams_lists:
            query = {
                key: value for key, value in query.items() if key not in {"sendInitialEvents", "resourceVersionMatch"}
            }
        if asked.watching and not self.manner.bookmarks:
            query.pop("allowWatchBookmarks", None)
            query.pop("sendInitialEvents", None)
            query.pop("resourceVersionMatch", None)
        body = self.manner.unversion(asked.body)
        path = asked.path + (f"?{urlencode(query)}" if query else "")
        kept = {
            name: value
            for name, value in asked.headers.items()
            if name not in {"host", "connection", "accept-encoding", "content-length"}
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in kept.items())
        back.write(
            f"{asked.method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n{head}\r\n".encode()
            + body
        )
        return there, back


class Streams:
    """One watch on its way. `fate.stream` is one of: ends, cut, truncated, garbage, unknown, gone, error, silent, doubled, replayed, odd."""

    def __init__(
        self,
        weather: Weather,
        fate: Fate,
        asked: Asked,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._weather = weather
        self._fate = fate
        self._writer = writer
        self._reader = reader
        self._told = weather._told.setdefault(asked.path, [])
        self._framing = "chunked" if weather.manner.framing != "close" else "close"

    async def run(self, there: asyncio.StreamReader) -> None:
        headers = {"Content-Type": "application/json"}
        headers |= {"Transfer-Encoding": "chunked"} if self._framing == "chunked" else {"Connection": "close"}
        self._writer.write(_head(200, headers))
        await self._writer.drain()
        gone = asyncio.ensure_future(self._reader.read(1))
        passing = asyncio.ensure_future(self._pass(there))
        try:
            await asyncio.wait({gone, passing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            passing.cancel()
            with contextlib.suppress(asyncio.CancelledError, *_BROKEN):
                await passing

    async def _pass(self, there: asyncio.StreamReader) -> None:
        ill, weather, rest, count = self._fate.stream, self._weather, b"", 0
        after = weather.chance.randrange(4)
        if ill == "ends":
            self._end()
            return
        if ill == "replayed":
            await self._send(b"".join(self._told[-8:]))
        if ill in {"gone", "error"} and after == 0:
            await self._fail()
            return
        async for chunk in _chunks(there):
            rest += chunk
            *lines, rest = rest.split(b"\n")
            for line in lines:
                text = weather.told(line) + b"\n"
                if ill == "silent" or (not weather.manner.streams_lists and b"k8s.io/initial-events-end" in text):
                    continue
                if count >= after and await self._ail(text):
                    return
                count += 1
                if weather.hold is not None:
                    await weather.hold(text)
                await self._send(text if ill != "doubled" else text + text)
                # Only what was told is told again: else it would come before what is older, as from no server.
                self._told.append(text)
                del self._told[:-50]
        self._end()

    async def _ail(self, line: bytes) -> bool:
        match self._fate.stream:
            case "cut":
                self._writer.transport.abort()
            case "truncated":
                await self._send(line[: self._weather.chance.randrange(1, len(line))])
                self._writer.transport.abort()
            case "garbage":
                await self._send(
                    self._weather.chance.choice([b"{}\n", b"null\n", b"\xff\xfe\n", b"oops\n", line[:-5] + b"\n"])
                )
                await self._send(line)
                return False
            case "unknown":
                await self._send(b'{"type":"WEATHER","object":{"metadata":{"name":"x","resourceVersion":"1"}}}\n')
                return False
            case "odd":
                await self._send(
                    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"","labels":null,"annotations":null}}}\n'
                )
                return False
            case "gone" | "error":
                await self._fail()
            case _:
                return False
        return True

    async def _fail(self) -> None:
        chance = self._weather.chance
        if self._fate.stream == "gone":
            status = chance.choice(
                [
                    b'{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}',
                    b'{"code":410}',
                    b'{"kind":"Status","reason":"Gone"}',
                    b'{"kind":"Status","code":410,"reason":null,"message":null,"details":null,"metadata":{}}',
                ]
            )
        else:
            status = chance.choice(
                [
                    b'{"kind":"Status","code":500,"reason":"InternalError","message":"etcdserver: leader changed"}',
                    b'{"code":504,"reason":"Timeout"}',
                    b'{"kind":"Status","code":"500"}',
                    b"null",
                    b'"a sentence"',
                    b"{}",
                    b'{"code":429,"details":{"retryAfterSeconds":1}}',
                ]
            )
        await self._send(b'{"type":"ERROR","object":' + status + b"}\n")
        self._end()

    async def _send(self, data: bytes) -> None:
        """In pieces of any size, cut anywhere."""
        chance = self._weather.chance
        while data:
            size = len(data) if chance.random() < 0.5 else chance.randrange(1, len(data) + 1)
            piece, data = data[:size], data[size:]
            self._writer.write(_chunk(piece) if self._framing == "chunked" else piece)
            await self._writer.drain()
            if data and chance.random() < 0.3:
                await asyncio.sleep(chance.choice([0, 0.001, 0.2]))

    def _end(self) -> None:
        if self._framing == "chunked":
            self._writer.write(b"0\r\n\r\n")
        self._writer.close()


def _head(code: int, headers: Headers) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {code} Weather\r\n{lines}\r\n".encode()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _headers(reader: asyncio.StreamReader) -> tuple[str, Headers]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    return first, {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def _read_request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        first, headers = await _headers(reader)
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    return Asked(method, url.path, dict(parse_qsl(url.query, keep_blank_values=True)), headers, body)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, Headers]:
    first, headers = await _headers(reader)
    return int(first.split(" ")[1]), headers


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)


async def _read_body(reader: asyncio.StreamReader, headers: Headers) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        return b"".join([chunk async for chunk in _chunks(reader)])
    return await reader.readexactly(int(headers.get("content-length", "0")))


@contextlib.asynccontextmanager
async def a_weather(server: str, chance: random.Random) -> AsyncIterator[Weather]:
    """A way to a server through the weather, for the time of the block."""
    weather = Weather(server, chance)
    weather._server = await asyncio.start_server(weather._connect, "127.0.0.1", 0, limit=2**24)
    try:
        yield weather
    finally:
        weather._server.close()
        weather.reset_all()
        for task in list(weather._tasks):
            task.cancel()
        await asyncio.gather(*weather._tasks, return_exceptions=True)
