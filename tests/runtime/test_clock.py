from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.runtime import clock


def test_iso_has_microseconds_and_an_offset_always() -> None:
    assert clock.iso(datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)) == "2031-05-06T07:08:09.000000+00:00"


def test_iso_converts_to_utc_and_reads_naive_times_as_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert clock.iso(datetime(2031, 5, 6, 9, 8, 9, 1, tzinfo=east)) == "2031-05-06T07:08:09.000001+00:00"
    assert clock.iso(datetime(2031, 5, 6, 7, 8, 9, 1)) == "2031-05-06T07:08:09.000001+00:00"  # noqa: DTZ001


@pytest.mark.parametrize(
    "text",
    ["2031-05-06T07:08:09Z", "2031-05-06T07:08:09", "2031-05-06T09:08:09+02:00", "2031-05-06T07:08:09.000000000Z"],
)
def test_parse_reads_every_form_that_servers_write(text: str) -> None:
    assert clock.parse(text) == datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert clock.parse(text).utcoffset() == timedelta(0)


def test_parse_refuses_what_is_no_time() -> None:
    with pytest.raises(ValueError, match="yesterday"):
        clock.parse("yesterday")


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_what_is_written_is_read_back(moment: datetime) -> None:
    assert clock.parse(clock.iso(moment)) == moment


def test_it_is_known_whether_time_is_the_systems() -> None:
    assert not clock.is_replaced()
    with clock.replaced(clock.now):
        assert clock.is_replaced()
    assert not clock.is_replaced()


def test_the_source_can_be_replaced_and_comes_back() -> None:
    first, second = datetime(2031, 1, 1, tzinfo=UTC), datetime(2032, 1, 1, tzinfo=UTC)
    with clock.replaced(lambda: first):
        with clock.replaced(lambda: second):
            assert clock.now() == second
        assert clock.now() == first
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(("slept", "set_back", "expected"), [(0, 0, 10), (100, 0, 110), (0, 100, 10)])
def test_elapsed_time_is_the_larger_of_both_clocks(slept: float, set_back: float, expected: float) -> None:
    wall = datetime(2031, 1, 1, tzinfo=UTC)
    earlier = clock.Instant(50.0, wall)
    later = clock.Instant(60.0, wall + timedelta(seconds=10 + slept - set_back))
    assert later.since(earlier) == expected
    assert earlier.since(earlier) == 0


async def test_an_instant_reads_the_loop() -> None:
    first, second = clock.instant(), clock.instant()
    assert 0 <= second.since(first) < 60
