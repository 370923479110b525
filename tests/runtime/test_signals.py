"""A signal is heard in the loop, by whoever asked for it, whatever runs when it comes."""

import asyncio
import signal
import threading
from contextvars import ContextVar

import pytest

from ctl.runtime.signals import caught

doing: ContextVar[str] = ContextVar("doing", default="nothing")


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals are heard in the main thread only"
)
async def test_a_signal_is_about_nothing_that_runs_when_it_comes() -> None:
    heard: list[tuple[signal.Signals, str]] = []
    come = asyncio.Event()

    def stop(signum: signal.Signals) -> None:
        heard.append((signum, doing.get()))
        come.set()

    async def work() -> None:
        doing.set("something")
        signal.raise_signal(signal.SIGTERM)
        await come.wait()

    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        doing.set("waiting")
        with caught(stop):
            await asyncio.wait_for(asyncio.create_task(work()), 10)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [(signal.SIGTERM, "waiting")]
