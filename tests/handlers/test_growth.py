"""An operator that runs for long is no larger for the objects that it has seen come and go."""

import gc
import logging
from collections import Counter
from typing import Any

import pytest

import ctl

from .world import KEX, PLAIN, World, rest

pytestmark = pytest.mark.virtual_time

EACH = 25
ROUNDS = 4
BOUNDED = {"ctl.runtime.watchdog._Gap", "ctl.runtime.log_limits._Line"}
"""What is kept of the past on purpose, so much of it and no more."""


def _census() -> Counter[str]:
    """How many instances there are of each class of ours, the server's own left out."""
    gc.collect()
    classes = (type(found) for found in gc.get_objects())
    names = Counter(f"{cls.__module__}.{cls.__qualname__}" for cls in classes)
    return Counter(
        {
            name: count
            for name, count in names.items()
            if name.startswith("ctl.") and not name.startswith("ctl.sandbox.") and name not in BOUNDED
        }
    )


def _declare() -> None:
    @ctl.index(KEX.plural, id="fields")
    def fields(name: str, spec: Any, **_: Any) -> dict[Any, str]:
        return {spec.get("field"): name}

    @ctl.on.event(KEX.plural, id="event")
    async def event(memo: ctl.Memo, **_: Any) -> None:
        memo.seen = True

    @ctl.on.create(KEX.plural, id="create")
    async def create(spec: Any, patch: ctl.Patch, retry: int, **_: Any) -> None:
        @ctl.subhandler(id="part")
        async def part(**_: Any) -> None: ...

        patch.status["created"] = True
        if spec["turn"] % 5 == 0 and not retry:
            raise ctl.TemporaryError("not yet", delay=1)
        if spec["turn"] % 7 == 0:
            raise ctl.PermanentError("never")

    @ctl.on.update(KEX.plural, id="update")
    def update(**_: Any) -> None: ...

    @ctl.on.field(KEX.plural, field="spec.field", id="field")
    async def field(**_: Any) -> None: ...

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(spec: Any, retry: int, **_: Any) -> None:
        if spec["turn"] % 3 == 0 and not retry:
            raise ctl.TemporaryError("not yet", delay=1)

    @ctl.daemon(KEX.plural, id="daemon")
    async def daemon(stopped: Any, **_: Any) -> None:
        await stopped.wait()

    @ctl.timer(KEX.plural, interval=1.0, id="timer")
    async def timer(patch: ctl.Patch, retry: int, **_: Any) -> None:
        patch.status["beat"] = True

    @ctl.on.create(PLAIN.plural, id="free", labels={"mine": "yes"})
    async def free(**_: Any) -> None: ...


async def _live(world: World, turn: int) -> None:
    """So many objects come, change, and go; meanwhile the server breaks."""
    names = [f"o{turn}-{number}" for number in range(EACH)]
    for number, name in enumerate(names):
        await world.create(name, {"turn": number, "field": number})
        await world.create(name, resource=PLAIN, labels={"mine": "yes"} if number % 2 else {})
    await rest(5)
    world.sandbox.faults.cut_watches()
    for name in names:
        await world.patch({"spec": {"field": "new"}}, name)
    world.sandbox.faults.refuse(match=world.own_patches(), times=EACH)
    await rest(30)
    for name in names:
        await world.delete(name)
        await world.delete(name, PLAIN)
    await world.until(lambda: not any(world.find(name) or world.find(name, PLAIN) for name in names), seconds=300)
    # Until what is kept for a while, for those who come back, is dropped too.
    await rest(900)


async def test_objects_that_are_gone_leave_nothing_behind(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # the records that are captured hold errors, and these what they went through
    _declare()
    async with world.running():
        await _live(world, 0)
        before = _census()
        for turn in range(1, ROUNDS):
            await _live(world, turn)
        after = _census()
    grown = {name: (before[name], count) for name, count in after.items() if count - before[name] >= EACH}
    assert not grown
