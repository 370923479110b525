"""Measure a whole operator: the same programs for kopf, in an environment that has it, and for ctl.

    python tests/bench/handlers.py MODULE events URL COUNT EVENTS
    python tests/bench/handlers.py MODULE handled URL COUNT
    python tests/bench/handlers.py MODULE creates NAMESPACE COUNT
    python tests/bench/handlers.py MODULE latency NAMESPACE COUNT

MODULE is `kopf` or `ctl`. The first two work on the server at URL, `replay.py`: a no-op `@on.event` handler that counts COUNT listed objects
and EVENTS modifications (at most COUNT: kopf joins events of one object that come close together); and a create handler which is
never called, since all of COUNT objects have been handled. The last two work on the cluster of KUBECONFIG: a create handler that
takes in COUNT objects; and one that notes how long ago each was created (`spec.at`, the time of the request, in seconds of the epoch; it says "ready" for an
object that has none).
Only warnings are logged, as with `-q`. Each prints one line of JSON.
"""

import asyncio
import importlib
import json
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

kopf: Any = importlib.import_module(sys.argv[1])

SETTLING = 3.0
"""How long what was asked for last may be on its way to the server, in seconds."""


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Marks:
    """Moments: of the wall, and of the CPU time of this process."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[float, float]] = {}
        self.stop = threading.Event()
        self.memory = rss()

    def mark(self, name: str) -> None:
        self._marks.setdefault(name, (time.perf_counter(), time.process_time()))

    def between(self, begin: str, end: str) -> tuple[float, float]:
        (began, burnt), (ended, out) = self._marks[begin], self._marks[end]
        return ended - began, out - burnt

    def stop_soon(self) -> None:
        threading.Timer(SETTLING, self.stop.set).start()


def operate(registry: Any, stop: threading.Event, **where: Any) -> None:
    asyncio.run(kopf.operator(registry=registry, standalone=True, stop_flag=stop, **where))


def at(registry: Any, url: str) -> None:
    """Have the operator talk to this server, without credentials."""

    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=url)

    kopf.on.login(registry=registry)(login)


def at_kubeconfig(registry: Any) -> None:
    """Have the operator talk to the cluster of KUBECONFIG."""

    def login(**kwargs: Any) -> Any:
        return kopf.login_with_kubeconfig(**kwargs)

    kopf.on.login(registry=registry)(login)


def events(url: str, objects: str, changes: str) -> dict[str, float]:
    count, total, marks, registry = int(objects), int(changes), Marks(), kopf.OperatorRegistry()
    seen = {"listed": 0, "live": 0}

    async def every(type: str | None, **_: Any) -> None:
        if type is None:
            seen["listed"] += 1
            if seen["listed"] == count:
                marks.mark("listed")
        else:
            marks.mark("live")
            seen["live"] += 1
            if seen["live"] == total:
                marks.mark("done")
                marks.stop.set()

    at(registry, url)
    kopf.on.event("kopfexamples", registry=registry)(every)
    marks.mark("start")
    operate(registry, marks.stop, clusterwide=True)
    (synced, synced_cpu), (seconds, cpu) = marks.between("start", "listed"), marks.between("live", "done")
    return {
        "objects": count,
        "events": total,
        "sync_per_s": round(count / synced),
        "sync_per_cpu_s": round(count / synced_cpu),
        "live_per_s": round(total / seconds),
        "live_per_cpu_s": round(total / cpu),
        "start_cpu_s": round(synced_cpu, 2),
        **memory(marks, count),
    }


def handled(url: str, objects: str) -> dict[str, float]:
    count, marks, registry = int(objects), Marks(), kopf.OperatorRegistry()
    calls = [0]

    async def create(**_: Any) -> None:
        calls[0] += 1

    async def last(name: str, **_: Any) -> None:
        marks.mark("done")
        marks.stop_soon()

    at(registry, url)
    kopf.on.create("kopfexamples", registry=registry)(create)
    # The one object that is not handled yet is the last of the list.
    kopf.on.create("kopfexamples", registry=registry, labels={"last": "yes"})(last)
    marks.mark("start")
    operate(registry, marks.stop, clusterwide=True)
    seconds, cpu = marks.between("start", "done")
    return {
        "objects": count,
        "calls": calls[0],
        "seconds": round(seconds, 2),
        "cpu_s": round(cpu, 2),
        **memory(marks, count),
    }


def creates(namespace: str, objects: str) -> dict[str, float]:
    count, marks, registry = int(objects), Marks(), kopf.OperatorRegistry()
    left = [count]

    async def create(**_: Any) -> None:
        left[0] -= 1
        if not left[0]:
            marks.mark("done")
            marks.stop_soon()

    at_kubeconfig(registry)
    kopf.on.create("kopfexamples", registry=registry)(create)
    marks.mark("start")
    operate(registry, marks.stop, namespaces=[namespace])
    marks.mark("end")
    seconds, _ = marks.between("start", "done")
    _, cpu = marks.between("start", "end")
    return {"objects": count, "seconds": round(seconds, 2), "cpu_s": round(cpu, 2), **memory(marks, count)}


def latency(namespace: str, objects: str) -> dict[str, float]:
    count, marks, registry = int(objects), Marks(), kopf.OperatorRegistry()
    delays: list[float] = []

    async def create(spec: Any, **_: Any) -> None:
        if "at" not in spec:
            print("ready", flush=True)
            return
        delays.append(time.time() - spec["at"])
        if len(delays) == count:
            marks.stop_soon()

    async def startup(settings: Any, **_: Any) -> None:
        settings.posting.enabled = False

    at_kubeconfig(registry)
    kopf.on.startup(registry=registry)(startup)
    kopf.on.create("kopfexamples", registry=registry)(create)
    operate(registry, marks.stop, namespaces=[namespace])
    delays.sort()
    return {
        "objects": count,
        "p50_ms": round(delays[count // 2] * 1000, 1),
        "p99_ms": round(delays[count * 99 // 100] * 1000, 1),
        "max_ms": round(delays[-1] * 1000, 1),
    }


def memory(marks: Marks, count: int) -> dict[str, float]:
    return {
        "rss_per_object_bytes": round((rss() - marks.memory) / count),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


PROGRAMS: dict[str, Callable[..., dict[str, float]]] = {
    program.__name__: program for program in (events, handled, creates, latency)
}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger().setLevel(logging.WARNING)
    print(json.dumps(PROGRAMS[sys.argv[2]](*sys.argv[3:])))
