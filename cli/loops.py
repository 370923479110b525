"""The process of the commands: its event loop, the signals that end it, and how often it looks for garbage."""

import asyncio
import contextlib
import gc
import importlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from ..runtime.signals import caught
from ..runtime.tasks import cancel_all

_T = TypeVar("_T")

YOUNG = 5000
"""After how many new objects that outlive their creation Python looks through them; 700 by default.

What waits in cycles for its collection is of this order then, a few megabytes."""

_INITIAL = gc.get_threshold()


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
            loop.run_until_complete(cancel_all())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def until_signalled(begin: Callable[[], None] = lambda: None) -> signal.Signals:
    """Wait for SIGINT or SIGTERM, and say which came. Only in the main thread.

    `begin` is called once they are heard: who sends one as soon as he reads what it prints is not too early.
    """
    came: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    with caught(lambda signum: None if came.done() else came.set_result(signum)):
        begin()
        return await came


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for garbage rarely while inside, and never through what is there at the beginning (modules, mostly).

    A fifth of a busy operator's time goes there else. A threshold that somebody has set, and a collector that is switched off, stay as
    they are.
    """
    is_ours = gc.isenabled() and gc.get_threshold() == _INITIAL
    if is_ours:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, *_INITIAL[1:])
    try:
        yield
    finally:
        if is_ours:
            gc.set_threshold(*_INITIAL)
            gc.unfreeze()
