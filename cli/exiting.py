"""The process of the `ctl` command ends when the command has, whatever threads of the user's still run."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from ..controller.program.term import end_process
from ..runtime.tasks import left_behind

PATIENCE = 1.0
"""How long threads of sync handlers may hold the process up when everything else has ended, in seconds."""


class Process:
    """Whether this process is the command's own, to be ended by it. It is not where a program invokes the command."""

    is_ours = False


def last_resort() -> Callable[[Exception], None] | None:
    """What ends the process at once with one sentence and exit code 1, if it is the command's own; else None."""
    return end_process if Process.is_ours else None


def leave(code: int) -> NoReturn:
    """End the process without waiting for threads: at the interpreter's own end, one that hangs would hang the process."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def end_with(code: int) -> NoReturn:
    """Raise SystemExit, and see to it that threads which still work hold the process up for PATIENCE seconds at the most.

    Where tasks have outlived their loop, the process ends at once.
    """
    if left_behind:
        leave(code)
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        timer = threading.Timer(PATIENCE, leave, [code])
        timer.daemon = True
        timer.start()
        # The interpreter waits for them; a second Ctrl-C would show where.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
