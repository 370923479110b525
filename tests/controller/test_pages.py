import asyncio
import errno
import json
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from ctl.controller.http.pages import CheckResult, Pages
from ctl.controller.http.server import AddressError, AddressTaken, HTTPServer, PageRequest, PageResponse
from ctl.controller.kernel.controller import Controller
from ctl.runtime.metrics import Metrics

pytestmark = pytest.mark.virtual_time


async def _reconcile(key: str) -> None: ...


@pytest.fixture
def pages() -> Pages:
    return Pages(Metrics())


@pytest.fixture
async def server(pages: Pages) -> AsyncIterator[HTTPServer]:
    server = HTTPServer("127.0.0.1", 0)
    pages.serve(server)
    await server.start()
    yield server
    await server.stop(5)


async def _get(server: HTTPServer, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as response:
        return response.status, await response.text()


async def test_metrics_have_the_names_that_dashboards_know(server: HTTPServer, pages: Pages) -> None:
    controller: Controller[str] = Controller("things", _reconcile)
    pages.metrics.add_source(controller.samples)
    await controller.start()
    controller.queue.add("a")
    await asyncio.sleep(1)
    status, text = await _get(server, "/metrics")
    await controller.stop(1)
    assert status == 200
    for line in (
        'workqueue_depth{controller="things",name="things",priority="0"} 0.0',
        'workqueue_adds_total{controller="things",name="things"} 1.0',
        'workqueue_retries_total{controller="things",name="things"} 0.0',
        'workqueue_queue_duration_seconds_count{controller="things",name="things"} 1.0',
        'workqueue_work_duration_seconds_count{controller="things",name="things"} 1.0',
        'workqueue_unfinished_work_seconds{controller="things",name="things"} 0.0',
        'workqueue_longest_running_processor_seconds{controller="things",name="things"} 0.0',
        'controller_runtime_reconcile_total{controller="things",result="success"} 1.0',
        'controller_runtime_reconcile_total{controller="things",result="error"} 0.0',
        'controller_runtime_reconcile_total{controller="things",result="requeue"} 0.0',
        'controller_runtime_reconcile_total{controller="things",result="requeue_after"} 0.0',
        'controller_runtime_reconcile_errors_total{controller="things"} 0.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="things"} 0.0',
        'controller_runtime_reconcile_panics_total{controller="things"} 0.0',
        'controller_runtime_reconcile_timeouts_total{controller="things"} 0.0',
        'controller_runtime_reconcile_time_seconds_count{controller="things"} 1.0',
        'controller_runtime_max_concurrent_reconciles{controller="things"} 1.0',
        'controller_runtime_active_workers{controller="things"} 0.0',
    ):
        assert line in text.splitlines()


async def test_readiness_is_that_of_all_checks_and_says_which_is_not(server: HTTPServer, pages: Pages) -> None:
    assert await _get(server, "/readyz") == (200, "ok")
    pages.ready["informer pods"] = lambda: CheckResult(ok=True, text="watching, 3 s old")

    async def lease() -> CheckResult:
        await asyncio.sleep(1)
        return CheckResult(ok=True)

    pages.ready["lease"] = lease
    assert await _get(server, "/readyz") == (200, "ok")
    assert await _get(server, "/readyz?verbose") == (200, "[+]informer pods watching, 3 s old\n[+]lease ok\nok\n")
    pages.ready["informer jobs"] = lambda: CheckResult(ok=False, text="stale for 90 s")
    status, text = await _get(server, "/readyz")
    assert status == 503
    assert "[-]informer jobs stale for 90 s\n" in text
    assert await _get(server, "/readyz?exclude=informer%20jobs") == (200, "ok")
    assert await _get(server, "/livez") == (200, "ok")
    assert await _get(server, "/healthz") == (200, "ok")


async def test_a_check_that_raises_or_hangs_is_not_ok(server: HTTPServer, pages: Pages) -> None:
    def broken() -> CheckResult:
        raise KeyError("state")

    async def hanging() -> CheckResult:
        await asyncio.sleep(1000)
        return CheckResult(ok=True)

    pages.live.update(broken=broken, hanging=hanging)
    status, text = await _get(server, "/livez")
    assert status == 503
    assert text == "[-]broken KeyError('state')\n[-]hanging no answer within 5 s\nnot ok\n"


async def test_explain(server: HTTPServer, pages: Pages) -> None:
    controller: Controller[str] = Controller("things", _reconcile)
    pages.explain["things"] = controller.explain
    controller.queue.add_after("a", 60)
    status, text = await _get(server, "/debug/explain?key=a")
    assert status == 200
    found = json.loads(text)["things"]
    assert (found["state"], found["failures"], found["last_error"]) == ("delayed", 0, None)
    assert found["next_in"] == pytest.approx(60)
    assert (await _get(server, "/debug/explain"))[0] == 400
    assert await _get(server, "/debug/explain?key=a&controller=x") == (404, "No controller 'x'; there are: things.\n")


@pytest.mark.parametrize(
    ("wish", "here", "elsewhere"), [(None, 404, 403), (True, 404, 404), (False, 403, 403)], ids=["unsaid", "on", "off"]
)
async def test_debug_pages_are_for_this_machine_only_unless_asked_for(
    pages: Pages, wish: bool | None, here: int, elsewhere: int
) -> None:
    if wish is not None:
        pages.debug = lambda: wish
    server = HTTPServer("0.0.0.0", 0)
    pages.serve(server)
    await server.start()
    async with aiohttp.ClientSession() as session:
        # What is not exactly the loopback address counts as another machine: proxies of a mesh deliver from the rest of the network 127.
        for host, status in (("127.0.0.1", here), ("127.0.0.2", elsewhere)):
            async with session.get(f"http://{host}:{server.port}/debug/explain?key=a") as response:
                assert response.status == status
                if status == 403:
                    assert "settings.diagnostics.debug_pages, or --debug-pages" in await response.text()
            async with session.get(f"http://{host}:{server.port}/livez") as response:
                assert response.status == 200
    await server.stop(1)


async def test_a_page_that_raises_takes_nobody_down() -> None:
    server = HTTPServer("127.0.0.1", 0)

    async def broken(request: PageRequest) -> PageResponse:
        raise ValueError(request.query["x"])

    server.add("/broken", broken)
    with pytest.raises(ValueError, match="/broken"):
        server.add("/broken", broken)
    await server.start()
    assert await _get(server, "/broken?x=y") == (500, "ValueError: y\n")
    assert (await _get(server, "/other"))[0] == 404
    with pytest.raises(RuntimeError, match="too late"):
        server.add("/late", broken)
    await server.stop(1)
    await server.stop(1)


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressTaken, match=f"The port {port} is in use"):
            await HTTPServer("127.0.0.1", port).start()


async def test_an_address_of_nobody_is_named() -> None:
    with pytest.raises(
        AddressError, match=r"This process cannot listen at 192\.0\.2\.1:0: .*Choose an address of this machine"
    ):
        await HTTPServer("192.0.2.1", 0).start()


async def test_a_container_without_ipv6_addresses_is_served(monkeypatch: pytest.MonkeyPatch, pages: Pages) -> None:
    begin = web.TCPSite.start

    async def start(site: web.TCPSite) -> None:
        if site._host is None:
            raise OSError(errno.EADDRNOTAVAIL, "could not bind on any address")
        await begin(site)

    monkeypatch.setattr(web.TCPSite, "start", start)
    server = HTTPServer("", 0)
    pages.serve(server)
    await server.start()
    assert await _get(server, "/livez") == (200, "ok")
    await server.stop(1)


async def test_several_checks_can_be_left_out(server: HTTPServer, pages: Pages) -> None:
    pages.several.append(lambda: {"one": CheckResult(ok=False), "two": CheckResult(ok=False)})
    assert await _get(server, "/readyz") == (503, "[-]one failed\n[-]two failed\nnot ok\n")
    assert await _get(server, "/readyz?exclude=one&exclude=two") == (200, "ok")
