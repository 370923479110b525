"""Handlers, controllers and components of one's own in one program; and several programs in one process."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

import ctl
from ctl.client.config.access import Access
from ctl.controller.program.serve import ServeOptions, serve
from ctl.sandbox import Match

from .pages import Site
from .world import KEX, PLAIN, World, identified, quick

pytestmark = pytest.mark.virtual_time


class Part:
    """A component that notes its start and its stop, which may take its time."""

    def __init__(self, name: str, note: Callable[[str], object], *, takes: float = 0.0) -> None:
        self.name = name
        self._note = note
        self._takes = takes

    async def start(self) -> None:
        self._note(f"{self.name} starts")

    async def stop(self, grace: float) -> None:
        self._note(f"{self.name} stops")
        await asyncio.sleep(self._takes)


def _lease(world: World) -> str | None:
    found = world.sandbox.get("coordination.k8s.io/v1", "Lease", "op")
    holder = None if found is None else found["spec"].get("holderIdentity")
    return holder or None


def _declare(note: Callable[[str], object], *parts: Part) -> None:
    """Handlers, a controller and components; an attempt of each takes 1 s."""

    @ctl.on.startup()
    def start_up(**_: Any) -> None:
        note("startup")

    @ctl.on.cleanup()
    def clean_up(**_: Any) -> None:
        note("cleanup")

    @ctl.on.standby()
    def stand_by(**_: Any) -> None:
        note("standby")

    @ctl.daemon(KEX.plural)
    async def daemon(stopped: ctl.DaemonStopped, **_: Any) -> None:
        await stopped.wait()
        note("daemon ends")

    @ctl.on.event(PLAIN.plural)
    async def handler(**_: Any) -> None:
        note("handler begins")
        await asyncio.sleep(1)
        note("handler ends")

    @ctl.declare
    @ctl.controller(f"{PLAIN.plural}.kopf.dev").reconciles
    async def reconciler(key: ctl.Key, context: ctl.Context) -> None:
        note("reconciler begins")
        await asyncio.sleep(1)
        note("reconciler ends")

    for part in parts:
        ctl.declare(part)


@pytest.mark.parametrize("by", ["signal", "flag", "cancellation"])
async def test_a_mixture_with_a_lease_starts_in_order_and_ends_in_the_reverse(world: World, by: str) -> None:
    told: list[tuple[str, bool]] = []

    def note(text: str) -> None:
        told.append((text, _lease(world) is not None))

    _declare(note, Part("one", note), Part("two", note))
    await world.create("one")
    loop = asyncio.get_running_loop()
    running = world.start(settings=identified("a", elect=True, lease_name="op", lease_namespace="default"))
    await running.ready.wait()
    await asyncio.sleep(5)
    begun = [text for text, _ in told]
    assert begun == ["startup", "one starts", "two starts"]
    await world.create("two", resource=PLAIN)
    await world.until(lambda: {"handler begins", "reconciler begins"} <= {text for text, _ in told})
    began = loop.time()
    if by == "signal":
        signal.raise_signal(signal.SIGTERM)
    elif by == "flag":
        running.stop_flag.set()
    else:
        running.task.cancel()
    await asyncio.wait({running.task}, timeout=60)
    assert running.task.done()
    assert loop.time() - began < 3, "attempts of handlers and of controllers end in one time"
    ended = [text for text, _ in told[len(begun) :] if "begins" not in text]
    assert ended[:2] == ["two stops", "one stops"]
    assert sorted(ended[2:-2]) == ["daemon ends", "handler ends", "reconciler ends"]
    assert ended[-2:] == ["standby", "cleanup"]
    assert dict(told)["standby"], "the lease is given back after the last one that acts"
    assert not dict(told)["cleanup"]
    assert _lease(world) is None


async def test_a_component_that_does_not_stop_is_left_to_itself(world: World, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    _declare(told.append, Part("stubborn", told.append, takes=3600))
    loop = asyncio.get_running_loop()
    async with world.running():
        began = loop.time()
    assert loop.time() - began < 5
    assert told[-2:] == ["standby", "cleanup"]
    assert "components: stubborn did not stop within 2.0 s and is left to itself." in caplog.text


async def test_a_component_that_cannot_start_ends_the_program_in_order(world: World) -> None:
    told: list[str] = []

    class Broken(Part):
        async def start(self) -> None:
            raise OSError("it is broken")

    _declare(told.append, Part("one", told.append), Broken("broken", told.append))
    with pytest.raises(OSError, match="it is broken"):
        await world.start().ended()
    assert told == ["startup", "one starts", "one stops", "standby", "cleanup"]


async def test_components_alone_are_an_operator(world: World) -> None:
    told: list[str] = []
    ctl.declare(Part("one", told.append))
    async with world.running():
        assert told == ["one starts"]
    assert told == ["one starts", "one stops"]


async def test_programs_of_one_process_have_health_and_metrics_of_their_own(world: World) -> None:
    seen: list[str] = []

    @ctl.on.event(KEX.plural)
    async def look(name: str, **_: Any) -> None:
        seen.append(f"handler {name}")

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        seen.append(f"reconciler {key.name}")

    # What only the second one looks at cannot be listed.
    hidden = world.sandbox.faults.answer(500, match=Match(path=f"/{PLAIN.plural}$", user_agent="ctl/"), times=None)
    await world.create("one")
    first, second, stop = Site(), Site(), asyncio.Event()
    options = ServeOptions(access=Access(world.sandbox.url))
    controller = (
        ctl.controller("kopfexamples.kopf.dev").named("mine").watches("plains.kopf.dev", ctl.mappers.constant())
    )
    serving = asyncio.create_task(serve(controller.reconciles(reconcile), options=options, stop=stop, http=second.http))
    async with world.running(http=first.http, settings=quick()):
        await world.until(lambda: "handler one" in seen)
        await asyncio.sleep(1)
        assert (await first.get("/readyz"))[0] == 200
        status, text = await second.get("/readyz")
        assert status == 503
        assert "waiting for the first lists of: plains.v1.kopf.dev" in text
        world.sandbox.faults.rules.remove(hidden)
        await world.until(lambda: "reconciler one" in seen, 120)
        assert (await second.get("/readyz"))[0] == 200
        names = [
            {labels for labels in (await site.samples()) if labels.startswith("controller_runtime_reconcile_total")}
            for site in (first, second)
        ]
        assert all('controller="operator"' in name for name in names[0])
        assert all('controller="mine"' in name for name in names[1])
        assert names[0]
        assert names[1]
    # The first one has ended, and the second one goes on.
    with pytest.raises(aiohttp.ClientConnectionError):
        await first.get("/readyz")
    await world.create("two")
    await world.until(lambda: "reconciler two" in seen)
    assert "handler two" not in seen
    assert (await second.get("/readyz"))[0] == 200
    stop.set()
    await serving
