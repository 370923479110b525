"""SIGINT and SIGTERM call a function of the program, for as long as it wants."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context


@contextlib.contextmanager
def caught(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `stop` in the loop, and in the caller's context, at SIGINT and SIGTERM; what was set before is restored at the end.

    Only in the main thread, and only for signals whose disposition is Python's default: a program that embeds the operator
    and handles its signals itself keeps doing so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    # A signal interrupts any code; it does not belong to the context of that code.
    context = copy_context()

    def note(signum: int, _frame: object) -> None:
        loop.call_soon_threadsafe(stop, signal.Signals(signum), context=context)

    before: dict[signal.Signals, object] = {}
    for signum in (signal.SIGINT, signal.SIGTERM):
        if _is_default(signal.getsignal(signum)):
            before[signum] = signal.signal(signum, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _is_default(handler: object) -> bool:
    """Whether nobody has asked for this signal: Python's own handlers, and the one that asyncio.run puts over Python's."""
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    return handler in {signal.SIG_DFL, signal.default_int_handler} or isinstance(runner, asyncio.Runner)
