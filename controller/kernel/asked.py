"""What sources have asked for is remembered while nothing may be attempted: nobody says it a second time.

Pure. Objects that are stored are asked for anyway when a gate opens; a key without a stored object is known to its source only.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .reconciler import Reason

K = TypeVar("K", bound=Hashable)

LIMIT = 10_000
"""How many keys are remembered; of more, those that were asked for last."""


class Asked(Generic[K]):
    """The keys that the sources of one controller have asked for, and why."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        # To be asked for at the opening; and what was let through, of which some is still to be attempted.
        self._waiting: dict[K, Reason] = {}
        self._passed: dict[K, Reason] = {}

    def note(self, key: K, reason: Reason, *, is_open: bool) -> bool:
        """A source asks for a key, and it is let through or not. False when another key had to be forgotten that nobody was told of."""
        return self._put(self._passed if is_open else self._waiting, key, reason) or is_open

    def _put(self, keys: dict[K, Reason], key: K, reason: Reason) -> bool:
        # The first reason stays, and its time.
        keys[key] = keys.pop(key, reason)
        if len(keys) <= self._limit:
            return True
        del keys[next(iter(keys))]
        return False

    def put_back(self, is_pending: Callable[[K], bool]) -> None:
        """The queue will be emptied: what was let through and is not attempted yet waits again."""
        passed, self._passed = self._passed, {}
        for key, reason in passed.items():
            if is_pending(key):
                self._put(self._waiting, key, reason)

    def take(self) -> dict[K, Reason]:
        """Let through all that waits."""
        taken, self._waiting = self._waiting, {}
        for key, reason in taken.items():
            self._put(self._passed, key, reason)
        return taken
