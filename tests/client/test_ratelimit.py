import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.wire.ratelimit import Bucket


def test_a_burst_then_the_rate() -> None:
    bucket = Bucket(2.0, 3)
    assert [bucket.reserve(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert bucket.reserve(10.0) == 0.0


@given(st.floats(0.1, 100), st.integers(1, 20), st.lists(st.floats(0, 5), max_size=50))
def test_never_more_than_the_burst_plus_the_rate(rate: float, burst: int, gaps: list[float]) -> None:
    bucket, now, starts = Bucket(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        starts.append(now + bucket.reserve(now))
    assert starts == sorted(starts)
    for first, start in enumerate(starts):
        within = sum(1 for other in starts[first:] if other - start <= 1.0)
        assert within <= burst + rate + 1


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_that_lets_nothing_pass_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="positive rate"):
        Bucket(rate, burst)
