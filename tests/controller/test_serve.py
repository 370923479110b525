"""A program of reconcilers, run by one call; sources other than informers; what a start with many objects asks of the server."""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
from bisect import bisect
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.api.client import UnknownResource
from ctl.controller.building.context import Context
from ctl.controller.http.server import AddressTaken
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.controller.leader.lease_rules import LeaseRules
from ctl.controller.program.serve import ServeOptions, serve
from ctl.controller.program.terms import StillActing
from ctl.sandbox import Match, Sandbox

from ..handlers.pages import Site

pytestmark = pytest.mark.virtual_time

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
SEEDS = 40 if "SOAK_ROUNDS" in os.environ else 2
MANY = 10_000 if "SOAK_ROUNDS" in os.environ else 1_000


async def _config(user: Client, name: str, **data: str) -> None:
    await user.create(
        CONFIGMAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data},
    )


def _serving(sandbox: Sandbox, **settings: Any) -> ServeOptions:
    return ServeOptions(access=Access(sandbox.url), settings=ClientSettings(user_agent="ctl/test", **settings))


async def test_serving_ends_at_a_signal_and_lets_attempts_end(sandbox: Sandbox, user: Client) -> None:
    ended: list[ctl.Key] = []

    async def reconcile(key: ctl.Key, context: Context) -> None:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(5)
        ended.append(key)

    await _config(user, "one")
    async with asyncio.timeout(60):
        await serve(ctl.controller("configmaps").reconciles(reconcile), options=_serving(sandbox))
    assert ended == [ctl.Key("default", "one")]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_thousand_busy_attempts_end_within_the_grace_and_others_tasks_go_on(
    sandbox: Sandbox, user: Client
) -> None:
    """An embedded program: its own tasks are none of ours, and attempts that would go on for ever are cancelled in time."""
    loop, busy, cancelled = asyncio.get_running_loop(), 0, 0
    stop, ticks = asyncio.Event(), 0

    async def theirs() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(1)
            ticks += 1

    async def reconcile(key: ctl.Key, context: Context) -> None:
        nonlocal busy, cancelled
        busy += 1
        if busy == 1000:
            stop.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    for number in range(1000):
        await _config(user, f"one-{number:04}")
    other = asyncio.create_task(theirs())
    serving = ServeOptions(access=Access(sandbox.url), grace=10.0)
    await_stop = asyncio.create_task(stop.wait())
    running = asyncio.create_task(
        serve(ctl.controller("configmaps").concurrency(None).reconciles(reconcile), stop=stop, options=serving)
    )
    await await_stop
    began = loop.time()
    async with asyncio.timeout(60):
        await running
    assert loop.time() - began <= 10 + 3
    assert (busy, cancelled) == (1000, 1000)
    before = ticks
    await asyncio.sleep(5)
    assert ticks > before
    assert not other.done()
    other.cancel()


async def test_serving_what_is_not_installed_is_an_error(sandbox: Sandbox) -> None:
    async def reconcile(key: ctl.Key, context: Context) -> None:
        """Do nothing."""

    with pytest.raises(UnknownResource, match="unicorns"):
        await serve(ctl.controller("unicorns.example.com").reconciles(reconcile), options=_serving(sandbox))


async def test_two_controllers_of_one_name_are_refused(sandbox: Sandbox) -> None:
    async def reconcile(key: ctl.Key, context: Context) -> None:
        """Do nothing."""

    one = ctl.controller("configmaps").reconciles(reconcile)
    with pytest.raises(ValueError, match=r"two controllers of the name 'configmaps'.*\.named"):
        await serve(one, ctl.controller("configmaps").owns("secrets").reconciles(reconcile), access=Access(sandbox.url))


async def test_channels_clocks_and_informers_of_ones_own_ask_for_attempts(sandbox: Sandbox, user: Client) -> None:
    seen: list[tuple[str, str]] = []
    channel: ctl.Channel[str] = ctl.Channel()
    stop = asyncio.Event()
    foreign = ctl.SharedInformerFactory(user)
    secrets = foreign.informer(Resource("", "v1", "secrets", kind="Secret", namespaced=True))

    async def reconcile(key: ctl.Key, context: Context) -> None:
        seen.append((context.trigger.name, key.name))

    await _config(user, "one")
    controller = (
        ctl.controller("configmaps")
        .watches_source(channel, lambda name, _: [ctl.Key("default", name)], name="requests")
        .watches_source(ctl.every(60), name="clock")
        .watches(secrets, ctl.mappers.constant(ctl.Key("default", "secret")))
        .reconciles(reconcile)
    )
    running = asyncio.create_task(serve(controller, stop=stop, options=_serving(sandbox)))
    await asyncio.sleep(10)
    assert seen == [("configmaps.v1", "one")]
    channel.send("two")
    await asyncio.sleep(1)
    await user.create(secrets.resource, {"metadata": {"name": "s", "namespace": "default"}}, "default")
    await asyncio.sleep(60)
    assert seen[1:] == [("requests", "two"), ("secrets.v1", "secret"), ("clock", "one")]
    stop.set()
    async with asyncio.timeout(10):
        await running
    assert secrets.has_synced
    assert foreign.informers == (secrets,), "it is its owner's to stop"
    await foreign.stop()


async def test_ten_thousand_equal_events_are_one_with_a_count(sandbox: Sandbox, user: Client) -> None:
    stop, total = asyncio.Event(), 10_000

    async def reconcile(key: ctl.Key, context: Context) -> None:
        for _ in range(total // 100):
            for _ in range(100):
                context.warn(reason="Failed", message="it does not work")
            await asyncio.sleep(10)
        stop.set()

    await _config(user, "one")
    await serve(ctl.controller("configmaps").named("mine").reconciles(reconcile), stop=stop, options=_serving(sandbox))
    events = await user.list(Resource("", "v1", "events", kind="Event", namespaced=True), "default")
    assert [event.body()["count"] for event in events] == [total]
    body = events[0].body()
    assert (body["type"], body["reason"], body["reportingComponent"]) == ("Warning", "Failed", "mine")
    assert body["involvedObject"]["name"] == "one"
    written = [request for request in sandbox.write_log if "/events" in request.path]
    # 25 at once, one more each five minutes of the thousand seconds, and the last word.
    assert len(written) <= 25 + 1000 // 300 + 2


async def test_many_different_events_are_limited(sandbox: Sandbox, user: Client) -> None:
    stop = asyncio.Event()

    async def reconcile(key: ctl.Key, context: Context) -> None:
        for number in range(1000):
            context.info(reason=f"Reason{number}", message="x")
        await asyncio.sleep(100)
        stop.set()

    await _config(user, "one")
    await serve(ctl.controller("configmaps").reconciles(reconcile), stop=stop, options=_serving(sandbox))
    written = [request for request in sandbox.write_log if "/events" in request.path]
    assert 20 <= len(written) <= 50


async def test_a_start_with_many_objects_keeps_to_the_rate_and_asks_for_nothing_twice(
    sandbox: Sandbox, user: Client
) -> None:
    """A tenth of 10,000 objects: one list, one write for each, no read, never more than the rate and its burst."""
    for number in range(MANY):
        await _config(user, f"one-{number:04}")
    stop, left, rate, burst = asyncio.Event(), MANY, 50.0, 20
    sent: list[float] = []

    async def reconcile(key: ctl.Key, context: Context) -> None:
        nonlocal left
        await context.ensure(
            "configmaps", {"metadata": {"name": key.name, "namespace": key.namespace}, "data": {"seen": "yes"}}
        )
        sent.append(asyncio.get_running_loop().time())
        left -= 1
        if not left:
            stop.set()

    sandbox.log.clear()
    began = asyncio.get_running_loop().time()
    controller = ctl.controller("configmaps").concurrency(50).reconciles(reconcile)
    await serve(controller, stop=stop, options=_serving(sandbox, qps=rate, burst=burst))
    took = asyncio.get_running_loop().time() - began
    assert took >= (MANY - burst) / rate - 1
    for first, at in enumerate(sent):
        assert bisect(sent, at + 1) - first <= rate + burst + 1
    ours = [request for request in sandbox.log if request.user_agent.startswith("ctl/")]
    patches = [request.path for request in ours if request.method == "PATCH"]
    assert len(patches) == len(set(patches)) == MANY
    reads = [request for request in ours if request.method == "GET" and "configmaps" in request.path]
    assert all("/configmaps/" not in request.path for request in reads), "no object is read by itself"
    assert len(reads) <= 2 + MANY // 500


async def test_too_many_requests_are_answered_by_waiting(sandbox: Sandbox, user: Client) -> None:
    await _config(user, "one")
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    took: list[float] = []

    async def reconcile(key: ctl.Key, context: Context) -> None:
        began = loop.time()
        await context.ensure("configmaps", {"metadata": {"name": key.name, "namespace": "default"}, "data": {"a": "b"}})
        took.append(loop.time() - began)
        stop.set()

    sandbox.faults.answer(429, match=Match(method="PATCH"), times=2, retry_after=7)
    await serve(ctl.controller("configmaps").reconciles(reconcile), stop=stop, options=_serving(sandbox))
    assert len(took) == 1
    assert took[0] >= 14


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_happens_the_last_state_is_attempted(sandbox: Sandbox, user: Client, seed: int) -> None:
    """Random changes under attempts that are slow, fail, and are cancelled by their limit: each object's last state is reconciled."""
    chance, seen, stop = random.Random(seed), {}, asyncio.Event()

    async def reconcile(key: ctl.Key, context: Context) -> None:
        body = context.body()
        version = None if body is None else body["data"]["n"]
        await asyncio.sleep(chance.choice([0, 0.01, 0.3, 2.0]))
        if chance.random() < 0.3:
            raise RuntimeError("not now")
        seen[key.name] = version

    async def play() -> None:
        for number in range(300):
            name = f"o{chance.randrange(5)}"
            if await _exists(user, name):
                if chance.random() < 0.15:
                    await user.delete(CONFIGMAPS, name, "default")
                else:
                    await user.patch(CONFIGMAPS, name, "default", {"data": {"n": str(number)}})
            else:
                await _config(user, name, n=str(number))
            await asyncio.sleep(chance.choice([0, 0, 0.01, 0.5]))
        await asyncio.sleep(3600)
        stop.set()

    playing = asyncio.create_task(play())
    await serve(
        ctl.controller("configmaps").concurrency(3).timeout(1.0).reconciles(reconcile),
        stop=stop,
        options=_serving(sandbox),
    )
    await playing
    left = {
        obj.name: obj.body()["data"]["n"] for obj in await user.list(CONFIGMAPS, "default") if obj.name.startswith("o")
    }
    assert {name: version for name, version in seen.items() if version is not None} == left


async def _exists(user: Client, name: str) -> bool:
    return any(obj.name == name for obj in await user.list(CONFIGMAPS, "default"))


# In production: leadership, metrics and health.


RULES = LeaseRules(duration=15, renew_deadline=10, retry_period=2)


async def test_two_programs_of_reconcilers_elect_one_that_acts_and_show_how_they_do(
    sandbox: Sandbox, user: Client
) -> None:
    seen: list[tuple[str, str]] = []
    stops = {name: asyncio.Event() for name in ("a", "b")}
    sites = {name: Site() for name in stops}

    async def replica(name: str) -> None:
        async def reconcile(key: ctl.Key, context: Context) -> None:
            seen.append((name, key.name))
            await context.ensure("configmaps", context.own({"data": {"by": name}}, suffix="of"))

        await serve(
            ctl.controller("configmaps").with_selector("mine").named("maps").reconciles(reconcile),
            access=Access(sandbox.url),
            stop=stops[name],
            leadership=LeaderElectionConfig("maps", "default", name, RULES),
            http=sites[name].http,
        )

    async def create(name: str) -> None:
        metadata = {"name": name, "namespace": "default", "labels": {"mine": "yes"}}
        await user.create(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    await create("one")
    first = asyncio.create_task(replica("a"))
    await asyncio.sleep(5)
    second = asyncio.create_task(replica("b"))
    await asyncio.sleep(20)
    assert seen == [("a", "one")]
    for name, told in (("a", "leading, for "), ("b", "standby, the leader is a")):
        assert await sites[name].get("/livez") == (200, "ok")
        assert await sites[name].get("/readyz") == (200, "ok")
        text = (await sites[name].get("/readyz?verbose"))[1]
        assert f"[+]leadership {told}" in text
        assert "[+]informer configmaps.v1 mine watching" in text
    metrics = (await sites["a"].get("/metrics"))[1]
    assert 'controller_runtime_reconcile_total{controller="maps",result="success"} 1.0' in metrics
    assert 'leader_election_master_status{name="maps"} 1.0' in metrics
    assert "ctl_informer_lists_total{" in metrics
    status, text = await sites["a"].get("/debug/explain?key=default/one")
    assert status == 200
    assert json.loads(text)["maps"]["state"] == "at rest"
    stops["a"].set()
    await first
    await asyncio.sleep(1)
    await create("two")
    await asyncio.sleep(1)
    assert sorted(seen[1:]) == [("b", "one"), ("b", "two")], "all is looked at anew"
    stops["b"].set()
    await second
    lease = sandbox.get("coordination.k8s.io/v1", "Lease", "maps")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


async def test_a_reconciler_that_outlives_the_lease_ends_the_program(sandbox: Sandbox, user: Client) -> None:
    began, free = asyncio.Event(), asyncio.Event()

    async def stubborn(key: ctl.Key, context: Context) -> None:
        began.set()
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    await _config(user, "one")
    settings = LeaderElectionConfig("maps", "default", "a", RULES)
    program = asyncio.create_task(
        serve(
            ctl.controller("configmaps").reconciles(stubborn),
            options=ServeOptions(access=Access(sandbox.url), grace=1),
            leadership=settings,
        )
    )
    await began.wait()
    sandbox.faults.answer(503, match=Match(path="leases/maps"), times=None)
    with pytest.raises(StillActing, match=r"default/maps was lost .* the reconciler of configmaps for default/one"):
        await program
    free.set()


async def test_a_port_that_is_taken_and_an_address_that_is_none_are_errors(sandbox: Sandbox) -> None:
    async def reconcile(key: ctl.Key, context: Context) -> None: ...

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AddressTaken):
            await serve(
                ctl.controller("configmaps").reconciles(reconcile),
                access=Access(sandbox.url),
                http=f"127.0.0.1:{taken.getsockname()[1]}",
            )
    with pytest.raises(ValueError, match="such as 8080"):
        await serve(ctl.controller("configmaps").reconciles(reconcile), access=Access(sandbox.url), http="somewhere")
