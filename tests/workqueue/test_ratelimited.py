import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctl.testing.time import VirtualTimeLoop
from ctl.workqueue import DelayingQueue, Exponential, RateLimitingQueue

pytestmark = pytest.mark.virtual_time


def _queue(base: float = 8.0) -> RateLimitingQueue[str]:
    return RateLimitingQueue("test", limiter=Exponential(base=base, jitter=0))


class Stopwatch:
    def __init__(self) -> None:
        self.began = asyncio.get_running_loop().time()

    def __call__(self) -> float:
        return round(asyncio.get_running_loop().time() - self.began, 3)


async def test_a_delayed_key_comes_in_its_time_and_the_earliest_counts() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    queue.add_after("b", 5, priority=3)
    assert queue.delayed == 2
    assert [(await queue.get(), elapsed()), (await queue.get(), elapsed())] == [("b", 5), ("a", 10)]
    assert queue.priority("b") == 3
    assert queue.delayed == 0


async def test_no_delay_is_at_once() -> None:
    queue = _queue()
    queue.add_after("a", 0)
    assert len(queue) == 1


async def test_an_add_leaves_the_delayed_one_to_come_in_its_time() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add_after("a", 10)
    queue.add("a")
    for expected in (0, 10):
        assert await queue.get() == "a"
        assert elapsed() == expected
        queue.done("a")


async def test_failures_back_off_and_forgetting_ends_it() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add("a")
    for expected in (0, 8, 24, 56):
        assert await queue.get() == "a"
        assert elapsed() == expected
        queue.add_rate_limited("a")
        queue.done("a")
    assert queue.num_requeues("a") == 4
    queue.forget("a")
    assert queue.num_requeues("a") == 0
    assert queue.held_until("a") is None


async def test_an_event_does_not_bypass_the_backoff() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add("a")
    await queue.get()
    queue.add_rate_limited("a")
    queue.done("a")
    await asyncio.sleep(1)
    queue.add("a", priority=5)
    assert len(queue) == 0
    assert await queue.get() == "a"
    assert elapsed() == 8
    assert queue.priority("a") == 5
    queue.done("a")
    queue.forget("a")
    assert len(queue) == queue.delayed == 0  # the event and the retry were one hand-out


async def test_an_event_during_the_failing_attempt_does_not_bypass_it_either() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add_rate_limited("a")
    queue.done("a")
    assert len(queue) == 0
    assert await queue.get() == "a"
    assert elapsed() == 8
    queue.done("a")
    assert len(queue) == queue.delayed == 0


async def test_a_delayed_add_does_not_bypass_it_either() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add_rate_limited("a")
    queue.add_after("a", 1)
    assert await queue.get() == "a"
    assert elapsed() == 8


async def test_an_urgent_add_does_not_wait_and_its_failure_is_not_counted() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add_rate_limited("a")
    await asyncio.sleep(2)
    queue.add("a", urgent=True)
    assert await queue.get() == "a"
    assert elapsed() == 2
    assert queue.add_rate_limited("a") == pytest.approx(6)
    queue.done("a")
    assert queue.num_requeues("a") == 1
    assert await queue.get() == "a"
    assert elapsed() == 8


async def test_an_urgent_add_during_the_failing_attempt_comes_right_after_it() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add("a")
    await queue.get()
    queue.add("a", urgent=True)
    queue.add_rate_limited("a")
    queue.done("a")
    assert await queue.get() == "a"
    assert elapsed() == 0


async def test_an_event_after_a_success_comes_at_once() -> None:
    queue, elapsed = _queue(), Stopwatch()
    queue.add_rate_limited("a")
    assert await queue.get() == "a"
    queue.forget("a")
    queue.done("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert elapsed() == 8


async def test_shut_down_drops_what_is_delayed() -> None:
    queue = _queue()
    queue.add_after("a", 10)
    queue.add_rate_limited("b")
    assert await queue.shut_down_with_drain(timeout=1)
    await asyncio.sleep(100)
    assert len(queue) == queue.delayed == 0
    queue.add_after("c", 1)
    assert queue.add_rate_limited("c") == 0
    assert queue.delayed == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.001, 30), st.sampled_from(["add", "after"])), max_size=60),
    st.floats(0.0, 3.0),
)
def test_a_stream_of_events_neither_hastens_nor_worsens_a_failing_key(
    events: list[tuple[float, str]], work: float
) -> None:
    """The history of kubernetes issue 112325: a key that always fails, while events about it keep coming.

    Its attempts begin exactly when they would without any event.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        starts, failures = runner.run(_history(events, work))
    expected = [0.0]
    for number in range(failures - 1):
        expected.append(expected[-1] + work + 1.0 * 2**number)
    for start in starts:
        assert any(abs(start - moment) < 0.01 for moment in expected), (starts, expected)


async def _history(events: list[tuple[float, str]], work: float) -> tuple[list[float], int]:
    queue = _queue(base=1.0)
    elapsed = Stopwatch()
    starts: list[float] = []

    async def fail() -> None:
        while True:
            key = await queue.get()
            starts.append(elapsed())
            await asyncio.sleep(work)
            queue.add_rate_limited(key)
            queue.done(key)

    worker = asyncio.create_task(fail())
    queue.add("a")
    for pause, kind in events:
        await asyncio.sleep(pause)
        if kind == "after":
            queue.add_after("a", pause)
        else:
            queue.add("a")
    await asyncio.sleep(1)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    return starts, queue.num_requeues("a") + 1


async def test_metrics_have_the_customary_names_and_count_right() -> None:
    queue = _queue()
    for key in ("a", "b", "a"):
        queue.add(key)
    queue.add("low", priority=-100)
    await asyncio.sleep(4)
    await queue.get()
    await asyncio.sleep(2)
    queue.add_rate_limited("a")
    queue.done("a")
    await queue.get()
    await asyncio.sleep(3)
    samples = {(sample.family.name, *sample.labels): sample.value for sample in queue.samples()}
    labels = ("test", "test")
    assert samples["workqueue_adds_total", *labels] == 3
    assert samples["workqueue_retries_total", *labels] == 1
    assert samples["workqueue_depth", *labels, "-100"] == 1
    assert samples["workqueue_unfinished_work_seconds", *labels] == pytest.approx(3)
    assert samples["workqueue_longest_running_processor_seconds", *labels] == pytest.approx(3)
    assert queue.metrics.in_queue.total == pytest.approx(4 + 6)
    assert queue.metrics.in_work.total == pytest.approx(2)
    assert {name for name, *_ in samples} == {
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "workqueue_retries_total",
    }


async def test_what_is_added_for_later_counts_as_a_retry_however_it_was_asked_for() -> None:
    """As controller-runtime counts: rate-limited adds, and those with a delay."""
    queue = _queue()
    queue.add_after("a", 10)
    queue.add_after("b", 0)
    queue.add("c")
    queue.add_rate_limited("d")
    queue.add("d")
    assert queue.metrics.retries == 2
    delaying: DelayingQueue[str] = DelayingQueue()
    delaying.add_after("a", 10)
    delaying.add_after("b", 0)
    assert delaying.metrics.retries == 1


async def test_the_depth_by_priority_is_bounded_in_labels() -> None:
    queue = _queue()
    for number in range(100):
        queue.add(f"key-{number}", priority=number)
    depths = [sample for sample in queue.samples() if sample.family.name == "workqueue_depth"]
    assert len(depths) == 26
    assert sum(value for sample in depths if isinstance(value := sample.value, (int, float))) == 100
    for _ in itertools.repeat(None, 100):
        queue.done(await queue.get())
    assert all(sample.value == 0 for sample in queue.samples() if sample.family.name == "workqueue_depth")


async def test_a_delayed_key_can_be_struck_out_and_one_that_waits_cannot() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue("test")
    queue.add_after("a", 10)
    queue.add_after("b", 20)
    queue.add("c")
    assert queue.discard("a")
    assert not queue.discard("a")
    assert not queue.discard("c")
    assert queue.delayed == 1
    start = asyncio.get_running_loop().time()
    assert [await queue.get(), await queue.get()] == ["c", "b"]
    assert asyncio.get_running_loop().time() - start == pytest.approx(20)


async def test_what_is_cleared_does_not_come_and_what_is_in_work_goes_on() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue("test")
    queue.add("in work")
    assert await queue.get() == "in work"
    queue.add("in work")
    queue.add("waiting", priority=-100)
    queue.add("waiting too")
    queue.add_after("delayed", 5)
    queue.add_rate_limited("failed")
    queue.clear()
    assert (len(queue), queue.delayed, queue.held_until("failed"), queue.working()) == (0, 0, None, ("in work",))
    await asyncio.sleep(60)
    assert len(queue) == 0
    queue.done("in work")
    for key in ("waiting", "failed", "in work"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["waiting", "failed", "in work"]
    queue.clear()
    assert not await queue.shut_down_with_drain(1)


async def test_clearing_ends_a_drain_that_waits_for_nothing_else() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue("test")
    queue.add("a")
    draining = asyncio.create_task(queue.shut_down_with_drain(10))
    await asyncio.sleep(1)
    queue.clear()
    assert await draining
