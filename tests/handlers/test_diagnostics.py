"""Metrics, health and explanations of whole operators."""

import asyncio
import json
import logging
import socket
from typing import Any

import aiohttp
import pytest

import ctl
from ctl.controller.http.server import AddressTaken
from ctl.handlers.indexing.event_buffer import LIMIT
from ctl.sandbox import Match

from .pages import Site
from .world import KEX, PLAIN, World, a_world, crd, quick

pytestmark = pytest.mark.virtual_time

NAME = "kopfexamples.v1.kopf.dev"


async def test_readiness_from_the_first_moment_to_the_last(world: World, site: Site) -> None:
    going_on = asyncio.Event()

    @ctl.on.startup()
    async def slow(**_: Any) -> None:
        await going_on.wait()

    @ctl.on.event(KEX.plural)
    async def look(**_: Any) -> None: ...

    running = world.start(http=site.http)
    await asyncio.sleep(1)
    assert await site.get("/readyz") == (
        503,
        "[-]startup the startup handlers have not succeeded yet\n[+]loop lag 0.000 s\nnot ok\n",
    )
    assert await site.get("/livez") == (200, "ok")
    lists = world.sandbox.faults.answer(503, match=Match(path=KEX.plural, user_agent="ctl/"), times=None)
    going_on.set()
    await running.ready.wait()
    await asyncio.sleep(5)  # the definitions are listed meanwhile
    status, text = await site.get("/readyz")
    assert status == 503
    assert f"[-]startup waiting for the first lists of: {NAME}\n" in text
    world.sandbox.faults.rules.remove(lists)
    await asyncio.sleep(60)
    assert await site.get("/readyz") == (200, "ok")
    status, text = await site.get("/readyz?verbose")
    assert status == 200
    assert f"[+]informer {NAME} watching, heard " in text
    await running.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await site.get("/livez")


async def test_a_stream_that_is_stale_makes_the_operator_not_ready_and_nothing_else(world: World, site: Site) -> None:
    @ctl.on.event(KEX.plural)
    @ctl.on.event(PLAIN.plural)
    async def look(**_: Any) -> None: ...

    async with world.running(http=site.http):
        await asyncio.sleep(100)
        assert (await site.get("/readyz"))[0] == 200
        match = Match(path=KEX.plural, user_agent="ctl/")
        rule = world.sandbox.faults.refuse(match=match, times=None)
        world.sandbox.faults.cut_watches(match)
        await asyncio.sleep(30)
        assert (await site.get("/readyz"))[0] == 200
        await asyncio.sleep(65)
        status, text = await site.get("/readyz")
        assert status == 503
        assert f"[-]informer {NAME} " in text
        assert "silent for more than 90 s" in text
        assert "[+]informer plains.v1.kopf.dev watching" in text
        assert (await site.get("/livez"))[0] == (await site.get("/healthz"))[0] == 200
        world.sandbox.faults.rules.remove(rule)
        await asyncio.sleep(60)
        assert (await site.get("/readyz"))[0] == 200


async def test_a_server_that_opens_streams_and_says_nothing_makes_the_operator_not_ready(
    world: World, site: Site
) -> None:
    @ctl.on.event(KEX.plural)
    @ctl.on.event(PLAIN.plural)
    async def look(**_: Any) -> None: ...

    match = Match(path=f"/{KEX.plural}$", user_agent="ctl/")
    async with world.running(http=site.http):
        await asyncio.sleep(125)
        for passed in range(100):
            world.sandbox.faults.stall_watches(match)
            await asyncio.sleep(1)
            if passed < 25:
                assert (await site.get("/readyz"))[0] == 200
        status, text = await site.get("/readyz")
        assert status == 503
        assert f"[-]informer {NAME} watching" in text
        assert "silent for more than 90 s" in text
        assert "[+]informer plains.v1.kopf.dev watching" in text
        assert (await site.get("/livez"))[0] == 200
        await asyncio.sleep(150)
        assert (await site.get("/readyz"))[0] == 200, "streams speak again"


async def test_what_is_missing_or_forbidden_is_shown_and_is_ready(world: World, site: Site) -> None:
    @ctl.on.event(KEX.plural)
    async def look(**_: Any) -> None: ...

    world.sandbox.faults.answer(403, match=Match(path=KEX.plural, user_agent="ctl/"), times=None)
    async with world.running(http=site.http):
        await asyncio.sleep(5)
        status, text = await site.get("/readyz?verbose")
        assert status == 200
        assert f"[+]informer {NAME} parked" in text


async def test_the_default_port_is_taken_after_startup_and_only_if_it_is_free(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("ctl.controller.http.addresses.PORT", port)
        monkeypatch.setattr("ctl.handlers.running.operator.is_in_cluster", lambda: True)
        with caplog.at_level(logging.WARNING):
            async with world.running(http="auto"):
                pass
        assert f"Metrics and health are not served: The port {port} is in use" in caplog.text
        for address in (str(port), f"127.0.0.1:{port}"):
            with pytest.raises(AddressTaken, match=f"The port {port} is in use"):
                await world.start(http=address).ended()


async def test_liveness_at_the_same_address_shares_the_server(world: World, site: Site) -> None:
    going_on = asyncio.Event()

    @ctl.on.startup()
    async def slow(**_: Any) -> None:
        await going_on.wait()

    @ctl.on.probe(id="now")
    async def now(**_: Any) -> int:
        return 1

    running = world.start(http=site.http, liveness_endpoint=f"http://{site.http}/healthz")
    await asyncio.sleep(1)
    assert await site.get("/healthz") == (503, "The startup handlers have not succeeded yet.\n")
    going_on.set()
    await running.ready.wait()
    assert await site.get("/healthz") == (200, '{"now": 1}')
    assert await site.get("/livez") == (200, "ok")
    assert (await site.get("/metrics"))[0] == 200
    await running.stop()


async def test_a_bad_address_is_refused_before_anything_runs(world: World) -> None:
    with pytest.raises(ValueError, match=r"\[HOST:\]PORT"):
        await world.start(http="nowhere").ended()


async def test_openmetrics_are_spoken_to_those_who_ask(world: World, site: Site) -> None:
    async with world.running(http=site.http):
        status, text = await site.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert status == 200
        assert text.endswith("# EOF\n")


async def test_handlers_are_counted_by_how_they_end(world: World, site: Site) -> None:
    settings = quick()
    settings.execution.max_workers = 1

    @ctl.on.create(KEX.plural, id="good")
    def good(**_: Any) -> None: ...

    @ctl.on.create(KEX.plural, id="slow", retries=2, backoff=5)
    async def slow(retry: int, **_: Any) -> None:
        await asyncio.sleep(0.5)
        raise ValueError("always")

    @ctl.on.create(KEX.plural, id="careless", errors=ctl.ErrorsMode.IGNORED)
    async def careless(**_: Any) -> None:
        raise ValueError("never mind")

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        @ctl.subhandler(id="child")
        async def child(retry: int, **_: Any) -> None:
            if not retry:
                raise ctl.TemporaryError("later", delay=1)

    @ctl.on.update(KEX.plural, id="unused")
    async def unused(**_: Any) -> None: ...

    @ctl.daemon(KEX.plural, id="forever")
    async def forever(stopped: Any, **_: Any) -> None:
        await stopped.wait()

    @ctl.timer(KEX.plural, id="often", interval=10)
    def often(**_: Any) -> None: ...

    async with world.running(http=site.http, settings=settings):
        await world.create()
        await world.handled()
        found = await site.samples()
        created = await site.get("/metrics")
    calls = {
        name.removeprefix("ctl_handler_calls_total"): value
        for name, value in found.items()
        if name.startswith("ctl_handler_calls_total{") and value
    }
    assert calls == {
        '{handler="good",kind="change",outcome="succeeded"}': 1,
        '{handler="slow",kind="change",outcome="retried"}': 1,
        '{handler="slow",kind="change",outcome="failed"}': 1,
        '{handler="careless",kind="change",outcome="ignored"}': 1,
        '{handler="parent",kind="change",outcome="waiting"}': 1,
        '{handler="parent",kind="change",outcome="succeeded"}': 1,
        '{handler="parent",kind="subhandler",outcome="retried"}': 1,
        '{handler="parent",kind="subhandler",outcome="succeeded"}': 1,
        '{handler="often",kind="timer",outcome="succeeded"}': calls[
            '{handler="often",kind="timer",outcome="succeeded"}'
        ],
    }
    assert found['ctl_handler_calls_total{handler="unused",kind="change",outcome="failed"}'] == 0
    assert found['ctl_handler_duration_seconds_sum{handler="slow",kind="change"}'] == pytest.approx(1.0, abs=0.01)
    assert found['ctl_handler_calls_in_progress{handler="forever",kind="daemon"}'] == 1
    assert (found["ctl_daemons"], found["ctl_timers"]) == (1, 1)
    assert found['ctl_pool_threads{pool="handlers"}'] == 1
    assert found['ctl_pool_wait_seconds_count{pool="handlers"}'] >= 2
    assert created[0] == 200


async def test_what_is_handled_and_not_defined_is_shown_until_it_is(site: Site) -> None:
    async with a_world(definitions=[crd(KEX)]) as world:

        @ctl.on.create(KEX.plural, id="there")
        @ctl.on.create(PLAIN.plural, id="later")
        @ctl.on.create(PLAIN.group, PLAIN.plural, id="the same, otherwise")
        async def fn(**_: Any) -> None: ...

        async with world.running(http=site.http):
            shown = {name for name in await site.samples() if name.startswith("ctl_unserved_resources")}
            assert shown == {
                'ctl_unserved_resources{reason="unresolved",resource="plains"}',
                'ctl_unserved_resources{reason="unresolved",resource="kopf.dev/plains"}',
            }
            status, text = await site.get("/readyz?verbose")
            assert status == 200
            assert "[+]resources not served: kopf.dev/plains (unresolved), plains (unresolved)\n" in text
            await world.sandbox.load_manifest(crd(PLAIN))
            await asyncio.sleep(20)
            assert not [name for name in await site.samples() if name.startswith("ctl_unserved_resources")]
            assert "[+]resources all are served\n" in (await site.get("/readyz?verbose"))[1]


async def test_two_operators_in_one_loop_count_apart(world: World, site: Site) -> None:
    @ctl.on.create(KEX.plural, id="good")
    async def good(**_: Any) -> None: ...

    other, mine, theirs = Site(), world.registry, type(world.registry)()

    @ctl.on.create(PLAIN.plural, id="other", registry=theirs)
    async def elsewhere(**_: Any) -> None: ...

    async with world.running(http=site.http, registry=mine), world.running(http=other.http, registry=theirs):
        await world.create()
        await world.handled()
        assert (await site.samples())['ctl_handler_calls_total{handler="good",kind="change",outcome="succeeded"}'] == 1
        assert not [name for name in await other.samples() if 'handler="good"' in name]


async def test_explain_says_where_an_object_stands(world: World, site: Site) -> None:
    refusing = asyncio.Event()

    @ctl.on.create(KEX.plural, id="good")
    async def good(**_: Any) -> None: ...

    @ctl.on.create(KEX.plural, id="bad")
    async def bad(**_: Any) -> None:
        raise ctl.TemporaryError("not yet", delay=100)

    @ctl.timer(KEX.plural, id="often", interval=50)
    async def often(**_: Any) -> None: ...

    @ctl.daemon(KEX.plural, id="forever")
    async def forever(**_: Any) -> None:
        await refusing.wait()

    @ctl.on.event(PLAIN.plural)
    async def look(patch: Any, **_: Any) -> None:
        patch.spec["seen"] = True

    async def explain(key: str) -> Any:
        status, text = await site.get(f"/debug/explain?key={key}")
        assert status == 200, text
        return json.loads(text)["operator"]

    async with world.running(http=site.http):
        await world.create()
        await asyncio.sleep(10)
        found = await explain("kopfexamples/default/one")
        version = world.get()["metadata"]["resourceVersion"]
        assert found["key"] == f"{NAME} default/one"
        assert (found["state"], found["reason"], found["gate_open"]) == ("delayed", "requeue_after", True)
        assert found["next_in"] == pytest.approx(90, abs=1)
        assert (found["failures"], found["last_error"]) == (0, None)
        assert found["cached_version"] == found["written_version"] == version
        assert found["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        handlers = {told["id"]: told for told in found["handlers"]}
        assert (handlers["good"]["state"], handlers["good"]["attempts"]) == ("succeeded", 1)
        assert (handlers["bad"]["state"], handlers["bad"]["last_error"]) == ("delayed", "not yet")
        assert handlers["bad"]["next_in"] == pytest.approx(90, abs=1)
        assert (handlers["often"]["kind"], handlers["often"]["state"]) == ("timer", "waiting")
        assert (handlers["forever"]["kind"], handlers["forever"]["state"]) == ("daemon", "running")
        for name in ("kopfexample.kopf.dev", NAME, "KopfExample"):
            assert (await explain(f"{name}/default/one"))["uid"] == found["uid"]

        world.sandbox.faults.answer(500, match=world.own_patches(), times=None)
        await world.create("two", resource=PLAIN)
        await asyncio.sleep(0.5)
        told = await explain("plains/default/two")
        assert told["state"] == "in back-off"
        assert told["failures"] == 1
        assert "500" in told["last_error"]
        assert (await site.samples())['controller_runtime_reconcile_errors_total{controller="operator"}'] == 1


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 400, "Say which key: /debug/explain?key=kopfexamples.kopf.dev/default/my-object"),
        ("?key=one", 400, "A key is RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME, such as "),
        ("?key=kopfexamples/one", 400, f"{NAME} is namespaced: its keys are RESOURCE/NAMESPACE/NAME; got "),
        ("?key=pods/default/one", 404, f"No handler of this operator is for 'pods'; served are: {NAME}."),
        (
            "?key=kopfexamples/default/no",
            404,
            f"There is no 'no' in the copy of {NAME} in the namespace 'default': it ",
        ),
        ("?key=kopfexamples/default/one&controller=no", 404, "No controller 'no'; there are: operator."),
    ],
)
async def test_explain_says_what_it_expects(world: World, site: Site, query: str, status: int, text: str) -> None:
    @ctl.on.event(KEX.plural)
    async def look(**_: Any) -> None: ...

    async with world.running(http=site.http):
        found = await site.get(f"/debug/explain{query}")
        assert found[0] == status
        assert text in found[1]


async def test_events_that_no_handler_saw_are_counted_and_told_of_once(
    world: World, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    going_on, seen = asyncio.Event(), []

    @ctl.on.event(KEX.plural)
    async def look(body: Any, **_: Any) -> None:
        seen.append(body["spec"]["field"])
        await going_on.wait()

    async with world.running(http=site.http):
        await world.create()
        for number in range(LIMIT + 30):
            await world.patch({"spec": {"field": number}})
        await asyncio.sleep(1)
        collapsed = (await site.samples())["ctl_raw_events_collapsed_total"]
        going_on.set()
        await asyncio.sleep(1)
    assert collapsed > 0
    assert collapsed + len(seen) == LIMIT + 30 + 1
    assert seen[-1] == LIMIT + 29
    assert caplog.text.count("come faster than its handlers take them") == 1


@pytest.mark.parametrize(("said", "status"), [({}, 403), ({"debug_pages": True}, 200), ({"debug_pages": False}, 403)])
async def test_debug_pages_are_shown_to_other_machines_only_where_that_was_asked_for(
    world: World, site: Site, said: dict[str, Any], status: int
) -> None:
    @ctl.on.event(KEX.plural)
    async def look(**_: Any) -> None: ...

    # To the server, whoever does not come from exactly 127.0.0.1 is another machine.
    site.http = site.http.replace("127.0.0.1", "127.0.0.2")
    async with world.running(http=site.http, **said):
        await world.create()
        await asyncio.sleep(1)
        assert (await site.get("/debug/explain?key=kopfexamples/default/one"))[0] == status
        assert (await site.get("/readyz"))[0] == 200
