import asyncio
import threading

import pytest

from ctl.controller.kernel.source import Channel, every

pytestmark = pytest.mark.virtual_time


async def _take(source: "Channel[int]", count: int) -> list[int]:
    found: list[int] = []
    async for item in source:
        found.append(item)
        if len(found) == count:
            break
    return found


async def test_what_is_sent_before_anybody_listens_waits() -> None:
    channel: Channel[int] = Channel()
    channel.send(1)
    channel.send(2)
    channel.close()
    assert [item async for item in channel] == [1, 2]
    with pytest.raises(RuntimeError, match="closed"):
        channel.send(3)


async def test_threads_may_send() -> None:
    channel: Channel[int] = Channel()
    listener = asyncio.create_task(_take(channel, 200))
    await asyncio.sleep(0)

    def send(start: int) -> None:
        for number in range(start, start + 100):
            channel.send(number)

    threads = [threading.Thread(target=send, args=(start,)) for start in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    found = await listener
    assert sorted(found) == list(range(200))
    assert [number for number in found if number < 100] == list(range(100))


async def test_a_channel_has_one_listener() -> None:
    channel: Channel[int] = Channel()
    listener = asyncio.create_task(_take(channel, 1))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one"):
        await _take(channel, 1)
    channel.send(1)
    assert await listener == [1]
    channel.send(2)
    assert await _take(channel, 1) == [2]


@pytest.mark.parametrize(("at_once", "expected"), [(False, [10.0, 20.0, 30.0]), (True, [0.0, 10.0, 20.0])])
async def test_a_clock_ticks_without_drift(at_once: bool, expected: list[float]) -> None:
    loop = asyncio.get_running_loop()
    began, heard = loop.time(), []
    async for _ in every(10, at_once=at_once)():
        heard.append(loop.time() - began)
        await asyncio.sleep(3)
        if len(heard) == 3:
            break
    assert heard == pytest.approx(expected)


async def test_ticks_that_nobody_could_hear_are_left_out() -> None:
    loop = asyncio.get_running_loop()
    began, heard = loop.time(), []
    async for number in every(10)():
        heard.append((number, loop.time() - began))
        await asyncio.sleep(35 if number == 1 else 0)
        if len(heard) == 3:
            break
    assert [number for number, _ in heard] == [1, 4, 5]
    assert [at for _, at in heard] == pytest.approx([10, 45, 50])


def test_a_clock_needs_a_period() -> None:
    with pytest.raises(ValueError, match="positive"):
        every(0)
