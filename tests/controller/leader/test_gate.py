import pytest

from ctl.controller.leader.gate import AlwaysOpen, ManualGate, Turn

pytestmark = pytest.mark.virtual_time


async def test_a_gate_that_is_always_open() -> None:
    gate = AlwaysOpen()
    assert gate.is_open
    await gate.wait_open()
    gate.subscribe(lambda turn: None)()


async def test_a_gate_tells_its_changes_once_each() -> None:
    gate, told = ManualGate(), list[Turn]()
    end = gate.subscribe(told.append)
    gate.close()
    gate.open()
    gate.open()
    gate.close()
    gate.revoke()
    assert told == [Turn.OPENED, Turn.CLOSED, Turn.REVOKED]
    end()
    gate.open()
    assert len(told) == 3
    assert gate.is_open


async def test_a_subscriber_that_fails_keeps_nobody_else_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    gate, told = ManualGate(), list[Turn]()

    def fail(turn: Turn) -> None:
        raise RuntimeError(turn)

    gate.subscribe(fail)
    gate.subscribe(told.append)
    gate.open()
    gate.revoke()
    assert told == [Turn.OPENED, Turn.REVOKED]
    assert caplog.text.count("A subscriber of a gate failed") == 2
