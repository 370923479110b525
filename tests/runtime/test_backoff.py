import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.runtime.backoff import Backoff


def test_delays_double_up_to_the_cap() -> None:
    delays = Backoff(initial=0.8, factor=2, cap=30, jitter=0).start()
    assert [delays.next(now, 0.0) for now in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert delays.failures == 8


def test_jitter_lengthens_by_its_share() -> None:
    delays = Backoff(initial=10, factor=1, cap=10, jitter=0.5).start()
    assert [delays.next(0, random) for random in (0.0, 0.5, 0.9)] == [10, 12.5, 14.5]


def test_a_calm_time_begins_anew() -> None:
    delays = Backoff(initial=1, factor=10, cap=1000, jitter=0, reset_after=120).start()
    assert [delays.next(now, 0.0) for now in (0, 1, 120.9, 241.0, 242)] == [1, 10, 100, 1, 10]


def test_without_a_calm_time_it_never_begins_anew_by_itself() -> None:
    delays = Backoff(initial=1, factor=10, cap=1000, jitter=0, reset_after=None).start()
    assert [delays.next(now, 0.0) for now in (0, 1e9)] == [1, 10]
    delays.reset()
    assert delays.next(2e9, 0.0) == 1


@pytest.mark.parametrize("wrong", [{"initial": -1}, {"factor": 0.5}, {"cap": 0.1}, {"jitter": -0.1}])
def test_a_sequence_that_does_not_grow_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="back-off"):
        Backoff(**wrong)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1, exclude_max=True)), max_size=50))
def test_each_delay_is_within_its_bounds_however_long_it_fails(history: list[tuple[float, float]]) -> None:
    config = Backoff()
    delays = config.start()
    now = 0.0
    for step, random in history:
        now += step
        assert config.initial <= delays.next(now, random) <= config.cap * (1 + config.jitter)
