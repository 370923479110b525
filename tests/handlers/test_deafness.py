"""An operator is never deaf: whatever befalls one kind's streams for ten minutes, it hears of everything within 90 s, and of the other kinds always."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import ctl
from ctl.sandbox import Faults, Match

from .world import KEX, PLAIN, Calls, World, rest

pytestmark = pytest.mark.virtual_time

TROUBLE = 600.0
RECOVERY = 90.0
OTHERS = 3.0
STREAMS = Match(path=f"/{KEX.plural}$", user_agent="ctl/")

Trouble = Callable[[Faults], object]
TROUBLES: dict[str, tuple[Trouble, Trouble]] = {
    "refused": (lambda faults: faults.refuse(match=STREAMS, times=None), lambda faults: faults.cut_watches(STREAMS)),
    "503": (
        lambda faults: faults.answer(503, "ServiceUnavailable", match=STREAMS, times=None),
        lambda faults: faults.cut_watches(STREAMS),
    ),
    "403": (
        lambda faults: faults.answer(403, "Forbidden", match=STREAMS, times=None),
        lambda faults: faults.end_watches(STREAMS),
    ),
    "429": (
        lambda faults: faults.answer(429, "TooManyRequests", match=STREAMS, times=None, retry_after=1),
        lambda faults: faults.end_watches(STREAMS),
    ),
    "dropped": (lambda _: None, lambda faults: faults.cut_watches(STREAMS)),
    "reset": (lambda _: None, lambda faults: faults.reset_watches(STREAMS)),
    "expired": (lambda _: None, lambda faults: faults.fail_watches(STREAMS)),
    "error 500": (lambda _: None, lambda faults: faults.fail_watches(STREAMS, 500, "InternalError", "etcd")),
    "silent": (lambda _: None, lambda faults: faults.stall_watches(STREAMS)),
}
"""What is set up once, and what is done to the open streams each second of the ten minutes."""


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_ten_minutes_of_trouble_with_one_kind(world: World, calls: Calls, trouble: str) -> None:
    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    async def kex(name: str, spec: Any, **_: Any) -> None:
        calls("kex", {"name": name, "field": spec["field"]})

    @ctl.on.update(PLAIN.plural)
    async def plain(spec: Any, **_: Any) -> None:
        calls("plain", {"field": spec["field"]})

    begin, each_second = TROUBLES[trouble]
    loop = asyncio.get_running_loop()
    await world.create("before")
    await world.create("gone")
    await world.create("other", resource=PLAIN)
    async with world.running() as running:
        await world.handled("before")
        await world.handled("gone")
        await world.handled("other", PLAIN)
        faults = world.sandbox.faults
        begin(faults)
        began = loop.time()
        while (passed := loop.time() - began) < TROUBLE:
            each_second(faults)
            if 300 <= passed < 301:
                await world.patch({"spec": {"field": "changed"}}, "before")
                await world.create("new")
                await world.delete("gone")
            if round(passed) % 60 == 0:
                await world.patch({"spec": {"field": f"at {passed:.0f}"}}, "other", PLAIN)
                seen = calls.count("plain")
                await world.until(lambda seen=seen: calls.count("plain") > seen, OTHERS)  # type: ignore[misc]
            await asyncio.sleep(1)
        faults.clear()
        wanted = [("before", "changed"), ("new", "value")]

        def heard() -> bool:
            told = [(kwargs["name"], kwargs["field"]) for kwargs in calls.of("kex")]
            return all(told.count(each) == 1 for each in wanted)

        await world.until(heard, RECOVERY)
        await rest()
        assert not running.task.done()
    assert calls.count("kex") == 4
