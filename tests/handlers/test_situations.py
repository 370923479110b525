"""Every JSON line that is written within an attempt says what it belongs to, the user's own lines too."""

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

import ctl
from ctl.handlers.loggers import configure
from ctl.runtime.log_context import log_context
from ctl.runtime.logs import LogFormat

from .world import KEX, World

pytestmark = pytest.mark.virtual_time

own = logging.getLogger("the.users.own")
Line = dict[str, Any]


def as_json() -> None:
    """In the test itself: what it writes to is not there before."""
    configure(verbose=True, log_format=LogFormat.JSON, log_prefix=None)


def lines(capsys: pytest.CaptureFixture[str]) -> list[Line]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]


def saying(found: list[Line], text: str) -> list[Line]:
    return [line for line in found if text in line["message"]]


def about(line: Line) -> tuple[Any, ...]:
    return line.get("cause"), line.get("handler"), line.get("attempt"), (line.get("object") or {}).get("name")


async def test_lines_of_change_handlers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    as_json()

    @ctl.on.create(KEX.plural, id="outer", backoff=1)
    async def outer(retry: int, logger: ctl.Logger, **_: Any) -> None:
        own.info("mine in outer")
        logger.info("theirs in outer", extra={"cause": "said by the line itself"})
        if not retry:
            raise ctl.TemporaryError("not yet", delay=1)

        @ctl.subhandler(id="sub")
        async def sub(**_: Any) -> None:
            own.info("mine in sub")

    @ctl.on.update(KEX.plural, id="plain")
    def plain(**_: Any) -> None:
        own.info("mine in a thread")

    async with world.running():
        body = await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "b"}})
        await world.handled()
    found = lines(capsys)
    reference = {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "name": "one",
        "uid": body["metadata"]["uid"],
        "namespace": "default",
    }
    first, second = saying(found, "mine in outer")
    assert first["object"] == second["object"] == reference
    assert [about(line) for line in (first, second)] == [("create", "outer", 1, "one"), ("create", "outer", 2, "one")]
    assert first["reconcile_id"] != second["reconcile_id"]
    assert {line["cause"] for line in saying(found, "theirs in outer")} == {"said by the line itself"}
    assert [about(line) for line in saying(found, "mine in sub")] == [("create", "outer/sub", 1, "one")]
    assert [about(line) for line in saying(found, "mine in a thread")] == [("update", "plain", 1, "one")]
    assert [about(line) for line in saying(found, "Handler 'outer' is invoked")] == [
        ("create", "outer", 1, "one"),
        ("create", "outer", 2, "one"),
    ]
    (failed,) = saying(found, "Handler 'outer' failed temporarily: not yet")
    assert about(failed) == ("create", "outer", 1, "one")
    # The lines of the cycle itself name the cause, and belong to the same attempt of the object.
    (processed,) = saying(found, "Creation is processed")
    assert about(processed) == ("create", None, None, "one")
    assert processed["reconcile_id"] == second["reconcile_id"]
    everything = [line for line in found if "object" in line]
    assert everything
    assert all(line.get("reconcile_id") for line in everything), [
        line for line in everything if not line.get("reconcile_id")
    ]


async def test_lines_of_all_other_handlers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    as_json()

    def say(**_: Any) -> None:
        own.info("spoken")

    ctl.on.startup(id="begin")(say)
    ctl.on.event(KEX.plural, id="raw")(say)
    ctl.index(KEX.plural, id="known")(say)
    ctl.timer(KEX.plural, id="tick", interval=10)(say)
    ctl.on.cleanup(id="end")(say)

    @ctl.daemon(KEX.plural, id="stays")
    async def stays(**_: Any) -> None:
        own.info("spoken")
        await asyncio.sleep(1000)

    async with world.running():
        await world.create()
        await asyncio.sleep(15)
    spoken = saying(lines(capsys), "spoken")
    expected = {
        ("startup", "begin", 1, None),
        ("event", "raw", 1, "one"),
        ("index", "known", 1, "one"),
        ("timer", "tick", 1, "one"),
        ("daemon", "stays", 1, "one"),
        ("cleanup", "end", 1, None),
    }
    assert {about(line) for line in spoken} == expected
    ids = {(line["handler"], line["reconcile_id"]) for line in spoken}
    # Each tick is one of its own, and what a daemon does is no part of the attempt that has started it.
    assert len({name for handler, name in ids if handler == "tick"}) == 2
    daemons = {name for handler, name in ids if handler == "stays"}
    assert not daemons & {name for handler, name in ids if handler != "stays"}


async def test_tasks_of_a_handler_speak_for_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    as_json()
    tasks: list[asyncio.Task[None]] = []

    async def later() -> None:
        await asyncio.sleep(5)
        own.info("spoken later")

    @ctl.on.create(KEX.plural, id="starts")
    async def starts(**_: Any) -> None:
        tasks.append(asyncio.create_task(later()))

    async with world.running():
        await world.create()
        await world.handled()
        await asyncio.gather(*tasks)
    (line,) = saying(lines(capsys), "spoken later")
    assert about(line) == ("create", "starts", 1, "one")


async def test_what_is_counted_is_told_of_its_own_attempts(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    as_json()

    @ctl.on.event(KEX.plural, id="noisy")
    async def noisy(name: str, **_: Any) -> None:
        for _number in range(12):
            own.warning("again, %s", name)

    async with world.running():
        await world.create("a")
        await asyncio.sleep(1)
    as_json()  # what was counted is told at the end
    found = saying(lines(capsys), "again, a")
    assert found[-1]["message"] == "again, a [2 more times since then]"
    assert about(found[-1]) == ("event", "noisy", 1, "a")
    assert {line["reconcile_id"] for line in found} == {found[0]["reconcile_id"]}


async def test_lines_of_reconcilers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    as_json()

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        own.info("reconciling %s", key.name)
        if context.attempt.number == 1:
            raise ConnectionError("not yet")

    ctl.declare(ctl.controller(KEX.name).named("mine").reconciles(reconcile))
    async with world.running():
        body = await world.create()
        await asyncio.sleep(5)
    found = lines(capsys)
    first, second = saying(found, "reconciling one")
    assert (first["controller"], first["key"], first["attempt"], second["attempt"]) == ("mine", "default/one", 1, 2)
    assert first["object"]["uid"] == body["metadata"]["uid"]
    assert first["object"]["kind"] == "KopfExample"
    assert second["trigger"] == "retry"
    (failed,) = [line for line in saying(found, "not yet") if line.get("controller") == "mine"]
    assert failed["reconcile_id"] == first["reconcile_id"] != second["reconcile_id"]


async def test_nobody_is_asked_where_no_json_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    class Silent:
        def fields(self) -> Mapping[str, Any]:
            raise AssertionError("asked")

    token = log_context.set(Silent())
    try:
        configure(log_format=LogFormat.JSON)
        own.debug("no line")
        configure(log_format=LogFormat.FULL, log_prefix=True)
        own.info("a line of text")
    finally:
        log_context.reset(token)
    assert "a line of text" in capsys.readouterr().err
