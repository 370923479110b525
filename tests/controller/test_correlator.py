"""Which posts are lines of their own, which are counted, and which are combined."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.controller.events.correlator import COMBINED, SIMILAR_WINDOW, Allowances, Repeats, Spam, Way
from ctl.controller.events.event import Post

START = datetime(2031, 5, 6, tzinfo=UTC)
WAY = Way((1, 2), similar=10)


def post(message: str = "m", reason: str = "R", uid: str = "u") -> Post:
    return Post({"uid": uid, "name": "n"}, "Normal", reason, message)


def test_equal_posts_are_one_line() -> None:
    repeats = Repeats()
    lines = {repeats.take(post(), WAY, START + timedelta(seconds=number)) for number in range(100)}
    [line] = lines
    assert (line.count, line.first, line.last) == (100, START, START + timedelta(seconds=99))
    assert repeats.untold(post().object_key) == [line]


def test_what_is_told_is_told_again_when_more_comes() -> None:
    repeats = Repeats()
    line = repeats.take(post(), WAY, START)
    repeats.told(line, 1)
    assert repeats.untold(post().object_key) == []
    assert list(repeats) == []
    later = START + timedelta(seconds=5)
    assert repeats.take(post(), WAY, later) is line
    assert (line.since, line.first) == (later, START)
    assert list(repeats) == [post().object_key]
    repeats.told(line, 1)
    assert repeats.untold(post().object_key) == [line]


def test_the_tenth_different_message_and_all_after_it_are_combined() -> None:
    repeats = Repeats()
    lines = [repeats.take(post(f"m{number}"), WAY, START) for number in range(20)]
    assert len(set(lines)) == 10
    assert lines[-1].post.message == f"{COMBINED}m19"
    assert lines[-1].count == 11
    assert repeats.take(post("m3"), WAY, START) is lines[3]
    assert repeats.untold(post().object_key) == lines[:10]


def test_other_reasons_and_objects_are_not_similar() -> None:
    repeats = Repeats()
    lines = [
        repeats.take(post(f"m{number}", reason, uid), WAY, START)
        for number in range(9)
        for reason in "RS"
        for uid in "uv"
    ]
    assert len(set(lines)) == 36


def test_similarity_is_forgotten_after_a_silence() -> None:
    repeats = Repeats()
    for number in range(20):
        repeats.take(post(f"m{number}"), WAY, START)
    line = repeats.take(post("new"), WAY, START + SIMILAR_WINDOW + timedelta(seconds=1))
    assert line.post.message == "new"


def test_a_dropped_line_begins_anew() -> None:
    repeats = Repeats()
    line = repeats.take(post(), WAY, START)
    repeats.drop(line)
    assert list(repeats) == []
    assert repeats.take(post(), WAY, START) is not line


def test_lines_that_the_server_does_not_know_are_never_forgotten() -> None:
    repeats = Repeats(remembered=5)
    lines = [repeats.take(post(uid=str(number)), WAY, START) for number in range(20)]
    assert len(list(repeats)) == 20
    for line in lines:
        repeats.told(line, line.count)
    repeats.take(post(uid="last"), WAY, START)
    assert len(repeats) == 5


def test_pauses_are_the_settings() -> None:
    assert [WAY.pause(number) for number in (1, 2, 3)] == [1.0, 2.0, None]
    assert [Way(5, 1).pause(number) for number in (1, 2)] == [5.0, None]
    assert Way((), 1).pause(1) is None


@given(st.lists(st.tuples(st.sampled_from("uvw"), st.integers(0, 15), st.booleans()), max_size=200))
def test_no_post_is_lost(steps: list[tuple[str, int, bool]]) -> None:
    repeats = Repeats(remembered=8)
    told: dict[str, int] = {}
    for uid, number, write in steps:
        repeats.take(post(str(number), uid=uid), WAY, START)
        if write:
            for line in repeats.untold((uid,)):
                told[uid] = told.get(uid, 0) + line.count - line.told
                repeats.told(line, line.count)
    for uid in "uvw":
        left = sum(line.count - line.told for line in repeats.untold((uid,)))
        assert told.get(uid, 0) + left == sum(1 for other, _, _ in steps if other == uid)


def test_writes_about_one_object_are_limited_as_by_client_go() -> None:
    allowances, spam = Allowances(), Spam(burst=25, refill=300.0)
    assert [allowances.spend(("a",), spam, 0.0) for _ in range(25)] == [0.0] * 25
    assert allowances.spend(("a",), spam, 0.0) == pytest.approx(300)
    assert allowances.spend(("b",), spam, 0.0) == 0.0
    assert allowances.spend(("a",), spam, 100.0) == pytest.approx(200)
    assert allowances.spend(("a",), spam, 300.0) == 0.0
    assert allowances.spend(("a",), spam, 300.0) == pytest.approx(300)
    late = 300.0 * 100
    assert [allowances.spend(("a",), spam, late) for _ in range(26)].count(0.0) == 25


def test_of_what_was_never_told_only_so_much_waits() -> None:
    repeats, way = Repeats(), Way(1.0, similar=10, spam=Spam(burst=3, refill=300.0))
    for number in range(3):
        assert not repeats.refuses(post(reason=f"R{number}"), way)
        repeats.take(post(reason=f"R{number}"), way, START)
    assert repeats.refuses(post(reason="R3"), way)
    assert not repeats.refuses(post(reason="R3"), WAY), "others have no limit"
    assert not repeats.refuses(post(reason="R0"), way), "it is only counted"
    assert not repeats.refuses(post(reason="R3", uid="other"), way)
