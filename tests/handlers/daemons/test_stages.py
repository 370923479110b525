"""Which stage of termination follows which, and for how long."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.daemons.termination import Limits, TerminationStage, advance, limits
from ctl.handlers.declaration.specs import DaemonSpec, HandlerId, TimerSpec

ASKED, SIGNALLED, CANCELLED, POLLED, ABANDONED = TerminationStage


@pytest.mark.parametrize(
    ("backoff", "timeout", "patient", "path"),
    [
        (None, None, True, [(POLLED, 60), (POLLED, 60), (POLLED, 60)]),
        (3, None, True, [(SIGNALLED, 3), (POLLED, 60), (POLLED, 60)]),
        (None, 5, True, [(CANCELLED, 5), (ABANDONED, 0)]),
        (3, 5, True, [(SIGNALLED, 3), (CANCELLED, 5), (ABANDONED, 0)]),
        (0, 5, True, [(CANCELLED, 5), (ABANDONED, 0)]),
        (3, 0, True, [(SIGNALLED, 3), (CANCELLED, 0), (ABANDONED, 0)]),
        (None, None, False, [(ABANDONED, 0)]),
        (3, None, False, [(SIGNALLED, 3), (ABANDONED, 0)]),
        (None, 5, False, [(CANCELLED, 5), (ABANDONED, 0)]),
        (3, 5, False, [(SIGNALLED, 3), (CANCELLED, 5), (ABANDONED, 0)]),
    ],
)
def test_paths(
    backoff: float | None, timeout: float | None, patient: bool, path: list[tuple[TerminationStage, float]]
) -> None:
    known = Limits(backoff, timeout, 60, patient)
    stage, age = ASKED, 0.0
    for expected, delay in path:
        assert advance(stage, known, age) == (expected, delay)
        stage, age = expected, age + delay


@pytest.mark.parametrize(
    ("age", "step"),
    [
        (1.0, (SIGNALLED, 2.0)),
        (3.0, (CANCELLED, 5.0)),
        (4.0, (CANCELLED, 4.0)),
        (8.0, (ABANDONED, 0.0)),
    ],
)
def test_the_moment_for_an_instant_exit_counts_as_age(age: float, step: tuple[TerminationStage, float]) -> None:
    assert advance(ASKED, Limits(3, 5, 60), age) == step


seconds = st.none() | st.floats(0, 1000)


@given(seconds, seconds, st.floats(0.1, 1000), st.booleans(), st.lists(st.floats(0, 10), min_size=4, max_size=4))
def test_a_stage_is_never_entered_twice_and_the_order_holds(
    backoff: float | None, timeout: float | None, polling: float, patient: bool, late: list[float]
) -> None:
    known = Limits(backoff, timeout, polling, patient)
    stage, age, entered = ASKED, 0.0, []
    for delay in late:
        stage, wait = advance(stage, known, age)
        assert wait >= 0
        entered.append(stage)
        if stage is ABANDONED:
            break
        # The loop comes back late, and by a rounding early.
        age = max(0.0, age + wait + delay - 1e-9)
    once = [known for known in entered if known is not POLLED]
    assert len(once) == len(set(once))
    assert entered == sorted(entered, key=[SIGNALLED, CANCELLED, POLLED, ABANDONED].index)
    assert (ABANDONED in entered) is (timeout is not None or not patient)
    assert (CANCELLED in entered) <= (timeout is not None)
    assert (POLLED in entered) is (timeout is None and patient)


def test_polling_is_the_handlers_or_the_settings() -> None:
    assert limits(_daemon(), 60, patient=True).polling == 60
    assert limits(_daemon(cancellation_polling=7), 60, patient=True).polling == 7


def test_timers_have_no_limits_of_their_own() -> None:
    timer = TimerSpec(id=HandlerId("t"), fn=print, selector=None)
    assert limits(timer, 60, patient=True) == Limits(None, None, 60, patient=True)


def _daemon(**options: Any) -> DaemonSpec:
    return DaemonSpec(id=HandlerId("d"), fn=print, selector=None, **options)
