"""The informer against servers that are strange, old, broken, or not what they seem, over real sockets, in virtual time."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ctl.client.config.access import Access
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.informer import Informer
from ctl.informers.settings import InformerSettings

from ..client.wireserver import PODS, Behaviour, Seen, Server, Wire, pod, serving, status

pytestmark = pytest.mark.virtual_time

PAGED = InformerSettings(stream_lists=False)


class Followed:
    """An informer, what its first subscriber has heard, and the server that it follows."""

    def __init__(self, server: Server, informer: Informer) -> None:
        self.server = server
        self.informer = informer
        self.heard: list[tuple[str, str, str]] = []

    async def follow(self) -> None:
        async for batch in self.informer.subscribe("test"):
            self.heard += [(delta.kind.name, delta.object.name, delta.object.resource_version) for delta in batch]

    def versions(self) -> dict[str, str]:
        return {obj.name: obj.resource_version for obj in self.informer.store}

    def watches(self) -> int:
        return sum(is_watch(seen) for seen in self.server.seen)


@asynccontextmanager
async def followed(behave: Behaviour, settings: InformerSettings = PAGED) -> AsyncIterator[Followed]:
    async with serving(behave) as server, Client(Access(server.url), ClientSettings(error_backoffs=())) as client:
        factory = SharedInformerFactory(client, settings)
        found = Followed(server, factory.informer(PODS))
        task = asyncio.create_task(found.follow())
        try:
            yield found
        finally:
            await factory.stop()
            await task


def is_watch(seen: Seen) -> bool:
    return "watch" in parse_qs(urlsplit(seen.path).query)


def listed(*items: dict[str, Any], version: str = "10") -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": list(items)}


def line(kind: str, body: Any) -> bytes:
    return json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n"


async def stay(wire: Wire) -> None:
    """Wait for as long as the client does."""
    while await wire.reader.read(65536):
        pass


async def stream(wire: Wire, *lines: bytes, ends: bool = False) -> None:
    await wire.begin_stream()
    for each in lines:
        await wire.chunk(each)
    if ends:
        await wire.end_stream()
    else:
        await stay(wire)


async def test_an_answer_that_is_no_list_deletes_nothing() -> None:
    """A gateway that answers 200 and `{}` once, after the history has gone."""
    lists: list[Seen] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        if not is_watch(seen):
            lists.append(seen)
            await wire.reply(200, {} if len(lists) == 2 else listed(pod("a", "5"), pod("b", "6")))
        elif len(lists) == 1:
            await wire.reply(410, status(410, "Expired"))
        else:
            await stream(wire)

    async with followed(behave) as found:
        await asyncio.sleep(60)
        assert found.heard == [("ADDED", "a", "5"), ("ADDED", "b", "6")]
        assert found.versions() == {"a": "5", "b": "6"}
        assert len(lists) == 3


async def test_the_last_word_of_the_log_is_how_it_stands(caplog: pytest.LogCaptureFixture) -> None:
    """Streams that are accepted and end at once: each time it goes on for a moment, and is interrupted again."""
    is_well = False

    async def behave(seen: Seen, wire: Wire) -> None:
        if not is_watch(seen):
            await wire.reply(200, listed(pod("a", "5")))
        else:
            await stream(wire, ends=not is_well)

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.name == "ctl.informers"]
        return [text.split(":")[0] for text in lines]

    with caplog.at_level("INFO", logger="ctl.informers"):
        async with followed(behave) as found:
            await asyncio.sleep(600)
            assert 10 < found.watches() < 30
            assert said()[::2] == ["The watch of pods.v1 is interrupted and retried"] * len(said()[::2])
            assert said()[1::2] == ["The watch of pods.v1 recovered."] * len(said()[1::2])
            assert said()[-1].startswith("The watch of pods.v1 is interrupted")
            is_well = True
            await asyncio.sleep(90)
            assert said()[-1] == "The watch of pods.v1 recovered."


async def test_an_event_that_comes_slower_than_silence_is_borne_arrives() -> None:
    """A large object over a thin line takes minutes; opening the watch again would begin it anew, for ever."""

    async def behave(seen: Seen, wire: Wire) -> None:
        if not is_watch(seen):
            await wire.reply(200, listed(pod("a", "5")))
            return
        await wire.begin_stream()
        for byte in line("MODIFIED", pod("a", "11")):
            await wire.chunk(bytes([byte]))
            await asyncio.sleep(3)
        await stay(wire)

    async with followed(behave) as found:
        await asyncio.sleep(3 * len(line("MODIFIED", pod("a", "11"))) + 1)
        assert found.versions() == {"a": "11"}
        assert found.watches() == 1


async def test_a_watch_that_falls_silent_within_an_event_is_noticed_as_any_other() -> None:
    opened: list[float] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        if not is_watch(seen):
            await wire.reply(200, listed(pod("a", "5")))
        else:
            opened.append(asyncio.get_running_loop().time())
            await stream(wire, line("MODIFIED", pod("a", "11"))[:20])

    async with followed(behave):
        await asyncio.sleep(300)
    assert [round(later - earlier) for earlier, later in itertools.pairwise(opened)] == [90, 90, 90]


async def test_a_proxy_that_ends_each_stream_after_an_event_is_not_asked_in_a_tight_loop() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if not is_watch(seen):
            await wire.reply(200, listed(pod("a", "5")))
        else:
            await stream(wire, line("MODIFIED", pod("a", str(10 + found.watches()))), ends=True)

    async with followed(behave) as found:
        await asyncio.sleep(60)
        assert 55 < found.watches() < 75
        assert found.versions() == {"a": str(10 + found.watches())}
        # Each of them was told.
        assert len(found.heard) == 1 + found.watches()
