"""The event loop of the commands, and the signals that end them."""

import asyncio
import importlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where that is installed, else of asyncio."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run_in(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end in a loop of our own, and close it with what is left in it.

    Unlike asyncio.run, takes no signal: whoever runs in the loop decides about those.
    """
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(coro)
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def until_signalled() -> signal.Signals:
    """Wait for SIGINT or SIGTERM, and say which came. Only in the main thread."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[signal.Signals] = loop.create_future()

    def settle(signum: int) -> None:
        if not came.done():
            came.set_result(signal.Signals(signum))

    def note(signum: int, frame: object = None) -> None:
        loop.call_soon_threadsafe(settle, signum)

    before = {signum: signal.signal(signum, note) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        return await came
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
