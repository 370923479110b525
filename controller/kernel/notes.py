"""What is noted about keys while they wait or fail: why they wait, and what went wrong last.

Pure. Only keys that wait, are delayed or fail have notes: nothing is kept for a key at rest, but of some that were given up why.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .reconciler import ADDED, Reason

K = TypeVar("K", bound=Hashable)


REMEMBERED = 1000
"""Of how many keys that were given up the errors are remembered: those that were given up last."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a key: what was raised, as text, and when in the loop's time."""

    error: str
    at: float


class Notes(Generic[K]):
    """The notes of one controller."""

    def __init__(self) -> None:
        # Why the key waits; the first reason since its last attempt began stays.
        self._reasons: dict[K, Reason] = {}
        # Why the key will be added later (`after`, `retry`): counts when nothing else asked for the attempt.
        self._later: dict[K, Reason] = {}
        self._failures: dict[K, Failure] = {}
        # Of keys at rest, the oldest first.
        self._given_up: dict[K, Failure] = {}

    def wants(self, key: K, reason: Reason) -> None:
        """Something asks for an attempt of the key."""
        self._reasons.setdefault(key, reason)

    def wants_later(self, key: K, reason: Reason) -> None:
        """The last attempt asks for another one."""
        self._later[key] = reason

    def take(self, key: K, *, is_delayed: bool) -> Reason:
        """The reason of the attempt that begins now; `is_delayed`: what the last attempt has asked for is still to come."""
        reason = self._reasons.pop(key, None)
        if not self._later or (reason is not None and is_delayed):
            return reason or ADDED
        # Where something else has asked as well, this attempt is what the last one has asked for, too.
        later = self._later.pop(key, ADDED)
        return reason or later

    def forget_wishes(self) -> None:
        """No key waits any more."""
        self._reasons.clear()
        self._later.clear()

    def failed(self, key: K, failure: Failure) -> None:
        """An attempt of the key failed."""
        self._failures[key] = failure

    def recovered(self, key: K) -> None:
        """An attempt of the key went well."""
        if self._failures:
            self._failures.pop(key, None)
        if self._given_up:
            self._given_up.pop(key, None)

    def gave_up(self, key: K, failure: Failure) -> None:
        """An attempt of the key failed for good; that is remembered for people who ask."""
        self.recovered(key)
        self._given_up[key] = failure
        if len(self._given_up) > REMEMBERED:
            del self._given_up[next(iter(self._given_up))]

    def reason(self, key: K) -> Reason | None:
        """Why the key waits; None when nothing is noted."""
        return self._reasons.get(key) or self._later.get(key)

    def failure(self, key: K) -> Failure | None:
        """What went wrong last; None when the last attempt went well."""
        return self._failures.get(key) or self._given_up.get(key)

    def __len__(self) -> int:
        """How many notes there are."""
        return len(self._reasons) + len(self._later) + len(self._failures) + len(self._given_up)
