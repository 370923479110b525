"""How a daemon learns that it is to end, in a coroutine and in a thread."""

import asyncio
import threading

import pytest

from ctl.handlers.daemons.daemons import OwnThread
from ctl.handlers.daemons.stoppers import (
    AsyncDaemonStopperChecker,
    DaemonStopped,
    DaemonStoppingReason,
    Stopper,
    SyncDaemonStopperChecker,
)

Why = DaemonStoppingReason


def test_the_flags_have_kopfs_values() -> None:
    assert [(flag.name, flag.value) for flag in Why] == [
        ("DONE", 1),
        ("FILTERS_MISMATCH", 2),
        ("RESOURCE_DELETED", 4),
        ("OPERATOR_PAUSING", 8),
        ("OPERATOR_EXITING", 16),
        ("DAEMON_SIGNALLED", 32),
        ("DAEMON_CANCELLED", 64),
        ("DAEMON_ABANDONED", 128),
    ]


@pytest.mark.parametrize("in_thread", [False, True])
def test_reasons_add_up(in_thread: bool) -> None:
    stopper = Stopper()
    stopped = stopper.checker(in_thread=in_thread)
    assert isinstance(stopped, DaemonStopped)
    assert (bool(stopped), stopped.is_set(), stopped.reason) == (False, False, None)
    assert "not stopped" in repr(stopped)
    stopper.set(Why.FILTERS_MISMATCH)
    stopper.set(Why.RESOURCE_DELETED)
    assert (bool(stopped), stopped.is_set()) == (True, True)
    assert stopped.reason == Why.FILTERS_MISMATCH | Why.RESOURCE_DELETED
    assert "RESOURCE_DELETED" in repr(stopped)


@pytest.mark.virtual_time
async def test_coroutines_wait_with_a_limit_and_without() -> None:
    stopper = Stopper()
    stopped = stopper.checker(in_thread=False)
    assert isinstance(stopped, AsyncDaemonStopperChecker)
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert await stopped.wait(10) is stopped
    assert not stopped.is_set()
    assert loop.time() - start == pytest.approx(10)
    loop.call_later(5, stopper.set, Why.RESOURCE_DELETED)
    assert await stopped.wait()
    assert loop.time() - start == pytest.approx(15)
    assert await stopped.wait(1000)
    assert loop.time() - start == pytest.approx(15)


@pytest.mark.virtual_time
async def test_a_cancelled_wait_is_cancelled() -> None:
    stopped = Stopper().checker(in_thread=False)
    assert isinstance(stopped, AsyncDaemonStopperChecker)
    task = asyncio.create_task(stopped.wait(10))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_threads_are_woken() -> None:
    stopper = Stopper()
    stopped = stopper.checker(in_thread=True)
    assert isinstance(stopped, SyncDaemonStopperChecker)
    assert stopped.wait(0) is stopped
    assert not stopped.is_set()
    waiting = asyncio.get_running_loop().run_in_executor(OwnThread("waiter"), stopped.wait, 60)
    stopper.set(Why.RESOURCE_DELETED)
    assert await asyncio.wait_for(waiting, 30) is stopped
    assert stopped.wait()


def test_a_checker_made_after_the_stop_is_set_for_threads_too() -> None:
    stopper = Stopper()
    stopper.set(Why.OPERATOR_EXITING)
    stopped = stopper.checker(in_thread=True)
    assert isinstance(stopped, SyncDaemonStopperChecker)
    assert stopped.wait()


def test_each_job_has_a_thread_of_its_name_that_keeps_no_process_alive() -> None:
    with OwnThread("mine") as executor:
        seen = executor.submit(threading.current_thread).result(30)
        other = executor.submit(threading.current_thread).result(30)
    assert seen is not other
    assert (seen.name, seen.daemon) == ("mine", True)


def test_what_a_job_raises_is_its_result() -> None:
    with pytest.raises(ZeroDivisionError):
        OwnThread("mine").submit(lambda: 1 / 0).result(30)


@pytest.mark.parametrize("timeout", [float("inf"), 1e15, None])
def test_a_plain_function_may_wait_without_an_end(timeout: float | None) -> None:
    stopper = Stopper()
    checker = stopper.checker(in_thread=True)
    threading.Timer(0.05, stopper.set, [DaemonStoppingReason.DONE]).start()
    assert checker.wait(timeout)
