import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.runtime.token_bucket import TokenBucket
from ctl.workqueue.ratelimit import Capped, Exponential, FastSlow, MaxOf


def test_the_exponential_one_has_the_numbers_of_client_go() -> None:
    limiter: Exponential[str] = Exponential(jitter=0)
    delays = [limiter.when("a", 0, 0.0) for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[17:] == [655.36, 1000, 1000]
    assert limiter.failures("a") == 20
    assert limiter.when("b", 0, 0.0) == 0.005


def test_forgetting_begins_anew() -> None:
    limiter: Exponential[str] = Exponential(jitter=0)
    for _ in range(5):
        limiter.when("a", 0, 0.0)
    limiter.forget("a")
    assert limiter.failures("a") == 0
    assert limiter.when("a", 0, 0.0) == 0.005


@given(st.integers(0, 2000), st.floats(0, 1, exclude_max=True))
def test_jitter_takes_between_the_half_and_the_whole_however_often_it_failed(failures: int, random: float) -> None:
    limiter: Exponential[str] = Exponential()
    limiter._failures["a"] = failures
    whole = min(1000.0, 0.005 * 2.0 ** min(failures, 100))
    assert whole / 2 <= limiter.when("a", 0, random) <= whole


def test_jitter_spreads_keys_that_failed_together() -> None:
    limiter: Exponential[int] = Exponential(base=100)
    assert len({limiter.when(number, 0, number / 10) for number in range(10)}) == 10


def test_fast_then_slow() -> None:
    limiter: FastSlow[str] = FastSlow(0.1, 10, attempts=2)
    assert [limiter.when("a", 0, 0.0) for _ in range(4)] == [0.1, 0.1, 10, 10]
    assert limiter.failures("a") == 4
    limiter.forget("a")
    assert limiter.when("a", 0, 0.0) == 0.1


def test_the_longest_of_several() -> None:
    limiter: MaxOf[str] = MaxOf(Exponential(jitter=0), TokenBucket(qps=1, burst=1))
    assert limiter.when("a", 0, 0.0) == 0.005
    assert limiter.when("a", 0, 0.0) == pytest.approx(1)
    assert limiter.failures("a") == 2
    limiter.forget("a")
    assert limiter.failures("a") == 0


def test_a_capped_one_is_never_longer() -> None:
    limiter: Capped[str] = Capped(Exponential(base=1, jitter=0), longest=3)
    assert [limiter.when("a", 0, 0.0) for _ in range(4)] == [1, 2, 3, 3]
    assert limiter.failures("a") == 4
    limiter.forget("a")
    assert limiter.failures("a") == 0


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="exponential"):
        Exponential(base=0)
    with pytest.raises(ValueError, match="at least one"):
        MaxOf()
