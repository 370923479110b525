"""A server that was restored from a backup counts from where it was then: its copies are to follow it there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ctl.client.errors import RequestError
from ctl.client.resources import Resource
from ctl.client.watch import WatchEvent
from ctl.informers.informer import Informer
from ctl.informers.listwatch import ObjectSelection

from .world import ERRORS, Source, World, bookmark

pytestmark = pytest.mark.virtual_time
THINGS = Resource("", "v1", "things", kind="Thing", namespaced=True)


def restore(world: World, source: Source) -> None:
    """What was there at first is there again, and time goes on from then. A watch from the future gets no bookmarks either."""
    source.bookmark_period = None
    world.version = 20
    world.history.clear()
    gone = [name for name in world.objects if name[1] != "a"]
    for name in gone:
        del world.objects[name]


@asynccontextmanager
async def following(*, streams: bool = True) -> AsyncIterator[tuple[World, Source, Informer]]:
    world = World()
    for name in "abc":
        world.write(name)
    source = Source(world, streams_lists=streams)
    informer = Informer(THINGS, ObjectSelection(), source, chance=lambda: 0.5)
    informer.start()
    await informer.wait_synced(10)
    yield world, source, informer
    await informer.stop()


async def agree(world: World, informer: Informer, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while {obj.key: (obj.uid, obj.resource_version) for obj in informer.store} != world.state():  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def test_silence_after_an_outage_is_asked_about() -> None:
    async with following() as (world, source, informer):
        restore(world, source)
        source.refusals.append(RequestError("connection refused"))
        for stream in list(source.open()):
            stream.end(RequestError("connection reset"))
        await asyncio.sleep(5)
        world.write("a")
        await agree(world, informer, 95)


async def test_silence_without_an_outage_is_asked_about_too() -> None:
    async with following() as (world, source, informer):
        restore(world, source)
        for stream in list(source.open()):
            stream.end()
        world.write("a")
        await agree(world, informer, 185)


async def test_events_from_the_past_are_asked_about_at_once() -> None:
    async with following() as (world, source, informer):
        restore(world, source)
        obj = world.write("a")
        (stream,) = source.open()
        stream.extra.append(WatchEvent("MODIFIED", obj))
        stream.wake.set()
        await agree(world, informer, 2)


async def test_a_bookmark_from_the_past_is_asked_about_at_once() -> None:
    async with following() as (world, source, informer):
        restore(world, source)
        (stream,) = source.open()
        stream.extra.append(bookmark(world.version))
        stream.wake.set()
        await agree(world, informer, 2)


@pytest.mark.parametrize("trouble", ["reset", "expired", "internal", "end"])
async def test_events_from_the_past_are_asked_about_also_when_the_stream_ends_with_them(trouble: str) -> None:
    async with following() as (world, source, informer):
        restore(world, source)
        obj = world.write("a")
        (stream,) = source.open()
        stream.extra.append(WatchEvent("MODIFIED", obj))
        stream.end(None if trouble == "end" else ERRORS.get(trouble, lambda: RequestError("connection reset"))())
        await agree(world, informer, 2)
        # The doubt is over with that stream: the silence of the next one is no part of it.
        await asyncio.sleep(100)
        assert informer.metrics.stalls == 1


async def test_a_server_that_repeats_itself_is_asked_once_in_a_while() -> None:
    async with following() as (world, source, informer):
        for _ in range(100):
            (stream,) = source.open()
            stream.extra.append(WatchEvent("MODIFIED", world.history[0][2]))
            stream.wake.set()
            await asyncio.sleep(1)
        world.write("b")
        await agree(world, informer, 2)
        asked = [line for line in source.log if line.startswith("list")]
        assert len(asked) == 2
        assert informer.metrics.lists == 1
