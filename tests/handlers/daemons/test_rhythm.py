"""When a timer is called next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.daemons.timers import SPREAD, Rest, Rhythm


@pytest.mark.parametrize(
    ("rhythm", "due", "began", "now", "changed", "expected"),
    [
        # A call that was due at 100 and ended at 103.
        (Rhythm(interval=10), 100, 100, 103, 0, 113),
        (Rhythm(interval=10), 100, 101, 103, 0, 113),
        (Rhythm(interval=10, sharp=True), 100, 100, 103, 0, 110),
        (Rhythm(interval=10, sharp=True), 100, 101, 103, 0, 110),
        # One that took longer than its interval.
        (Rhythm(interval=10), 100, 100, 125, 0, 135),
        (Rhythm(interval=10, sharp=True), 100, 100, 125, 0, 130),
        (Rhythm(interval=10, sharp=True), 100, 100, 110, 0, 120),
        # Idle: the next call follows a change, which may have come during the call.
        (Rhythm(idle=5), 100, 100, 103, 50, Rest.UNTIL_CHANGE),
        (Rhythm(idle=5), 100, 100, 103, 102, 107),
        (Rhythm(interval=10, idle=5), 100, 100, 103, 102, 113),
        # Neither: once.
        (Rhythm(), 100, 100, 103, 102, Rest.FOR_EVER),
        (Rhythm(sharp=True), 100, 100, 103, 102, Rest.FOR_EVER),
        (Rhythm(interval=0), 100, 100, 103, 0, 103),
        (Rhythm(interval=0, sharp=True), 100, 100, 103, 0, 103),
    ],
)
def test_after_a_call(
    rhythm: Rhythm, due: float, began: float, now: float, changed: float, expected: float | Rest
) -> None:
    assert rhythm.after(due, now, began, changed) == expected


@pytest.mark.parametrize(
    ("idle", "due", "changed", "expected"),
    [(None, 100, 99, 100), (5, 100, 80, 100), (5, 100, 95, 100), (5, 100, 99, 104)],
)
def test_a_call_waits_until_the_object_stands_still(
    idle: float | None, due: float, changed: float, expected: float
) -> None:
    assert Rhythm(idle=idle, interval=10).settled(due, changed) == expected


times = st.floats(0, 1e7)


@given(times, st.floats(0.001, 1e5), st.floats(0, 1e5))
def test_a_sharp_timer_stays_on_its_grid_and_never_goes_back(due: float, interval: float, took: float) -> None:
    now = due + took
    following = Rhythm(interval=interval, sharp=True).after(due, now, due, 0)
    assert isinstance(following, float)
    assert following > now
    assert following - now <= interval * 1.001 + 1e-6
    steps = (following - due) / interval
    assert steps == pytest.approx(round(steps), abs=1e-3)


@given(times, st.floats(0, 1e5), st.floats(0, 1e5))
def test_an_interval_counts_from_the_end(due: float, interval: float, took: float) -> None:
    assert Rhythm(interval=interval).after(due, due + took, due, 0) == due + took + interval


@given(st.integers(1, 300), st.floats(1, 10_000))
def test_first_calls_are_spread_evenly(number: int, interval: float) -> None:
    period = min(interval, SPREAD)
    offsets = sorted(Rhythm(interval=interval).offset(index) for index in range(number))
    assert offsets[0] == 0
    assert offsets[-1] < period
    gaps = [after - before for before, after in zip(offsets, [*offsets[1:], period], strict=True)]
    assert max(gaps) <= 3 * period / number


def test_a_timer_without_an_interval_is_not_spread() -> None:
    assert {Rhythm(idle=5).offset(number) for number in range(10)} == {0}
