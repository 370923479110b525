"""Functions of one name, and so of one id: several modules of an operator have a `configure()` each, or a name is used twice."""

from typing import Any

import pytest

import ctl

from .world import KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time


async def test_each_startup_and_cleanup_handler_is_called_until_it_is_done(world: World, calls: Calls) -> None:
    def module(name: str, failures: int = 0) -> None:
        @ctl.on.startup(id="configure")
        async def configure(retry: int, **_: Any) -> None:
            calls(f"configure-{name}", {})
            if retry < failures:
                raise ctl.TemporaryError("later", delay=10)

        @ctl.on.cleanup(id="close")
        async def close(**_: Any) -> None:
            calls(f"close-{name}", {})

    module("a")
    module("b", failures=1)
    module("c")
    ctl.on.create(KEX.plural, id="create")(lambda **_: None)
    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == [f"configure-{x}" for x in "abcb"] + [f"close-{x}" for x in "abc"]


async def test_one_that_fails_for_good_is_not_hidden_by_one_that_succeeds(world: World) -> None:
    @ctl.on.startup(id="configure")
    async def bad(**_: Any) -> None:
        raise ctl.PermanentError("no such setting")

    ctl.on.startup(id="configure")(lambda **_: None)
    ctl.on.create(KEX.plural, id="create")(lambda **_: None)
    with pytest.raises(Exception, match=r"handlers failed in the startup activity: configure\.") as caught:
        async with world.running():
            await rest(5)
    assert str(caught.value.__cause__) == "no such setting"


async def test_of_the_handlers_of_a_change_the_first_one_is_called(world: World, calls: Calls) -> None:
    def declare(name: str) -> None:
        @ctl.on.create(KEX.plural, id="create")
        async def create(retry: int, **_: Any) -> str:
            calls(f"create-{name}", {})
            if not retry:
                raise ctl.TemporaryError("at once", delay=0)

            @ctl.subhandler(id="sub")
            async def first(**_: Any) -> None:
                calls("first", {})

            @ctl.subhandler(id="sub")
            async def second(**_: Any) -> None:
                calls("second", {})

            return name

    declare("a")
    declare("b")
    async with world.running():
        await world.create()
        body = await world.handled()
        await rest(5)
    assert calls.names == ["create-a", "create-a", "first"]
    assert body["status"] == {"create": "a"}


async def test_each_handler_of_raw_events_is_called(world: World, calls: Calls) -> None:
    def declare(name: str) -> None:
        @ctl.on.event(KEX.plural, id="event")
        async def event(**_: Any) -> None:
            calls(f"event-{name}", {})

    declare("a")
    declare("b")
    async with world.running():
        await world.create()
        await rest(5)
    assert calls.names == ["event-a", "event-b"]
