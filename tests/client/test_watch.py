import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.errors import APIError, Expired, Forbidden, InternalError, StreamBroken, StreamStalled
from ctl.client.watch import Lines, WatchEvent, WatchOptions, WatchStream, decode_event

from .wireserver import PODS, Seen, Wire, pod, replies, status, talking


def line(kind: str, body: Any) -> bytes:
    return json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n"


def bookmark(version: str, *, end: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": version, "creationTimestamp": None}
    return {"kind": "Pod", "metadata": meta | ({"annotations": {"k8s.io/initial-events-end": "true"}} if end else {})}


EVENTS = [
    line("ADDED", pod("a", "1")),
    line("MODIFIED", pod("a", "2", labels={"text": 'a"},{\\n'})),
    line("DELETED", pod("ü", "3")),
    line("BOOKMARK", bookmark("4")),
]


class Given:
    """Chunks as a network might give them."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.cut = False

    async def chunk(self, idle_timeout: float | None) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""


async def read(stream: WatchStream) -> list[list[WatchEvent]]:
    return [batch async for batch in stream]


def versions(batches: list[list[WatchEvent]]) -> list[str]:
    return [event.object.resource_version for batch in batches for event in batch]


async def test_a_stream_split_at_any_byte_gives_the_same_events() -> None:
    whole = b"".join(EVENTS)
    expected = [event for batch in await read(WatchStream(Given(whole), "pods")) for event in batch]
    assert [event.type for event in expected] == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    assert expected[1].object.body() == pod("a", "2", labels={"text": 'a"},{\\n'})
    assert expected[2].object.name == "ü"
    for cut in range(1, len(whole)):
        stream = WatchStream(Given(whole[:cut], whole[cut:]), "pods")
        batches = await read(stream)
        assert [event for batch in batches for event in batch] == expected
        assert all(batches)
        assert stream.nbytes == len(whole)


@given(st.lists(st.binary(max_size=9)), st.data())
def test_lines_do_not_depend_on_the_chunks(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(piece + b"\n" for piece in pieces)
    marks = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    lines = Lines()
    found: list[bytes] = []
    for start, end in zip([0, *marks], [*marks, len(whole)], strict=True):
        found += lines.feed(whole[start:end])
    assert found == whole.split(b"\n")[:-1]


def test_an_object_is_the_bytes_of_the_wire() -> None:
    raw = b'{"metadata" : {"name":"x","resourceVersion":"5"}, "spec":{"n":1.0}}'
    for text in (
        b'{"type":"ADDED","object":' + raw + b"}",
        b'{"type":"ADDED","object":' + raw + b"} \r",
        b'{"type": "ADDED", "object": ' + raw + b"}",
        b'{"object":' + raw + b',"type":"ADDED"}',
        b'{"type":"ADDED","object":' + raw + b',"more":{"a":[1]}}',
    ):
        event = decode_event(text)
        assert (event.type, event.object.raw, event.object.name, event.object.resource_version) == (
            "ADDED",
            raw,
            "x",
            "5",
        )


def test_bookmarks() -> None:
    assert not decode_event(EVENTS[3]).initial_events_end
    event = decode_event(line("BOOKMARK", bookmark("9", end=True)))
    assert (event.initial_events_end, event.object.resource_version, event.object.name) == (True, "9", "")


@pytest.mark.parametrize(
    ("code", "reason", "kind"), [(410, "Expired", Expired), (500, "InternalError", InternalError), (403, "", Forbidden)]
)
async def test_an_error_event_is_raised_after_the_events_before_it(
    code: int, reason: str, kind: type[APIError]
) -> None:
    stream = WatchStream(Given(EVENTS[0] + line("ERROR", status(code, reason, "why")) + EVENTS[1]), "pods")
    assert versions([await anext(stream)]) == ["1"]
    for _ in range(2):
        with pytest.raises(kind, match="why"):
            await anext(stream)


@pytest.mark.parametrize(
    "junk", [b"<html>\n", b"{}\n", b'{"type":"ADDED","object":{"metadata":1}}\n', b'{"type":"ADDED"}\n']
)
async def test_junk_is_a_broken_stream(junk: bytes) -> None:
    stream = WatchStream(Given(EVENTS[0] + junk), "/api/v1/pods")
    assert versions([await anext(stream)]) == ["1"]
    with pytest.raises(StreamBroken, match="/api/v1/pods"):
        await anext(stream)


async def test_empty_lines_and_a_truncated_last_one_are_dropped() -> None:
    assert versions(
        await read(WatchStream(Given(b"\n  \n" + EVENTS[0] + b"\r\n\t\r\n\n" + EVENTS[1][:-1]), "pods"))
    ) == ["1"]


async def test_a_watch_over_the_wire() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(b"".join(EVENTS))
        await wire.end_stream()

    options = WatchOptions("7", "a=b", "metadata.name=x", "shard", 60, send_initial_events=True)
    async with talking(behave) as (server, client), client.watch(PODS, "ns", options) as stream:
        assert versions(await read(stream)) == ["1", "2", "3", "4"]
        assert not stream.cut
    assert server.seen[0].path == (
        "/api/v1/namespaces/ns/pods?watch=true&allowWatchBookmarks=true&labelSelector=a%3Db&fieldSelector=metadata.name%3Dx"
        "&shardSelector=shard&resourceVersion=7&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"
    )
    assert server.seen[0].headers["accept-encoding"] == "identity"


async def test_a_line_of_two_megabytes() -> None:
    big = pod("big", "1", annotations={"data": "x" * 2_000_000})

    async def behave(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(line("ADDED", big) + EVENTS[1])
        await wire.end_stream()

    async with talking(behave) as (_, client), client.watch(PODS) as stream:
        events = [event for batch in await read(stream) for event in batch]
    assert events[0].object.body() == big
    assert events[1].object.resource_version == "2"


async def test_a_cut_connection_ends_the_stream() -> None:
    cutting: list[Wire] = []

    async def cut_later(seen: Seen, wire: Wire) -> None:
        cutting.append(wire)
        await wire.begin_stream()
        await wire.chunk(EVENTS[0] + EVENTS[1][:20])
        await wire.until_closed()

    async with talking(cut_later) as (_, client), client.watch(PODS) as stream:
        assert versions([await anext(stream)]) == ["1"]
        cutting[0].cut()
        assert await read(stream) == []
        assert stream.cut


@pytest.mark.virtual_time
async def test_silence_beyond_the_limit_is_a_stall() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(EVENTS[0])
        await wire.until_closed()

    options = WatchOptions(idle_timeout=5)
    async with talking(behave) as (_, client), client.watch(PODS, options=options) as stream:
        assert versions([await anext(stream)]) == ["1"]
        with pytest.raises(StreamStalled, match=r"pods.* silent for 5 s"):
            await anext(stream)


async def test_leaving_the_context_closes_the_connection() -> None:
    closed: asyncio.Queue[str] = asyncio.Queue()

    async def behave(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(EVENTS[0])
        await wire.until_closed()
        closed.put_nowait(seen.path)

    async with talking(behave) as (server, client):
        for _index in range(2):
            async with client.watch(PODS) as stream:
                await anext(stream)
            await asyncio.wait_for(closed.get(), 10)
        assert server.connections == 2


async def test_a_refused_watch_is_typed_and_not_retried() -> None:
    async with talking(replies((410, status(410, "Expired", "too old resource version")))) as (server, client):
        with pytest.raises(Expired, match="too old"):
            async with client.watch(PODS):
                pass
    assert len(server.seen) == 1


async def test_watches_are_not_counted_among_the_requests_at_once() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if "watch=true" in seen.path:
            await wire.begin_stream()
            await wire.chunk(EVENTS[0])
            await wire.until_closed()
        else:
            await wire.reply(200, pod())

    async with talking(behave) as (_, client), AsyncExitStack() as stack:
        for _index in range(client.settings.connections + 3):
            stream = await stack.enter_async_context(client.watch(PODS))
            await anext(stream)
        assert (await client.get(PODS, "a", "ns")).name == "a"
