"""Plain functions in threads."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ctl.handlers.execution.pools import Pool, in_thread

SECONDS = 30.0


async def test_a_call_that_waits_for_a_thread_is_not_made_after_its_cancellation() -> None:
    """Who is told to stop, or leads no more, must not begin anything."""
    called: list[str] = []
    begun, end, pool = threading.Event(), threading.Event(), Pool("mine")

    def busy() -> None:
        called.append("busy")
        begun.set()
        end.wait(SECONDS)

    with ThreadPoolExecutor(1) as executor:
        first = asyncio.create_task(in_thread(busy, {}, executor, pool, "busy"))
        await asyncio.to_thread(begun.wait, SECONDS)
        second = asyncio.create_task(in_thread(lambda: called.append("second"), {}, executor, pool, "second"))
        await asyncio.sleep(0)
        assert (pool.busy, pool.queued) == (1, 1)
        second.cancel()
        # It does not wait for the thread either.
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(second, SECONDS)
        assert not first.done()
        first.cancel()
        await asyncio.sleep(0)
        assert not first.done()
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(first, SECONDS)
        await asyncio.wait_for(in_thread(lambda: called.append("last"), {}, executor, pool, "last"), SECONDS)
    assert called == ["busy", "last"]
    assert (pool.busy, pool.queued) == (0, 0)


async def test_what_a_cancelled_call_raises_is_not_told_of_by_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    begun, end = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        end.wait(SECONDS)
        raise ValueError("too late")

    with ThreadPoolExecutor(1) as executor:
        task = asyncio.create_task(in_thread(fail, {}, executor, Pool("mine"), "fail"))
        await asyncio.to_thread(begun.wait, SECONDS)
        task.cancel()
        await asyncio.sleep(0)
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, SECONDS)
    del task
    gc.collect()
    assert "never retrieved" not in caplog.text
