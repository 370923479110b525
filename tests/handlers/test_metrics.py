"""The metrics of a running operator: by the names that dashboards know, and as the documentation lists them."""

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import ctl
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.sandbox import Match

from .pages import Site
from .world import KEX, World, quick

pytestmark = pytest.mark.virtual_time

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"

CUSTOMARY = {
    # client-go's, with the further labels of controller-runtime.
    "workqueue_depth": ("gauge", {"name", "controller", "priority"}),
    "workqueue_adds_total": ("counter", {"name", "controller"}),
    "workqueue_queue_duration_seconds": ("histogram", {"name", "controller"}),
    "workqueue_work_duration_seconds": ("histogram", {"name", "controller"}),
    "workqueue_unfinished_work_seconds": ("gauge", {"name", "controller"}),
    "workqueue_longest_running_processor_seconds": ("gauge", {"name", "controller"}),
    "workqueue_retries_total": ("counter", {"name", "controller"}),
    "leader_election_master_status": ("gauge", {"name"}),
    "leader_election_slowpath_total": ("counter", {"name"}),
    "rest_client_requests_total": ("counter", {"code", "method", "host"}),
    "rest_client_request_duration_seconds": ("histogram", {"verb", "host"}),
    "rest_client_request_retries_total": ("counter", {"code", "verb", "host"}),
    # controller-runtime's.
    "controller_runtime_reconcile_total": ("counter", {"controller", "result"}),
    "controller_runtime_reconcile_errors_total": ("counter", {"controller"}),
    "controller_runtime_terminal_reconcile_errors_total": ("counter", {"controller"}),
    "controller_runtime_reconcile_panics_total": ("counter", {"controller"}),
    "controller_runtime_reconcile_timeouts_total": ("counter", {"controller"}),
    "controller_runtime_reconcile_time_seconds": ("histogram", {"controller"}),
    "controller_runtime_max_concurrent_reconciles": ("gauge", {"controller"}),
    "controller_runtime_active_workers": ("gauge", {"controller"}),
}


@asynccontextmanager
async def busy(world: World) -> AsyncIterator[Site]:
    """A leader with handlers of most kinds, of which each has been called."""
    site, settings = Site(), quick()
    settings.networking.error_backoffs = (1,)

    @ctl.on.create(KEX.plural)
    def in_a_thread(**_: Any) -> None: ...

    @ctl.on.event(KEX.plural)
    async def look(**_: Any) -> None: ...

    @ctl.daemon(KEX.plural)
    async def forever(stopped: Any, **_: Any) -> None:
        await stopped.wait()

    @ctl.timer(KEX.plural, interval=10)
    async def often(**_: Any) -> None: ...

    world.sandbox.faults.refuse(match=Match(path=KEX.plural, method="GET", user_agent="ctl/"), times=1)
    async with world.running(
        http=site.http, settings=settings, leader_elect=True, lease_name="op", lease_namespace="default"
    ):
        world.sandbox.faults.answer(429, match=world.own_patches(), times=1)
        await world.create()
        await world.handled()
        await asyncio.sleep(20)
        yield site


async def test_customary_names_have_their_types_and_labels(world: World) -> None:
    async with busy(world) as site:
        types, labels = await site.types(), await site.labels()
    assert {name: (types.get(name), labels[name]) for name in CUSTOMARY} == CUSTOMARY


async def test_all_other_names_are_ours_or_the_process(world: World) -> None:
    async with busy(world) as site:
        types = await site.types()
    others = {name for name in types if not name.startswith(("ctl_", "python_", "process_"))}
    assert others == CUSTOMARY.keys()


async def test_the_documentation_lists_what_there_is(world: World) -> None:
    async with busy(world) as site:
        types, labels = await site.types(), await site.labels()
    documented = _documented()
    there = {name: kind for name, kind in types.items() if not name.startswith("process_")}
    assert {name: kind for name, (kind, _) in documented.items() if not name.startswith("process_")} == there
    assert {name: names for name, (_, names) in documented.items() if name in labels} == labels
    alerts = "\n".join(re.findall(r"^ +(?:expr: )?(.*)$", DOCS.read_text(), re.MULTILINE))
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\b\w+_(?:\w+)(?=[\[{) ])", alerts)}
    assert {
        name for name in asked if name.startswith(("ctl_", "workqueue_", "controller_", "rest_"))
    } <= documented.keys()


def _documented() -> dict[str, tuple[str, set[str]]]:
    """Name, type and labels of each metric, as the tables have them."""
    found: dict[str, tuple[str, set[str]]] = {}
    common: set[str] = set()
    for line in DOCS.read_text().splitlines():
        if line.startswith("All have the labels"):
            common = set(re.findall(r"`(\w+)`", line))
        elif line.startswith("## "):
            common = set()
        row = re.fullmatch(r"\| `(\w+)` \| (counter|gauge|histogram) \| (.*?) \| .* \|", line)
        if row is not None:
            assert row[1] not in found, f"{row[1]} is listed twice"
            found[row[1]] = row[2], set(re.findall(r"`(\w+)`", row[3])) | common
    return found


async def test_what_an_operator_in_trouble_is_asked_for(world: World) -> None:
    """Queue depth, work time, retries, watch age, leader, API calls by code; one watch that is deaf is seen by readiness only."""
    gate = asyncio.Event()

    async with busy(world) as site:

        @ctl.on.update(KEX.plural, registry=world.registry, id="slow")
        async def slow(**_: Any) -> None:
            await gate.wait()

        before = await site.samples()
        labels = '{controller="operator",name="operator"'
        assert before[f'workqueue_depth{labels},priority="0"}}'] == 0
        assert before[f"workqueue_work_duration_seconds_count{labels}}}"] > 0
        assert before[f"workqueue_retries_total{labels}}}"] == 0
        assert before['leader_election_master_status{name="op"}'] == 1
        assert before["ctl_ready"] == 1
        calls = {name for name in before if name.startswith("rest_client_requests_total")}
        assert {re.findall('code="(.*?)"', name)[0] for name in calls} >= {"200", "201", "<error>"}
        age = next(name for name in before if name.startswith("ctl_informer_last_event_age") and KEX.plural in name)
        assert before[age] < 70

        await world.patch({"spec": {"field": "other"}})
        await asyncio.sleep(30)
        hung = await site.samples()
        assert hung[f"workqueue_longest_running_processor_seconds{labels}}}"] == pytest.approx(30, abs=1)
        assert hung['controller_runtime_active_workers{controller="operator"}'] == 1
        assert hung['ctl_handler_calls_in_progress{handler="slow",kind="change"}'] == 1
        gate.set()

        match = Match(path=KEX.plural, user_agent="ctl/", method="GET")
        world.sandbox.faults.refuse(match=match, times=None)
        world.sandbox.faults.cut_watches(match)
        await asyncio.sleep(95)
        deaf = await site.samples()
        assert deaf[age] > 90
        assert (await site.get("/readyz"))[0] == 503
        assert (await site.get("/livez"))[0] == 200


async def test_a_pool_without_free_threads_is_measured_and_told_of_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    release, site, settings, pool = threading.Event(), Site(), quick(), '{pool="handlers"}'
    settings.execution.max_workers = 2
    settings.diagnostics.pool_wait_limit = 0.05

    @ctl.on.create(KEX.plural, id="slow")
    def slow(**_: Any) -> None:
        release.wait(90)

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "wait for threads" in record.getMessage()]

    with caplog.at_level(logging.WARNING):
        async with world.running(http=site.http, settings=settings):
            try:
                for number in range(5):
                    await world.create(f"o{number}")
                # On a machine that is busy some of them come when it was told already.
                async with asyncio.timeout(60):
                    while (found := await site.samples())[f"ctl_pool_queued_calls{pool}"] < 3 or not told():  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            finally:
                release.set()
            for number in range(5):
                await world.handled(f"o{number}")
            after = await site.samples()
    assert [found[f"ctl_pool_{name}{pool}"] for name in ("threads", "busy_threads", "queued_calls")] == [2, 2, 3]
    assert found[f"ctl_pool_saturation_ratio{pool}"] == 2.5
    assert after[f"ctl_pool_saturation_ratio{pool}"] == 0
    assert after[f"ctl_pool_wait_seconds_count{pool}"] == 5
    (text,) = told()
    assert re.search(r"all 2 of settings.execution.executor are busy \(with slow: 2\), [123] calls wait", text)
    assert "settings.execution.max_workers" in text


async def test_a_standby_is_ready_and_says_who_leads(world: World) -> None:
    other, settings = Site(), quick()
    settings.leadership.identity = "second"
    async with busy(world) as site:
        standby = world.start(
            http=other.http,
            settings=settings,
            registry=OperatorRegistry(),
            leader_elect=True,
            lease_name="op",
            lease_namespace="default",
        )
        await standby.ready.wait()
        await asyncio.sleep(30)
        status, text = await other.get("/readyz?verbose")
        assert status == 200
        assert "[+]leadership standby, the leader is " in text
        assert "[+]peering " in text
        assert (await other.samples())['leader_election_master_status{name="op"}'] == 0
        assert "[+]leadership leading, for " in (await site.get("/readyz?verbose"))[1]
        await standby.stop()


async def test_openmetrics_are_valid(world: World) -> None:
    async with busy(world) as site:
        status, text = await site.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    families = {family.name: family.type for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert families["controller_runtime_reconcile"] == "counter"
    assert families["ctl_handler_duration_seconds"] == "histogram"
