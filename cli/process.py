"""The process of a command: its event loop, its signals, its garbage collection, and its end."""

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from ..controller.program.stopping import end_process
from ..runtime.signals import caught
from ..runtime.tasks import cancel_all, left_behind

if TYPE_CHECKING:
    from ..client.rest import Client

_T = TypeVar("_T")

PATIENCE: Final = 1.0
"""How long threads of sync handlers may delay the end of the process when everything else has ended, in seconds."""
YOUNG: Final = 5000
"""The number of new objects after which Python collects the youngest generation; its default is 700.

About so many objects in reference cycles wait for their collection: a few megabytes."""

_INITIAL = gc.get_threshold()


class Process:
    """Whether the command owns this process and ends it. It does not where a program invokes the command."""

    is_ours = False


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where that is installed, else of asyncio."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run_in(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end, then cancel the tasks that are left and close the loop.

    Unlike asyncio.run, it handles no signals: the coroutine does.
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


def with_client(kubeconfig: str | None, context: str | None, work: "Callable[[Client], Awaitable[_T]]") -> _T:
    """Run `work` with a client of that cluster, in a loop of its own. Raises the client's errors."""
    from ..client.config.loading import load_access  # the HTTP library takes half a second to load
    from ..client.rest import Client

    async def do() -> _T:
        async with Client(load_access(kubeconfig, context)) as client:
            return await work(client)

    return run_in(new_loop(), do())


async def until_signalled(begin: Callable[[], None] = lambda: None) -> signal.Signals:
    """Wait for SIGINT or SIGTERM, and return it. Only in the main thread.

    `begin` is called once signals are handled, so a signal that follows its output at once is not lost.
    """
    came: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    with caught(lambda signum: None if came.done() else came.set_result(signum)):
        begin()
        return await came


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect garbage rarely while inside, and never among the objects that exist at the start (modules, mostly).

    Otherwise collections take a fifth of a busy operator's time. A threshold that the user has set, and a disabled
    collector, stay as they are.
    """
    is_default = gc.isenabled() and gc.get_threshold() == _INITIAL
    if is_default:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, *_INITIAL[1:])
    try:
        yield
    finally:
        if is_default:
            gc.set_threshold(*_INITIAL)
            gc.unfreeze()


def last_resort() -> Callable[[Exception], None] | None:
    """The function that ends the process at once with one sentence and exit code 1; None where the command does not own
    the process.
    """
    return end_process if Process.is_ours else None


def end_with(code: int) -> NoReturn:
    """Raise SystemExit. Threads that still work delay the end of the process for PATIENCE seconds at the most.

    Where tasks have outlived their loop, the process ends at once.
    """
    if left_behind:
        _exit(code)
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        timer = threading.Timer(PATIENCE, _exit, [code])
        timer.daemon = True
        timer.start()
        # The interpreter waits for these threads; a second Ctrl-C would print where it waits.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _exit(code: int) -> NoReturn:
    """End the process without waiting for threads: the interpreter would wait for one that hangs."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
