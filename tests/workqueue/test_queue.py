import asyncio
import contextlib
import threading

import pytest

from ctl.workqueue import Queue, RateLimitingQueue, ShutDown

pytestmark = pytest.mark.virtual_time


async def _take(queue: Queue[str]) -> str:
    async with asyncio.timeout(1000):
        return await queue.get()


async def test_keys_come_in_order_and_once() -> None:
    queue: Queue[str] = Queue("test")
    for key in "abab":
        queue.add(key)
    assert len(queue) == 2
    assert [await _take(queue), await _take(queue)] == ["a", "b"]
    assert queue.working() == ("a", "b")


async def test_a_key_added_while_in_work_comes_again_after_it() -> None:
    queue: Queue[str] = Queue("test")
    queue.add("a")
    assert await _take(queue) == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    assert "a" in queue
    queue.done("a")
    assert await _take(queue) == "a"
    queue.done("a")
    assert len(queue) == 0
    assert "a" not in queue


async def test_a_waiting_worker_is_woken_by_an_add() -> None:
    queue: Queue[str] = Queue("test")
    getting = asyncio.create_task(_take(queue))
    await asyncio.sleep(1)
    queue.add("a")
    assert await getting == "a"


async def test_a_key_is_with_one_worker_at_a_time_and_none_is_lost() -> None:
    queue: Queue[int] = Queue("test")
    busy: set[int] = set()
    attempts: dict[int, int] = {}

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(0.01 * (key % 3))
            attempts[key] = attempts.get(key, 0) + 1
            busy.remove(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    for number in range(1000):
        queue.add(number % 50)
        await asyncio.sleep(0.001)
    assert await queue.shut_down_with_drain(timeout=1000)
    for worker in workers:
        with pytest.raises(ShutDown):
            await worker
    assert set(attempts) == set(range(50))


async def test_a_cancelled_worker_loses_no_key() -> None:
    queue: Queue[str] = Queue("test")
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()  # it has been woken for the key, and is cancelled before it could take it
    with pytest.raises(asyncio.CancelledError):
        await first
    async with asyncio.timeout(10):
        assert await second == "a"


async def test_shut_down_hands_out_what_waits_and_takes_no_more() -> None:
    queue: Queue[str] = Queue("test")
    queue.add("a")
    queue.shut_down()
    queue.add("b")
    assert await _take(queue) == "a"
    with pytest.raises(ShutDown, match="test"):
        await _take(queue)


async def test_shut_down_wakes_the_workers_that_wait() -> None:
    queue: Queue[str] = Queue("test")
    workers = [asyncio.create_task(_take(queue)) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()
    for worker in workers:
        with pytest.raises(ShutDown):
            await worker


@pytest.mark.parametrize("priority", [0, -100, 7])
async def test_a_drain_ends_when_all_work_is_done_whatever_its_priority(priority: int) -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue("test")
    done: list[str] = []
    for key in "abc":
        queue.add(key, priority=priority)

    async def work() -> None:
        while True:
            key = await queue.get()
            await asyncio.sleep(10)
            done.append(key)
            queue.done(key)

    worker = asyncio.create_task(work())
    await asyncio.sleep(1)
    assert await queue.shut_down_with_drain(timeout=100)
    assert done == ["a", "b", "c"]
    with pytest.raises(ShutDown):
        await worker


async def test_a_drain_includes_what_was_added_while_in_work() -> None:
    queue: Queue[str] = Queue("test")
    queue.add("a")
    await _take(queue)
    queue.add("a")
    draining = asyncio.create_task(queue.shut_down_with_drain())
    await asyncio.sleep(1)
    queue.done("a")
    await asyncio.sleep(1)
    assert not draining.done()
    assert await _take(queue) == "a"
    queue.done("a")
    assert await draining


async def test_a_drain_is_bounded() -> None:
    queue: Queue[str] = Queue("test")
    queue.add("a")
    await _take(queue)
    started = asyncio.get_running_loop().time()
    assert not await queue.shut_down_with_drain(timeout=30)
    assert asyncio.get_running_loop().time() - started == pytest.approx(30)


async def test_threads_come_in_by_their_door() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue("test")
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)

    def add() -> None:
        for number in range(100):
            queue.add_threadsafe(f"key-{number % 10}", priority=number % 3)
        queue.add_threadsafe("later", after=60)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(asyncio.to_thread(thread.join, 60) for thread in threads))
    async with asyncio.timeout(100):
        found = {await getting, *[await queue.get() for _ in range(9)]}
        assert found == {f"key-{number}" for number in range(10)}
        for key in queue.working():
            queue.done(key)
        while (key := await queue.get()) != "later":
            queue.done(key)


def test_a_queue_that_no_loop_uses_yet_says_so_to_threads() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue("test")
    for after in (0.0, 1.0):
        with pytest.raises(RuntimeError, match="'test' is not used by any loop yet"):
            queue.add_threadsafe("a", after=after)


async def test_the_priority_of_a_key_in_work_is_known() -> None:
    queue: Queue[str] = Queue("test")
    queue.add("a", priority=-100)
    await _take(queue)
    assert queue.priority("a") == -100
    assert queue.priority("b") == 0


@pytest.mark.parametrize("getters", [1, 2, 5])
@pytest.mark.parametrize("again", [set[str](), {"a"}, {"a", "b", "c"}])
async def test_a_drain_hands_out_what_was_asked_for_again_while_in_work_to_whoever_waits(
    getters: int, again: set[str]
) -> None:
    """One gets keys and others work on them: who gets must not be told that all is over while a key is still to come back."""
    queue: RateLimitingQueue[str] = RateLimitingQueue("test")
    worked: list[str] = []

    async def get() -> None:
        works = set[asyncio.Task[None]]()
        with contextlib.suppress(ShutDown):
            while True:
                works.add(asyncio.create_task(work(await queue.get())))
        await asyncio.gather(*works)

    async def work(key: str) -> None:
        await asyncio.sleep(5)
        worked.append(key)
        queue.done(key)

    for key in "abc":
        queue.add(key)
    tasks = [asyncio.create_task(get()) for _ in range(getters)]
    await asyncio.sleep(1)
    for key in sorted(again):
        queue.add(key)
    began = asyncio.get_running_loop().time()
    assert await queue.shut_down_with_drain(timeout=100)
    assert asyncio.get_running_loop().time() - began < 10
    assert sorted(worked) == sorted(["a", "b", "c", *again])
    async with asyncio.timeout(1):
        await asyncio.gather(*tasks)


async def test_who_waits_for_what_comes_back_hears_when_it_is_taken_back() -> None:
    queue: Queue[str] = Queue("test")
    queue.add("a")
    await _take(queue)
    queue.add("a")
    getting = asyncio.create_task(queue.get())
    queue.shut_down()
    await asyncio.sleep(1)
    assert not getting.done()
    queue.clear()
    async with asyncio.timeout(1):
        with pytest.raises(ShutDown):
            await getting
