"""Who begins what ends in requests can wait while there are too many of them."""

import asyncio

import pytest

from ctl.client.wire.sender import PER_CONNECTION, InFlight

pytestmark = pytest.mark.virtual_time


async def test_there_is_room_while_the_connections_can_keep_up() -> None:
    crowd, loop = InFlight(2), asyncio.get_running_loop()
    began = loop.time()
    for _ in range(2 * PER_CONNECTION):
        crowd.enter()
        await crowd.room(60)
    assert loop.time() == began


async def test_who_comes_too_early_waits_until_one_has_left_or_the_time_is_over() -> None:
    crowd, loop = InFlight(1), asyncio.get_running_loop()
    for _ in range(PER_CONNECTION + 1):
        crowd.enter()
    began = loop.time()
    await crowd.room(3)
    assert loop.time() - began == pytest.approx(3)
    loop.call_later(1, crowd.leave)
    await crowd.room(60)
    assert loop.time() - began == pytest.approx(4)


async def test_a_cancellation_while_waiting_is_passed_on() -> None:
    crowd = InFlight(0)
    crowd.enter()
    waiting = asyncio.create_task(crowd.room(60))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
