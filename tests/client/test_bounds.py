"""What a server sends is read up to a limit: more of it is an error that names the setting, and memory stays bounded."""

import asyncio
import gzip
import itertools
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ctl.client.config.access import Access
from ctl.client.errors import AnswerTooLarge, Forbidden, LostAnswer, RequestError
from ctl.client.rest import Client
from ctl.client.watch import WatchOptions
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.reflector_state import Phase

from .wireserver import PODS, QUICK, Behaviour, Seen, Wire, pod, replies, serving, status

LIMIT = 2_000_000
SETTINGS = replace(QUICK, error_backoffs=(), largest_answer=LIMIT, largest_event=LIMIT)
ROOM = 25_000_000
"""Bytes: far more than is needed for LIMIT, far less than is sent."""
ENDLESS = 200_000_000


@asynccontextmanager
async def talking(behave: Behaviour, way: str = "route") -> AsyncIterator[Client]:
    """A client of a server; by its own connections, or as it goes by a proxy."""
    async with serving(behave) as server:
        proxy = None if way == "route" else server.url
        async with Client(Access("http://cluster.invalid" if proxy else server.url, proxy=proxy), SETTINGS) as client:
            yield client


@pytest.fixture
def memory() -> Iterator[None]:
    """The test takes no more than ROOM of memory, at any time."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - before < ROOM


async def endless(wire: Wire, head: bytes = b"", encoding: str = "", piece: bytes = b"x" * 100_000) -> None:
    """Send an answer of ENDLESS bytes, until nobody listens."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", "Transfer-Encoding: chunked"]
    lines += [f"Content-Encoding: {encoding}"] if encoding else []
    wire.writer.write("\r\n".join([*lines, "", ""]).encode())
    await wire.chunk(head)
    for _ in range(ENDLESS // len(piece)):
        await wire.chunk(piece)
    await wire.end_stream()


async def a_long_page(seen: Seen, wire: Wire) -> None:
    await endless(wire, b'{"kind":"PodList","items":[{"metadata":{"name":"')


async def an_announced_page(seen: Seen, wire: Wire) -> None:
    wire.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n{")
    await wire.until_closed()


async def a_bomb(seen: Seen, wire: Wire) -> None:
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(b" " * 1_000_000) for _ in range(500)) + packer.flush()
    await wire.reply(200, bomb, Content_Encoding="gzip")


async def a_bomb_in_many_pieces(seen: Seen, wire: Wire) -> None:
    packer = zlib.compressobj(wbits=31)
    begin = packer.compress(b"{") + packer.flush(zlib.Z_SYNC_FLUSH)
    piece = packer.compress(b" " * 10_000_000) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(b" " * 10_000_000) + packer.flush(zlib.Z_FULL_FLUSH)
    await endless(wire, begin, "gzip", piece)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("way", ["route", "proxy"])
@pytest.mark.parametrize("behave", [a_long_page, an_announced_page, a_bomb, a_bomb_in_many_pieces])
async def test_an_answer_that_is_too_large_is_refused(behave: Behaviour, way: str) -> None:
    async with talking(behave, way) as client:
        with pytest.raises(
            AnswerTooLarge, match=r"more than 2000000 bytes.*settings\.networking\.largest_answer"
        ) as caught:
            await client.list(PODS, "ns")
        assert "/api/v1/namespaces/ns/pods" in str(caught.value)
        assert not caught.value.retriable
        assert [(labels.code, count) for labels, count in client.metrics.requests().items()] == [("<error>", 1)]


@pytest.mark.parametrize("way", ["route", "proxy"])
async def test_what_is_within_the_limit_is_read(way: str) -> None:
    body = json.dumps({"kind": "PodList", "items": [pod(str(n), note="x" * 1000) for n in range(1000)]}).encode()

    async def packed(seen: Seen, wire: Wire) -> None:
        await wire.reply(200, gzip.compress(body), Content_Encoding="gzip")

    for behave in (replies((200, body)), packed):
        async with talking(behave, way) as client:
            assert len(await client.list(PODS, "ns")) == 1000


@pytest.mark.parametrize("way", ["route", "proxy"])
async def test_a_write_with_a_too_large_answer_may_have_been_made(way: str) -> None:
    async with talking(a_long_page, way) as client:
        with pytest.raises(AnswerTooLarge):
            await client.patch(PODS, "a", "ns", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(LostAnswer, match="largest_answer"):
            await client.replace(PODS, pod(), namespace="ns", name="a")


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("way", ["route", "proxy"])
@pytest.mark.parametrize("verb", ["get", "watch"])
async def test_a_refusal_is_told_by_what_of_it_is_read(verb: str, way: str) -> None:
    async def refused(seen: Seen, wire: Wire) -> None:
        wire.writer.write(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(ENDLESS // 100_000):
            await wire.chunk(b"go away " * 12_500)
        await wire.end_stream()

    async with talking(refused, way) as client:
        with pytest.raises(Forbidden, match="go away go away") as caught:
            await (client.get(PODS, "a", "ns") if verb == "get" else follow(client, []))
        assert len(str(caught.value)) < 1000


async def test_a_connection_is_used_again_only_if_its_answer_was_read_whole() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if seen.path.endswith("/large"):
            await wire.reply(403, status(403, "Forbidden", "x" * 5_000_000))
        else:
            await wire.reply(200, pod())

    async with serving(behave) as server, Client(Access(server.url), SETTINGS) as client:
        await client.get(PODS, "a", "ns")
        with pytest.raises(Forbidden):
            await client.get(PODS, "large", "ns")
        await client.get(PODS, "a", "ns")
        await client.get(PODS, "a", "ns")
        assert server.connections == 2


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("way", ["route", "proxy"])
async def test_endless_headers_are_refused(way: str) -> None:
    async def headers(seen: Seen, wire: Wire) -> None:
        wire.writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(ENDLESS // 1000):
            wire.writer.write(f"X-{number}: {'x' * 1000}\r\n".encode())
            await wire.writer.drain()

    async with talking(headers, way) as client:
        with pytest.raises(RequestError):
            await client.get(PODS, "a", "ns")


async def follow(client: Client, names: list[str]) -> None:
    """Note the names of the objects that a watch tells of."""
    async with client.watch(PODS, "ns", WatchOptions()) as stream:
        async for batch in stream:
            names += [event.object.name for event in batch]


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("size", [100_000, 500])
async def test_a_watch_event_that_is_too_large_ends_the_watch(size: int) -> None:
    first = json.dumps({"type": "ADDED", "object": pod("first")}).encode()

    async def behave(seen: Seen, wire: Wire) -> None:
        await endless(wire, first + b'\n{"type":"ADDED","object":{"metadata":{"name":"', piece=b"x" * size)

    found: list[str] = []
    async with talking(behave) as client:
        with pytest.raises(AnswerTooLarge, match=r"more than 2000000 bytes.*settings\.networking\.largest_event"):
            await follow(client, found)
    assert found == ["first"]


async def test_a_watch_event_within_the_limit_is_read_whatever_its_pieces() -> None:
    lines = b"".join(
        json.dumps({"type": "ADDED", "object": pod(str(number), note="x" * 300_000)}).encode() + b"\n"
        for number in range(9)
    )

    async def behave(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        for start in range(0, len(lines), 7_777):
            await wire.chunk(lines[start : start + 7_777])
        await wire.end_stream()

    found: list[str] = []
    async with talking(behave) as client:
        await follow(client, found)
    assert found == [str(number) for number in range(9)]


@pytest.mark.virtual_time
@pytest.mark.parametrize("trouble", ["page", "event"])
async def test_an_informer_backs_off_and_goes_on(trouble: str, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[float] = []
    well = asyncio.Event()

    async def behave(seen: Seen, wire: Wire) -> None:
        is_watch = "watch=" in seen.path
        if not well.is_set() and is_watch is (trouble == "event"):
            asked.append(asyncio.get_running_loop().time())
            await endless(wire, b'{"type":"ADDED","object":{"metadata":{"name":"')
        elif is_watch:
            await wire.begin_stream()
            await wire.reader.read()  # until the client has gone
        else:
            await wire.reply(200, {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [pod()]})

    async with serving(behave) as server, Client(Access(server.url), SETTINGS) as client:
        factory = SharedInformerFactory(client)
        informer = factory.informer(PODS)
        await asyncio.sleep(300)
        assert informer.state.phase.value == Phase.BACKING_OFF.value
        assert 5 < len(asked) < 60
        pauses = [later - sooner for sooner, later in itertools.pairwise(asked)]
        assert max(pauses[-5:]) > 5
        well.set()
        await asyncio.sleep(100)
        assert informer.state.phase.value == Phase.WATCHING.value
        assert len(informer.store) == 1
        await factory.stop()
    assert f"settings.networking.largest_{'answer' if trouble == 'page' else 'event'}" in caplog.text
    assert len(caplog.text) < 100_000
