"""Whole operators that honour their peers, in virtual time."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access, Constant
from ctl.client.config.credentials import bearer
from ctl.client.resources import Resource
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.runtime import clock

from .world import DEFINITIONS, KEX, Calls, Running, World, a_world, quick, rest

pytestmark = pytest.mark.virtual_time

PEERING = Path(__file__).resolve().parents[2] / "examples" / "peering.yaml"
CLUSTER = Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)
SPACED = Resource("kopf.dev", "v1", "kopfpeerings", "KopfPeering", namespaced=True)
LEASE = {"leader_elect": True, "lease_name": "op", "lease_namespace": "default"}


@pytest.fixture
async def bare() -> AsyncIterator[World]:
    """Without any peering."""
    async with a_world() as world:
        yield world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """With the default peering of the cluster."""
    async with a_world(definitions=[*DEFINITIONS, PEERING.read_text()]) as world:
        await world.create("default", resource=CLUSTER)
        yield world


class Replica:
    """One of several operators, with handlers that note what they are called for."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.registry = OperatorRegistry()
        self.calls = Calls()

        @ctl.on.event(KEX.plural, registry=self.registry)
        async def event(name: str, type: str | None, **_: Any) -> None:
            self.calls(f"event {type} {name}", {})

        @ctl.on.create(KEX.plural, registry=self.registry)
        @ctl.on.resume(KEX.plural, registry=self.registry)
        @ctl.on.update(KEX.plural, registry=self.registry)
        async def change(name: str, reason: str, **_: Any) -> None:
            self.calls(f"{reason} {name}", {})

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Running]:
        given = {"registry": self.registry, "identity": self.name, "settings": quick()}
        async with self.world.running(**{**given, **options}) as running:
            yield running

    @property
    def handled(self) -> list[str]:
        return [name for name in self.calls.names if not name.startswith("event ")]


def records(world: World, resource: Resource = CLUSTER, name: str = "default") -> Any:
    return world.get(name, resource).get("status") or {}


async def freeze(world: World, identity: str = "me@here", priority: int = 100, lifetime: int = 3600) -> None:
    record = {"priority": priority, "lifetime": lifetime, "lastseen": clock.now().isoformat()}
    await world.patch({"status": {identity: record}}, "default", CLUSTER)


async def test_a_higher_priority_takes_over_and_gives_back(world: World) -> None:
    low, high = Replica(world, "low"), Replica(world, "high")
    async with low.running():
        await world.create("one")
        await world.handled("one")
        async with high.running(priority=5):
            await rest()
            assert set(records(world)) == {"low", "high"}
            await world.patch({"spec": {"field": "other"}}, "one")
            await world.create("two")
            await world.handled("two")
            await world.handled("one")
            await asyncio.sleep(200)
        await rest(2)
        assert set(records(world)) == {"low"}
        await world.create("three")
        await world.handled("three")
    # What the other one has created and handled meanwhile is new to this process.
    assert low.handled == ["create one", "resume two", "create three"]
    assert sorted(high.handled) == ["create two", "resume one", "update one"]
    assert records(world) == {}


async def test_equal_priorities_act_no_more_until_one_has_gone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    first, second = Replica(world, "first"), Replica(world, "second")
    async with first.running():
        await rest()
        async with second.running():
            await rest()
            await world.create("one")
            await asyncio.sleep(200)
            assert first.calls.names == second.calls.names == []
        await world.handled("one")
    assert first.handled == ["create one"]
    assert second.calls.names == []
    warned = [item.getMessage() for item in caplog.records if item.levelno == logging.WARNING]
    assert any("same priority: [<Peer second: " in text for text in warned)
    assert any("same priority: [<Peer first: " in text for text in warned)


async def test_an_operator_that_is_frozen_from_the_start_sees_nothing_until_it_is_resumed(world: World) -> None:
    await world.create("one")
    await freeze(world)
    replica = Replica(world, "a")
    async with replica.running():
        await asyncio.sleep(100)
        await world.create("two")
        await rest()
        assert replica.calls.names == []
        await world.patch({"status": {"me@here": None}}, "default", CLUSTER)
        await world.handled("one")
        await world.handled("two")
    assert sorted(replica.handled) == ["create one", "create two"]
    assert replica.calls.count("event None one") == replica.calls.count("event None two") == 1


async def test_a_pause_does_not_begin_a_new_life_of_the_objects(world: World) -> None:
    replica = Replica(world, "a")
    async with replica.running():
        await world.create("one")
        await world.handled("one")
        await freeze(world)
        await asyncio.sleep(100)
        await world.patch({"status": {"me@here": None}}, "default", CLUSTER)
        await rest(5)
        assert replica.handled == ["create one"]
        assert replica.calls.names[-1] == "event None one"


async def test_a_killed_operator_is_waited_for_until_its_record_ends(world: World) -> None:
    first, second = Replica(world, "first"), Replica(world, "second")
    async with first.running(priority=5) as running:
        await rest()
        await world.crash(running)
    began = asyncio.get_running_loop().time()
    async with second.running():
        await world.create("one")
        await world.until(lambda: second.handled, 100)
        assert 30 < asyncio.get_running_loop().time() - began < 61
        await rest(2)
        assert set(records(world)) == {"second"}


@pytest.mark.parametrize("by", ["option", "handler"])
async def test_standalone_operators_know_of_nobody(world: World, by: str) -> None:
    await freeze(world)
    replica = Replica(world, "a")

    @ctl.on.startup(registry=replica.registry)
    def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.peering.standalone = True

    async with replica.running(**({"standalone": True} if by == "option" else {})):
        await world.create("one")
        await world.handled("one")
    assert world.writes(CLUSTER) == []


async def test_startup_handlers_choose_the_peering_and_the_priority(world: World) -> None:
    await world.create("mine", resource=CLUSTER)
    await freeze(world)
    replica = Replica(world, "a")

    @ctl.on.startup(registry=replica.registry)
    def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.peering.name = "mine"
        settings.peering.mandatory = True
        settings.peering.priority = 7
        settings.peering.lifetime = 30

    async with replica.running():
        await world.create("one")
        await world.handled("one")
        record = records(world, name="mine")["a"]
        assert (record["priority"], record["lifetime"]) == (7, 30)
    assert set(records(world)) == {"me@here"}


async def test_a_mandatory_peering_may_be_defined_while_the_operator_runs(bare: World) -> None:
    replica = Replica(bare, "a")
    async with replica.running(peering_name="mine"):
        await bare.create("one")
        await asyncio.sleep(60)
        assert replica.calls.names == []
        await bare.sandbox.load_manifest(PEERING.read_text())
        await asyncio.sleep(60)
        assert replica.calls.names == []
        await bare.create("mine", resource=CLUSTER)
        await bare.handled("one")
        assert set(records(bare, name="mine")) == {"a"}


async def test_a_peering_that_is_removed_pauses_nobody_any_more(world: World) -> None:
    await freeze(world)
    replica = Replica(world, "a")
    async with replica.running():
        await world.create("one")
        await rest()
        assert replica.calls.names == []
        for plural in ("clusterkopfpeerings", "kopfpeerings"):
            definitions = Resource(
                "apiextensions.k8s.io",
                "v1",
                "customresourcedefinitions",
                "CustomResourceDefinition",
                namespaced=False,
            )
            await world.user.delete(definitions, f"{plural}.kopf.dev")
        await world.handled("one")


async def test_without_any_peering_nothing_is_written_or_waited_for(bare: World) -> None:
    replica = Replica(bare, "a")
    async with replica.running():
        await bare.create("one")
        await bare.handled("one")
        assert replica.calls.count("event ADDED one") == 1
    asked = [request.path for request in bare.sandbox.log if "peering" in request.path]
    assert asked == []


async def test_each_served_namespace_has_its_peering(world: World) -> None:
    await world.create("default", resource=SPACED)
    await freeze(world)
    replica = Replica(world, "a")
    async with replica.running(namespaces=["def*"]):
        await world.create("one")
        await world.handled("one")
        assert set(records(world, SPACED)) == {"a"}
        assert set(records(world)) == {"me@here"}
    assert records(world, SPACED) == {}


async def test_what_is_to_be_indexed_again_is_so_during_a_pause(world: World) -> None:
    """An attempt met the error and would come back after its delay; then it may not act, and the keeper of the indices does."""
    replica = Replica(world, "a")
    began = asyncio.get_running_loop().time()
    calls: list[tuple[int, int]] = []

    @ctl.index(KEX.plural, id="known", registry=replica.registry)
    async def known(retry: int, **_: Any) -> None:
        calls.append((retry, round(asyncio.get_running_loop().time() - began)))
        if not retry:
            raise ctl.TemporaryError("not now", delay=60)

    async with replica.running():
        await rest(10)
        await world.create("one")
        await rest()
        await freeze(world)
        await rest(100)
    assert calls == [(0, 10), (1, 70)]


async def test_daemons_stop_for_a_pause_and_begin_again(world: World) -> None:
    replica = Replica(world, "a")
    reasons: list[Any] = []

    @ctl.daemon(KEX.plural, registry=replica.registry)
    async def watchful(stopped: Any, **_: Any) -> None:
        replica.calls("began", {})
        await stopped.wait()
        reasons.append(stopped.reason)

    async with replica.running():
        await world.create("one")
        await world.until(lambda: replica.calls.count("began") == 1)
        await freeze(world)
        await world.until(lambda: reasons)
        assert ctl.DaemonStoppingReason.OPERATOR_PAUSING in reasons[0]
        await asyncio.sleep(100)
        assert replica.calls.count("began") == 1
        await world.patch({"status": {"me@here": None}}, "default", CLUSTER)
        await world.until(lambda: replica.calls.count("began") == 2)


async def test_replicas_with_a_lease_never_pause_each_other(world: World) -> None:
    first, second = Replica(world, "first"), Replica(world, "second")
    async with first.running(**LEASE) as running:
        await world.until(lambda: set(records(world)) == {"first"})
        async with second.running(**LEASE):
            await asyncio.sleep(100)
            assert set(records(world)) == {"first"}
            await world.create("one")
            await world.handled("one")
            await running.stop()
            await world.until(lambda: set(records(world)) == {"second"}, 10)
            await world.create("two")
            await world.handled("two", seconds=10)
    assert first.handled == ["create one"]
    assert "create two" in second.handled


async def test_a_peer_of_a_killed_replica_is_passed_over(world: World) -> None:
    lastseen = (clock.now() - timedelta(seconds=1)).isoformat()
    killed = {"priority": 0, "lifetime": 600, "lastseen": lastseen, "lease": "default/op"}
    await world.patch({"status": {"killed": killed}}, "default", CLUSTER)
    replica = Replica(world, "a")
    async with replica.running(**LEASE):
        await world.create("one")
        await world.handled("one", seconds=20)
        await rest()
        assert set(records(world)) == {"a"}


async def test_a_role_that_is_limited_to_the_peering_object_is_enough(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    rbac, accounts = "/apis/rbac.authorization.k8s.io/v1", "/api/v1/namespaces/default/serviceaccounts"
    peerings = {"apiGroups": ["kopf.dev"], "resources": ["clusterkopfpeerings"], "resourceNames": ["default"]}
    role = {
        "kind": "ClusterRole",
        "metadata": {"name": "op"},
        "rules": [
            {"apiGroups": ["kopf.dev"], "resources": [KEX.plural], "verbs": ["*"]},
            {**peerings, "verbs": ["list", "watch", "patch"]},
        ],
    }
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "op"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "op"},
        "subjects": [{"kind": "ServiceAccount", "name": "op", "namespace": "default"}],
    }

    async def post(path: str, kind: str, version: str, body: dict[str, Any]) -> Any:
        whole = {"apiVersion": version, "kind": kind, **body}
        return json.loads(
            await world.user.request("POST", path, body=whole, headers={"Content-Type": "application/json"})
        )

    for path, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        await post(f"{rbac}/{path}", str(body["kind"]), "rbac.authorization.k8s.io/v1", body)
    await post(accounts, "ServiceAccount", "v1", {"metadata": {"name": "op"}})
    review = await post(f"{accounts}/op/token", "TokenRequest", "authentication.k8s.io/v1", {"spec": {}})
    access = Access(server=world.sandbox.url, credentials=Constant(bearer(review["status"]["token"])))
    a = Replica(world, "a")
    async with a.running(access=access):
        await world.create("one")
        await world.until(lambda: a.handled == ["create one"])
        assert set(records(world)) == {"a"}, "it tells of itself"
        await freeze(world)
        await rest(5)
        await world.create("two")
        await rest(5)
        assert a.handled == ["create one"], "and heeds others"
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert not [text for text in warned if "clusterkopfpeerings" in text]


def _grant(world: World, name: str, rules: list[dict[str, Any]]) -> None:
    version, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    world.sandbox.create({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
    world.sandbox.create(
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "op", "namespace": "default"}],
        }
    )


@pytest.mark.parametrize("missing", ["list", "patch"])
async def test_rights_that_come_a_moment_too_late_are_noticed(world: World, missing: str) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    for path, kind, version, body in (
        (accounts, "ServiceAccount", "v1", {"metadata": {"name": "op"}}),
        (f"{accounts}/op/token", "TokenRequest", "authentication.k8s.io/v1", {"spec": {}}),
    ):
        whole = {"apiVersion": version, "kind": kind, **body}
        answer = await world.user.request("POST", path, body=whole, headers={"Content-Type": "application/json"})
    access = Access(server=world.sandbox.url, credentials=Constant(bearer(json.loads(answer)["status"]["token"])))
    peerings = {"apiGroups": ["kopf.dev"], "resources": ["clusterkopfpeerings"]}
    verbs = sorted({"list", "watch", "patch"} - {missing})
    kexes = {"apiGroups": ["kopf.dev"], "resources": [KEX.plural], "verbs": ["*"]}
    _grant(world, "first", [kexes, {**peerings, "verbs": verbs}])
    await freeze(world, lifetime=3000)
    replica = Replica(world, "a")
    async with replica.running(access=access):
        await world.create("one")
        await rest(10)
        assert bool(replica.handled) == (missing == "list"), "what may not be looked at pauses nobody"
        _grant(world, "second", [{**peerings, "verbs": [missing]}])
        await rest(100)
        await world.create("two")
        await rest(10)
        assert "create two" not in replica.handled
        assert set(records(world)) == {"me@here", "a"}
