"""What idle timers cost: the share of a core that 10,000 timers of 60 seconds take, in a whole operator.

Run by `python tests/bench/timers.py [objects] [seconds]`. The server lives in the same process and is idle, too: the objects
bear the finalizer from the beginning, and the timer leaves nothing to be written. Logs are formatted and thrown away.
"""

import asyncio
import logging
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import ctl
from ctl.client.config.access import Access
from ctl.sandbox import Sandbox

INTERVAL = 60.0
WARM_UP = 8.0
CRD = Path(__file__).resolve().parents[2] / "examples" / "01-minimal" / "crd.yaml"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


async def measure(objects: int, seconds: float) -> None:
    """Run the operator, and print what the timers cost once all of them are there."""
    registry = ctl.OperatorRegistry()
    seen: dict[str, int] = {}

    @ctl.timer("kopfexamples", interval=INTERVAL, registry=registry)
    async def tick(name: str, **_: Any) -> None:
        seen[name] = seen.get(name, 0) + 1

    async with Sandbox() as sandbox:
        await sandbox.load_manifest(CRD.read_text(encoding="utf-8"))
        for number in range(objects):
            sandbox.create(_manifest(number))
        stop, ready = asyncio.Event(), asyncio.Event()
        access = Access(server=sandbox.url)
        before = _rss()
        options: Any = {
            "registry": registry,
            "access": access,
            "stop_flag": stop,
            "ready_flag": ready,
            "clusterwide": True,
        }
        running = asyncio.create_task(ctl.operator(**options))
        await ready.wait()
        await asyncio.sleep(WARM_UP)
        calls, wall, cpu = sum(seen.values()), time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        calls, wall, cpu = sum(seen.values()) - calls, time.monotonic() - wall, time.process_time() - cpu
        share = 100 * cpu / wall
        print(f"{objects} timers of {INTERVAL:.0f} s: {share:.1f} % of a core, {calls / wall:.0f} calls/s,", end=" ")
        print(f"{1e6 * cpu / max(1, calls):.0f} us for each, {len(sandbox.write_log)} writes,", end=" ")
        print(f"{(_rss() - before) / objects / 1024:.1f} kB for each object and its timer")
        stop.set()
        await running


def _manifest(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": f"x{number}", "finalizers": [FINALIZER]},
        "spec": {"field": "value", "items": list(range(10))},
    }


def _rss() -> float:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    given = [*sys.argv[1:], "10000", "10"]
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        logging.basicConfig(level=logging.INFO, stream=nowhere)
        asyncio.run(measure(int(given[0]), float(given[1])))
