"""No attempt outlives leadership: what cannot be cancelled, or blocks the loop, ends the program before others act."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from typing import Any, ClassVar, cast

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.leader.election_thread import ElectionThread
from ctl.controller.leader.gate import LeaseGate, ManualGate, Turn
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.controller.leader.lease_rules import LeaseRules
from ctl.controller.program.serve import ServeOptions, serve
from ctl.controller.program.stopping import resort_to
from ctl.controller.program.terms import LeaderGate, ProgramGate, StillActing, TermHooks, Terms, gate_of
from ctl.sandbox import Match, Sandbox

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
LEASE = Match(path="leases/maps")
SHORT = LeaseRules(duration=1.5, renew_deadline=1.0, retry_period=0.05)
ENOUGH = 60.0


@pytest.fixture
async def distant() -> AsyncIterator[Sandbox]:
    """A sandbox in a thread of its own, which a blocked loop of the test does not block."""
    thread, sandbox = ElectionThread("sandbox"), Sandbox()
    await thread.start()
    await thread.call(sandbox.start())
    try:
        yield sandbox
    finally:
        await thread.call(sandbox.stop())
        assert await thread.stop()


async def _create(sandbox: Sandbox) -> None:
    async with Client(Access(sandbox.url), ClientSettings(user_agent="user")) as user:
        await user.create(CONFIGMAPS, {"metadata": {"name": "one", "namespace": "default"}})


@pytest.mark.virtual_time
async def test_a_reconciler_that_goes_on_ends_the_program_before_others_may_act(sandbox: Sandbox) -> None:
    """However much grace there is for the stop."""
    began, free = asyncio.Event(), asyncio.Event()
    loop, resorted = asyncio.get_running_loop(), list[float]()

    async def stubborn(key: ctl.Key, context: ctl.Context) -> None:
        began.set()
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    await _create(sandbox)
    program = asyncio.create_task(
        serve(
            ctl.controller("configmaps").reconciles(stubborn),
            options=ServeOptions(access=Access(sandbox.url), last_resort=lambda _: resorted.append(loop.time())),
            leadership=LeaderElectionConfig("maps", "default", "a"),
        )
    )
    await began.wait()
    cut = loop.time()
    sandbox.faults.answer(503, match=LEASE, times=None)
    with pytest.raises(StillActing, match=r"default/maps was lost .* the reconciler of configmaps for default/one"):
        await program
    # The last renewal may have been as long before the cut as the period between two.
    assert 10 - 2 - 1 < loop.time() - cut < 15
    assert resorted == [], "the program has ended before"
    free.set()


async def test_the_last_resort_is_called_by_a_thread_when_the_loop_is_blocked(
    distant: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """In real time. The program goes on here as a follower, since its last resort does nothing."""
    resorted: list[tuple[threading.Thread, Exception]] = []
    stop = asyncio.Event()

    async def block(key: ctl.Key, context: ctl.Context) -> None:
        distant.faults.answer(503, match=LEASE, times=None)
        end = time.monotonic() + ENOUGH
        while not resorted and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 (what is tested)
        stop.set()

    await _create(distant)
    async with asyncio.timeout(2 * ENOUGH):
        await serve(
            ctl.controller("configmaps").reconciles(block),
            stop=stop,
            options=ServeOptions(
                access=Access(distant.url),
                last_resort=lambda error: resorted.append((threading.current_thread(), error)),
            ),
            leadership=LeaderElectionConfig("maps", "default", "a", SHORT),
        )
    ((thread, error),) = resorted
    assert thread is not threading.current_thread()
    assert isinstance(error, StillActing)
    assert "goes on: what blocks the event loop" in str(error)
    assert str(error) in caplog.text


def test_the_last_resort_comes_though_the_loop_has_ended() -> None:
    """A program that has ended otherwise may wait for a thread for ever."""
    called = threading.Event()

    async def program() -> None:
        resort_to(lambda _: called.set(), RuntimeError("it is over"), 0.01)

    asyncio.run(program())
    assert called.wait(ENOUGH)


async def test_the_last_resort_comes_once() -> None:
    called: list[Exception] = []
    resort_to(called.append, RuntimeError("it is over"), 0.02)
    async with asyncio.timeout(ENOUGH):
        while not called:  # noqa: ASYNC110 (the thread sets it)
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.08)
    assert len(called) == 1


def _terms(gate: ProgramGate, **hooks: Any) -> Terms:
    def fail(name: str, error: BaseException) -> None:
        raise AssertionError(name) from error

    return Terms(gate, TermHooks(dict, **hooks), fail)


@pytest.mark.virtual_time
async def test_the_gate_of_a_program_is_open_when_all_others_are_and_is_revoked_by_any() -> None:
    one, other, told = ManualGate(), ManualGate(is_open=True), list[Turn]()
    gate = gate_of(None, one, other)
    gate.subscribe(told.append)
    terms = _terms(gate)
    await terms.start()
    assert told == []
    one.open()
    other.close()
    one.close()
    other.open()
    assert told == [Turn.OPENED, Turn.CLOSED]
    one.open()
    one.revoke()
    one.open()
    await terms.stop(1)
    other.close()
    assert told == [Turn.OPENED, Turn.CLOSED, Turn.OPENED, Turn.REVOKED, Turn.OPENED, Turn.CLOSED]


async def test_the_gate_of_a_program_knows_what_other_gates_know_of_terms() -> None:
    class Lease(ManualGate):
        caught_up: ClassVar[list[object]] = []

        def left(self) -> float:
            return 3.0

        async def catch_up(self, copy: object) -> None:
            self.caught_up.append(copy)

    lease, copy = Lease(), cast("Any", object())
    gate = gate_of(None, ManualGate(), lease)
    assert isinstance(gate, LeaderGate)
    assert gate.left() == 3.0
    await gate.catch_up(copy)
    assert lease.caught_up == [copy]
    assert not isinstance(gate_of(None, ManualGate()), LeaseGate)


@pytest.mark.virtual_time
async def test_what_comes_before_a_term_comes_before_the_gate_opens() -> None:
    gate, told = gate_of(None), list[str]()
    gate.subscribe(lambda turn: told.append(turn.value))

    async def note(text: str) -> None:
        await asyncio.sleep(1)
        told.append(text)

    terms = _terms(gate, leading=lambda: note("leading"), standby=lambda: note("standby"))
    await terms.start()
    await terms.stop(1)
    assert told == ["leading", "opened", "closed", "standby"]


@pytest.mark.virtual_time
async def test_what_a_failed_beginning_of_a_term_has_started_is_stopped() -> None:
    told = list[str]()

    async def fail() -> None:
        raise OSError("it cannot begin")

    async def note() -> None:
        told.append("standby")

    gate = gate_of(None, ManualGate(is_open=True))
    with pytest.raises(OSError, match="it cannot begin"):
        await _terms(gate, leading=fail, standby=note).start()
    assert told == ["standby"]
    assert not gate.is_open


BLOCKED = """
import logging, threading, time
from ctl.controller.program.stopping import end_process

logging.basicConfig()
for handler in logging.getLogger().handlers:
    handler.acquire()  # what blocks the loop may hold the lock of the log
threading.Timer(0.1, end_process, [RuntimeError("it is over")]).start()
time.sleep(60)
"""


def test_the_process_ends_though_its_loop_and_its_log_are_blocked() -> None:
    ended = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=ENOUGH, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "Error: it is over\n"
