import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.runtime.token_bucket import TokenBucket


def test_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(2.0, 3)
    assert [bucket.reserve(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert bucket.reserve(10.0) == 0.0
    assert bucket.failures("a") == 0


@given(st.floats(0.1, 100), st.integers(1, 20), st.lists(st.floats(0, 5), max_size=50))
def test_never_more_than_the_burst_plus_the_rate(qps: float, burst: int, gaps: list[float]) -> None:
    bucket, now, starts = TokenBucket(qps, burst), 0.0, []
    for gap in gaps:
        now += gap
        starts.append(now + bucket.when("a", now, 0.0))
    assert starts == sorted(starts)
    for number, first in enumerate(starts):
        for later, last in enumerate(starts[number:], 1):
            assert later <= burst + (last - first) * qps + 1.001


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_that_lets_nothing_pass_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="positive qps"):
        TokenBucket(qps, burst)
