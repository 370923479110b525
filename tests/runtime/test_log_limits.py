"""Equal messages are counted; what is different is written."""

from hypothesis import given
from hypothesis import strategies as st

from ctl.runtime.log_limits import Omitted, RepeatFilter


def test_some_are_written_and_the_others_counted() -> None:
    repeats = RepeatFilter(limit=2, window=10)
    assert [repeats.take("a", at) for at in (0, 1, 2, 3)] == [True, True, False, False]
    assert repeats.take("b", 3)
    assert list(repeats.due(9.9)) == []
    assert list(repeats.due(10)) == [Omitted("a", 2, 0)]
    assert repeats.take("a", 10)
    assert list(repeats.rest()) == []


def test_at_the_end_everything_is_told() -> None:
    repeats = RepeatFilter(limit=1)
    for key in "aab":
        repeats.take(key, 0)
    assert list(repeats.rest()) == [Omitted("a", 1, 0)]
    assert list(repeats.rest()) == []


def test_what_is_remembered_is_bounded() -> None:
    repeats = RepeatFilter(limit=1, remembered=2)
    for key in "aabbc":
        repeats.take(key, 0)
    assert list(repeats.due(0)) == [Omitted("a", 1, 0)]


def test_a_clock_that_is_set_back_holds_nothing_back_for_ever() -> None:
    repeats = RepeatFilter(limit=1, window=10)
    repeats.take("a", 1000)
    repeats.take("a", 1000)
    assert list(repeats.due(0)) == [Omitted("a", 1, 1000)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5)), max_size=80))
def test_nothing_is_lost(messages: list[tuple[str, float]]) -> None:
    repeats = RepeatFilter(limit=3, window=10, remembered=2)
    now, written, held = 0.0, 0, 0
    for key, pause in messages:
        now += pause
        held += sum(one.count for one in repeats.due(now))
        written += repeats.take(key, now)
    held += sum(one.count for one in repeats.rest())
    assert written + held == len(messages)
