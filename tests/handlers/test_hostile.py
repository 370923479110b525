"""One object with JSON that nobody expects costs its own handlers at the most: all others are handled as if it were not there."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access

from .weather import a_weather
from .world import KEX, Calls, World, messages, rest

pytestmark = pytest.mark.virtual_time

PLACEHOLDER = "stands for something"


def deep(levels: int, open_: bytes = b'{"a":[', close: bytes = b"]}") -> bytes:
    return open_ * levels + b"1" + close * levels


HOSTILE = {
    "nested beyond the decoder": deep(4_500),
    "nested arrays": deep(9_000, b"[", b"]"),
    "nested up to the decoder": deep(450),
    "nested up to our own recursion": deep(240),
    "nested, and text like the marks of what is cut": b'["cut' + b"t" * 400_000 + b'",' + deep(4_500) + b"]",
    "nested, and numbered marks": b'["'
    + b"".join(b"cut%d:" % number for number in range(40_000))
    + b'",'
    + deep(4_500)
    + b"]",
    "nested, and escapes": b'["' + rb"\"" * 200_000 + rb"\\" * 200_000 + b'",' + deep(4_500) + b"]",
    "nested, and many strings": b"[" + b'"",' * 130_000 + deep(4_500) + b"]",
    "a huge number": b"1" + b"0" * 300,
    "a number without an end": b"1" * 100_000,
    "a number beyond floats": b"1e999",
    "a lone surrogate": rb'"\ud800"',
    "NUL": rb'"\u0000"',
    "duplicate keys": b'{"a":1,"a":{"b":2},"a":[]}',
    "a huge key": b'{"' + b"k" * 1_000_000 + b'":1}',
    "keys of paths": b'{"a/b":{"~":1,"..":2,"":3,"a.b":4}}',
    "many keys": b"{" + b",".join(b'"k%d":{"v":%d}' % (number, number) for number in range(60_000)) + b"}",
    "many items": b"[" + b",".join(b'{"v":%d}' % number for number in range(60_000)) + b"]",
}


@asynccontextmanager
async def telling(world: World, what: bytes) -> AsyncIterator[Access]:
    """The way to a server that has something in the place of the placeholder."""
    async with a_weather(world.sandbox.url, random.Random(0)) as weather:
        plainly, placeholder = weather.told, f'"{PLACEHOLDER}"'.encode()

        def told(text: bytes) -> bytes:
            return plainly(text).replace(placeholder, what)

        weather.told = told  # type: ignore[method-assign]
        yield Access(weather.url)


def declare(calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(name: str, **_: Any) -> str:
        calls("create", {"of": name})
        return "made"

    @ctl.on.update(KEX.plural, id="update")
    async def update(name: str, **_: Any) -> None:
        calls("update", {"of": name})

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(name: str, **_: Any) -> None:
        calls("delete", {"of": name})

    @ctl.on.event(KEX.plural, id="event")
    async def event(name: str, type: str | None, **_: Any) -> None:
        calls("event", {"of": name, "type": type})

    @ctl.index(KEX.plural, id="things")
    async def things(name: str, **_: Any) -> Any:
        return {name: True}

    @ctl.daemon(KEX.plural, id="daemon")
    async def daemon(name: str, stopped: Any, **_: Any) -> None:
        calls("daemon", {"of": name})
        await stopped.wait()

    @ctl.timer(KEX.plural, id="timer", interval=60)
    async def timer(name: str, **_: Any) -> None:
        calls("timer", {"of": name})


def of(calls: Calls, name: str) -> set[str]:
    """What was called for an object."""
    return {handler for handler, told in calls.made if told["of"] == name}


@pytest.mark.parametrize("case", HOSTILE)
async def test_one_object_with_hostile_json_stops_nobody_else(
    world: World, calls: Calls, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    declare(calls)
    began = time.process_time()
    async with telling(world, HOSTILE[case]) as access:
        await world.create("bad", spec={"what": PLACEHOLDER, "field": "value"})
        await world.create("early")
        async with world.running(access=access):
            await world.create("late")
            for name in ("early", "late"):
                await world.handled(name)
            for number in range(3):
                await world.patch({"spec": {"field": f"{number}"}}, "bad")
                await world.patch({"spec": {"field": f"{number}"}}, "late")
                await world.handled("late")
            world.sandbox.compact()
            world.sandbox.faults.cut_watches()
            await world.create("after")
            await world.handled("after")
            await world.patch({"metadata": {"labels": {"a": "b"}}}, "bad")
            await asyncio.sleep(30)
            for name in ("late", "after"):
                await world.delete(name)
                await world.gone(name)
            await world.patch({"metadata": {"finalizers": None}}, "bad")
            await world.delete("bad")
            await world.until(lambda: world.find("bad") is None or world.get("bad")["metadata"]["finalizers"])
            await world.patch({"metadata": {"finalizers": None}}, "early")
            await rest()
    assert of(calls, "late") == {"create", "update", "delete", "event", "daemon", "timer"}
    assert of(calls, "after") == {"create", "delete", "event", "daemon", "timer"}
    assert time.process_time() - began < 30, (
        "seconds of work, however many others work beside it; what is quadratic takes minutes"
    )
    errors = [text for text in messages(caplog.records) if "Error" in text]
    if "create" not in of(calls, "bad"):
        assert "Throttling for 1.0 seconds due to an unexpected error" in errors[0]
        assert len(errors) < 30, "it is told of at each new state, and less and less often"
    assert len(messages(caplog.records, "ctl.controller")) <= 1, "the last state of what is gone has nobody to throttle"
