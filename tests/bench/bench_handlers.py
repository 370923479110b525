"""What handlers cost through the whole stack, beside kopf: `make bench` prints it.

Raw events and memory against the replay server; taking in existing objects and the time from a creation to its handler against a real
kube-apiserver, when that is built (`make e2e` does it).
"""

import asyncio
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from ctl.client.config.loading import load_access
from ctl.client.resources import Resource
from ctl.client.rest import Client, WatchOptions

from .bench_ingest import measure, replaying
from .peers import HERE, Line, engines, measured, operating

ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "e2e"))
EXISTING, LATE, RATE, HANDLED = 10_000, 2_000, 200, 100_000
ROUNDS = 5
SECONDS = 300
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
EXAMPLES = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)


# Many changes of each object, one, and a few of many objects: what each attempt takes counts most where each finds one change.
@pytest.mark.parametrize(("count", "events"), [(1_000, 20_000), (5_000, 5_000), (20_000, 60_000), (30_000, 1)])
def test_raw_events(count: int, events: int) -> None:
    lines: dict[str, Line] = {}
    for module in engines():
        command = operating(module, f"events {count} {events} URL", "-A")
        lines[module] = measure(f"raw events, {module}", *command, count=count, events=events, pause=15.0)
    told("raw events", lines, "live_per_cpu_s", "start_cpu_s", "peak_rss_mb")


@pytest.mark.parametrize("whose", ["labels", "status"])
def test_changes_that_are_nobodys(whose: str) -> None:
    lines: dict[str, Line] = {}
    for module in engines():
        with replaying(5_000, 5_000, "--pause=12", *(["--handled"] if whose == "status" else [])) as url:
            lines[module] = measured(operating(module, f"nobodys 5000 5000 {whose} {url}", "-A"), SECONDS)
        print(f"\nchanges that are nobody's ({whose}), {module}: {json.dumps(lines[module])}", end="")
        assert lines[module]["calls"] == 0
    told(f"changes that are nobody's ({whose})", lines, "us_per_event", "start_cpu_s", "peak_rss_mb")


def test_objects_that_have_been_handled() -> None:
    with replaying(HANDLED, 0, "--handled") as url:
        line = measured(operating("ctl", f"handled {HANDLED} {url}", "-A"), SECONDS)
    print(f"\nhandled objects: {json.dumps(line)}", end="")
    assert line["calls"] == 1


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    # The end-to-end suite's own modules are no part of the package.
    if not importlib.import_module("controlplane.build").is_built():
        pytest.skip("the real control plane is not built: `make e2e` builds it")
    with importlib.import_module("controlplane.cluster").ControlPlane() as cluster:
        yield cluster.kubeconfig


async def create_space(client: Client, name: str) -> None:
    import yaml

    definition = yaml.safe_load((ROOT / "examples" / "01-minimal" / "crd.yaml").read_text())
    if not [crd for crd in await client.list(DEFINITIONS) if crd.name == definition["metadata"]["name"]]:
        await client.create(DEFINITIONS, definition)
        await asyncio.sleep(5)
    await client.create(NAMESPACES, {"metadata": {"name": name}})


async def create_many(kubeconfig: Path, space: str, count: int) -> None:
    async with Client(load_access(str(kubeconfig))) as client:
        await create_space(client, space)
        gate = asyncio.Semaphore(32)

        async def create(number: int) -> None:
            async with gate:
                await client.create(EXAMPLES, example(f"o{number}", note="x" * 500), space)

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(create(number))


def example(name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}, "spec": spec}


async def create_steadily(kubeconfig: Path, space: str, count: int) -> list[float]:
    """Create so many objects; gives how long after each creation a bare watch has told of it: what is the server's own."""
    delays: list[float] = []

    async def see(client: Client) -> None:
        async with client.watch(EXAMPLES, space, WatchOptions(resource_version="0")) as stream:
            async for batch in stream:
                added = [event.object.body()["spec"] for event in batch if event.type == "ADDED"]
                delays.extend(time.time() - spec["at"] for spec in added if "at" in spec)
                if len(delays) >= count:
                    return

    async with Client(load_access(str(kubeconfig))) as client, asyncio.TaskGroup() as group:
        group.create_task(see(client))
        began = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            group.create_task(client.create(EXAMPLES, example(f"o{number}", at=time.time()), space))
    return sorted(delays)


def test_existing_objects(kubeconfig: Path) -> None:
    lines: dict[str, Line] = {}
    for module in engines():
        space = f"existing-{module}"
        asyncio.run(create_many(kubeconfig, space, EXISTING))
        env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        lines[module] = measured(operating(module, f"creates {EXISTING}", "-n", space), SECONDS, env)
        print(f"\nexisting objects, {module}: {json.dumps(lines[module])}", end="")
    told("existing objects", lines, "cpu_s", "peak_rss_mb")


def test_latency(kubeconfig: Path) -> None:
    # The server's own pauses fall on one engine or the other: they take turns, and the medians are compared.
    rounds: dict[str, list[Line]] = {}
    for number in range(ROUNDS):
        for module in engines():
            rounds.setdefault(module, []).append(late(kubeconfig, module, f"late-{module}-{number}"))
    lines = {
        module: {name: median(line[name] for line in those) for name in those[0]} for module, those in rounds.items()
    }
    for module, line in lines.items():
        print(f"\ncreation to handler, {module}, medians of {ROUNDS}: {json.dumps(line)}", end="")
    told("creation to handler", lines, "p50_ms", "p99_ms")


def late(kubeconfig: Path, module: str, space: str) -> Line:
    """How long after the creation of an object its handler is called, and how long after it a bare watch beside the operator tells of it."""

    async def begin() -> None:
        async with Client(load_access(str(kubeconfig))) as client:
            await create_space(client, space)
            await client.create(EXAMPLES, example("first"), space)

    asyncio.run(begin())
    with subprocess.Popen(
        operating(module, f"latency {LATE}", "-n", space),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    ) as run:
        try:
            assert run.stdout is not None
            assert run.stdout.readline().strip() == "ready"
            time.sleep(2)  # until the first object is written, and kopf's connections are there
            delays = asyncio.run(create_steadily(kubeconfig, space, LATE))
            line: Line = json.loads(run.stdout.readline())
        finally:
            run.kill()
    bare = {"bare_p50_ms": round(delays[LATE // 2] * 1000, 1), "bare_p99_ms": round(delays[LATE * 99 // 100] * 1000, 1)}
    print(f"\ncreation to handler, {module}: {json.dumps({**line, **bare})}", end="")
    return {**line, **bare}


def told(what: str, lines: dict[str, Line], *names: str) -> None:
    """Print the ratios to kopf."""
    if "kopf" in lines:
        ratios = {name: round(lines["ctl"][name] / lines["kopf"][name], 3) for name in names}
        print(f"\n{what}, ctl to kopf: {json.dumps(ratios)}", end="")
