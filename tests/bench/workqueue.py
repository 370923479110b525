"""How many keys a second pass through the queue on one core: added, got and done, with metrics, priorities and ageing on.

Run it with `python tests/bench/workqueue.py [rounds]`. It prints one line for each load; the figure is the best of the rounds (five).
"""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable

from ctl.workqueue import RateLimitingQueue

ROUND = 50_000


async def burst(queue: RateLimitingQueue[tuple[str, str]], keys: list[tuple[str, str]]) -> None:
    """A thousand keys of three priorities are added, then worked off."""
    for start in range(0, len(keys), 1000):
        part = keys[start : start + 1000]
        for number, key in enumerate(part):
            queue.add(key, priority=(0, -100, 0, 0, 10)[number % 5])
        for _ in part:
            queue.done(await queue.get())


async def single(queue: RateLimitingQueue[tuple[str, str]], keys: list[tuple[str, str]]) -> None:
    """Each key is worked off before the next one comes."""
    for key in keys:
        queue.add(key)
        queue.done(await queue.get())


async def workers(queue: RateLimitingQueue[tuple[str, str]], keys: list[tuple[str, str]]) -> None:
    """Eight workers wait while keys of two priorities come in bursts of a hundred."""
    left = len(keys)

    async def work() -> None:
        nonlocal left
        while left > 0:
            key = await queue.get()
            left -= 1
            queue.done(key)

    tasks = [asyncio.create_task(work()) for _ in range(8)]
    for start in range(0, len(keys), 100):
        for number, key in enumerate(keys[start : start + 100]):
            queue.add(key, priority=-100 if number % 4 else 0)
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


Load = Callable[[RateLimitingQueue[tuple[str, str]], list[tuple[str, str]]], Awaitable[None]]


def measure(load: Load, rounds: int = 5) -> float:
    """Keys a second of processor time, the best of the rounds."""
    keys = [("default", f"object-{number}") for number in range(ROUND)]
    best = 0.0
    for _ in range(rounds):
        gc.collect()

        async def run() -> float:
            queue: RateLimitingQueue[tuple[str, str]] = RateLimitingQueue("bench")
            started = time.process_time()
            await load(queue, keys)
            assert queue.metrics.in_work.count + len(queue) >= ROUND
            return time.process_time() - started

        best = max(best, ROUND / asyncio.run(run()))
    return best


def main(rounds: int) -> None:
    for load in (burst, single, workers):
        sys.stdout.write(
            f"{load.__name__:>8}: {measure(load, rounds):>10,.0f} add-get-done/s   {(load.__doc__ or '').strip()}\n"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
