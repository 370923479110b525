import math

import pytest

from ctl.controller.kernel import outcome as outcomes
from ctl.controller.kernel.outcome import AttemptOutcome, Requeue, outcome_of
from ctl.controller.kernel.reconciler import Result, TerminalError


@pytest.mark.parametrize(
    ("result", "error", "flags", "expected"),
    [
        (None, None, {}, outcomes.SUCCESS),
        (Result(), None, {}, outcomes.SUCCESS),
        (Result(priority=5), None, {}, outcomes.SUCCESS),
        (Result(requeue_after=0.0), None, {}, outcomes.REQUEUE_AFTER),
        (Result(requeue_after=60.0), None, {}, outcomes.REQUEUE_AFTER),
        (Result(requeue_after=60.0, error=ValueError()), None, {}, outcomes.DEFERRED),
        (None, ValueError(), {}, outcomes.FAILED),
        (None, TimeoutError(), {}, outcomes.FAILED),
        (None, TimeoutError(), {"timed_out": True}, outcomes.TIMED_OUT),
        (None, TerminalError(), {}, outcomes.TERMINAL),
        (None, None, {"cancelled": True}, outcomes.CANCELLED),
        (None, ValueError(), {"cancelled": True}, outcomes.CANCELLED),
    ],
)
def test_outcomes(
    result: Result | None, error: BaseException | None, flags: dict[str, bool], expected: AttemptOutcome
) -> None:
    assert outcome_of(result, error, **flags) is expected


@pytest.mark.parametrize(
    ("outcome", "forget", "requeue", "label"),
    [
        (outcomes.SUCCESS, True, Requeue.NO, "success"),
        (outcomes.REQUEUE_AFTER, True, Requeue.AFTER, "requeue_after"),
        (outcomes.DEFERRED, True, Requeue.AFTER, "error"),
        (outcomes.FAILED, False, Requeue.BACK_OFF, "error"),
        (outcomes.TIMED_OUT, False, Requeue.BACK_OFF, "error"),
        (outcomes.TERMINAL, True, Requeue.NO, "error"),
        (outcomes.CANCELLED, False, Requeue.SOON, None),
    ],
)
def test_the_table(outcome: AttemptOutcome, forget: bool, requeue: Requeue, label: str | None) -> None:
    assert (outcome.forget, outcome.requeue, outcome.label) == (forget, requeue, label)


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
