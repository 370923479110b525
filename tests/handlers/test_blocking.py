"""A handler that blocks the loop of its operator is named; in real time, since that is what is measured."""

import logging
import time
from typing import Any

import pytest

import ctl

from .pages import Site
from .world import KEX, World, quick

ENOUGH = 60.0


async def test_the_handler_and_its_object_are_named(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        # On a slow machine something else may be late as well.
        messages = [record.getMessage() for record in caplog.records if record.name == "ctl.loop"]
        return [message for message in messages if "'guilty'" in message]

    @ctl.on.create(KEX.plural, id="guilty")
    async def guilty(**_: Any) -> None:
        end = time.monotonic() + ENOUGH
        while not told() and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 (what is tested)

    site, settings = Site(), quick()
    settings.diagnostics.loop_block_limit = 0.05
    with caplog.at_level(logging.WARNING, "ctl.loop"):
        async with world.running(http=site.http, settings=settings):
            await world.create()
            await world.handled()
            await world.until(lambda: len(told()) >= 2)
            found = await site.samples()
    begun, ended = told()[:2]
    assert "blocked by Handler 'guilty' of kopfexamples.v1.kopf.dev default/one at " in begun
    assert f"{__file__}:" in begun
    assert "turns again" in ended
    assert found['ctl_loop_blocks_total{handler="guilty"}'] >= 1
    assert found['ctl_loop_blocked_seconds_total{handler="guilty"}'] > 0.05
    assert found["ctl_loop_lag_seconds"] > 0.05


async def test_a_subhandler_that_blocks_is_counted_under_its_parent(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "parent/from-a-spec" in record.getMessage()]

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        @ctl.subhandler(id="from-a-spec")
        async def sub(**_: Any) -> None:
            end = time.monotonic() + ENOUGH
            while not told() and time.monotonic() < end:
                time.sleep(0.01)  # noqa: ASYNC251 (what is tested)

    site, settings = Site(), quick()
    settings.diagnostics.loop_block_limit = 0.05
    with caplog.at_level(logging.WARNING, "ctl.loop"):
        async with world.running(http=site.http, settings=settings):
            await world.create()
            await world.handled()
            await world.until(lambda: len(told()) >= 2)
            found = await site.samples()
    assert found['ctl_loop_blocks_total{handler="parent"}'] >= 1
    assert not [name for name in found if "from-a-spec" in name]
