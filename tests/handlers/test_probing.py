"""Liveness probes: what the `on.probe` handlers find, at the address that was asked for."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest

import ctl
from ctl.controller.http.server import AddressTaken
from ctl.handlers.kopf.probing import KEEP_SECONDS

from ..ports import free_port
from .world import Calls, World

pytestmark = pytest.mark.virtual_time


async def get(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, (await response.json() if response.status == 200 else await response.text())


async def test_the_results_are_shown_by_id_and_kept_for_a_while(world: World, calls: Calls) -> None:
    @ctl.on.probe(id="now")
    async def now(**_: Any) -> int:
        calls("now", {})
        return calls.count("now")

    @ctl.on.probe(id="nothing")
    async def nothing(**_: Any) -> None: ...

    url = f"http://127.0.0.1:{free_port()}/healthz"
    async with world.running(liveness_endpoint=url):
        found = await asyncio.gather(*(get(url) for _ in range(5)))
        assert found == [(200, {"now": 1})] * 5
        await asyncio.sleep(KEEP_SECONDS)
        assert await get(url) == (200, {"now": 2})
        assert (await get(url + "/other"))[0] == 404


async def test_a_failed_probe_is_a_500(world: World) -> None:
    @ctl.on.probe(id="bad")
    async def bad(**_: Any) -> None:
        raise ctl.PermanentError("not well")

    url = f"http://127.0.0.1:{free_port()}/"
    async with world.running(liveness_endpoint=url):
        status, text = await get(url)
        assert status == 500
        assert "bad" in text


async def test_a_taken_port_ends_the_operator_with_its_number(world: World) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        with pytest.raises(AddressTaken, match=str(port)):
            async with world.running(liveness_endpoint=f"http://127.0.0.1:{port}/"):
                pass


async def test_failing_probes_are_no_life_and_are_asked_once_whoever_goes_away(world: World, calls: Calls) -> None:
    @ctl.on.probe(id="patient", backoff=7)
    async def patient(retry: int, **_: Any) -> str:
        calls("patient", {})
        if not retry:
            raise ValueError("not yet")
        return "fine"

    url = f"http://127.0.0.1:{free_port()}"
    async with world.running(http=url.removeprefix("http://")):
        assert await get(f"{url}/livez") == (503, "[-]probes no answer within 5 s\nnot ok\n")
        await asyncio.sleep(3)
        async with aiohttp.ClientSession() as session, session.get(f"{url}/livez?verbose") as response:
            assert await response.text() == '[+]probes {"patient": "fine"}\nok\n'
        assert calls.count("patient") == 2
