"""Peering against the sandbox, over sockets, in virtual time."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.leader.gate import ManualGate, Turn
from ctl.controller.peering.gate import Peering
from ctl.controller.peering.records import own_identity
from ctl.controller.peering.rules import LETTERS, PeeringOptions, Rank
from ctl.informers.factory import SharedInformerFactory
from ctl.runtime import clock
from ctl.sandbox import Match, Sandbox

pytestmark = pytest.mark.virtual_time

CLUSTER = Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)
SPACED = Resource("kopf.dev", "v1", "kopfpeerings", "KopfPeering", namespaced=True)
LEGACY = Resource("zalando.org", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)
WITH_STATUS = replace(CLUSTER, subresources=frozenset({"status"}))
OPTIONS = PeeringOptions(Rank("a"))

_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {name}}}
spec:
  scope: {scope}
  group: {group}
  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {subresources}
    schema:
      openAPIV3Schema:
        type: object
        properties: {{status: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""


def crd(resource: Resource) -> str:
    assert resource.kind is not None
    return _CRD.format(
        name=resource.name,
        scope="Namespaced" if resource.namespaced else "Cluster",
        group=resource.group,
        kind=resource.kind,
        plural=resource.plural,
        singular=resource.kind.lower(),
        subresources="{status: {}}" if resource.subresources else "{}",
    )


@dataclass
class Ground:
    """A server, and what a user does there."""

    sandbox: Sandbox
    client: Client
    factory: SharedInformerFactory
    told: dict[str, list[Turn]] = field(default_factory=dict)

    async def define(self, *resources: Resource) -> None:
        for resource in resources:
            await self.sandbox.load_manifest(crd(resource))

    async def create(self, resource: Resource = CLUSTER, namespace: str | None = None, name: str = "default") -> None:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        await self.client.create(resource, body, namespace)

    async def write(
        self, records: dict[str, Any], resource: Resource = CLUSTER, namespace: str | None = None, name: str = "default"
    ) -> None:
        subresource = "status" if resource.subresources else None
        await self.client.patch(resource, name, namespace, {"status": records}, subresource=subresource)

    def records(self, resource: Resource = CLUSTER, namespace: str | None = None, name: str = "default") -> Any:
        assert resource.kind is not None
        found = self.sandbox.get(resource.api_version, resource.kind, name, namespace)
        assert found is not None
        return found.get("status") or {}

    @property
    def writes(self) -> list[Any]:
        return [request for request in self.sandbox.write_log if request.user_agent.startswith("ctl/")]

    @contextlib.asynccontextmanager
    async def taking_part(
        self,
        identity: str = "a",
        priority: int = 0,
        resources: Iterable[Resource] = (CLUSTER,),
        namespaces: tuple[str, ...] | None = None,
        *,
        lease: str = "",
        leadership: ManualGate | None = None,
        **changes: Any,
    ) -> AsyncIterator[Peering]:
        given = {"clusterwide": namespaces is None, **changes}
        options = replace(OPTIONS, rank=Rank(identity, priority, lease), **given)
        async with Client(Access(self.sandbox.url)) as client:
            factory = SharedInformerFactory(client)
            peering = Peering(client, factory, options, leadership=leadership)
            self.told[identity] = []
            peering.subscribe(self.told[identity].append)
            await peering.start()
            try:
                await peering.serve(resources, namespaces)
                yield peering
            finally:
                await peering.stop(5)
                await factory.stop()


@pytest.fixture
async def bare() -> AsyncIterator[Ground]:
    async with Sandbox() as sandbox:
        access = Access(sandbox.url)
        async with Client(access, ClientSettings(user_agent="user", error_backoffs=())) as client:
            factory = SharedInformerFactory(client)
            yield Ground(sandbox, client, factory)
            await factory.stop()


@pytest.fixture
async def ground(bare: Ground) -> Ground:
    """With the definition and the object of the cluster's default peering."""
    await bare.define(CLUSTER)
    await bare.create()
    return bare


def record(priority: int = 0, lifetime: int = 60, *, ago: float = 0.0, **more: Any) -> dict[str, Any]:
    seen = clock.now() - timedelta(seconds=ago)
    return {"priority": priority, "lifetime": lifetime, "lastseen": seen.isoformat(), **more}


async def opened(peering: Peering, within: float = 2.0) -> float:
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(within):
        await peering.wait_open()
    return asyncio.get_running_loop().time() - began


async def closed(peering: Peering, within: float = 2.0) -> None:
    async with asyncio.timeout(within):
        while peering.is_open:  # noqa: ASYNC110 - seen from outside, as anybody may
            await asyncio.sleep(0.01)


def said(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [item.getMessage() for item in caplog.records if item.name == "ctl.peering" and item.levelno >= level]


async def test_a_lonely_operator_acts_and_keeps_its_record_alive_until_its_end(ground: Ground) -> None:
    async with ground.taking_part(priority=7) as peering:
        await opened(peering)
        await asyncio.sleep(1)
        first = ground.records()["a"]
        assert {**first, "lastseen": None} == {"priority": 7, "lifetime": 60, "lastseen": None}
        assert first["lastseen"].endswith("+00:00")
        await asyncio.sleep(3600)
        last = ground.records()["a"]["lastseen"]
        assert clock.parse(last) + timedelta(seconds=60) > clock.now()
        assert 3600 / 55 <= len(ground.writes) <= 3600 / 50 + 2
        assert ground.told["a"] == [Turn.OPENED]
    assert ground.records() == {}
    assert ground.writes[-1].json() == {"status": {"a": None}}
    assert {request.path for request in ground.writes} == {"/apis/kopf.dev/v1/clusterkopfpeerings/default"}


async def test_a_higher_priority_pauses_and_its_end_resumes(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ctl.peering")
    async with ground.taking_part("a") as low:
        await opened(low)
        async with ground.taking_part("b", 10) as high:
            await opened(high)
            await closed(low)
            assert low.blockers == ("b",)
            await asyncio.sleep(300)
            assert not low.is_open
            assert high.is_open
        assert await opened(low) < 1
        assert ground.told["a"] == [Turn.OPENED, Turn.CLOSED, Turn.OPENED]
        assert ground.told["b"][0] is Turn.OPENED
    lines = said(caplog)
    assert (
        len([line for line in lines if line.startswith("Pausing operations in favour of [<Peer b: priority=10")]) == 1
    )
    assert len([line for line in lines if line.startswith("Resuming operations after the pause. ")]) == 1
    assert "Keep-alive in 'default' cluster-wide: ok." in said(caplog, logging.DEBUG)


async def test_equal_priorities_pause_both_and_each_names_the_other(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    async with ground.taking_part("a") as first:
        await opened(first)
        async with ground.taking_part("b") as second:
            await closed(first)
            await asyncio.sleep(300)
            assert not first.is_open
            assert not second.is_open
            assert (first.blockers, second.blockers) == (("b",), ("a",))
        assert await opened(first) < 1
    warned = said(caplog, logging.WARNING)
    for other in "ab":
        line = f"Possibly conflicting operators with the same priority: [<Peer {other}: "
        assert len([text for text in warned if text.startswith(line)]) == 1
        assert any(text.startswith(f"Pausing all operators, including self: [<Peer {other}") for text in warned)


async def test_shards_of_equal_priority_act_side_by_side(ground: Ground) -> None:
    await ground.write({"b": record()})
    async with ground.taking_part("a") as peering:
        await asyncio.sleep(5)
        assert not peering.is_open
    async with Client(Access(ground.sandbox.url)) as client:
        options = replace(OPTIONS, rank=Rank("a", shares=True))
        peering = Peering(client, SharedInformerFactory(client), options)
        await peering.start()
        await peering.serve([CLUSTER], None)
        await opened(peering)
        await peering.stop(5)


async def test_a_killed_peer_is_waited_for_until_its_record_ends_and_cleaned_up(ground: Ground) -> None:
    await ground.write({"dead": record(5, 60, ago=100), "killed": record(5, 60, ago=20)})
    async with ground.taking_part("a") as peering:
        await asyncio.sleep(5)
        assert not peering.is_open
        assert set(ground.records()) == {"a", "killed"}
        assert await opened(peering, 60) == pytest.approx(35, abs=1)
        await asyncio.sleep(1)
        assert set(ground.records()) == {"a"}
        removals = [request.json() for request in ground.writes if None in request.json()["status"].values()]
        assert removals == [{"status": {"dead": None}}, {"status": {"killed": None}}]


async def test_a_record_that_is_refreshed_keeps_the_pause(ground: Ground) -> None:
    await ground.write({"b": record(5, 10)})
    async with ground.taking_part("a") as peering:
        for _ in range(10):
            await asyncio.sleep(8)
            assert not peering.is_open
            await ground.write({"b": record(5, 10)})
        assert await opened(peering, 20) == pytest.approx(10, abs=1)


async def test_freezing_by_hand_and_resuming(ground: Ground) -> None:
    async with ground.taking_part("root@vm/20310101000000/abc") as peering:
        await opened(peering)
        await ground.write({"root@vm": record(100, 3600)})
        await closed(peering)
        await asyncio.sleep(600)
        assert not peering.is_open
        await ground.write({"root@vm": None})
        assert await opened(peering) < 1


async def test_both_groups_count_if_both_are_served(ground: Ground) -> None:
    await ground.define(LEGACY)
    await ground.create(LEGACY)
    async with ground.taking_part(resources=(CLUSTER, LEGACY)) as peering:
        await opened(peering)
        await asyncio.sleep(1)
        assert set(ground.records()) == set(ground.records(LEGACY)) == {"a"}
        await ground.write({"legacy": record(5)}, LEGACY)
        await closed(peering)
        await ground.write({"modern": record(5)})
        await ground.write({"legacy": None}, LEGACY)
        await asyncio.sleep(5)
        assert peering.blockers == ("modern",)
        await ground.write({"modern": None})
        await opened(peering)
    assert ground.records() == ground.records(LEGACY) == {}


async def test_the_status_is_written_by_its_subresource_where_there_is_one(bare: Ground) -> None:
    await bare.define(WITH_STATUS)
    await bare.create()
    async with bare.taking_part(resources=(WITH_STATUS,)) as peering:
        await opened(peering)
        await asyncio.sleep(1)
        assert set(bare.records()) == {"a"}
        await bare.write({"b": record(5)}, WITH_STATUS)
        await closed(peering)
    assert set(bare.records()) == {"b"}
    assert {request.path.rpartition("/")[2] for request in bare.writes} == {"status"}


async def test_without_a_definition_or_an_object_nothing_pauses_and_nothing_is_written(bare: Ground) -> None:
    async with bare.taking_part(resources=()) as peering:
        await opened(peering)
        await asyncio.sleep(100)
    await bare.define(CLUSTER)
    await bare.create(name="other")
    await bare.write({"b": record(5)}, name="other")
    async with bare.taking_part() as peering:
        await opened(peering)
        await asyncio.sleep(100)
    assert bare.writes == []


async def test_an_object_that_comes_later_is_announced_in_at_once(
    bare: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ctl.peering")
    await bare.define(CLUSTER)
    async with bare.taking_part() as peering:
        await opened(peering)
        await asyncio.sleep(1)
        assert "Keep-alive in 'default' cluster-wide: not found." in said(caplog, logging.DEBUG)
        for _ in range(2):
            await bare.create()
            await asyncio.sleep(0.5)
            assert set(bare.records()) == {"a"}
            await bare.write({"b": record(5)})
            await closed(peering)
            await bare.client.delete(CLUSTER, "default")
            await opened(peering)


async def test_a_mandatory_peering_is_waited_for(bare: Ground, caplog: pytest.LogCaptureFixture) -> None:
    async with bare.taking_part(resources=(), mandatory=True) as peering:
        await asyncio.sleep(100)
        assert not peering.is_open
        await bare.define(CLUSTER)
        await peering.serve([CLUSTER], None)
        await asyncio.sleep(100)
        assert not peering.is_open
        await bare.create()
        assert await opened(peering) < 1
        await bare.client.delete(CLUSTER, "default")
        await closed(peering)
        await bare.create()
        await opened(peering)
        await peering.serve([], None)
        assert not peering.is_open
    assert any("'default', which is mandatory; missing in: the cluster." in line for line in said(caplog))


async def test_a_mandatory_peering_that_is_there_is_not_missed_before_it_is_listed(
    bare: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    await bare.define(CLUSTER)
    await bare.create()
    async with bare.taking_part(mandatory=True) as peering:
        await opened(peering)
    assert not any("missing in" in line for line in said(caplog))


async def test_one_group_with_an_object_is_enough_for_a_mandatory_peering(bare: Ground) -> None:
    await bare.define(CLUSTER, LEGACY)
    await bare.create(LEGACY)
    async with bare.taking_part(resources=(CLUSTER, LEGACY), mandatory=True) as peering:
        await opened(peering)
        await asyncio.sleep(5)
        assert peering.is_open
        await bare.client.delete(LEGACY, "default")
        await closed(peering)
        assert peering.missing == ("the cluster",)


async def test_a_mandatory_peering_is_waited_for_in_each_namespace(bare: Ground) -> None:
    await bare.define(SPACED)
    for name in ("one", "two"):
        await bare.sandbox.load_manifest(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}")
    await bare.create(SPACED, "one")
    async with bare.taking_part(resources=[SPACED], namespaces=("one", "two"), mandatory=True) as peering:
        await asyncio.sleep(5)
        assert not peering.is_open
        await bare.create(SPACED, "two")
        await opened(peering)


async def test_a_definition_that_goes_ends_the_pause(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ctl.peering")
    await ground.write({"b": record(5, 3600)})
    async with ground.taking_part() as peering:
        await asyncio.sleep(5)
        assert not peering.is_open
        await peering.serve([], None)
        await opened(peering, 0.1)
        assert said(caplog)[-1].startswith("Resuming operations after the pause. ")
        await peering.serve([CLUSTER], None)
        await closed(peering)


async def test_an_object_that_goes_ends_the_pause(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ctl.peering")
    await ground.write({"b": record(5, 3600)})
    async with ground.taking_part() as peering, ground.taking_part("c", mandatory=True):
        await asyncio.sleep(5)
        assert not peering.is_open
        await ground.client.delete(CLUSTER, "default")
        await opened(peering)
        await asyncio.sleep(5)
        lines = said(caplog)
        assert len([line for line in lines if line.startswith("Resuming operations after the pause. ")]) == 1
        assert "is gone." in next(line for line in lines if line.startswith("Resuming"))


async def test_the_scope_of_the_peering_may_be_another_than_that_of_the_operator(bare: Ground) -> None:
    await bare.define(SPACED, CLUSTER)
    await bare.create()
    await bare.create(SPACED, "default")
    async with bare.taking_part(resources=[SPACED, CLUSTER], namespaces=("default",), clusterwide=True) as peering:
        await asyncio.sleep(1)
        assert (set(bare.records()), set(bare.records(SPACED, "default"))) == ({"a"}, set())
    async with bare.taking_part(resources=[SPACED, CLUSTER], clusterwide=False, mandatory=True) as peering:
        await asyncio.sleep(1)
        assert (set(bare.records()), set(bare.records(SPACED, "default"))) == (set(), {"a"})
        await bare.write({"b": record(5)}, SPACED, "default")
        await closed(peering)


async def test_a_refusal_to_write_is_told_once_and_not_tried_again(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ctl.peering")
    ground.sandbox.faults.answer(403, "Forbidden", match=Match(method="PATCH", user_agent="ctl/"), times=None)
    async with ground.taking_part() as peering:
        await asyncio.sleep(600)
        assert peering.is_open
    assert len(ground.writes) == 1
    assert len([line for line in said(caplog) if "the right to write its record is missing" in line]) == 1


async def test_namespaces_come_and_go(bare: Ground) -> None:
    await bare.define(SPACED, CLUSTER)
    await bare.create()
    await bare.write({"elsewhere": record(100)})
    for name in ("one", "two"):
        await bare.sandbox.load_manifest(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}")
        await bare.create(SPACED, name)
    async with bare.taking_part(resources=[SPACED, CLUSTER], namespaces=("one",)) as peering:
        await opened(peering)
        await asyncio.sleep(1)
        assert set(bare.records(SPACED, "one")) == {"a"}
        assert bare.records(SPACED, "two") == {}
        await bare.write({"b": record(5)}, SPACED, "two")
        await peering.serve([SPACED, CLUSTER], ("one", "two"))
        assert peering.is_open
        await closed(peering)
        await peering.serve([SPACED, CLUSTER], ("one",))
        await opened(peering)
    assert bare.records(SPACED, "one") == {}
    assert set(bare.records()) == {"elsewhere"}


async def test_only_the_leader_announces_itself_and_tidies_up(ground: Ground) -> None:
    await ground.write({"dead": record(5, ago=100)})
    leadership = ManualGate()
    async with ground.taking_part("a", lease="ns/x", leadership=leadership) as peering:
        await opened(peering)
        await asyncio.sleep(200)
        assert ground.writes == []
        leadership.open()
        await asyncio.sleep(1)
        assert set(ground.records()) == {"a"}
        assert ground.records()["a"]["lease"] == "ns/x"
        await asyncio.sleep(200)
        leadership.revoke()
        await asyncio.sleep(1)
        assert ground.records() == {}
        count = len(ground.writes)
        await asyncio.sleep(200)
        assert len(ground.writes) == count
        leadership.open()
        await asyncio.sleep(1)
        assert set(ground.records()) == {"a"}
        assert ground.told["a"] == [Turn.OPENED]


async def test_a_successor_does_not_wait_for_the_record_of_a_killed_leader(ground: Ground) -> None:
    await ground.write({"killed": record(0, 3600, lease="ns/x"), "foreign": record(-5, 3600, lease="ns/y")})
    leadership = ManualGate()
    async with ground.taking_part("b", lease="ns/x", leadership=leadership) as peering:
        await opened(peering)
        await asyncio.sleep(5)
        assert set(ground.records()) == {"killed", "foreign"}
        leadership.open()
        await asyncio.sleep(1)
        assert peering.is_open
        assert set(ground.records()) == {"b", "foreign"}


async def test_errors_of_the_server_are_outlived(ground: Ground) -> None:
    async with ground.taking_part() as peering:
        await opened(peering)
        await asyncio.sleep(1)
        rule = ground.sandbox.faults.answer(500, match=Match(method="PATCH", user_agent="ctl/"), times=None)
        await asyncio.sleep(300)
        ground.sandbox.faults.rules.remove(rule)
        await asyncio.sleep(10)
        assert clock.parse(ground.records()["a"]["lastseen"]) + timedelta(seconds=11) > clock.now()
        assert peering.is_open


async def test_dead_records_that_cannot_be_removed_are_not_tried_at_each_event(ground: Ground) -> None:
    dead = {"lifetime": 10, "lastseen": (clock.now() - timedelta(hours=1)).isoformat()}
    rule = ground.sandbox.faults.answer(500, match=Match(method="PATCH", user_agent="ctl/"), times=None)
    async with ground.taking_part("a") as peering:
        assert peering.is_open
        ground.sandbox.log.clear()
        await ground.write({f"dead-{number}": dead for number in range(50)})
        for number in range(300):
            await ground.write({"note": number})
            await asyncio.sleep(0.2)
        assert len(ground.sandbox.log.select(Match(method="PATCH", user_agent="ctl/"))) < 40
        ground.sandbox.faults.rules.remove(rule)
        await asyncio.sleep(11)
        await ground.write({"note": "the last"})
        await asyncio.sleep(1)
        assert set(ground.records()) == {"a", "note"}


async def test_the_end_is_bounded_when_the_server_does_not_answer(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    async with ground.taking_part() as peering:
        await opened(peering)
        await asyncio.sleep(1)
        ground.sandbox.faults.delay(1000, match=Match(method="PATCH", user_agent="ctl/"), times=None)
        began = asyncio.get_running_loop().time()
        await peering.stop(30)
        assert asyncio.get_running_loop().time() - began <= 6
    assert any("peers wait for its end" in line for line in said(caplog))


async def test_a_cancelled_stop_takes_the_record_out_all_the_same(ground: Ground) -> None:
    async with Client(Access(ground.sandbox.url)) as client:
        factory = SharedInformerFactory(client)
        peering = Peering(client, factory, OPTIONS)
        await peering.start()
        await peering.serve([CLUSTER], None)
        await asyncio.sleep(1)
        assert set(ground.records()) == {"a"}
        ground.sandbox.faults.delay(1, match=Match(method="PATCH", user_agent="ctl/"))
        task = asyncio.create_task(peering.stop(5))
        await asyncio.sleep(0.5)
        assert set(ground.records()) == {"a"}
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert ground.records() == {}
        await factory.stop()


async def test_stealth_is_silent_and_announces_all_the_same(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ctl.peering")
    async with ground.taking_part(stealth=True):
        await asyncio.sleep(100)
        assert set(ground.records()) == {"a"}
    assert not [line for line in said(caplog, logging.DEBUG) if "Keep-alive" in line]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_in_the_end_the_one_with_the_highest_priority_acts(ground: Ground, seed: int) -> None:
    """Operators come and go, others freeze them, are killed, or write again; streams break in between."""
    chance = random.Random(seed)
    async with contextlib.AsyncExitStack() as stack:
        alive: dict[str, tuple[int, Peering, contextlib.AsyncExitStack]] = {}
        for step in range(25):
            what = chance.choice(["start", "start", "stop", "freeze", "resume", "cut"])
            if what == "start" and len(alive) < 4:
                one = await stack.enter_async_context(contextlib.AsyncExitStack())
                priority = chance.randint(0, 2)
                peering = await one.enter_async_context(ground.taking_part(f"p{step}", priority))
                alive[f"p{step}"] = priority, peering, one
            elif what == "stop" and alive:
                await alive.pop(chance.choice(sorted(alive)))[2].aclose()
            elif what == "freeze":
                given = record(chance.randint(0, 3), chance.randint(1, 60), ago=chance.random() * 30)
                await ground.write({f"by hand {chance.randint(0, 2)}": given})
            elif what == "resume":
                await ground.write({f"by hand {chance.randint(0, 2)}": None})
            elif what == "cut":
                ground.sandbox.faults.cut_watches(Match(user_agent="ctl/"))
            await asyncio.sleep(chance.choice([0.0, 0.1, 5.0, 40.0]))
        await asyncio.sleep(130)
        top = max((priority for priority, _, _ in alive.values()), default=0)
        highest = [name for name, (priority, _, _) in alive.items() if priority == top]
        acting = [name for name, (_, peering, _) in alive.items() if peering.is_open]
        assert acting == (highest if len(highest) == 1 else [])
        # Whoever lives tidies up; where nobody does, the dead stay.
        assert {name for name in ground.records() if alive or name.startswith("p")} == set(alive)
    assert not [name for name in ground.records() if name.startswith("p")]


@pytest.mark.parametrize(("missing", "open_after"), [("list", True), ("watch", True), ("patch", True)])
async def test_missing_rights_are_told_once_and_nothing_is_tried(
    ground: Ground, caplog: pytest.LogCaptureFixture, missing: str, open_after: bool
) -> None:
    caplog.set_level(logging.INFO, "ctl.peering")

    async def may(verb: str, resource: Resource, namespace: str | None) -> bool:
        return verb != missing

    await ground.write({"b": record(5, 30)})
    async with Client(Access(ground.sandbox.url)) as client:
        factory = SharedInformerFactory(client)
        peering = Peering(client, factory, OPTIONS, may=may)
        await peering.start()
        for _ in range(3):
            await peering.serve([CLUSTER], None)
        await asyncio.sleep(5)
        assert peering.is_open == (missing != "patch")
        await asyncio.sleep(200)
        assert peering.is_open == open_after
        await peering.stop(5)
        await factory.stop()
    assert ground.writes == []
    assert len([line for line in said(caplog) if f"The right to {missing} " in line]) == 1


async def test_without_the_right_to_look_a_mandatory_peering_pauses_with_a_warning(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    async def may(verb: str, resource: Resource, namespace: str | None) -> bool:
        return False

    async with Client(Access(ground.sandbox.url)) as client:
        factory = SharedInformerFactory(client)
        peering = Peering(client, factory, replace(OPTIONS, mandatory=True), may=may)
        await peering.start()
        await peering.serve([CLUSTER], None)
        await asyncio.sleep(100)
        assert not peering.is_open
        await peering.stop(5)
        await factory.stop()
    assert any("stays paused" in line for line in said(caplog, logging.WARNING))


async def test_an_optional_peering_that_cannot_be_read_is_not_waited_for_without_an_end(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    rule = ground.sandbox.faults.answer(500, match=Match(method="GET", user_agent="ctl/"), times=None)
    began = asyncio.get_running_loop().time()
    async with ground.taking_part() as peering:
        assert asyncio.get_running_loop().time() - began == pytest.approx(10, abs=1)
        assert peering.is_open
        await ground.write({"b": record(5, 3600)})
        ground.sandbox.faults.rules.remove(rule)
        await closed(peering, 120)
    assert any("peers are ignored until it is" in line for line in said(caplog, logging.WARNING))


def test_identities_name_the_pod_or_the_user_and_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_ID", "pod-7")
    assert own_identity() == own_identity(manual=True) == "pod-7"
    monkeypatch.delenv("POD_ID")
    person = own_identity(manual=True)
    user, _, host = person.partition("@")
    assert user
    assert host
    who, moment, letters = own_identity().split("/")
    assert who == person
    assert len(moment) == 14
    assert moment.isdigit()
    assert len(letters) == 3
    assert set(letters) <= set(LETTERS)
    assert own_identity() != own_identity() or own_identity() != own_identity()
