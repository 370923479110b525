"""Each sync daemon has a thread of its own, so that daemons never take the place of handlers in the pool."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OwnThread(Executor):
    """Runs each job in a new thread with the given name.

    There is no limit but the system's: a thread that cannot be started is a RuntimeError of the job. The threads do not
    keep the process alive: a daemon that was abandoned ends with it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start the job at once."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result: Any = fn(*args, **kwargs)
            except BaseException as exc:  # whatever it is belongs to the one who waits for the job
                future.set_exception(exc)
            else:
                future.set_result(result)

        threading.Thread(target=work, name=self._name, daemon=True).start()
        return future
