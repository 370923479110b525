"""The cause that is being handled now is kept in a context variable, where helpers called by handlers find it."""

from contextvars import ContextVar

from .causes import Cause

current_cause: ContextVar[Cause] = ContextVar("current_cause")
"""Set while user code runs for a cause: handlers of all kinds, sync ones in threads too (their context is copied)."""


class handling:  # noqa: N801 - used as `with handling(cause):`, and a class costs a third of a generator
    """Say that user code runs for a cause until the end of the block; blocks nest."""

    __slots__ = ("_cause", "_token")

    def __init__(self, cause: Cause) -> None:
        self._cause = cause

    def __enter__(self) -> None:
        self._token = current_cause.set(self._cause)

    def __exit__(self, *exc: object) -> None:
        current_cause.reset(self._token)
