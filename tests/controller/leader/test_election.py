"""Elections against the sandbox, over sockets, in virtual time."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.errors import NotFound
from ctl.client.rest import Client, PatchKind
from ctl.client.settings import ClientSettings
from ctl.controller.leader.election import Election
from ctl.controller.leader.gate import Turn
from ctl.controller.leader.lease_client import LEASES, LeaderElectionConfig
from ctl.controller.leader.lease_rules import LeaseRules
from ctl.sandbox import Match, Sandbox

pytestmark = pytest.mark.virtual_time

SETTINGS = LeaderElectionConfig("operator", "default", "a", labels={"app": "x"}, annotations={"note": "y"})


@contextlib.asynccontextmanager
async def taking_part(client: Client, identity: str, **changes: Any) -> AsyncIterator[Election]:
    election = Election(client, replace(SETTINGS, identity=identity, **changes))
    await election.start()
    try:
        yield election
    finally:
        await election.stop(5)


async def _opened(election: Election, within: float) -> float:
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(within):
        await election.wait_open()
    return asyncio.get_running_loop().time() - began


async def _spec(client: Client) -> dict[str, Any]:
    lease = (await client.get(LEASES, "operator", "default")).body()
    spec: dict[str, Any] = lease["spec"]
    return spec


async def test_the_first_one_makes_the_lease_and_leads(client: Client) -> None:
    async with taking_part(client, "a") as election:
        await _opened(election, 1)
        lease = (await client.get(LEASES, "operator", "default")).body()
        assert lease["spec"]["holderIdentity"] == "a"
        assert lease["spec"]["leaseDurationSeconds"] == 15
        assert lease["spec"]["leaseTransitions"] == 0
        assert lease["metadata"]["labels"] == {"app": "x"}
        assert lease["metadata"]["annotations"] == {"note": "y"}
        assert election.holder == "a"
    assert not election.is_open
    assert (await _spec(client))["holderIdentity"] == ""


async def test_it_renews_for_as_long_as_it_lives(client: Client) -> None:
    async with taking_part(client, "a") as election:
        told: list[Turn] = []
        await _opened(election, 1)
        election.subscribe(told.append)
        before = await _spec(client)
        await asyncio.sleep(3600)
        after = await _spec(client)
        assert told == []
    assert after["acquireTime"] == before["acquireTime"]
    assert after["renewTime"] > before["renewTime"]


async def test_a_planned_hand_over_takes_less_than_a_second(client: Client) -> None:
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(taking_part(client, "a"))
        await _opened(first, 1)
        second = await stack.enter_async_context(taking_part(client, "b"))
        for pause in (3.0, 10.7, 61.3):
            await asyncio.sleep(pause)
            assert not second.is_open
        await first.stop(5)
        assert await _opened(second, 5) < 1
        assert (await _spec(client))["leaseTransitions"] == 1


async def test_after_a_crash_the_successor_waits_for_the_whole_lease(client: Client) -> None:
    async with taking_part(client, "a", release_on_stop=False) as first:
        await _opened(first, 1)
    async with taking_part(client, "b") as second:
        assert 13 <= await _opened(second, 30) <= 15 + 5


async def test_of_many_one_leads_at_any_moment(client: Client) -> None:
    async with contextlib.AsyncExitStack() as stack:
        elections = [await stack.enter_async_context(taking_part(client, f"m{number}")) for number in range(4)]
        for _ in range(3):
            await asyncio.sleep(60)
            leading = [election for election in elections if election.is_open]
            assert len(leading) == 1
            await leading[0].stop(5)
            elections.remove(leading[0])
        await asyncio.sleep(60)
        assert elections[0].is_open


async def test_a_lease_taken_by_force_is_lost_and_won_again_in_the_same_process(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with taking_part(client, "a") as election:
        told: list[Turn] = []
        await _opened(election, 1)
        election.subscribe(told.append)
        await client.patch(LEASES, "operator", "default", {"spec": {"holderIdentity": "thief"}}, kind=PatchKind.MERGE)
        await asyncio.sleep(3)
        assert told == [Turn.REVOKED]
        assert election.holder == "thief"
        await asyncio.sleep(20)
        assert told == [Turn.REVOKED, Turn.OPENED]
        assert (await _spec(client))["leaseTransitions"] == 1
    assert "is held by thief" in caplog.text


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"holderIdentity": None}},
        {"spec": {"holderIdentity": "b"}},
        {"spec": {"leaseDurationSeconds": 1}},
        {"spec": None},
        {"spec": {"leaseDurationSeconds": 1, "renewTime": None}},
    ],
)
async def test_a_leader_that_is_cut_off_is_waited_for_also_when_its_lease_is_edited_by_hand(
    sandbox: Sandbox, client: Client, edit: dict[str, Any]
) -> None:
    settings = ClientSettings(user_agent="cut", error_backoffs=())
    async with Client(Access(sandbox.url), settings) as far, taking_part(far, "a") as first:
        await _opened(first, 1)
        async with taking_part(client, "b") as second:
            await asyncio.sleep(10.5)
            sandbox.faults.refuse(match=Match(user_agent="cut"), times=None)
            sandbox.faults.stall_watches(Match(user_agent="cut"))
            await client.patch(LEASES, "operator", "default", edit, kind=PatchKind.MERGE)
            while not second.is_open:
                await asyncio.sleep(0.1)
                assert not (first.is_open and second.is_open)
            assert not first.is_open
            assert (await _spec(client))["holderIdentity"] == "b"


async def test_what_others_put_on_a_lease_stays_there(client: Client) -> None:
    lease = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": "operator", "labels": {"theirs": "x"}, "annotations": {"theirs": "y"}},
        "spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "c"},
    }
    await client.create(LEASES, lease, "default")
    async with taking_part(client, "a") as election:
        await _opened(election, 1)
        await asyncio.sleep(5)
    stored = (await client.get(LEASES, "operator", "default")).body()
    assert stored["metadata"]["labels"] == {"theirs": "x", "app": "x"}
    assert stored["metadata"]["annotations"] == {"theirs": "y", "note": "y"}
    assert stored["spec"]["strategy"] == "OldestEmulationVersion"
    assert stored["spec"]["preferredHolder"] == "c"


async def test_a_deleted_lease_is_made_again(client: Client) -> None:
    async with taking_part(client, "a") as election:
        await _opened(election, 1)
        await client.delete(LEASES, "operator", "default")
        with pytest.raises(NotFound):
            await _spec(client)
        await asyncio.sleep(10)
        assert election.is_open
        assert (await _spec(client))["holderIdentity"] == "a"


async def test_without_a_server_it_stops_leading_before_others_may_and_comes_back(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(Access(sandbox.url)) as client, taking_part(client, "a", release_on_stop=False) as election:
        told: list[tuple[Turn, float]] = []
        await _opened(election, 1)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(30)
        cut = loop.time()
        election.subscribe(lambda turn: told.append((turn, loop.time() - cut)))
        port = sandbox.port
        await sandbox.__aexit__(None, None, None)
        await asyncio.sleep(60)
        assert [turn for turn, _ in told] == [Turn.REVOKED]
        assert 8 - 0.1 <= told[0][1] <= 10
        async with Sandbox(port):
            await asyncio.sleep(10)
            assert [turn for turn, _ in told] == [Turn.REVOKED, Turn.OPENED]


@pytest.mark.parametrize("seconds", [3.0, 4.8])
async def test_a_server_that_is_slow_but_answers_in_time_costs_nobody_the_lease(
    sandbox: Sandbox, client: Client, seconds: float
) -> None:
    sandbox.faults.delay(seconds, match=Match(path="leases", watching=False), times=None)
    async with taking_part(client, "a", release_on_stop=False) as election:
        await _opened(election, 20)
        told: list[Turn] = []
        election.subscribe(told.append)
        sandbox.log.clear()
        await asyncio.sleep(60)
        assert told == []
        assert 10 <= len(sandbox.log.select(Match(method="PUT", path="leases"))) <= 20


async def test_the_rules_can_be_faster(client: Client) -> None:
    rules = LeaseRules(duration=3, renew_deadline=2, retry_period=0.5)
    async with taking_part(client, "a", rules=rules, release_on_stop=False) as first:
        await _opened(first, 1)
    async with taking_part(client, "b", rules=rules) as second:
        assert await _opened(second, 30) <= 3 + 1


async def test_metrics(client: Client) -> None:
    async with taking_part(client, "a") as election:
        await _opened(election, 1)
        samples = {(sample.family.name, *sample.labels): sample.value for sample in election.samples()}
        assert samples == {
            ("leader_election_master_status", "operator"): 1,
            ("leader_election_slowpath_total", "operator"): 0,
            ("ctl_leadership_seconds_left", "operator"): pytest.approx(10, abs=2),
        }


async def test_a_release_that_is_refused_over_and_over_ends_with_its_grace(
    sandbox: Sandbox, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with taking_part(client, "a") as election:
        await _opened(election, 1)
        sandbox.faults.answer(409, "Conflict", match=Match(path="leases"), times=None)
        began = asyncio.get_running_loop().time()
        await election.stop(3)
        assert asyncio.get_running_loop().time() - began == pytest.approx(3, abs=0.5)
        assert len(sandbox.log.select(Match(path="leases", method="GET"))) < 30
    assert "could not be released in time" in caplog.text


async def test_a_release_outlives_a_moment_of_trouble(sandbox: Sandbox, client: Client) -> None:
    async with taking_part(client, "a") as election:
        await _opened(election, 1)
        sandbox.faults.answer(503, match=Match(path="leases"), times=3)
        await election.stop(5)
    assert (await _spec(client))["holderIdentity"] == ""


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_server_that_fails_at_the_first_look_is_waited_for(
    sandbox: Sandbox, client: Client, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    sandbox.faults.answer(code, match=Match(path="leases"), times=2)
    async with taking_part(client, "a") as election:
        await _opened(election, 10)
    assert len([line for line in caplog.messages if "could not be read or written" in line]) == 1


async def test_a_namespace_that_is_gone_is_reported_once_and_waited_for(
    sandbox: Sandbox, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    rule = sandbox.faults.answer(404, "NotFound", match=Match(method="POST", path="leases"), times=None)
    async with taking_part(client, "a") as election:
        await asyncio.sleep(60)
        assert not election.is_open
        assert len(sandbox.log.select(Match(path="leases", watching=False))) < 70
        assert len([line for line in caplog.messages if "NotFound" in line and "POST" in line]) == 1
        sandbox.faults.rules.remove(rule)
        await _opened(election, 10)


async def test_two_with_the_same_identity_are_told_of(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    async with taking_part(client, "a") as first:
        await _opened(first, 1)
        await asyncio.sleep(1)
        async with taking_part(client, "a"):
            await asyncio.sleep(30)
    lines = [line for line in caplog.messages if line.startswith("Another process takes part")]
    assert 1 <= len(lines) <= 2


async def test_lost_answers_are_not_taken_for_another_process(
    sandbox: Sandbox, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with taking_part(client, "a") as election:
        await _opened(election, 1)
        for _ in range(5):
            sandbox.faults.lose_answer(match=Match(method="PUT", path="leases"), times=3)
            await asyncio.sleep(20)
        await client.patch(LEASES, "operator", "default", {"spec": {"leaseDurationSeconds": 3}}, kind=PatchKind.MERGE)
        await asyncio.sleep(5)
        assert election.is_open
    assert "Another process" not in caplog.text
