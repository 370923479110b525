"""Loops that do not turn: real time, since it is what is measured."""

import asyncio
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import FrameType

import pytest

from ctl.runtime.watchdog import Blame, LoopWatchdog, _Starving
from ctl.testing.time import VirtualTimeLoop

LIMIT = 0.2
ENOUGH = 60.0


@pytest.fixture
async def dog() -> AsyncIterator[LoopWatchdog]:
    found = LoopWatchdog(lambda: LIMIT, _accuse)
    found.start()
    await asyncio.sleep(0.03)
    yield found
    found.stop()


def _accuse(frames: Sequence[FrameType]) -> Blame | None:
    names = {frame.f_code.co_name for frame in frames}
    return Blame("guilty", "the guilty one") if "guilty" in names else None


def _wait(holds: Callable[[], bool]) -> None:
    """Block until something is noticed: however slow the machine is."""
    end = time.monotonic() + ENOUGH
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)


async def _until(dog: LoopWatchdog, name: str) -> None:
    async with asyncio.timeout(ENOUGH):
        while not dog.blocked.get(name):  # noqa: ASYNC110 (the thread sets it)
            await asyncio.sleep(0.01)


async def test_a_block_is_named_once_with_its_place_and_told_to_be_over(
    dog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    async def guilty() -> None:
        end = time.monotonic() + ENOUGH
        while not dog.blocks.get("guilty") and time.monotonic() < end:
            pass

    with caplog.at_level(logging.WARNING, "ctl.loop"):
        await guilty()
        await _until(dog, "guilty")
    # A disk that is slow may have held up the loop before.
    told = [record.getMessage() for record in caplog.records if record.name == "ctl.loop"]
    begun, ended = [message for message in told if "the guilty one" in message]
    assert f"blocked by the guilty one at {__file__}:{guilty.__code__.co_firstlineno + 2} in " in begun
    assert "guilty" in begun.rpartition(" in ")[2] or "<locals>.guilty" in begun
    assert "turns again" in ended
    assert dog.blocks["guilty"] == 1
    assert LIMIT <= dog.blocked["guilty"] < ENOUGH
    assert dog.lag > LIMIT / 2


async def test_a_library_is_named_with_its_caller(dog: LoopWatchdog, caplog: pytest.LogCaptureFixture) -> None:
    mail: queue.Queue[None] = queue.Queue()

    def tell() -> None:
        # On a busy machine the start of this thread may be a block of its own.
        _wait(lambda: queue.__file__ in caplog.text)
        mail.put(None)

    thread = threading.Thread(target=tell)
    thread.start()
    mail.get(timeout=ENOUGH)
    thread.join()
    await _until(dog, "")
    assert f"{queue.__file__}:" in caplog.text
    assert f"called from {__file__}:" in caplog.text


async def test_a_loop_that_turns_or_has_nothing_to_do_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    dog = LoopWatchdog(lambda: ENOUGH)
    dog.start()
    time.sleep(0.05)  # noqa: ASYNC251 (what is tested)
    await asyncio.sleep(0.1)
    dog.stop()
    assert "ctl.loop" not in {record.name for record in caplog.records}
    assert dog.blocks == {"": 0}


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell who waits for a CPU")
async def test_a_loop_that_gets_no_cpu_is_blamed_on_nobody(caplog: pytest.LogCaptureFixture) -> None:
    everywhere = os.sched_getaffinity(0)
    one = {min(everywhere)}
    # All on one CPU: each gets a part of it.
    rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]  # noqa: ASYNC220 (at once)
    for rival in rivals:
        os.sched_setaffinity(rival.pid, one)
    os.sched_setaffinity(0, one)
    starving, dog = _Starving(), LoopWatchdog(lambda: LIMIT, _accuse)
    try:
        dog.start()
        before, end = starving.used(), time.monotonic() + ENOUGH
        with caplog.at_level(logging.WARNING, "ctl.loop"):
            while starving.since(before) < 10 * LIMIT and time.monotonic() < end:
                sum(range(20_000))  # well below the limit, if it only had the CPU
                await asyncio.sleep(0)
        assert starving.since(before) >= 10 * LIMIT
        assert not [record for record in caplog.records if record.name == "ctl.loop"]
        assert sum(dog.blocks.values()) == 0
    finally:
        dog.stop()
        starving.close()
        os.sched_setaffinity(0, everywhere)
        for rival in rivals:
            rival.kill()
            rival.wait()


async def test_without_a_limit_nothing_is_a_block(caplog: pytest.LogCaptureFixture) -> None:
    dog = LoopWatchdog(lambda: None)
    dog.start()
    await asyncio.sleep(0)
    time.sleep(0.1)  # noqa: ASYNC251 (what is tested)
    await asyncio.sleep(0.05)
    dog.stop()
    assert not caplog.records
    assert dog.blocks == {"": 0}


async def test_of_two_on_one_loop_both_count_and_one_speaks(
    dog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    other = LoopWatchdog(lambda: LIMIT)
    other.start()
    await asyncio.sleep(0.03)
    _wait(lambda: bool(dog.blocks[""] and other.blocks[""]))
    await _until(dog, "")
    await _until(other, "")
    other.stop()
    assert dog.blocks == other.blocks == {"": dog.blocks[""]}
    assert len(caplog.records) == 2 * dog.blocks[""]


def test_in_virtual_time_nothing_is_measured() -> None:
    async def body() -> None:
        dog = LoopWatchdog(lambda: LIMIT)
        dog.start()
        await asyncio.sleep(100_000)
        assert dog.lag == 0
        dog.stop()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(body())
