"""Scenarios of what runs beside changes: indices, daemons, timers, memories, activities, posts."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from typing import Any

from controlplane.servers import free_port
from parity.runs import Scenario
from parity.world import SECONDS, World


async def indices(world: World) -> None:
    await world.create("noted", {"field": "there", "keys": ["x", "y"]})
    await world.create("other", {"field": "here", "keys": ["x"]}, labels={"indexed": "yes"})
    await world.create("text", data={"text": "hello"}, plural="configmaps")
    await world.create("empty", data={"other": "x"}, plural="configmaps")
    await world.start()
    await world.create("first", {"field": "a"}, labels={"look": "yes"})
    await world.handled("first", field="a")
    await world.spec("other", field="here", keys=["z"])
    await world.called("filtered", "other")
    await world.patch("other", {"metadata": {"labels": {"indexed": None}}})
    await world.called("filtered", "other", 2)
    await world.spec("noted", broken=True, field="here", keys=["broken"])
    await world.handled("noted", broken=True)
    await world.spec("noted", more=True)
    await world.called("filtered", "noted")
    await world.spec("noted", broken=None)
    await world.called("filtered", "noted", 2)
    await world.delete("first")
    await world.gone("first")
    await world.create("second", {"field": "a"}, labels={"look": "yes"})
    await world.handled("second", field="a")


async def daemons(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.called("done", count=3)
    await world.called("limited", count=2)
    for handler in ("waits", "thread", "cancelled", "broken"):
        await world.called(handler)
    await world.patch("one", {"metadata": {"labels": {"watched": "yes"}}})
    await world.called("labelled")
    await world.patch("one", {"metadata": {"labels": {"watched": None}}})
    await world.called("labelled-end")
    await world.patch("one", {"metadata": {"labels": {"watched": "yes"}}})
    await world.called("labelled", count=2)
    await world.until("one", lambda body: body is not None and "done" in body.get("status", {}))
    await world.delete("one")
    await world.gone("one")
    await world.create("two", {"field": "a"})
    for handler in ("waits", "thread", "cancelled", "broken"):
        await world.called(handler, "two")
    await world.called("done", "two", count=3)
    await world.called("limited", "two", count=2)
    await world.until("two", lambda body: body is not None and "done" in body.get("status", {}))


async def live(world: World) -> None:
    await world.create("one", {"field": "a"}, labels={"l": "1"})
    await world.called("stubborn")
    await world.handled("one", field="a")
    await world.spec("one", field="b")
    await world.patch("one", {"metadata": {"labels": {"l": "2"}}})
    await world.patch("one", {"status": {"phase": "x"}}, subresource="status")
    await world.called("watches")
    await world.delete("one")
    await world.called("stubborn-end")
    await world.gone("one")


async def timers(world: World) -> None:
    await world.create("one", {"delay": 0.1})
    for handler in ("ticks", "sharp", "retried", "permanent"):
        await world.called(handler, count=3)
    await world.called("once")
    await world.patch("one", {"metadata": {"labels": {"timed": "yes"}}})
    await world.called("labelled")
    await world.patch("one", {"metadata": {"labels": {"timed": None}}})
    await world.until("one", lambda body: "timed" not in json.dumps(body))
    await world.delete("one")
    await world.gone("one")
    await world.create("two", {"delay": 0})
    await world.called("ticks", "two", count=3)
    await world.called("permanent", "two", count=3)
    await world.called("retried", "two", count=3)
    await world.called("sharp", "two", count=3)


async def idle(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")
    await world.called("seldom")
    await world.called("rested")
    await world.spec("one", field="b")
    await world.called("rested", count=2)
    # Kopf never ends while such a timer waits.
    await world.kill()


async def memos(world: World) -> None:
    await world.create("one", {"field": "a"}, labels={"evented": "no"})
    await world.handled("one", field="a")
    await world.create("two", {"field": "a"})
    await world.handled("two", field="a")
    await world.spec("one", field="b")
    await world.handled("one", field="b")
    await world.delete("one")
    await world.gone("one")
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")


async def activities(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")


async def failing_startup(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.ended()


async def probes(world: World) -> None:
    port = free_port()
    await world.start("-n", world.namespace, f"--liveness=http://127.0.0.1:{port}/healthz")
    await world.ready()

    def fetch() -> bool:
        try:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=SECONDS)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                return False
            raise
        with answer:
            body = answer.read().decode()
            line: dict[str, Any] = {"handler": "answer", "object": None, "names": [], "types": {}, "kwargs": {}}
            with world.recording.open("a") as file:
                file.write(json.dumps({**line, "said": [answer.status, json.loads(body)]}) + "\n")
        return True

    deadline = time.monotonic() + SECONDS
    for _ in range(2):
        # The page comes beside everything else that comes at the start.
        while not await asyncio.to_thread(fetch):
            assert time.monotonic() < deadline, world.output()
            await asyncio.sleep(0.1)


async def posting(world: World) -> None:
    await world.ready(labels={"evented": "yes"})
    await world.create("one", {"field": "a"}, labels={"evented": "yes"})
    await world.handled("one", field="a")
    await world.posted(10)
    await world.posted(1, "other")


async def logged(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")
    await world.posted(4)


SCENARIOS = [
    Scenario(name="indices", play=indices, start=None, kept=("apples", "configmaps")),
    Scenario(name="daemons", play=daemons, ordered=False, real=True),
    Scenario(name="live", play=live, ordered=False),
    Scenario(name="timers", play=timers, ordered=False),
    Scenario(name="idle", play=idle),
    Scenario(name="memos", play=memos),
    Scenario(name="activities", play=activities),
    Scenario(name="failing_startup", play=failing_startup),
    Scenario(name="probes", play=probes, start=None),
    Scenario(name="posting", play=posting, real=True),
    Scenario(name="logged", play=logged),
]
