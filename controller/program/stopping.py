"""How a program ends: SIGINT and SIGTERM ask for a graceful stop; last resorts end the process when it cannot stop itself."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...runtime.signals import caught

_logger = logging.getLogger("ctl.controller")

LastResort = Callable[[Exception], object]

WORDS_SECONDS = 0.5
"""How long last words may take: what blocks the loop may hold the lock of a log, or be a full pipe."""


@contextmanager
def stopping_on_signals(
    stop: Callable[[], object], patience: Callable[[], float | None] = lambda: None
) -> Iterator[None]:
    """While inside, SIGINT and SIGTERM call `stop` in the loop, unless the program handles them itself (see `caught`).

    `patience` gives the seconds after which the process is killed if it is still inside then; None: it never is.
    """
    killers: list[threading.Timer] = []

    def signalled(signum: signal.Signals) -> None:
        _logger.info("Signal %s is received. Operator is stopping.", signum.name)
        stop()
        seconds = patience()
        if seconds is not None and not killers:
            # By a thread: what hangs may be the loop.
            killers.append(threading.Timer(seconds, _kill_process, [seconds]))
            killers[0].daemon = True
            killers[0].start()

    with caught(signalled):
        try:
            yield
        finally:
            for killer in killers:
                killer.cancel()


def _kill_process(seconds: float) -> None:
    _logger.critical("The operator has not stopped within %s seconds after the signal; the process is killed.", seconds)
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def end_process(error: Exception) -> None:
    """End the process with exit code 1, from any thread, without waiting for anything: a last resort for programs of their own.

    The error is written to stderr, and what was said before is flushed, as far as that does not take longer than WORDS_SECONDS.
    """

    def words() -> None:
        sys.stderr.write(f"Error: {error}\n")
        sys.stderr.flush()
        logging.shutdown()
        sys.stdout.flush()

    _briefly(words)
    os._exit(1)


def resort_now(last_resort: LastResort, error: Exception) -> None:
    """Log the error, within WORDS_SECONDS, and call a last resort; from any thread."""
    _briefly(lambda: _logger.critical("%s", error))
    last_resort(error)


def resort_to(last_resort: LastResort, error: Exception, seconds: float) -> None:
    """Call a last resort in that time, once: by the running loop, or by a thread somewhat later if the loop is blocked or has ended by then.

    A program that has ended otherwise may still wait for the threads of handlers, for as long as they like.
    """
    once = threading.Lock()

    def call() -> None:
        if once.acquire(blocking=False):
            last_resort(error)

    asyncio.get_running_loop().call_later(seconds, call)
    thread = threading.Timer(1.5 * seconds, call)
    thread.daemon = True
    thread.start()


def _briefly(words: Callable[[], object]) -> None:
    thread = threading.Thread(target=words, name="last words", daemon=True)
    thread.start()
    thread.join(WORDS_SECONDS)
