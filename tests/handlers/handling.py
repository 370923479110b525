"""Run code as handlers are run: for a cause."""

from collections.abc import Iterator
from contextlib import contextmanager

from ctl.handlers.causes.causes import Cause, current_cause


@contextmanager
def handling(cause: Cause) -> Iterator[None]:
    token = current_cause.set(cause)
    try:
        yield
    finally:
        current_cause.reset(token)
