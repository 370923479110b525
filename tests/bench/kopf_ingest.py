"""Measure kopf as `ingest.py` measures the shared informer: a no-op `@on.event` handler that counts.

    python tests/bench/kopf_ingest.py URL COUNT EVENTS

Runs in an environment that has kopf. EVENTS must not exceed COUNT: kopf joins events of one object that come close together, so
each object is modified once. Prints one line of JSON.
"""

import asyncio
import importlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

# Only the environment that runs this has it, not the one that checks its types.
kopf: Any = importlib.import_module("kopf")


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Count:
    """What was counted, and when."""

    def __init__(self, objects: int, events: int) -> None:
        self.objects = objects
        self.events = events
        self.listed = 0
        self.live = 0
        self.marks: dict[str, tuple[float, float]] = {}

    def mark(self, name: str) -> None:
        self.marks.setdefault(name, (time.perf_counter(), time.process_time()))

    def between(self, begin: str, end: str) -> tuple[float, float]:
        return self.marks[end][0] - self.marks[begin][0], self.marks[end][1] - self.marks[begin][1]


def main() -> None:
    url, count = sys.argv[1], Count(int(sys.argv[2]), int(sys.argv[3]))
    stop = threading.Event()
    registry = kopf.OperatorRegistry()

    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=url)

    async def every(type: str | None, **_: Any) -> None:
        if type is None:
            count.mark("listing")
            count.listed += 1
            if count.listed == count.objects:
                count.mark("listed")
        else:
            count.mark("live")
            count.live += 1
            if count.live == count.events:
                count.mark("done")
                stop.set()

    kopf.on.login(registry=registry)(login)
    kopf.on.event("kopfexamples", registry=registry)(every)
    before = rss()
    count.mark("start")
    asyncio.run(kopf.operator(registry=registry, clusterwide=True, standalone=True, stop_flag=stop))
    synced, synced_cpu = count.between("start", "listed")
    seconds, cpu = count.between("live", "done")
    line = {
        "objects": count.objects,
        "events": count.live,
        "sync_per_s": round(count.objects / synced),
        "sync_per_cpu_s": round(count.objects / synced_cpu),
        "live_per_s": round(count.live / seconds),
        "live_per_cpu_s": round(count.live / cpu),
        "rss_per_object_bytes": round((rss() - before) / count.objects),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
