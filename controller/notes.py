"""What is noted about keys while they wait or fail: why they wait, and what went wrong last.

Pure. Only keys that wait, are delayed or fail have notes: nothing is kept for a key at rest.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .reconciler import ADDED, Reason

K = TypeVar("K", bound=Hashable)


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

    def wants(self, key: K, reason: Reason) -> None:
        """Something asks for an attempt of the key."""
        self._reasons.setdefault(key, reason)

    def wants_later(self, key: K, reason: Reason) -> None:
        """The last attempt asks for another one."""
        self._later[key] = reason

    def take(self, key: K) -> Reason:
        """The reason of the attempt that begins now."""
        reason = self._reasons.pop(key, None)
        if reason is not None:
            return reason
        return self._later.pop(key, ADDED) if self._later else ADDED

    def failed(self, key: K, failure: Failure) -> None:
        """An attempt of the key failed."""
        self._failures[key] = failure

    def recovered(self, key: K) -> None:
        """An attempt of the key went well, or is given up."""
        if self._failures:
            self._failures.pop(key, None)

    def reason(self, key: K) -> Reason | None:
        """Why the key waits; None when nothing is noted."""
        return self._reasons.get(key) or self._later.get(key)

    def failure(self, key: K) -> Failure | None:
        """What went wrong last; None when the last attempt went well."""
        return self._failures.get(key)

    def __len__(self) -> int:
        """How many notes there are."""
        return len(self._reasons) + len(self._later) + len(self._failures)
