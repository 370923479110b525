"""The pages on continuity and idempotence: what survives a restart, and what is not done twice."""

import asyncio
from typing import Any

import pytest

import ctl

from ..handlers.world import FINALIZER, KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time


async def test_functions_that_are_executed_each_time_succeed_once(world: World, calls: Calls) -> None:
    """The one ends with its third attempt, the other with its seventh; who executes them is called until both have ended."""
    loop = asyncio.get_running_loop()

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("enters", {"at": loop.time()})
        await ctl.execute(fns={"short": short, "long": long})
        calls("leaves", {"at": loop.time()})

    def attempt(which: str, enough: int, retry: int) -> None:
        calls(which, {})
        if retry < enough:
            raise ctl.TemporaryError("not ready yet", delay=10)

    def short(retry: int, **_: Any) -> None:
        attempt("short", 2, retry)

    async def long(retry: int, **_: Any) -> None:
        attempt("long", 6, retry)

    async with world.running():
        await world.create()
        await world.handled(seconds=200)
    assert {name: calls.count(name) for name in ("enters", "short", "long", "leaves")} == {
        "enters": 7,
        "short": 3,
        "long": 7,
        "leaves": 1,
    }
    (left,) = calls.of("leaves")
    assert left["at"] - calls.of("enters")[0]["at"] == pytest.approx(60, abs=2)


async def test_the_same_over_restarts(world: World, calls: Calls) -> None:
    """A process each 14 seconds, each killed while nothing is called."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        @ctl.subhandler(id="once")
        async def once(**_: Any) -> None:
            calls("once", {})

        @ctl.subhandler(id="later")
        async def later(retry: int, **_: Any) -> None:
            calls(f"later {retry}", {})
            if retry < 5:
                raise ctl.TemporaryError("not ready yet", delay=10)

    await world.create()
    for _ in range(5):
        async with world.running() as running:
            await rest(14)
            await world.crash(running)
    async with world.running():
        await world.handled(seconds=200)
    assert calls.names == ["once", *(f"later {number}" for number in range(6))]


async def test_the_last_of_many_changes_of_a_downtime_is_handled(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    async def handle(old: Any, new: Any, reason: str, **_: Any) -> None:
        calls(reason, {"old": old and old["spec"]["field"], "new": new["spec"]["field"]})

    async with world.running():
        await world.create(spec={"field": 0})
        await world.handled()
    for number in range(1, 6):
        await world.patch({"spec": {"field": number}})
    async with world.running():
        await world.handled()
    assert calls.made == [("create", {"old": None, "new": 0}), ("update", {"old": 0, "new": 5})]


async def test_who_waits_for_an_operator_that_is_down_is_deleted_when_it_comes_back(world: World, calls: Calls) -> None:
    @ctl.on.delete(KEX.plural)
    async def delete(**_: Any) -> None:
        calls("delete", {})

    async with world.running():
        await world.create()
        await world.until(lambda: world.get()["metadata"].get("finalizers") == [FINALIZER])
    await world.delete()
    await rest(600)
    assert world.find() is not None
    async with world.running():
        await world.gone()
    assert calls.names == ["delete"]
