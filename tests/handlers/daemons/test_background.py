"""The background by itself, on a real server: what is kept and forgotten, the door for pauses, ends of resources."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client
from ctl.handlers.daemons.background import Background
from ctl.handlers.daemons.daemons import ObjectDaemons
from ctl.handlers.daemons.stoppers import DaemonStoppingReason as Why
from ctl.handlers.environment.environment import Environment
from ctl.handlers.environment.memories import Memories
from ctl.handlers.patching.writer import CachedObject
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.informer import Informer

from ..world import KEX, Calls, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")


class Watcher:
    """Observes objects as the reconciler does, when the test says so."""

    def __init__(self, world: World, background: Background, informer: Informer, woken: list[str]) -> None:
        self.world = world
        self.background = background
        self.informer = informer
        self.woken = woken
        self.memories = Memories()

    async def observe(self, name: str, *, initial: bool = False) -> ObjectDaemons | None:
        """Have the background look at an object as the server has it now."""
        body = self.world.get(name)
        place = CachedObject(self.informer, Key("default", name), 5.0)
        await self.world.until(
            lambda: (found := place.latest()) and found.resource_version == body["metadata"]["resourceVersion"]
        )
        obj = place.latest()
        assert obj is not None
        return await self.background.observe(obj, place, self.memories.recall(obj.uid, initial=initial))


@pytest.fixture
async def watcher(world: World) -> AsyncIterator[Watcher]:
    woken: list[str] = []
    async with Client(Access(server=world.sandbox.url)) as client:
        factory = SharedInformerFactory(client)
        informer = factory.informer(KEX)
        background = Background(
            Environment(world.registry, quick(), client, list, ctl.Memo()), lambda _, key: woken.append(key.name)
        )
        yield Watcher(world, background, informer, woken)
        await background.stop()
        await factory.stop()


def declare(calls: Calls, **options: Any) -> None:
    @ctl.daemon(KEX.plural, id="daemon", **options)
    async def daemon(stopped: Any, name: str, **_: Any) -> None:
        calls("daemon", {"name": name})
        await stopped.wait()
        calls("stopped", {"reason": stopped.reason})

    @ctl.timer(KEX.plural, id="timer", interval=100, **options)
    async def timer(name: str, **_: Any) -> None:
        calls("timer", {"name": name, "at": asyncio.get_running_loop().time()})


async def test_nothing_is_kept_of_those_that_are_gone(world: World, watcher: Watcher, calls: Calls) -> None:
    declare(calls)
    for number in range(5):
        await world.create(f"x{number}")
        await watcher.observe(f"x{number}")
    background = watcher.background
    assert (background.daemons, background.timers) == (5, 5)
    await rest()
    for number in range(5):
        background.part(world.get(f"x{number}")["metadata"]["uid"])
    await rest()
    assert (background.daemons, background.timers) == (0, 0)
    assert calls.of("stopped") == [{"reason": Why.RESOURCE_DELETED}] * 5
    await rest(500)
    assert calls.count("timer") == 5


async def test_a_second_look_changes_nothing(world: World, watcher: Watcher, calls: Calls) -> None:
    declare(calls)
    await world.create("one")
    for _ in range(3):
        daemons = await watcher.observe("one")
        assert daemons is not None
        assert (daemons.exited, daemons.busy) == (set(), False)
    await rest()
    assert sorted(calls.names) == ["daemon", "timer"]


async def test_a_pause_ends_everything_and_nothing_begins_before_it_is_over(
    world: World, watcher: Watcher, calls: Calls
) -> None:
    declare(calls)
    background = watcher.background
    await world.create("one")
    await watcher.observe("one")
    await rest()
    await background.pause()
    assert (background.daemons, background.timers) == (0, 0)
    assert calls.of("stopped") == [{"reason": Why.OPERATOR_PAUSING}]
    await world.create("two")
    for name in ("one", "two"):
        await watcher.observe(name)
    await rest(1000)
    assert sorted(calls.names) == ["daemon", "stopped", "timer"]
    background.resume()
    for name in ("one", "two"):
        await watcher.observe(name)
    await rest(1)
    assert (background.daemons, background.timers) == (2, 2)
    assert calls.count("daemon") == 3
    assert watcher.woken == []


@pytest.mark.parametrize("turns", range(6))
async def test_what_is_cut_before_its_first_step_begins_again(
    world: World, watcher: Watcher, calls: Calls, turns: int
) -> None:
    declare(calls)
    background = watcher.background
    await world.create("one")
    await watcher.observe("one")
    for _ in range(turns):
        await asyncio.sleep(0)
    background.cut()
    await rest()
    assert (background.daemons, background.timers) == (0, 0)
    began = {name: calls.count(name) for name in ("daemon", "timer")}
    background.resume()
    await watcher.observe("one")
    await rest(50)
    assert (background.daemons, background.timers) == (1, 1)
    assert {name: calls.count(name) for name in began} == {name: count + 1 for name, count in began.items()}
    assert watcher.woken == []


async def test_after_a_pause_timers_are_spread_as_at_the_start(world: World, watcher: Watcher, calls: Calls) -> None:
    declare(calls)
    names = [f"x{number}" for number in range(20)]
    for name in names:
        await world.create(name)
        await watcher.observe(name)
    await rest()
    assert calls.count("timer") == 20
    await watcher.background.pause()
    watcher.background.resume()
    for name in names:
        await watcher.observe(name)
    await rest()
    assert calls.count("timer") <= 22
    await rest(50)
    assert 29 <= calls.count("timer") <= 32


async def test_an_object_that_was_there_and_matches_later_is_called_at_once(
    world: World, watcher: Watcher, calls: Calls
) -> None:
    declare(calls, labels={"on": "yes"})
    for number in range(10):
        await world.create(f"x{number}")
        await watcher.observe(f"x{number}", initial=True)
    for number in range(10):
        await world.patch({"metadata": {"labels": {"on": "yes"}}}, f"x{number}")
        await watcher.observe(f"x{number}")
    await rest()
    assert calls.count("timer") == 10


async def test_one_that_exited_stays_so_over_a_pause_and_a_change_of_filters(
    world: World, watcher: Watcher, calls: Calls
) -> None:
    @ctl.daemon(KEX.plural, id="once", labels={"on": "yes"})
    async def once(**_: Any) -> None:
        calls("once", {})

    await world.create("one", labels={"on": "yes"})
    await watcher.observe("one")
    await rest()
    assert watcher.woken == ["one"]
    for value in ("no", "yes"):
        await world.patch({"metadata": {"labels": {"on": value}}})
        daemons = await watcher.observe("one")
        assert daemons is not None
        assert daemons.exited == {"once"}
    await watcher.background.pause()
    watcher.background.resume()
    await watcher.observe("one")
    await rest()
    assert calls.names == ["once"]


async def test_a_resource_that_is_served_no_more_has_no_daemons(world: World, watcher: Watcher, calls: Calls) -> None:
    declare(calls)
    await world.create("one")
    await watcher.observe("one")
    await rest()
    background = watcher.background
    background.dismiss(Resource("kopf.dev", "v1", "others"), None)
    background.dismiss(KEX, "elsewhere")
    assert background.daemons == 1
    background.dismiss(KEX, "default")
    await rest()
    assert (background.daemons, background.timers) == (0, 0)


async def test_busy_lasts_until_the_end_and_the_object_is_woken_then(
    world: World, watcher: Watcher, calls: Calls
) -> None:
    free = asyncio.Event()

    @ctl.daemon(KEX.plural, labels={"on": "yes"})
    async def slow(**_: Any) -> None:
        calls("begin", {})
        await free.wait()

    await world.create("one", labels={"on": "yes"})
    await watcher.observe("one")
    await rest()
    await world.patch({"metadata": {"labels": {"on": "no"}}})
    daemons = await watcher.observe("one")
    assert daemons is not None
    assert daemons.busy
    await rest(10)
    assert (daemons.busy, watcher.woken) == (True, [])
    free.set()
    await rest()
    assert (daemons.busy, daemons.exited, watcher.woken) == (False, set(), ["one"])


async def test_what_filters_raise_is_the_observer_s_and_starts_nothing(
    world: World, watcher: Watcher, calls: Calls
) -> None:
    declare(calls, when=lambda **_: 1 / 0)
    await world.create("one")
    with pytest.raises(ZeroDivisionError):
        await watcher.observe("one")
    assert (watcher.background.daemons, watcher.background.timers) == (0, 0)


async def test_many_daemons_end_together(world: World, watcher: Watcher, calls: Calls) -> None:
    @ctl.daemon(KEX.plural, cancellation_timeout=10)
    async def endless(**_: Any) -> None:
        calls("begin", {})
        await asyncio.sleep(1_000_000)

    for number in range(100):
        world.sandbox.create(
            {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": f"x{number}"}, "spec": {}}
        )
        await watcher.observe(f"x{number}")
    await world.until(lambda: len(calls) == 100)
    start = asyncio.get_running_loop().time()
    await watcher.background.stop()
    assert asyncio.get_running_loop().time() - start < 1
    assert watcher.background.daemons == 0
