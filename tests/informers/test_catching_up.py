"""Whoever follows another writer waits for what that one wrote, or lists."""

import asyncio

import pytest

from ctl.client.errors import RequestError
from ctl.informers.informer import Informer
from ctl.informers.listwatch import ObjectSelection
from ctl.informers.settings import InformerSettings

from .test_informer import MAPS, PAGED, STREAMED, following
from .world import Source, World

pytestmark = pytest.mark.virtual_time


def _now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "pages"])
async def test_a_version_that_the_watch_brings_needs_no_list(settings: InformerSettings) -> None:
    async with following(settings, "a") as cluster:
        written = await cluster.change("a", "2")
        assert not await cluster.informer.catch_up(written.resource_version)
        assert cluster.state()[written.key][1] == written.resource_version
        assert not await cluster.informer.catch_up("")
        assert cluster.informer.metrics.lists == 1


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "pages"])
async def test_what_the_watch_does_not_bring_in_time_is_listed_once(settings: InformerSettings) -> None:
    async with following(settings, "a") as cluster:
        await asyncio.sleep(1)
        cluster.sandbox.faults.stall_watches()
        written = await cluster.change("a", "2")
        began = _now()
        async with asyncio.timeout(10):
            assert await cluster.informer.catch_up(written.resource_version, patience=5.0)
        assert 5 <= _now() - began < 6
        assert cluster.state()[written.key][1] == written.resource_version
        assert cluster.informer.metrics.lists == 2
        await cluster.change("a", "3")
        await cluster.agreement()
        assert cluster.informer.metrics.lists == 2


async def test_a_version_of_an_object_that_is_none_of_the_informers_is_settled_by_a_list() -> None:
    async with following(STREAMED, "a") as cluster:
        ahead = str(int(cluster.informer.store.resource_version) + 1000)
        async with asyncio.timeout(10):
            assert await cluster.informer.catch_up(ahead)


async def test_a_version_that_nobody_knows_is_a_list_at_once() -> None:
    async with following(STREAMED, "a") as cluster:
        began = _now()
        assert await cluster.informer.catch_up(None)
        assert _now() - began < 1
        assert cluster.informer.metrics.lists == 2


async def test_a_stream_without_a_sign_of_life_since_then_is_no_proof() -> None:
    async with following(STREAMED, "a") as cluster:
        await asyncio.sleep(10)
        since = _now()
        await asyncio.sleep(5)
        assert await cluster.informer.catch_up("", since)
        assert not await cluster.informer.catch_up("", since), "the list was a sign of life"
        assert cluster.informer.metrics.lists == 2


async def test_an_event_since_then_is_proof_enough() -> None:
    async with following(STREAMED, "a") as cluster:
        since = _now()
        await asyncio.sleep(1)
        await cluster.change("a", "2")
        await cluster.agreement()
        assert not await cluster.informer.catch_up("", since)
        assert cluster.informer.metrics.lists == 1


async def test_a_list_that_began_before_the_question_does_not_count() -> None:
    world = World()
    for number in range(5):
        world.write(f"o{number}")
    informer = Informer(MAPS, ObjectSelection(), Source(world), PAGED)
    informer.start()
    try:
        assert await informer.wait_synced(10)
        first = asyncio.create_task(informer.catch_up(None))
        await asyncio.sleep(0.015)  # a page takes 0.01 s
        second = asyncio.create_task(informer.catch_up(None))
        async with asyncio.timeout(1):
            assert await first
            assert informer.metrics.lists == 2
            assert await second
        assert informer.metrics.lists == 3
    finally:
        await informer.stop()


async def test_many_questions_at_once_share_one_list() -> None:
    async with following(STREAMED, "a") as cluster:
        async with asyncio.timeout(10):
            assert all(await asyncio.gather(*(cluster.informer.catch_up(None) for _ in range(10))))
        assert cluster.informer.metrics.lists == 2


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "pages"])
async def test_questions_some_turns_of_the_loop_apart_are_all_answered(settings: InformerSettings, turns: int) -> None:
    """The second one may come while the watch is being ended for the first one, or when it was just ended."""
    async with following(settings, "a") as cluster:
        questions = []
        for _ in range(3):
            questions.append(asyncio.create_task(cluster.informer.catch_up(None)))
            for _ in range(turns):
                await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert all(await asyncio.gather(*questions))


async def test_the_list_is_tried_until_it_succeeds_and_a_waiter_may_go() -> None:
    world = World()
    world.write("a")
    source = Source(world)
    informer = Informer(MAPS, ObjectSelection(), source, InformerSettings())
    informer.start()
    try:
        assert await informer.wait_synced(10)
        source.refusals.extend(RequestError("connection refused") for _ in range(6))
        gone = asyncio.create_task(informer.catch_up(None))
        waiting = asyncio.create_task(informer.catch_up(None))
        await asyncio.sleep(0.01)
        gone.cancel()
        async with asyncio.timeout(120):
            assert await waiting
        assert gone.cancelled()
        lists = informer.metrics.lists
        await asyncio.sleep(600)
        assert informer.metrics.lists == lists, "nobody asks any more"
    finally:
        await informer.stop()
