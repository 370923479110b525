"""The rules of a Lease: which participant may take it, when, and until when its holder may act.

Pure: times are arguments. The numbers and rules are client-go's: 15 s of lease, 10 s to renew it, an attempt every 2 s. Participants
measure a lease by their own clocks only, from the moment at which they saw its record change.

Both sides err on the safe side. The holder counts from before it sent the renewal, by its wall or monotonic clock, whichever shows more
(the machine may have slept), and ends at the renew deadline. Others count from after they received the record, by the monotonic clock
alone (a wall clock that is set forward must not end a lease), and wait for the whole duration. So there are never two holders while
the rates of their clocks differ by less than duration / renew deadline, 1.5 by default. (A machine that sleeps while its wall clock is
set back cannot know how long it slept.)

A Lease that was deleted is not free for participants that knew its holder: the holder acts until it learns of it, so they wait for the
whole duration. Only a participant that has never seen the Lease does not wait. The same holds for an edit by hand, which leaves the time
of renewal as it was: the former holder is still waited for.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import Any

from ...runtime.clock import Instant, iso, parse

RELEASED = 1.0
"""The duration in a released lease, as client-go writes it."""


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """The times of a lease, in seconds. Raises ValueError unless duration > renew deadline > retry period * jitter > 0."""

    duration: float = 15.0
    """How long others wait for a silent holder."""
    renew_deadline: float = 10.0
    """How long a holder acts without a successful renewal."""
    retry_period: float = 2.0
    """The pause between attempts to renew, and, with jitter, to acquire."""
    jitter: float = 1.2
    """The pauses of participants that wait are longer by up to this factor of themselves."""

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * self.jitter > 0:
            raise ValueError(
                f"A lease needs duration > renew deadline > retry period * jitter > 0; got {self.duration}, {self.renew_deadline}, "
                f"{self.retry_period} * {self.jitter}."
            )


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a Lease. Its times are for people: no decision relies on the clock of another machine."""

    holder: str = ""
    """Empty: there is no holder."""
    duration: float = 0.0
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any] | None) -> "Record":
        """Read the `spec` of a Lease; absent or unreadable fields have their defaults."""
        spec = spec if isinstance(spec, Mapping) else {}
        return cls(
            holder=str(spec.get("holderIdentity") or ""),
            duration=_number(spec.get("leaseDurationSeconds")),
            acquired=_time(spec.get("acquireTime")),
            renewed=_time(spec.get("renewTime")),
            transitions=int(_number(spec.get("leaseTransitions"))),
        )

    def spec(self) -> dict[str, Any]:
        """The fields of a Lease's `spec`. Its duration is in whole seconds, rounded up."""
        found = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": max(1, -int(-self.duration // 1)),
            "acquireTime": None if self.acquired is None else _micro(self.acquired),
            "renewTime": None if self.renewed is None else _micro(self.renewed),
            "leaseTransitions": self.transitions,
        }
        return {name: value for name, value in found.items() if value is not None}


def _time(text: object) -> datetime | None:
    try:
        return parse(text) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _number(value: object) -> float:
    """The number if it is above zero, else 0."""
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return number if number > 0 and isfinite(number) else 0.0


def _micro(moment: datetime) -> str:
    """Kubernetes' MicroTime."""
    return iso(moment).replace("+00:00", "Z")


class Candidate:
    """One participant's view of one lease. `identity` must be unique.

    Its driver reports what it reads (`observe`) and each write before and after (`sending`, `confirmed`), and asks what to do.
    """

    def __init__(self, identity: str, rules: LeaseRules) -> None:
        self.identity = identity
        self.rules = rules
        self.record: Record | None = None
        """The last record seen; None: there is no Lease."""
        # When, by the monotonic clock, the record was first seen as it is.
        self._seen = 0.0
        # The holders that may act, and the seconds since then for which others wait for them.
        self._awaited: tuple[frozenset[str], float] = (frozenset(), 0.0)
        # The last renewal time seen, also after a deletion of the Lease.
        self._renewed: datetime | None = None
        # The write without an answer: its record, and the moment before it was sent.
        self._sent: tuple[Record, Instant] | None = None
        # The renewal times of our last writes: each may be stored although its answer was lost.
        self._written: deque[datetime | None] = deque(maxlen=20)
        self.is_doubled = False
        """Whether another process renewed the lease under our identity while it was ours."""
        # From when the lease is ours; None: it is not. Invariant: not None only if the last record known to be stored is ours.
        self._held_since: Instant | None = None

    def observe(self, record: Record | None, now: float) -> None:
        """Note the stored record; `now` is the monotonic time after it was received.

        If it is our write whose answer was lost, that write succeeded when it was sent.
        """
        if record != self.record:
            if record is not None and record.holder == self.identity and self._held_since is not None:
                self.is_doubled |= record.renewed not in self._written and not self._is_by_hand(record)
            # Its holder may have renewed it just before now.
            self._take_in(record, now)
        if record is None or record.holder != self.identity:
            self._held_since = None
        elif self._sent is not None and record == self._sent[0]:
            self.confirmed()

    def _take_in(self, record: Record | None, now: float) -> None:
        """Another record is stored. An edit by hand takes no time from a holder."""
        known, longest = self._awaited
        holders = frozenset({record.holder} if record is not None and record.holder else ())
        duration = 0.0 if record is None else record.duration or self.rules.duration
        if not self._is_by_hand(record):
            self._awaited = holders, duration
        elif holders <= known:
            self._awaited = known, longest
        else:
            self._awaited = holders | known, max(duration, longest)
        if record is not None and record.renewed is not None:
            self._renewed = record.renewed
        self.record, self._seen = record, now

    def _is_by_hand(self, record: Record | None) -> bool:
        """Whether no participant wrote it: those write a new time. (At a release a coarse clock may show the same.)"""
        if record is None or record.renewed is None:
            return True
        return record.renewed == self._renewed and (bool(record.holder) or record.duration != RELEASED)

    def vacant_in(self, now: float) -> float:
        """Seconds until the lease may be taken; 0: now."""
        holders, duration = self._awaited
        if not holders - {self.identity}:
            return 0.0
        return max(0.0, self._seen + duration - now)

    @property
    def acting_until(self) -> float | None:
        """The monotonic time until which the last known holder may have acted; None: there was none, or it released the lease.

        A holder with our own identity counts: it is an earlier process of ours.
        """
        return self._seen + self.rules.renew_deadline if self._awaited[0] else None

    def proposal(self, wall: datetime) -> Record:
        """The record to write in order to acquire the lease or to renew it."""
        known = self.record
        if known is not None and known.holder == self.identity:
            return replace(known, duration=self.rules.duration, renewed=wall, acquired=known.acquired or wall)
        transitions = 0 if known is None else known.transitions + 1
        return Record(self.identity, self.rules.duration, wall, wall, transitions)

    def release(self, wall: datetime) -> Record | None:
        """The record that releases the lease, so that others take it at once; None: it is not ours."""
        if self.record is None or self.record.holder != self.identity:
            return None
        return Record("", RELEASED, wall, wall, self.record.transitions)

    def sending(self, record: Record, at: Instant) -> None:
        """A proposal is about to be sent."""
        self._sent = (record, at)
        self._written.append(record.renewed)

    def confirmed(self) -> None:
        """The server has stored the last write: the lease is ours from the moment before it was sent."""
        assert self._sent is not None
        record, at = self._sent
        self._sent = None
        self._take_in(record, at.monotonic)
        self._held_since = at if record.holder == self.identity else None

    def left(self, now: Instant) -> float:
        """The seconds for which we may act without another renewal; 0 when the lease is not ours."""
        # Read once: threads ask as well.
        held_since = self._held_since
        if held_since is None:
            return 0.0
        return max(0.0, self.rules.renew_deadline - now.since(held_since))

    def holds(self, now: Instant) -> bool:
        """Whether we may act now."""
        return self.left(now) > 0

    def lose(self) -> None:
        """Do not act until the lease is acquired or renewed again."""
        self._held_since = None
