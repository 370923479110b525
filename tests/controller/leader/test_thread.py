"""Renewal by a thread, in real time: nothing here depends on how fast the machine is, and every wait is bounded."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest

from ctl.client.config.access import Access, Constant
from ctl.client.errors import AccessError, Forbidden
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.controller.leader.election_thread import ElectionThread, LoopCheck, ProgramAccess
from ctl.controller.leader.gate import Turn
from ctl.controller.leader.leadership import Leadership
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.controller.leader.lease_rules import LeaseRules
from ctl.sandbox import Match, Sandbox, SandboxSettings

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
OFTEN = LeaseRules(duration=60, renew_deadline=40, retry_period=0.02)
"""Nobody loses such a lease because the machine is busy."""
SHORT = LeaseRules(duration=1.5, renew_deadline=1.0, retry_period=0.02)
SETTINGS = LeaderElectionConfig("operator", "default", "a", rules=OFTEN)
RENEWALS = Match(path="leases/operator", method="PUT")


def block(until: Callable[[], bool]) -> None:
    """Hold the thread, and the loop in it, until something has happened elsewhere."""
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


async def soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the condition is of another thread
            await asyncio.sleep(0.01)


@dataclass
class Server:
    """A sandbox in a thread of its own, which a blocked loop of the test does not block."""

    thread: ElectionThread
    sandbox: Sandbox

    @property
    def url(self) -> str:
        return self.sandbox.url

    def renewals(self) -> int:
        return len(self.sandbox.log.select(RENEWALS))


async def _served(settings: SandboxSettings) -> AsyncIterator[Server]:
    thread = ElectionThread("sandbox")
    await thread.start()
    sandbox = Sandbox(settings=settings)
    await thread.call(sandbox.start())
    try:
        yield Server(thread, sandbox)
    finally:
        await thread.call(sandbox.stop())
        assert await thread.stop()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async for server in _served(SandboxSettings()):
        yield server


@pytest.fixture
async def guarded_server() -> AsyncIterator[Server]:
    async for server in _served(SandboxSettings(tokens=frozenset({"new"}))):
        yield server


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("leadership")]


async def test_a_blocked_loop_loses_nothing(server: Server) -> None:
    leadership = Leadership(Access(server.url), SETTINGS)
    turns: list[Turn] = []
    leadership.subscribe(turns.append)
    await leadership.start()
    try:
        async with asyncio.timeout(30):
            await leadership.wait_open()
        before = server.renewals()
        block(lambda: server.renewals() >= before + 20)
        assert leadership.is_open, "known without a turn of the loop"
        async with Client(Access(server.url), fence=leadership) as client:
            obj = await client.create(MAPS, {"metadata": {"name": "x", "namespace": "default"}})
        await soon(lambda: server.renewals() >= before + 25)
        assert turns == [Turn.OPENED]
    finally:
        await leadership.stop(10)
    assert turns == [Turn.OPENED, Turn.REVOKED]
    assert _threads() == []
    lease = server.sandbox.get("coordination.k8s.io/v1", "Lease", "operator")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""
    assert lease["metadata"]["annotations"]["ctl.dev/written"] == f'{{"configmaps":"{obj.resource_version}"}}'


async def test_callbacks_come_in_the_owners_loop(server: Server) -> None:
    leadership = Leadership(Access(server.url), SETTINGS)
    where: list[threading.Thread] = []
    leadership.subscribe(lambda turn: where.append(threading.current_thread()))
    await leadership.start()
    try:
        await soon(lambda: leadership.is_open)
        assert _threads() == ["leadership default/operator"]
    finally:
        await leadership.stop(10)
    assert where == [threading.current_thread()] * 2


async def test_a_loop_that_stands_still_for_too_long_loses_the_lease_and_wins_it_again(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    leadership = Leadership(Access(server.url), replace(SETTINGS, rules=SHORT, stall_limit=0.3))
    turns: list[Turn] = []
    leadership.subscribe(turns.append)
    await leadership.start()
    try:
        await soon(lambda: leadership.is_open)
        block(lambda: "has been blocked for 0.3 s" in caplog.text and leadership.left() == 0)
        assert not leadership.is_open, "known without a turn of the loop"
        lost = len(turns)
        await soon(lambda: len(turns) >= lost + 2)
        assert turns[lost : lost + 2] == [Turn.REVOKED, Turn.OPENED]
    finally:
        await leadership.stop(10)


async def test_a_loss_that_a_blocked_loop_does_not_hear_of_is_told_in_the_thread(server: Server) -> None:
    leadership = Leadership(Access(server.url), replace(SETTINGS, rules=SHORT, stall_limit=0.2))
    told: list[tuple[threading.Thread, float]] = []
    leadership.unheard = lambda: told.append((threading.current_thread(), leadership.spare()))
    await leadership.start()
    try:
        await soon(lambda: leadership.is_open)
        block(lambda: bool(told))
        assert told[0][0] is not threading.current_thread()
        assert told[0][1] < 0.25
        await soon(lambda: leadership.is_open)
        await asyncio.sleep(0)
        assert len(told) == 1, "once for a loss"
    finally:
        await leadership.stop(10)


async def test_a_loss_that_is_heard_of_is_told_in_the_loop_only(server: Server) -> None:
    rules = LeaseRules(duration=7, renew_deadline=1, retry_period=0.02)
    leadership = Leadership(Access(server.url), replace(SETTINGS, rules=rules))
    turns: list[Turn] = []
    told: list[float] = []
    leadership.subscribe(turns.append)
    leadership.unheard = lambda: told.append(leadership.spare())
    await leadership.start()
    try:
        await soon(lambda: leadership.is_open)
        await server.thread.call(server.sandbox.stop())
        await soon(lambda: Turn.REVOKED in turns)
        # The loop has these seconds to hear of it: enough for one that shares its machine.
        assert 0 < leadership.spare() <= 6
        await soon(lambda: leadership.spare() == 0)
        await server.thread.call(server.sandbox.start())
    finally:
        await leadership.stop(10)
    assert told == []


async def test_writes_of_other_threads_are_fenced_by_the_clock(server: Server) -> None:
    """A sync handler asks from its own thread."""
    leadership = Leadership(Access(server.url), SETTINGS)
    assert await asyncio.to_thread(leadership.left) == 0
    await leadership.start()
    try:
        await soon(lambda: leadership.is_open)
        assert 0 < await asyncio.to_thread(leadership.left) <= 40
    finally:
        await leadership.stop(10)
    assert await asyncio.to_thread(leadership.left) == 0


async def test_what_is_forbidden_is_told_at_the_start_and_leaves_no_thread(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.sandbox.faults.answer(403, "Forbidden", match=Match(path="leases"), times=None)
    leadership = Leadership(Access(server.url), SETTINGS)
    with pytest.raises(Forbidden):
        await leadership.start()
    assert _threads() == []
    await leadership.stop(5)
    assert caplog.messages == []


async def test_a_server_that_goes_away_and_comes_back(server: Server) -> None:
    leadership = Leadership(Access(server.url), replace(SETTINGS, rules=SHORT))
    turns: list[Turn] = []
    leadership.subscribe(turns.append)
    await leadership.start()
    try:
        await soon(lambda: leadership.is_open)
        begun = len(turns)
        await server.thread.call(server.sandbox.stop())
        await soon(lambda: Turn.REVOKED in turns[begun:])
        await server.thread.call(server.sandbox.start())
        await soon(lambda: turns[-1] is Turn.OPENED and len(turns) > begun + 1)
    finally:
        await leadership.stop(10)


# The way to the server.


class Logins:
    """An access source that lives in one loop, as login handlers do."""

    def __init__(self, *given: Access) -> None:
        self.given = list(given)
        self.asked = 0
        self.refusals = 0
        self.home = asyncio.get_running_loop()

    async def access(self) -> Access:
        assert asyncio.get_running_loop() is self.home
        self.asked += 1
        await asyncio.sleep(0)
        return self.given[0]

    async def refused(self, access: Access) -> None:
        assert asyncio.get_running_loop() is self.home
        self.refusals += 1
        if access is self.given[0] and len(self.given) > 1:
            self.given.pop(0)


async def test_logins_are_made_in_the_loop_of_their_handlers(guarded_server: Server) -> None:
    def access(token: str) -> Access:
        return Access(guarded_server.url, credentials=Constant((("Authorization", f"Bearer {token}"),)))

    logins = Logins(access("old"), access("new"))
    leadership = Leadership(logins, SETTINGS)
    await leadership.start()
    try:
        await soon(lambda: leadership.is_open)
        assert logins.refusals == 1
        before = guarded_server.renewals()
        block(lambda: guarded_server.renewals() >= before + 20)
        assert leadership.is_open
    finally:
        await leadership.stop(10)


async def test_news_of_the_source_are_taken_over_without_waiting_for_them() -> None:
    first, second = Access("http://one"), Access("http://two")
    logins, thread = Logins(first), ElectionThread("test")
    bridge = ProgramAccess(logins, asyncio.get_running_loop())
    await thread.start()
    try:
        assert await thread.call(bridge.access()) is first
        logins.given = [second]
        assert await thread.call(bridge.access()) is first
        for _ in range(3000):
            if await thread.call(bridge.access()) is second:
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("the news never came")
    finally:
        assert await thread.stop()


async def test_a_ready_session_stays_in_its_loop(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with aiohttp.ClientSession() as session:
        logins = Logins(Access(server.url, session=session, origin="the login handler"))
        with pytest.raises(AccessError, match="belongs to the operator's loop"):
            await ProgramAccess(logins, asyncio.get_running_loop()).access()
        leadership = Leadership(logins, SETTINGS)
        await leadership.start()
        try:
            await soon(lambda: leadership.is_open)
            assert _threads() == []
        finally:
            await leadership.stop(10)
    assert "the login handler gave a ready HTTP session" in caplog.text


async def test_a_closed_loop_gives_no_credentials() -> None:
    home = asyncio.new_event_loop()
    logins = Logins(Access("http://one"))
    bridge = ProgramAccess(logins, home)
    home.close()
    with pytest.raises(AccessError, match="is closed"):
        await bridge.access()


# The parts.


async def test_a_thread_carries_out_and_gives_back_results_errors_and_cancellations() -> None:
    thread = ElectionThread("test")
    told: list[str] = []

    async def work(result: Any) -> Any:
        told.append(threading.current_thread().name)
        if isinstance(result, Exception):
            raise result
        return result

    async def hang() -> None:
        told.append("hangs")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    with pytest.raises(RuntimeError, match="does not run"):
        await thread.call(work(1))
    ran = [thread.runs]
    await thread.start()
    ran.append(thread.runs)
    assert ran == [False, True]
    assert await thread.call(work(1)) == 1
    with pytest.raises(ValueError, match="oh"):
        await thread.call(work(ValueError("oh")))
    hanging = asyncio.create_task(thread.call(hang()))
    await soon(lambda: "hangs" in told)
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    await soon(lambda: told == ["test", "test", "hangs", "cancelled"])
    assert await thread.stop()
    assert await thread.stop()
    with pytest.raises(RuntimeError, match="does not run"):
        await thread.call(work(1))


async def test_a_loop_that_turns_answers() -> None:
    check = LoopCheck(asyncio.get_running_loop(), 5.0)
    assert check.turns(100.0)
    await asyncio.sleep(0)
    assert check.turns(200.0)
    # No turn in between.
    assert check.turns(204.0)
    assert not check.turns(205.0)
    await asyncio.sleep(0)
    assert check.turns(300.0)


def test_a_closed_loop_does_not_turn() -> None:
    loop = asyncio.new_event_loop()
    check = LoopCheck(loop, 5.0)
    loop.close()
    assert not check.turns(100.0)
    assert not check.turns(101.0)
