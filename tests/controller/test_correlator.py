"""Which posts are lines of their own, which are counted, and which are combined."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.controller.events.correlator import (
    COMBINED,
    SIMILAR_WINDOW,
    CorrelatorOptions,
    EventCorrelator,
    SpamFilter,
    SpamLimit,
)
from ctl.controller.events.event import Event

START = datetime(2031, 5, 6, tzinfo=UTC)
OPTIONS = CorrelatorOptions((1, 2), max_similar=10)


def post(message: str = "m", reason: str = "R", uid: str = "u") -> Event:
    return Event({"uid": uid, "name": "n"}, "Normal", reason, message)


def test_equal_posts_are_one_line() -> None:
    correlator = EventCorrelator()
    lines = {correlator.take(post(), OPTIONS, START + timedelta(seconds=number)) for number in range(100)}
    [line] = lines
    assert (line.count, line.first, line.last) == (100, START, START + timedelta(seconds=99))
    assert correlator.unwritten(post().object_key) == [line]


def test_what_is_written_is_written_again_when_more_comes() -> None:
    correlator = EventCorrelator()
    line = correlator.take(post(), OPTIONS, START)
    correlator.note_written(line, 1)
    assert correlator.unwritten(post().object_key) == []
    assert list(correlator) == []
    later = START + timedelta(seconds=5)
    assert correlator.take(post(), OPTIONS, later) is line
    assert (line.since, line.first) == (later, START)
    assert list(correlator) == [post().object_key]
    correlator.note_written(line, 1)
    assert correlator.unwritten(post().object_key) == [line]


def test_the_tenth_different_message_and_all_after_it_are_combined() -> None:
    correlator = EventCorrelator()
    lines = [correlator.take(post(f"m{number}"), OPTIONS, START) for number in range(20)]
    assert len(set(lines)) == 10
    assert lines[-1].event.message == f"{COMBINED}m19"
    assert lines[-1].count == 11
    assert correlator.take(post("m3"), OPTIONS, START) is lines[3]
    assert correlator.unwritten(post().object_key) == lines[:10]


def test_other_reasons_and_objects_are_not_similar() -> None:
    correlator = EventCorrelator()
    lines = [
        correlator.take(post(f"m{number}", reason, uid), OPTIONS, START)
        for number in range(9)
        for reason in "RS"
        for uid in "uv"
    ]
    assert len(set(lines)) == 36


def test_similarity_is_forgotten_after_a_silence() -> None:
    correlator = EventCorrelator()
    for number in range(20):
        correlator.take(post(f"m{number}"), OPTIONS, START)
    line = correlator.take(post("new"), OPTIONS, START + SIMILAR_WINDOW + timedelta(seconds=1))
    assert line.event.message == "new"


def test_a_dropped_line_begins_anew() -> None:
    correlator = EventCorrelator()
    line = correlator.take(post(), OPTIONS, START)
    correlator.drop(line)
    assert list(correlator) == []
    assert correlator.take(post(), OPTIONS, START) is not line


def test_lines_that_the_server_does_not_know_are_never_forgotten() -> None:
    correlator = EventCorrelator(remembered=5)
    lines = [correlator.take(post(uid=str(number)), OPTIONS, START) for number in range(20)]
    assert len(list(correlator)) == 20
    for line in lines:
        correlator.note_written(line, line.count)
    correlator.take(post(uid="last"), OPTIONS, START)
    assert len(correlator) == 5


def test_pauses_are_the_settings() -> None:
    assert [OPTIONS.pause(number) for number in (1, 2, 3)] == [1.0, 2.0, None]
    assert [CorrelatorOptions(5, 1).pause(number) for number in (1, 2)] == [5.0, None]
    assert CorrelatorOptions((), 1).pause(1) is None


@given(st.lists(st.tuples(st.sampled_from("uvw"), st.integers(0, 15), st.booleans()), max_size=200))
def test_no_post_is_lost(steps: list[tuple[str, int, bool]]) -> None:
    correlator = EventCorrelator(remembered=8)
    told: dict[str, int] = {}
    for uid, number, write in steps:
        correlator.take(post(str(number), uid=uid), OPTIONS, START)
        if write:
            for line in correlator.unwritten((uid,)):
                told[uid] = told.get(uid, 0) + line.count - line.written
                correlator.note_written(line, line.count)
    for uid in "uvw":
        left = sum(line.count - line.written for line in correlator.unwritten((uid,)))
        assert told.get(uid, 0) + left == sum(1 for other, _, _ in steps if other == uid)


def test_writes_about_one_object_are_limited_as_by_client_go() -> None:
    spam_filter, spam = SpamFilter(), SpamLimit(burst=25, refill=300.0)
    assert [spam_filter.spend(("a",), spam, 0.0) for _ in range(25)] == [0.0] * 25
    assert spam_filter.spend(("a",), spam, 0.0) == pytest.approx(300)
    assert spam_filter.spend(("b",), spam, 0.0) == 0.0
    assert spam_filter.spend(("a",), spam, 100.0) == pytest.approx(200)
    assert spam_filter.spend(("a",), spam, 300.0) == 0.0
    assert spam_filter.spend(("a",), spam, 300.0) == pytest.approx(300)
    late = 300.0 * 100
    assert [spam_filter.spend(("a",), spam, late) for _ in range(26)].count(0.0) == 25


def test_of_what_was_never_told_only_so_much_waits() -> None:
    correlator, way = EventCorrelator(), CorrelatorOptions(1.0, max_similar=10, spam=SpamLimit(burst=3, refill=300.0))
    for number in range(3):
        assert not correlator.is_spam(post(reason=f"R{number}"), way)
        correlator.take(post(reason=f"R{number}"), way, START)
    assert correlator.is_spam(post(reason="R3"), way)
    assert not correlator.is_spam(post(reason="R3"), OPTIONS), "others have no limit"
    assert not correlator.is_spam(post(reason="R0"), way), "it is only counted"
    assert not correlator.is_spam(post(reason="R3", uid="other"), way)
