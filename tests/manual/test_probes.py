"""The page on health-checks: the liveness address, and what probe handlers put there."""

import asyncio
import datetime as dt
import json
import logging
import random
from typing import Any

import aiohttp
import pytest

import ctl

from ..handlers.pages import Site
from ..handlers.world import Calls, World

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def site() -> Site:
    """Where the operator answers."""
    return Site()


async def test_without_handlers_the_content_is_empty(world: World, site: Site) -> None:
    async with world.running(liveness_endpoint=f"http://{site.http}/healthz"):
        status, text = await site.get("/healthz")
    assert (status, json.loads(text)) == (200, {})


async def test_what_handlers_return_is_the_content(world: World, site: Site) -> None:
    @ctl.on.probe(id="now")
    def now(**_: Any) -> str:
        return dt.datetime.now(dt.UTC).isoformat()

    @ctl.on.probe(id="random")
    async def chance(**_: Any) -> int:
        return random.randint(0, 1_000_000)

    @ctl.on.probe(id="several")
    def several(**_: Any) -> dict[str, Any]:
        return {"queue": [1, 2], "since": dt.datetime(2030, 1, 2, tzinfo=dt.UTC)}

    async with world.running(liveness_endpoint=f"http://{site.http}/healthz"):
        status, text = await site.get("/healthz")
    found = json.loads(text)
    assert (status, set(found)) == (200, {"now", "random", "several"})
    assert dt.datetime.fromisoformat(found["now"]).tzinfo is not None
    assert found["several"]["queue"] == [1, 2]


async def test_handlers_are_asked_for_requests_and_not_for_each(world: World, site: Site, calls: Calls) -> None:
    @ctl.on.probe()
    async def probe(**_: Any) -> None:
        calls("probe", {})

    async with world.running(liveness_endpoint=f"http://{site.http}/healthz"):
        await asyncio.sleep(600)
        assert len(calls) == 0
        await asyncio.gather(*(site.get("/healthz") for _ in range(50)))
        assert len(calls) == 1
        await asyncio.sleep(600)
        await site.get("/healthz")
        assert len(calls) == 2


async def test_a_long_start_is_not_alive_yet_and_a_long_cleanup_is(world: World, site: Site, calls: Calls) -> None:
    """As the page on startup warns. Kopf answers no more when the cleanup begins; a pod that cleans up need not be killed for that."""
    url = f"http://{site.http}/healthz"

    @ctl.on.startup()
    async def startup(**_: Any) -> None:
        calls("startup", {})
        await asyncio.sleep(300)

    @ctl.on.cleanup()
    async def cleanup(**_: Any) -> None:
        calls("cleanup", {})
        await asyncio.sleep(300)

    running = world.start(liveness_endpoint=url)
    await world.until(lambda: calls.count("startup"))
    with pytest.raises(aiohttp.ClientConnectorError):
        await site.get("/healthz")
    await asyncio.sleep(301)
    assert (await site.get("/healthz"))[0] == 200
    running.stop_flag.set()
    await world.until(lambda: calls.count("cleanup"))
    assert (await site.get("/healthz"))[0] == 200
    await running.ended()


async def test_without_an_address_nobody_listens(world: World, site: Site) -> None:
    async with world.running():
        with pytest.raises(aiohttp.ClientConnectorError):
            await site.get("/healthz")


async def test_memo_and_settings_are_there_for_probes(world: World, site: Site) -> None:
    @ctl.on.startup()
    def startup(memo: ctl.Memo, **_: Any) -> None:
        memo.counter = 7

    @ctl.on.probe(id="counter")
    def counter(memo: ctl.Memo, settings: ctl.OperatorSettings, logger: logging.Logger, **_: Any) -> int:
        logger.debug("asked, %s", settings.peering.priority)
        found: int = memo.counter
        return found

    async with world.running(liveness_endpoint=f"http://{site.http}/"):
        assert json.loads((await site.get("/"))[1]) == {"counter": 7}
