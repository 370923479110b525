"""Leadership against the sandbox, in virtual time: taking over, and what is fenced."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.errors import Forbidden
from ctl.client.fence import NotLeading
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.kernel import mappers
from ctl.controller.kernel.controller import Controller
from ctl.controller.kernel.reconciler import Attempt, Result
from ctl.controller.leader.gate import Turn
from ctl.controller.leader.leadership import Leadership
from ctl.controller.leader.lease_client import LEASES, LeaderElectionConfig
from ctl.informers.factory import SharedInformerFactory
from ctl.sandbox import Match, Sandbox

pytestmark = pytest.mark.virtual_time

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
SETTINGS = LeaderElectionConfig("operator", "default", "a", files=("b.py", "a.py"), resources=("configmaps",))
LISTS = Match(path="configmaps", method="GET", watching=False)
STREAMS = Match(path="configmaps", watching=True)


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Replica:
    """A process that takes part: a client behind its fence, a copy, a controller."""

    leadership: Leadership
    client: Client
    factory: SharedInformerFactory
    controller: Controller[Key]
    turns: list[Turn] = field(default_factory=list)
    attempts: list[tuple[float, str, str]] = field(default_factory=list)
    """When, which object, and its version in the copy at that time."""

    async def leads(self, within: float = 60) -> float:
        began = _now()
        async with asyncio.timeout(within):
            await self.leadership.wait_open()
        return _now() - began

    async def write(self, value: str, name: str = "x") -> str:
        return (await self.client.patch(MAPS, name, "default", {"data": {"value": value}})).resource_version

    async def stop(self) -> None:
        await self.controller.stop(5)
        await self.leadership.stop(5)
        await self.factory.stop()
        await self.client.close()


@contextlib.asynccontextmanager
async def replica(sandbox: Sandbox, identity: str, **changes: Any) -> AsyncIterator[Replica]:
    access, settings = Access(sandbox.url), ClientSettings(user_agent=identity)
    leadership = Leadership(access, replace(SETTINGS, identity=identity, **changes), settings)
    client = Client(access, settings, fence=leadership)
    factory = SharedInformerFactory(client)
    copy = factory.informer(MAPS)

    async def reconcile(key: Key, attempt: Attempt[Key]) -> Result | None:
        obj = copy.store.get(key)
        one.attempts.append((_now(), key.name, "" if obj is None else obj.resource_version))
        return None

    controller: Controller[Key] = Controller(identity, reconcile, gate=leadership, concurrency=None)
    one = Replica(leadership, client, factory, controller)
    leadership.subscribe(one.turns.append)
    controller.watch(copy, mappers.for_object())
    await controller.start()
    await leadership.start()
    try:
        yield one
    finally:
        await one.stop()


def crash(sandbox: Sandbox, identity: str) -> None:
    """Nothing of this replica reaches the server any more."""
    sandbox.faults.refuse(match=Match(user_agent=identity), times=None)
    sandbox.faults.cut_watches(Match(user_agent=identity))


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}})
        yield sandbox


def _lease(sandbox: Sandbox) -> dict[str, Any]:
    lease = sandbox.get("coordination.k8s.io/v1", "Lease", "operator")
    assert lease is not None
    return lease


def _written(sandbox: Sandbox) -> dict[str, str]:
    found: dict[str, str] = json.loads(_lease(sandbox)["metadata"]["annotations"]["ctl.dev/written"])
    return found


# What stands on the Lease.


async def test_renewals_and_the_release_say_what_was_written_last(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        assert _written(sandbox) == {}
        first = await a.write("1")
        await asyncio.sleep(2.5)
        assert _written(sandbox) == {"configmaps": first}
        await a.write("2")
        last = await a.write("3")
        await a.stop()
        assert _written(sandbox) == {"configmaps": last}
        assert _lease(sandbox)["spec"]["holderIdentity"] == ""


async def test_what_predecessors_wrote_is_handed_on(sandbox: Sandbox) -> None:
    async with replica(sandbox, "b") as b:
        async with replica(sandbox, "a") as a:
            await asyncio.sleep(5)
            first, second = (a, b) if a.leadership.is_open else (b, a)
            version = await first.write("1")
            await first.stop()
            await second.leads()
            assert _written(sandbox) == {"configmaps": version}
            await second.stop()
        assert _written(sandbox) == {"configmaps": version}


async def test_the_lease_names_the_operator(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a", labels={"app": "x"}, annotations={"note": "y"}) as a:
        await a.leads()
        metadata = _lease(sandbox)["metadata"]
        assert metadata["labels"] == {"app": "x"}
        found = metadata["annotations"]
        assert (found["note"], found["ctl.dev/files"], found["ctl.dev/resources"]) == ("y", "a.py,b.py", "configmaps")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"files": ("other.py",)}, ("files", "a.py,b.py", "other.py")),
        ({"resources": ("pods",)}, ("resources", "configmaps", "pods")),
    ],
)
async def test_a_standby_of_another_operator_is_warned_once(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], told: tuple[str, str, str]
) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b"), replica(sandbox, "c", **changes):
            await asyncio.sleep(60)
    warnings = [record.getMessage() for record in caplog.records if "another operator" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith("Is a another operator?")
    for text in ("default/operator", *told):
        assert text in warnings[0]


async def test_a_lease_of_those_who_note_nothing_warns_nobody(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "operator", "namespace": "default"},
            "spec": {"holderIdentity": "go", "leaseDurationSeconds": 15},
        }
    )
    async with replica(sandbox, "a") as a:
        await asyncio.sleep(10)
        assert a.leadership.holder == "go"
        assert 3 <= await a.leads(30) <= 10
    assert "another operator" not in caplog.text


# The gate and the fence.


async def test_a_standby_keeps_a_warm_copy_attempts_nothing_and_writes_nothing(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b") as b:
            await a.write("1")
            await asyncio.sleep(30)
            assert b.attempts == []
            assert len(b.controller.queue) == 0
            assert b.leadership.left() == 0
            assert b.leadership.holder == "a"
            copy = b.factory.informer(MAPS)
            assert copy.store.get(Key("default", "x")) is not None
            with pytest.raises(NotLeading):
                await b.write("2")


async def test_leader_follower_leader_in_one_process(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        await asyncio.sleep(1)
        for _ in range(3):
            a.attempts.clear()
            term = a.leadership.term
            crash(sandbox, "a")
            await asyncio.sleep(11)
            assert not a.leadership.is_open
            assert a.leadership.left() == 0
            with pytest.raises(NotLeading):
                await a.write("1")
            sandbox.faults.clear()
            await a.leads()
            await asyncio.sleep(30)
            assert a.leadership.term == term + 1
            assert [name for _, name, _ in a.attempts] == ["x"]
            await a.write("2")
            await asyncio.sleep(1)
        assert a.turns == [Turn.OPENED] + [Turn.REVOKED, Turn.OPENED] * 3
    assert (
        len(
            [
                line
                for line in caplog.messages
                if line.startswith("Lost leadership of default/operator; this process (a)")
            ]
        )
        == 3
    )


async def test_a_write_in_flight_ends_with_the_lease(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        sandbox.faults.delay(100, match=Match(path="configmaps/x"))
        writing = asyncio.create_task(a.write("1"))
        await asyncio.sleep(30)
        assert not writing.done(), "renewals let it go on"
        sandbox.faults.refuse(match=Match(path="leases"), times=None)
        began = _now()
        with pytest.raises(NotLeading):
            await writing
        assert 7.5 <= _now() - began <= 10
        await asyncio.sleep(60)
        assert not a.leadership.is_open


@pytest.mark.parametrize("code", [401, 403, 500, 503])
async def test_errors_at_renewals_shorter_than_the_lease_change_nothing(sandbox: Sandbox, code: int) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        sandbox.faults.answer(code, match=Match(path="leases"), times=None)
        await asyncio.sleep(7)
        sandbox.faults.clear()
        await asyncio.sleep(60)
        assert a.turns == [Turn.OPENED]
        sandbox.faults.answer(code, match=Match(path="leases"), times=None)
        await asyncio.sleep(30)
        assert a.turns == [Turn.OPENED, Turn.REVOKED]
        sandbox.faults.clear()
        await a.leads(10)


async def test_one_request_that_hangs_does_not_cost_the_lease(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        for _ in range(5):
            sandbox.faults.delay(600, match=Match(path="leases", method="PUT"), times=1)
            await asyncio.sleep(20)
        assert a.turns == [Turn.OPENED]
        sandbox.faults.answer(403, "Forbidden", "not for you", match=Match(path="leases", method="PUT"), times=1)
        await asyncio.sleep(5)
    told = "The lease default/operator could not be read or written: "
    *hung, refused = [line.removeprefix(told) for line in caplog.messages if line.startswith(told)]
    assert hung == ["no answer came in time"] * 5
    assert re.fullmatch(r"PUT http://\S+/leases/operator: Forbidden \(403\): not for you", refused)


async def test_a_deleted_lease_is_noticed_at_once_and_nobody_else_takes_it_meanwhile(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b") as b, Client(Access(sandbox.url)) as admin:
            for _ in range(5):
                await asyncio.sleep(3.3)
                await admin.delete(LEASES, "operator", "default")
                await asyncio.sleep(0.5)
                assert not b.leadership.is_open
                await asyncio.sleep(10)
                assert a.leadership.is_open
                assert not b.leadership.is_open
            assert b.turns == []
        assert a.turns[:5] == [Turn.OPENED, Turn.REVOKED] * 2 + [Turn.OPENED], "it has noticed, and has won it anew"


async def test_start_says_what_is_forbidden(sandbox: Sandbox) -> None:
    sandbox.faults.answer(403, "Forbidden", match=Match(path="leases"), times=None)
    leadership = Leadership(Access(sandbox.url), SETTINGS)
    with pytest.raises(Forbidden):
        await leadership.start()
    assert not leadership.is_open
    await leadership.stop(5)


async def test_before_its_start_nothing_is_open() -> None:
    leadership = Leadership(Access("http://127.0.0.1:9"), SETTINGS)
    assert (leadership.is_open, leadership.left(), leadership.holder) == (False, 0, None)
    assert list(leadership.samples()) == []
    await leadership.stop(1)


async def test_metrics(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        found = {sample.family.name: sample.value for sample in a.leadership.samples()}
        assert found["leader_election_master_status"] == 1
        assert found["ctl_leadership_seconds_left"] == pytest.approx(9, abs=2)
        assert "rest_client_requests_total" in found, "renewals are requests like others"


# Taking over.


async def test_after_a_release_the_successor_acts_on_what_was_written_last(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b") as b:
            await asyncio.sleep(5)
            # What a does at its very end reaches b's copy later than the release does.
            sandbox.faults.stall_watches(Match(path="configmaps", user_agent="b"))
            version = await a.write("last")
            asyncio.get_running_loop().call_later(3, sandbox.faults.resume_watches)
            await a.stop()
            assert await b.leads() < 1
            opened = _now()
            await asyncio.sleep(20)
            at, _, seen = next(attempt for attempt in b.attempts if attempt[1] == "x")
            assert seen == version
            assert 2 < at - opened < 3.5
            assert b.factory.informer(MAPS).metrics.lists == 1


async def test_a_watch_that_does_not_bring_it_is_replaced_by_one_list(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b") as b:
            await asyncio.sleep(5)
            sandbox.faults.stall_watches(Match(path="configmaps", user_agent="b"))
            version = await a.write("last")
            await a.stop()
            await b.leads()
            opened = _now()
            await asyncio.sleep(20)
            at, _, seen = next(attempt for attempt in b.attempts if attempt[1] == "x")
            assert (seen, round(at - opened)) == (version, 5)
            assert b.factory.informer(MAPS).metrics.lists == 2
    assert "configmaps.v1 was listed anew" in caplog.text


async def test_after_a_crash_a_stream_without_a_sign_of_life_is_listed_once(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a", release_on_stop=False) as a:
        await a.leads()
        async with replica(sandbox, "b") as b:
            await asyncio.sleep(5)
            sandbox.faults.stall_watches(Match(path="configmaps", user_agent="b"))
            version = await a.write("last, and never told")
            crash(sandbox, "a")
            assert 12 <= await b.leads() <= 20
            opened = _now()
            await asyncio.sleep(20)
            at, _, seen = next(attempt for attempt in b.attempts if attempt[1] == "x")
            assert seen == version
            assert at - opened < 1
            assert b.factory.informer(MAPS).metrics.lists == 2


async def test_after_a_crash_a_stream_that_lives_needs_no_list(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a", release_on_stop=False) as a:
        await a.leads()
        async with replica(sandbox, "b") as b, Client(Access(sandbox.url)) as other:
            await asyncio.sleep(5)
            crash(sandbox, "a")
            for _ in range(20):
                await asyncio.sleep(1)
                await other.patch(MAPS, "x", "default", {"data": {"at": str(_now())}})
            await b.leads()
            await asyncio.sleep(5)
            assert b.attempts
            assert b.factory.informer(MAPS).metrics.lists == 1


async def test_a_write_whose_answer_was_lost_makes_the_successor_list(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b") as b:
            await asyncio.sleep(5)
            sandbox.faults.stall_watches(Match(path="configmaps", user_agent="b"))
            sandbox.faults.delay(60, match=Match(path="configmaps/x", method="PATCH"))
            writing = asyncio.create_task(a.write("in flight"))
            await asyncio.sleep(1)
            writing.cancel()
            await a.stop()
            assert _written(sandbox) == {"configmaps": "?"}
            await b.leads()
            await asyncio.sleep(2)
            assert b.factory.informer(MAPS).metrics.lists == 2
            assert b.attempts


async def test_a_copy_that_cannot_be_brought_up_is_waited_for_and_named(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b") as b:
            await asyncio.sleep(5)
            sandbox.faults.stall_watches(Match(path="configmaps", user_agent="b"))
            version = await a.write("last")
            await a.stop()
            sandbox.faults.answer(500, match=Match(path="configmaps", user_agent="b"), times=None)
            await b.leads()
            await asyncio.sleep(70)
            assert b.attempts == []
            sandbox.faults.clear()
            await asyncio.sleep(60)
            assert next(seen for _, name, seen in b.attempts if name == "x") == version
    late = [record.getMessage() for record in caplog.records if "no attempts from the cache" in record.getMessage()]
    assert len(late) >= 2
    assert version in late[0]


async def test_the_first_leader_has_no_predecessor_and_lists_nothing_twice(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        await asyncio.sleep(5)
        assert a.attempts
        assert a.factory.informer(MAPS).metrics.lists == 1


async def test_a_planned_hand_over_with_copies_takes_less_than_a_second(sandbox: Sandbox) -> None:
    async with replica(sandbox, "a") as a:
        await a.leads()
        async with replica(sandbox, "b") as b:
            await asyncio.sleep(17.3)
            await a.write("last")
            began = _now()
            await a.stop()
            await b.leads()
            await asyncio.sleep(5)
            assert b.attempts[0][0] - began < 1
