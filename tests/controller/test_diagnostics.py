"""What a program of reconcilers shows of itself: pages, metrics, and who blocks its loop."""

import asyncio
import logging
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.http.addresses import Address, sites
from ctl.controller.http.diagnostics import Diagnostics
from ctl.controller.http.server import AddressTaken
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.controller.program.serve import ServeOptions, serve
from ctl.runtime.watchdog import LoopWatchdog
from ctl.sandbox import Match, Sandbox

from ..handlers.pages import Site

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
ENOUGH = 60.0


async def _create(sandbox: Sandbox, name: str) -> None:
    async with Client(Access(sandbox.url), ClientSettings(user_agent="user")) as user:
        await user.create(CONFIGMAPS, {"metadata": {"name": name, "namespace": "default"}})


async def _rest(key: ctl.Key, context: ctl.Context) -> None: ...


@asynccontextmanager
async def _program(sandbox: Sandbox, function: object = _rest, **settings: object) -> AsyncIterator[Site]:
    """A leader, from when it is ready to its end."""
    site = Site()
    stop = asyncio.Event()
    serving = ServeOptions(access=Access(sandbox.url), settings=ClientSettings(user_agent="ctl/test"), **settings)  # type: ignore[arg-type]
    running = asyncio.create_task(
        serve(
            ctl.controller("configmaps").named("maps").reconciles(function),  # type: ignore[arg-type]
            stop=stop,
            options=serving,
            leadership=LeaderElectionConfig("maps", "default", "a"),
            http=site.http,
        )
    )
    try:
        async with asyncio.timeout(ENOUGH):
            while not running.done():
                try:
                    if (await site.get("/readyz"))[0] == 200:
                        break
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.05)
        yield site
    finally:
        stop.set()
        await running


@pytest.mark.virtual_time
async def test_its_metrics_are_documented_and_those_of_the_customary_names_are_all_there(sandbox: Sandbox) -> None:
    async with _program(sandbox) as site:
        await _create(sandbox, "one")
        await asyncio.sleep(5)
        text = (await site.get("/metrics"))[1]
    types = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE "))
    rows = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", DOCS.read_text(), re.MULTILINE)
    documented = dict(rows)
    assert {name: documented.get(name) for name in types} == types
    customary = ("workqueue_", "controller_runtime_", "leader_election_", "rest_client_", "ctl_loop_", "ctl_informer_")
    assert {name for name in documented if name.startswith(customary)} <= types.keys()
    assert "ctl_ready 1.0" in text
    assert "ctl_build_info{" in text


@pytest.mark.virtual_time
async def test_a_server_that_opens_streams_and_says_nothing_makes_it_not_ready(sandbox: Sandbox) -> None:
    async with _program(sandbox) as site:
        await asyncio.sleep(125)
        for _ in range(100):
            sandbox.faults.stall_watches(Match(path="/configmaps$", user_agent="ctl/"))
            await asyncio.sleep(1)
        status, text = await site.get("/readyz")
        assert status == 503
        assert "[-]informer configmaps.v1 watching" in text
        assert "silent for more than 90 s" in text
        assert (await site.get("/livez"))[0] == 200
        await asyncio.sleep(150)
        assert (await site.get("/readyz"))[0] == 200, "streams speak again"


async def test_the_default_port_is_done_without_when_it_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        diagnostics = Diagnostics(LoopWatchdog(), str, debug_pages=lambda: None)
        (by_default,) = sites(Address("127.0.0.1", port, explicit=False))
        server = diagnostics.server(by_default)
        with caplog.at_level(logging.WARNING, "ctl.controller"):
            await server.start()
        await server.stop(1)
        (asked_for,) = sites(Address("127.0.0.1", port))
        with pytest.raises(AddressTaken):
            await diagnostics.server(asked_for).start()
    assert f"Metrics and health are not served: The port {port} is in use" in caplog.text


async def test_a_reconciler_that_blocks_the_loop_is_named_and_counted(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """In real time, since that is what is measured."""

    def told() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.name == "ctl.loop"]
        return [message for message in messages if "the reconciler of maps for default/guilty" in message]

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        end = time.monotonic() + ENOUGH
        while key.name == "guilty" and not told() and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 (what is tested)

    with caplog.at_level(logging.WARNING, "ctl.loop"):
        async with _program(sandbox, reconcile, loop_block_limit=0.05) as site:
            await _create(sandbox, "guilty")
            async with asyncio.timeout(ENOUGH):
                while len(told()) < 2:  # noqa: ASYNC110 (told by the log)
                    await asyncio.sleep(0.01)
            text = (await site.get("/metrics"))[1]
            readiness = (await site.get("/readyz?verbose"))[1]
    begun, ended = told()[:2]
    assert f"{__file__}:" in begun
    assert "turns again" in ended
    found = re.search(r'^ctl_loop_blocks_total\{handler="maps"\} (.*)$', text, re.MULTILINE)
    assert found is not None
    assert float(found[1]) >= 1
    assert "[+]loop lag " in readiness


@pytest.mark.virtual_time
@pytest.mark.parametrize(("shown", "status"), [(None, 404), (True, 404), (False, 403)])
async def test_debug_pages_of_a_program_can_be_switched_off(sandbox: Sandbox, shown: bool | None, status: int) -> None:
    async with _program(sandbox, debug_pages=shown) as site:
        assert (await site.get("/debug/explain?key=default/none"))[0] == status
        assert (await site.get("/livez"))[0] == 200
