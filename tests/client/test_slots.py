"""Only so many requests are on their way at once, and those that wait get their turns in order."""

import asyncio

from ctl.client.slots import Slots


async def _settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_who_waits_longest_is_next() -> None:
    slots, order = Slots(2), list[int]()

    async def go(number: int) -> None:
        await slots.take()
        order.append(number)

    tasks = [asyncio.create_task(go(number)) for number in range(4)]
    await _settle()
    assert order == [0, 1]
    slots.give()
    await _settle()
    assert order == [0, 1, 2]
    slots.give()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]


async def test_who_gives_up_waiting_is_passed_over() -> None:
    slots = Slots(1)
    await slots.take()
    first, second = asyncio.create_task(slots.take()), asyncio.create_task(slots.take())
    await _settle()
    first.cancel()
    slots.give()
    await second
    assert first.cancelled()


async def test_a_slot_that_comes_with_the_cancellation_goes_to_the_next() -> None:
    slots = Slots(1)
    await slots.take()
    first, second = asyncio.create_task(slots.take()), asyncio.create_task(slots.take())
    await _settle()
    slots.give()
    first.cancel()
    await second
    assert first.cancelled()
    slots.give()
    await asyncio.wait_for(slots.take(), 1)
