"""Measure a whole operator: this file is one, for `kopf run` and for `ctl run`, and measures the process it is in.

    BENCH="events COUNT EVENTS URL" python -m MODULE run -q --standalone -A tests/bench/handlers.py
    BENCH="nobodys COUNT EVENTS WHOSE URL" python -m MODULE run -q --standalone -A tests/bench/handlers.py
    BENCH="handled COUNT URL" python -m MODULE run -q --standalone -A tests/bench/handlers.py
    BENCH="creates COUNT" python -m MODULE run -q --standalone -n NAMESPACE tests/bench/handlers.py
    BENCH="latency COUNT" python -m MODULE run -q --standalone -n NAMESPACE tests/bench/handlers.py

MODULE is `kopf` or `ctl`. The first three work on the server at URL, `replay.py`: a no-op `@on.event` handler that counts COUNT listed objects
and EVENTS modifications; handlers of changes that none of EVENTS modifications is for, since they ask for a label that no object has (WHOSE is
`labels`), or since all objects have been handled and nothing but their versions changes (`status`); and a create handler which is never called,
since all of COUNT objects have been handled. The last two work on the cluster of KUBECONFIG: a create handler that takes in COUNT objects; and
one that notes how long ago each was created (`spec.at`, the time of the request, in seconds of the epoch; it says "ready" for an object that has
none).
Each ends by itself and prints one line of JSON. What is imported before this file is not in the figures, but in the peak of the memory.
"""

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ctl as kopf
else:
    import kopf

PAUSE = 12
"""When changes that are nobody's are to begin after the start, in seconds."""
SETTLING = 3.0
"""How long what was asked for last may be on its way to the server, in seconds."""
MARKS: dict[str, tuple[float, float]] = {}
"""Moments: of the wall, and of the CPU time of this process."""


def mark(name: str) -> None:
    MARKS.setdefault(name, (time.perf_counter(), time.process_time()))


def between(begin: str, end: str) -> tuple[float, float]:
    (began, burnt), (ended, out) = MARKS[begin], MARKS[end]
    return ended - began, out - burnt


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


BEFORE = rss()


def memory(count: int) -> dict[str, float]:
    return {
        "rss_per_object_bytes": round((rss() - BEFORE) / count),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def stop_soon() -> None:
    threading.Timer(SETTLING, stop).start()


def at_the_end(result: Callable[[], dict[str, float]]) -> None:
    """Print this when nothing runs any more."""

    @kopf.on.cleanup()
    async def conclude(**_: Any) -> None:
        mark("end")
        print(json.dumps(result()), flush=True)


def at(url: str) -> None:
    """Have the operator talk to this server, without credentials."""

    @kopf.on.login()
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url)


def events(objects: str, changes: str, url: str) -> None:
    count, total = int(objects), int(changes)
    seen = {"listed": 0, "live": 0}
    at(url)

    @kopf.on.event("kopfexamples")
    async def every(type: str | None, **_: Any) -> None:
        if type is None:
            seen["listed"] += 1
            if seen["listed"] == count:
                mark("listed")
        else:
            seen["live"] += 1
            if seen["live"] == 1:
                mark("live")
            if seen["live"] == total:
                mark("done")
                stop()

    def result() -> dict[str, float]:
        (synced, synced_cpu), (seconds, cpu) = between("start", "listed"), between("live", "done")
        return {
            "objects": count,
            "events": total,
            "sync_per_s": round(count / synced),
            "sync_per_cpu_s": round(count / synced_cpu),
            "live_per_s": round(total / seconds),
            "live_per_cpu_s": round(total / cpu),
            "start_cpu_s": round(synced_cpu, 2),
            **memory(count),
        }

    at_the_end(result)


def bursts() -> Iterator[tuple[float, float]]:
    """The CPU time of each burst of work and the moment, when it is over: it has been calm for two seconds then."""
    began = known = time.process_time()
    calm, is_busy = 0, False
    while True:
        time.sleep(0.25)
        now = time.process_time()
        if now - known > 0.01:
            calm, is_busy = 0, True
        elif is_busy and calm == 0:
            ended, calm = known, 1
        else:
            calm += 1
        if is_busy and calm >= 8:
            yield ended - began, time.monotonic()
            is_busy = False
        if not is_busy:
            began = now
        known = now


def nobodys(objects: str, changes: str, whose: str, url: str) -> None:
    count, total, calls = int(objects), int(changes), [0]
    labels: dict[str, Any] = {"last": kopf.ABSENT} if whose == "status" else {"nobody": "yes"}
    at(url)

    @kopf.on.create("kopfexamples", labels=labels)
    @kopf.on.update("kopfexamples", labels=labels)
    async def never(**_: Any) -> None:
        calls[0] += 1

    found: list[float] = []

    def watch() -> None:
        work = bursts()
        cpu, started = next(work)
        found.append(cpu)
        # Kopf has another one meanwhile: it ends a task for each object that has been left alone for some seconds.
        found.append(next(cpu for cpu, ended in work if ended - started > PAUSE - 2))
        stop()

    threading.Thread(target=watch, daemon=True).start()

    def result() -> dict[str, float]:
        return {
            "objects": count,
            "events": total,
            "calls": calls[0],
            "us_per_event": round(found[1] / total * 1e6, 1),
            "start_cpu_s": round(found[0], 2),
            **memory(count),
        }

    at_the_end(result)


def handled(objects: str, url: str) -> None:
    count, calls = int(objects), [0]
    at(url)

    @kopf.on.create("kopfexamples")
    async def create(**_: Any) -> None:
        calls[0] += 1

    # The one object that is not handled yet is the last of the list.
    @kopf.on.create("kopfexamples", labels={"last": "yes"})
    async def last(**_: Any) -> None:
        mark("done")
        stop_soon()

    def result() -> dict[str, float]:
        seconds, cpu = between("start", "done")
        return {
            "objects": count,
            "calls": calls[0],
            "seconds": round(seconds, 2),
            "cpu_s": round(cpu, 2),
            **memory(count),
        }

    at_the_end(result)


def creates(objects: str) -> None:
    count, left = int(objects), [int(objects)]

    @kopf.on.create("kopfexamples")
    async def create(**_: Any) -> None:
        left[0] -= 1
        if not left[0]:
            mark("done")
            stop_soon()

    def result() -> dict[str, float]:
        (seconds, _), (_, cpu) = between("start", "done"), between("start", "end")
        return {"objects": count, "seconds": round(seconds, 2), "cpu_s": round(cpu, 2), **memory(count)}

    at_the_end(result)


def latency(objects: str) -> None:
    count = int(objects)
    delays: list[float] = []

    @kopf.on.startup()
    async def startup(settings: Any, **_: Any) -> None:
        settings.posting.enabled = False

    @kopf.on.create("kopfexamples")
    async def create(spec: Any, **_: Any) -> None:
        if "at" not in spec:
            print("ready", flush=True)
            return
        delays.append(time.time() - spec["at"])
        if len(delays) == count:
            stop_soon()

    def result() -> dict[str, float]:
        delays.sort()
        return {
            "objects": count,
            "p50_ms": round(delays[count // 2] * 1000, 1),
            "p99_ms": round(delays[count * 99 // 100] * 1000, 1),
            "max_ms": round(delays[-1] * 1000, 1),
        }

    at_the_end(result)


PROGRAMS: dict[str, Callable[..., None]] = {
    program.__name__: program for program in (events, nobodys, handled, creates, latency)
}

name, *arguments = os.environ["BENCH"].split()
PROGRAMS[name](*arguments)
mark("start")
