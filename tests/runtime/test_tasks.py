import asyncio
import contextlib
import logging
import sys
from contextvars import ContextVar

import pytest

from ctl.runtime.tasks import Isolated, Tasks, alone, cancel_all, left_behind, see_through, where
from ctl.testing.time import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


async def test_a_task_runs_under_its_owners_name_and_is_forgotten_when_it_returns() -> None:
    tasks = Tasks("kitchen")

    async def cook() -> str:
        await asyncio.sleep(5)
        return "soup"

    task = tasks.spawn(cook(), name="cook")
    assert task.get_name() == "kitchen: cook"
    assert len(tasks) == 1
    assert await task == "soup"
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_a_failure_is_logged_told_and_kept_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, BaseException]] = []
    tasks = Tasks("kitchen", lambda name, error: told.append((name, error)))
    burnt = ValueError("burnt")

    async def fail() -> None:
        raise burnt

    other = tasks.spawn(asyncio.sleep(10, "done"), name="other")
    tasks.spawn(fail(), name="cook")
    assert await tasks.wait_failure() is burnt
    assert told == [("kitchen: cook", burnt)]
    assert "kitchen: cook" in caplog.text
    assert await other == "done"


async def test_stop_cancels_and_waits() -> None:
    tasks = Tasks("kitchen")
    ended: list[str] = []

    async def clean_up() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(2)
            ended.append("clean")

    tasks.spawn(clean_up(), name="cook")
    await asyncio.sleep(0)
    started = asyncio.get_running_loop().time()
    assert await tasks.stop(grace=10) == ()
    assert ended == ["clean"]
    assert asyncio.get_running_loop().time() - started == pytest.approx(2)
    with pytest.raises(RuntimeError, match="kitchen is stopped"):
        tasks.spawn(asyncio.sleep(0), name="late")


async def test_a_task_that_will_not_end_is_abandoned_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks("kitchen")
    release = asyncio.Event()

    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await release.wait()
        await release.wait()

    task = tasks.spawn(stubborn(), name="cook")
    await asyncio.sleep(0)
    assert await tasks.stop(grace=3) == ("kitchen: cook",)
    assert "stubborn" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING
    release.set()
    await task


async def test_a_task_may_stop_its_owner_without_ending_itself() -> None:
    tasks = Tasks("kitchen")
    other = tasks.spawn(asyncio.sleep(1000), name="other")

    async def stop() -> str:
        await tasks.stop(grace=1)
        return "still here"

    assert await tasks.spawn(stop(), name="stopper") == "still here"
    assert other.cancelled()


async def test_a_cancelled_stop_passes_the_cancellation_on() -> None:
    tasks = Tasks("kitchen")
    release = asyncio.Event()

    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await release.wait()
        await release.wait()

    task = tasks.spawn(stubborn(), name="cook")
    await asyncio.sleep(0)
    stopping = asyncio.create_task(tasks.stop(grace=1000))
    await asyncio.sleep(1)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    release.set()
    await task


_value: ContextVar[str] = ContextVar("value", default="outside")


async def test_what_is_awaited_in_isolation_leaves_no_context_behind() -> None:
    async def inner() -> str:
        _value.set("inside")
        await asyncio.sleep(0)
        assert _value.get() == "inside"
        return _value.get()

    assert await Isolated(inner()) == "inside"
    assert _value.get() == "outside"


async def test_errors_and_cancellations_reach_what_is_awaited_in_isolation() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("oops")

    with pytest.raises(LookupError, match="oops"):
        await Isolated(fail())

    seen: list[str] = []

    async def wait() -> None:
        try:
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def outer() -> None:
        await Isolated(wait())

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "in wait" in where(task) or "locks.py" in where(task)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert seen == ["cancelled"]


async def test_an_error_that_was_handled_in_isolation_is_no_part_of_a_later_one() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> BaseException | None:
        with contextlib.suppress(ValueError):
            await failing
        assert sys.exc_info() == (None, None, None)
        try:
            raise KeyError("later")
        except KeyError as later:
            return later.__context__

    asyncio.get_running_loop().call_soon(failing.set_exception, ValueError("handled"))
    assert await Isolated(work()) is None


async def test_what_is_seen_through_ends_before_the_cancellation_comes() -> None:
    going, on, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def work() -> str:
        going.set()
        await on.wait()
        ended.append("work")
        return "done"

    task = asyncio.create_task(see_through(work()))
    await going.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["work"]
    assert await see_through(work()) == "done"


async def test_what_is_seen_through_gives_its_error_and_ends_when_cancelled_twice() -> None:
    going, ended = asyncio.Event(), list[str]()

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await see_through(fail())

    async def endless() -> None:
        try:
            going.set()
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    task = asyncio.create_task(see_through(endless()))
    await going.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert ended == ["endless"]


@pytest.mark.parametrize(("seconds", "lasts", "ended"), [(2, 2, True), (5000, 5, False)])
def test_what_others_have_begun_may_end_before_the_loop_is_closed(seconds: float, lasts: float, ended: bool) -> None:
    errands: list[asyncio.Task[None]] = []

    async def begin() -> str:
        errands.append(asyncio.create_task(asyncio.sleep(seconds)))
        return "begun"

    async def life() -> float:
        started = asyncio.get_running_loop().time()
        assert await alone(begin(), grace=5) == "begun"
        return asyncio.get_running_loop().time() - started

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(life()) == pytest.approx(lasts)
    assert errands[0].cancelled() is not ended


def test_what_was_abandoned_is_not_waited_for_again(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def life() -> float:
        tasks, started = Tasks("kitchen"), asyncio.get_running_loop().time()
        tasks.spawn(stubborn(), name="cook")
        await asyncio.sleep(0)
        await alone(tasks.stop(grace=3), grace=5)
        await cancel_all()
        return asyncio.get_running_loop().time() - started

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, caplog.at_level(logging.INFO):
        assert runner.run(life()) == pytest.approx(3 + 1)
    assert len(caplog.messages) == 1
    assert "kitchen: cook" in caplog.text
    left_behind.clear()


def test_nobody_is_waited_for_where_there_is_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, caplog.at_level(logging.INFO):
        assert runner.run(alone(asyncio.sleep(0, "done"), grace=5)) == "done"
    assert not caplog.messages
