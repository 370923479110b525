import asyncio
import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from ctl.runtime import clock
from ctl.testing.time import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


async def test_days_pass_at_once_and_exactly() -> None:
    loop = asyncio.get_running_loop()
    began, real = loop.time(), time.monotonic()
    await asyncio.sleep(86_400 * 30)
    assert loop.time() - began == pytest.approx(86_400 * 30)
    assert time.monotonic() - real < 60


async def test_a_timer_fires_also_when_the_clock_has_become_large() -> None:
    for years in (1, 10, 30):
        await asyncio.wait_for(asyncio.sleep(365 * 86_400 * years + 0.1), timeout=365 * 86_400 * years + 1)


async def test_whoever_waits_for_the_rest_of_a_moment_comes_to_its_end_though_the_loop_is_busy() -> None:
    loop = asyncio.get_running_loop()
    until, woken = loop.time() + 1e-12, 0
    while loop.time() < until:
        woken += 1
        assert woken < 100
        wake = loop.create_future()
        loop.call_at(until, wake.set_result, None)
        loop.call_soon(str)
        await wake


async def test_timers_fire_in_order_at_their_times() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    names: list[str] = []
    times: list[float] = []

    def fire(name: str) -> None:
        names.append(name)
        times.append(loop.time() - began)

    for name, delay in (("c", 3), ("a", 1), ("b", 2.5)):
        loop.call_later(delay, fire, name)
    await asyncio.sleep(10)
    assert names == ["a", "b", "c"]
    assert times == pytest.approx([1, 2.5, 3])


@pytest.mark.virtual_time(start="2031-05-06T07:08:09Z")
async def test_wall_time_goes_with_the_loop_in_threads_as_well() -> None:
    assert clock.now() == datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    await asyncio.sleep(3600)
    expected = datetime(2031, 5, 6, 8, 8, 9, tzinfo=UTC)
    assert clock.now() == expected
    assert await asyncio.to_thread(clock.now) == expected


def test_wall_time_is_real_again_outside_of_the_loop() -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(asyncio.sleep(1e6))
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)


async def test_the_clock_stands_still_while_a_thread_works() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.wait_for(asyncio.to_thread(time.sleep, 0.05), timeout=1)
    assert loop.time() == began


async def test_a_thread_that_waits_for_the_loop_does_not_hang() -> None:
    loop = asyncio.get_running_loop()

    def ask() -> str:
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05, "answer"), loop).result(timeout=60)

    assert await asyncio.to_thread(ask) == "answer"


async def test_an_abandoned_job_holds_the_clock_until_its_thread_has_ended() -> None:
    loop = asyncio.get_running_loop()
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        leave.wait(60)

    job = loop.run_in_executor(None, work)
    entered.wait(60)
    job.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await job
    began = loop.time()
    threading.Timer(0.05, leave.set).start()
    await asyncio.sleep(1000)
    assert loop.time() - began == pytest.approx(1000)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def test_the_clock_does_not_jump_while_bytes_are_on_their_way() -> None:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        loop = asyncio.get_running_loop()
        loop.call_later(5, lambda: None)  # something to jump to
        began = loop.time()
        payload = b"x" * 3_000_000  # more than the kernel's buffers hold
        writer.write(payload)
        assert await reader.readexactly(len(payload)) == payload
        for number in range(200):
            writer.write(b"%d\n" % number)
            assert await reader.readline() == b"%d\n" % number
        assert loop.time() == began
        writer.close()
        await writer.wait_closed()


async def _busy_day() -> list[float]:
    """A server that speaks once a minute, a client that answers, for a day of its own."""
    heard: list[float] = []
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(60):
            await asyncio.sleep(24 * 60)
            writer.write(b"tick\n")
            assert await reader.readline() == b"tock\n"
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        while await reader.readline():
            heard.append(loop.time() - began)
            writer.write(b"tock\n")
        writer.close()
        await writer.wait_closed()
    return heard


def test_the_same_program_gives_the_same_times_in_each_run() -> None:
    runs = []
    for _ in range(3):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runs.append(runner.run(_busy_day()))
    assert runs[0] == runs[1] == runs[2]
    assert runs[0] == [pytest.approx(24 * 60 * number) for number in range(1, 61)]


@pytest.fixture
async def loop_of_fixture() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(3600)
    return asyncio.get_running_loop()


async def test_async_fixtures_share_the_loop(loop_of_fixture: asyncio.AbstractEventLoop) -> None:
    assert loop_of_fixture is asyncio.get_running_loop()
    assert isinstance(loop_of_fixture, VirtualTimeLoop)
