import asyncio

import pytest

from ctl.controller.leader.gates import AllOf, AlwaysOpen, Turn
from ctl.controller.leader.valve import Valve

pytestmark = pytest.mark.virtual_time


async def test_a_gate_that_is_always_open() -> None:
    gate = AlwaysOpen()
    assert gate.is_open
    await gate.wait_open()
    gate.subscribe(lambda turn: None)()


async def test_a_valve_tells_its_changes_once_each() -> None:
    valve, told = Valve(), list[Turn]()
    end = valve.subscribe(told.append)
    valve.close()
    valve.open()
    valve.open()
    valve.close()
    valve.revoke()
    assert told == [Turn.OPENED, Turn.CLOSED, Turn.REVOKED]
    end()
    valve.open()
    assert len(told) == 3
    assert valve.is_open


async def test_all_of_several_is_open_when_each_is() -> None:
    one, other = Valve(), Valve(is_open=True)
    gate, told = AllOf(one, other), list[Turn]()
    gate.subscribe(told.append)
    waiting = asyncio.create_task(gate.wait_open())
    assert not gate.is_open
    one.open()
    async with asyncio.timeout(10):
        await waiting
    other.close()
    one.close()
    other.open()
    assert not gate.is_open
    one.open()
    assert told == [Turn.OPENED, Turn.CLOSED, Turn.OPENED]


async def test_waiting_for_all_means_all_at_the_same_time() -> None:
    one, other = Valve(), Valve()
    waiting = asyncio.create_task(AllOf(one, other).wait_open())
    one.open()
    await asyncio.sleep(1)
    one.close()
    other.open()
    await asyncio.sleep(1)
    assert not waiting.done()
    one.open()
    async with asyncio.timeout(10):
        await waiting


async def test_what_is_revoked_by_one_is_revoked_as_a_whole() -> None:
    lease, pause = Valve(is_open=True), Valve(is_open=True)
    gate, told = AllOf(lease, pause), list[Turn]()
    gate.subscribe(told.append)
    pause.close()
    lease.revoke()
    assert told == [Turn.CLOSED, Turn.REVOKED]
    gate.close()
    pause.open()
    lease.open()
    assert told == [Turn.CLOSED, Turn.REVOKED]


def test_all_of_none_is_open() -> None:
    assert AllOf().is_open


@pytest.mark.parametrize("whole", [False, True])
async def test_a_subscriber_that_fails_keeps_nobody_else_from_being_told(
    caplog: pytest.LogCaptureFixture, whole: bool
) -> None:
    valve, told = Valve(), list[Turn]()
    gate = AllOf(valve) if whole else valve

    def fail(turn: Turn) -> None:
        raise RuntimeError(turn)

    gate.subscribe(fail)
    gate.subscribe(told.append)
    valve.open()
    valve.revoke()
    assert told == [Turn.OPENED, Turn.REVOKED]
    assert caplog.text.count("A subscriber of a gate failed") == 2
