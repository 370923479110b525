"""Seconds that lead to no date: infinite, no number, or longer than all calendars. They are no error of Python's anywhere."""

import asyncio
import logging
from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest

import ctl

from .world import KEX, Calls, World, quick, rest

pytestmark = pytest.mark.virtual_time

ENDLESS = [inf, nan, 1e15, 10**400]
NAMES = ["inf", "nan", "1e15", "10^400"]


def _fail(calls: Calls, name: str) -> None:
    """Fail twice, and succeed then."""
    if calls(name, {"at": asyncio.get_running_loop().time()}) < 3:
        raise RuntimeError("not yet")


def _pauses(calls: Calls, name: str) -> list[float]:
    times = [call["at"] for call in calls.of(name)]
    return [round(later - earlier) for earlier, later in pairwise(times)]


@pytest.mark.parametrize("by", ["handler", "settings"])
@pytest.mark.parametrize("delay", ENDLESS, ids=NAMES)
async def test_a_back_off_that_leads_to_no_date_is_taken_for_another_one_and_said(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture, delay: Any, by: str
) -> None:
    """By the settings' one, and where that leads to none either, by Kopf's default: of all sorts of handlers."""
    caplog.set_level(logging.INFO)
    backoff, settings = (delay, quick()) if by == "handler" else (None, quick())
    settings.execution.default_backoff = 7 if by == "handler" else delay
    expected = 7 if by == "handler" else 60

    @ctl.on.startup(backoff=backoff)
    async def activity(**_: Any) -> None:
        _fail(calls, "activity")

    @ctl.on.create(KEX.plural, backoff=backoff)
    async def handler(**_: Any) -> None:
        _fail(calls, "handler")

    @ctl.on.create(KEX.plural, backoff=backoff)
    async def parent(**_: Any) -> None:
        @ctl.subhandler(backoff=backoff)
        async def below(**_: Any) -> None:
            _fail(calls, "below")

    @ctl.index(KEX.plural, backoff=backoff, errors=ctl.ErrorsMode.TEMPORARY)
    async def index(**_: Any) -> None:
        _fail(calls, "index")

    @ctl.daemon(KEX.plural, backoff=backoff)
    async def daemon(stopped: ctl.DaemonStopped, **_: Any) -> None:
        _fail(calls, "daemon")

    @ctl.timer(KEX.plural, backoff=backoff)
    async def timer(**_: Any) -> None:
        _fail(calls, "timer")

    names = ["activity", "handler", "below", "index", "daemon", "timer"]
    running = world.start(settings=settings)
    await world.until(running.ready.is_set, 300)
    await world.create("one")
    await world.until(lambda: all(calls.count(name) >= 3 for name in names), 300)
    await rest()
    await running.stop()
    for name in names:
        assert _pauses(calls, name)[:2] == [expected, expected], name
        said = [
            record.getMessage()
            for record in caplog.records
            if "is no number of seconds until a date" in record.getMessage() and f"{name}'" in record.getMessage()
        ]
        assert len(said) == 2, name
        assert all(f": {expected} are taken" in text for text in said), said
    assert not [record for record in caplog.records if "Throttling" in record.getMessage()]


@pytest.mark.parametrize("endless", ENDLESS, ids=NAMES)
async def test_limits_without_an_end_are_none(world: World, calls: Calls, endless: Any) -> None:
    @ctl.on.create(KEX.plural, timeout=endless, retries=endless, backoff=1)
    async def handler(**_: Any) -> None:
        _fail(calls, "handler")

    @ctl.daemon(KEX.plural, timeout=endless, retries=endless, backoff=1)
    async def daemon(**_: Any) -> None:
        _fail(calls, "daemon")

    async with world.running():
        await world.create("one")
        await world.until(lambda: calls.count("handler") == 3 and calls.count("daemon") == 3)
        await world.handled("one")


@pytest.mark.parametrize("endless", ENDLESS, ids=NAMES)
async def test_times_of_companions_that_lead_to_no_date_are_never_reached(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture, endless: Any
) -> None:
    """And hold up nothing else of the object, nor its deletion, nor the end of the operator."""

    @ctl.on.create(KEX.plural)
    async def created(**_: Any) -> None:
        calls("created", {})

    @ctl.timer(KEX.plural, interval=endless)
    async def once(**_: Any) -> None:
        calls("once", {})

    @ctl.timer(KEX.plural, interval=endless, sharp=True)
    async def sharp(**_: Any) -> None:
        calls("sharp", {})

    @ctl.timer(KEX.plural, interval=10, idle=endless)
    async def idle(**_: Any) -> None:
        calls("idle", {})

    @ctl.timer(KEX.plural, interval=10, initial_delay=endless)
    async def later(**_: Any) -> None:
        calls("later", {})

    @ctl.daemon(KEX.plural, initial_delay=lambda **_: endless)
    async def delayed(**_: Any) -> None:
        calls("delayed", {})

    @ctl.timer(KEX.plural, interval=10)
    async def rhythm(**_: Any) -> None:
        calls("rhythm", {})

    async with world.running():
        await world.create("one")
        await rest(100)
        await world.patch({"spec": {"field": "other"}})
        await rest(100)
        assert calls.count("created") == calls.count("once") == calls.count("sharp") == 1
        assert 18 <= calls.count("rhythm") <= 22
        assert not {"idle", "later", "delayed"} & set(calls.names)
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
        await world.delete("one")
        await world.gone("one")
