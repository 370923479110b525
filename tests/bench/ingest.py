"""Measure the shared informer: how fast a list is taken in, how fast changes are, and what an object costs.

    python tests/bench/ingest.py URL COUNT EVENTS [--subscribers N] [--pages]

The server at URL holds COUNT objects of `kopfexamples.kopf.dev/v1` and then sends EVENTS modifications, as `replay.py` does.
Prints one line of JSON. Rates are per second of wall time, `live_per_cpu_s` per second of this process's CPU time.
"""

import argparse
import asyncio
import gc
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.informer import Informer
from ctl.informers.settings import InformerSettings
from ctl.informers.subscription import Subscription

RESOURCE = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)
PATIENCE = 120.0


class Counter:
    """A subscriber that does nothing but count, and notes when."""

    def __init__(self, count: int, events: int) -> None:
        self._count = count
        self._events = events
        self.listed = 0
        self.live = 0
        self.first: tuple[float, float] | None = None
        self.last = (0.0, 0.0)
        self.done = asyncio.Event()

    async def run(self, subscription: Subscription) -> None:
        async for batch in subscription:
            if self.listed < self._count:
                self.listed += len(batch)
                continue
            if self.first is None:
                self.first = (time.perf_counter(), time.process_time())
                self._events -= len(batch)  # the first batch starts the clock and does not count
            else:
                self.live += len(batch)
            if self.live >= self._events:
                self.last = (time.perf_counter(), time.process_time())
                self.done.set()
                return


class Stalls:
    """The longest time for which the loop did not turn."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def run(self, period: float = 0.002) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(period)
            self.worst = max(self.worst, time.perf_counter() - before - period)


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def informing(url: str, settings: InformerSettings) -> AsyncIterator[tuple[SharedInformerFactory, Informer]]:
    async with Client(Access(url)) as client:
        factory = SharedInformerFactory(client, settings)
        try:
            yield factory, factory.informer(RESOURCE)
        finally:
            await factory.stop()


async def measure(options: argparse.Namespace) -> dict[str, float]:
    settings = InformerSettings(stream_lists=not options.pages)
    counters = [Counter(options.count, options.events) for _ in range(options.subscribers)]
    stalls = Stalls()
    gc.collect()
    before, began, burnt = rss(), time.perf_counter(), time.process_time()
    async with informing(options.url, settings) as (_, informer), asyncio.timeout(PATIENCE):
        stalled = asyncio.create_task(stalls.run())
        tasks = [
            asyncio.create_task(counter.run(informer.subscribe(name=f"counter-{number}")))
            for number, counter in enumerate(counters)
        ]
        await informer.wait_synced()
        for subscription in informer.subscriptions:
            await subscription.synced.wait()
        synced, synced_cpu = time.perf_counter() - began, time.process_time() - burnt
        worst_list = stalls.worst
        await asyncio.sleep(0.2)
        held = rss() - before
        for counter in counters:
            await counter.done.wait()
        await asyncio.gather(*tasks)
        stalled.cancel()
        slowest = max(counters, key=lambda counter: counter.last[0])
        assert slowest.first is not None
        seconds, cpu = (slowest.last[at] - slowest.first[at] for at in (0, 1))
        joined = sum(subscription.joined for subscription in informer.subscriptions)
        count = len(informer.store)
        return {
            "objects": count,
            "events": slowest.live,
            "subscribers": options.subscribers,
            "sync_per_s": round(count / synced),
            "sync_per_cpu_s": round(count / synced_cpu),
            "live_per_s": round(slowest.live / seconds),
            "live_per_cpu_s": round(slowest.live / cpu),
            "rss_per_object_bytes": round(held / count),
            "json_bytes_per_object": round(informer.store.nbytes / count),
            "worst_stall_sync_ms": round(worst_list * 1000, 1),
            "worst_stall_live_ms": round(stalls.worst * 1000, 1),
            "joined": joined,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the shared informer.")
    parser.add_argument("url")
    parser.add_argument("count", type=int)
    parser.add_argument("events", type=int)
    parser.add_argument("--subscribers", type=int, default=1)
    parser.add_argument("--pages", action="store_true", help="do not ask for a streamed list")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
