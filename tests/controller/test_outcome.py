import math

import pytest

from ctl.controller.kernel.outcome import TABLE, Ending, Requeue, classify
from ctl.controller.kernel.result import Result, TerminalError


@pytest.mark.parametrize(
    ("result", "error", "flags", "expected"),
    [
        (None, None, {}, Ending.DONE),
        (Result(), None, {}, Ending.DONE),
        (Result(priority=5), None, {}, Ending.DONE),
        (Result(requeue_after=0.0), None, {}, Ending.LATER),
        (Result(requeue_after=60.0), None, {}, Ending.LATER),
        (Result(requeue_after=60.0, error=ValueError()), None, {}, Ending.DEFERRED),
        (None, ValueError(), {}, Ending.FAILED),
        (None, TimeoutError(), {}, Ending.FAILED),
        (None, TimeoutError(), {"timed_out": True}, Ending.TIMED_OUT),
        (None, TerminalError(), {}, Ending.TERMINAL),
        (None, None, {"cut": True}, Ending.CUT),
        (None, ValueError(), {"cut": True}, Ending.CUT),
    ],
)
def test_endings(result: Result | None, error: BaseException | None, flags: dict[str, bool], expected: Ending) -> None:
    assert classify(result, error, **flags) is expected


def test_every_ending_is_settled() -> None:
    assert set(TABLE) == set(Ending)


@pytest.mark.parametrize(
    ("ending", "forget", "requeue", "label"),
    [
        (Ending.DONE, True, Requeue.NO, "success"),
        (Ending.LATER, True, Requeue.AFTER, "requeue_after"),
        (Ending.DEFERRED, True, Requeue.AFTER, "error"),
        (Ending.FAILED, False, Requeue.BACK_OFF, "error"),
        (Ending.TIMED_OUT, False, Requeue.BACK_OFF, "error"),
        (Ending.TERMINAL, True, Requeue.NO, "error"),
        (Ending.CUT, False, Requeue.SOON, None),
    ],
)
def test_the_table(ending: Ending, forget: bool, requeue: Requeue, label: str | None) -> None:
    settlement = TABLE[ending]
    assert (settlement.forget, settlement.requeue, settlement.label) == (forget, requeue, label)


def test_a_result_looks_forward() -> None:
    with pytest.raises(ValueError, match="requeue_after=-1"):
        Result(requeue_after=-1)
    with pytest.raises(ValueError, match="requeue_after=nan"):
        Result(requeue_after=math.nan)


def test_a_result_is_of_numbers() -> None:
    with pytest.raises(TypeError, match="requeue_after='60'"):
        Result(requeue_after="60")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="priority='high'"):
        Result(requeue_after=1, priority="high")  # type: ignore[arg-type]
