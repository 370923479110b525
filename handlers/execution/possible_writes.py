"""Tell whether functions of users may have written something by another client since the object was read last."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, thread_time
from typing import Any

SHORTEST = 0.001
"""Seconds that a function takes of which some may be a request."""
WAITED = 0.00005
"""Seconds in which the thread of a function did not run: the least that an answer takes, from a server on the same machine too."""


class PossibleWrites:
    """Whether anything may have been written by the functions that were called.

    A function may have if it let the loop go on, if its thread waited, or if it took a millisecond: nobody sends a request without one
    of them. A thread also waits for a processor that others keep busy: then there is a read too many. Time is the process's own: a
    request takes it, whatever the loop says. What a function leaves to a task of its own is not seen.
    """

    __slots__ = ("_began", "_began_to_run", "_probe", "found")

    def __init__(self) -> None:
        self.found = False
        self._began = self._began_to_run = 0.0
        self._probe: asyncio.Handle | None = None

    def begin(self) -> None:
        """A function that runs in the loop is called now, or goes on."""
        self.end()
        self._probe = asyncio.get_running_loop().call_soon(self._waited)
        self._began, self._began_to_run = perf_counter(), thread_time()

    def end(self) -> None:
        """It has ended. Harmless where none runs."""
        if self._probe is not None:
            self._probe.cancel()
            self._probe = None
            self._took(perf_counter() - self._began, thread_time() - self._began_to_run)

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """While inside, it is not the function that runs, if one does, but we on its behalf."""
        runs = self._probe is not None
        self.end()
        try:
            yield
        finally:
            if runs:
                self.begin()

    def timed(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs in a thread."""

        def call(**kwargs: Any) -> Any:
            began, began_to_run = perf_counter(), thread_time()
            try:
                return fn(**kwargs)
            finally:
                self._took(perf_counter() - began, thread_time() - began_to_run)

        return call

    def _waited(self) -> None:
        self.found = True

    def _took(self, seconds: float, running: float) -> None:
        if seconds >= SHORTEST or seconds - running >= WAITED:
            self.found = True
