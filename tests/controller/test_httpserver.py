"""The HTTP port under clients that do not end what they begin."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ctl.controller.http.server import (
    ANSWER_PATIENCE,
    CONNECTIONS,
    REQUEST_PATIENCE,
    HTTPServer,
    PageRequest,
    PageResponse,
)

pytestmark = pytest.mark.virtual_time

Connect = Callable[[bytes], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@pytest.fixture
async def server() -> AsyncIterator[HTTPServer]:
    server = HTTPServer("127.0.0.1", 0)

    async def hello(_: PageRequest) -> PageResponse:
        return PageResponse(b"hello")

    async def large(_: PageRequest) -> PageResponse:
        return PageResponse(b"x" * 50_000_000)

    server.add("/hello", hello)
    server.add("/large", large)
    await server.start()
    yield server
    await server.stop(1)


@pytest.fixture
async def connect(server: HTTPServer) -> AsyncIterator[Connect]:
    writers: list[asyncio.StreamWriter] = []

    async def opened(first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writers.append(writer)
        writer.write(first)
        await writer.drain()
        return reader, writer

    yield opened
    for writer in writers:
        writer.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes the connection, however it does."""
    found = b""
    try:
        while chunk := await reader.read(2**20):
            found += chunk
    except ConnectionError:
        pass
    return found


PROBE = b"GET /hello HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.mark.parametrize(
    "begun", [b"", b"GET /hel", b"GET /hello HTTP/1.1\r\nHost: here\r\n", b"GET /hello HTTP/1.1\r\nHost: here\r\nX-A: "]
)
async def test_a_connection_without_a_whole_request_ends_after_some_seconds(connect: Connect, begun: bytes) -> None:
    reader, _ = await connect(begun)
    async with asyncio.timeout(REQUEST_PATIENCE + 1):
        assert await rest(reader) == b""


async def test_a_request_of_single_bytes_gets_no_more_time(connect: Connect) -> None:
    reader, writer = await connect(b"GET /hello HTTP/1.1\r\nX: ")

    async def drip() -> None:
        while True:
            writer.write(b"a")
            await asyncio.sleep(0.5)

    dripping = asyncio.create_task(drip())
    try:
        async with asyncio.timeout(REQUEST_PATIENCE + 1):
            assert await rest(reader) == b""
    finally:
        dripping.cancel()


async def test_a_body_that_never_comes_holds_no_connection(connect: Connect) -> None:
    reader, _ = await connect(b"GET /hello HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\n{")
    async with asyncio.timeout(ANSWER_PATIENCE + 1):
        assert (await rest(reader)).endswith(b"hello")


async def test_a_half_request_after_a_whole_one_ends_too(connect: Connect) -> None:
    reader, writer = await connect(PROBE)
    assert b"200 OK" in await reader.readuntil(b"hello")
    writer.write(b"GET /hel")
    async with asyncio.timeout(ANSWER_PATIENCE + 1):
        assert await rest(reader) == b""


async def test_an_answer_that_nobody_reads_holds_no_connection(server: HTTPServer, connect: Connect) -> None:
    reader, _ = await connect(b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n")
    await asyncio.sleep(ANSWER_PATIENCE + 1)
    assert len(await rest(reader)) < 50_000_000
    assert server.connections == 0


def test_other_loops_are_served_as_well() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed here")

    async def asked() -> None:
        server = HTTPServer("127.0.0.1", 0)

        async def is_local(request: PageRequest) -> PageResponse:
            return PageResponse(str(request.is_local).encode())

        server.add("/", is_local)
        await server.start()
        writers = []
        for begun in [b"GET /hel"] * (CONNECTIONS + 10) + [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"]:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(begun)
            writers.append(writer)
        async with asyncio.timeout(20):
            assert b"200 OK" in await reader.readuntil(b"True")
        assert server.connections <= CONNECTIONS
        for writer in writers:
            writer.close()
        await server.stop(1)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asked())


async def test_a_connection_is_kept_for_the_next_request(connect: Connect) -> None:
    reader, writer = await connect(PROBE)
    for _ in range(5):
        assert b"200 OK" in await reader.readuntil(b"hello")
        await asyncio.sleep(ANSWER_PATIENCE - 1)
        writer.write(PROBE)
    assert b"200 OK" in await reader.readuntil(b"hello")


async def test_probes_are_answered_under_a_flood_of_idle_connections(server: HTTPServer, connect: Connect) -> None:
    opened = [await connect(b"GET /hel") for _ in range(CONNECTIONS + 50)]
    assert len(opened) > CONNECTIONS
    for _ in range(3):
        reader, _ = await connect(PROBE)
        async with asyncio.timeout(1):
            assert b"200 OK" in await reader.readuntil(b"hello")
        assert server.connections <= CONNECTIONS
