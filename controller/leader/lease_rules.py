"""The rules of leadership over a Lease: who may take it, when, and until when its holder may act.

Pure: times are arguments. The numbers and rules are client-go's: 15 s of lease, 10 s to renew it, an attempt every 2 s, and others judge a
lease by their own clock only, from the moment at which they saw its record change.

The two sides err on opposite sides, each on the safe one. The holder counts from before it sent the renewal, by the larger of its wall
and monotonic clocks (it may have slept), and ends after the renew deadline. Others count from after they received the record, by the
monotonic clock alone (a wall clock that is set forward must not end somebody's lease), and wait for the whole duration. So there are
never two holders while clocks run at rates that differ by less than duration / renew deadline, 1.5 by default. (A machine that
sleeps, and whose wall clock is set back meanwhile, has no way to know how long it slept.)

A Lease that somebody deletes is not vacant to those who knew its holder: that one acts until it finds out, so they wait for the whole
duration. Only one who begins to take part just then, and has never seen the Lease, does not know of it. The same goes for what somebody
edits by hand, which shows by a time of renewal that is left as it was: whoever held the lease before is waited for all the same.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import Any

from ...runtime.clock import Instant, iso, parse

RELEASED = 1.0
"""The duration of a lease that was given back, as client-go writes it too."""


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """The times of a lease, in seconds. Raises ValueError unless duration > renew deadline > retry period * jitter > 0."""

    duration: float = 15.0
    """How long others wait for a holder that is silent."""
    renew_deadline: float = 10.0
    """How long a holder acts without a renewal that succeeded."""
    retry_period: float = 2.0
    """The pause between attempts to renew, and, jittered, to acquire."""
    jitter: float = 1.2
    """Pauses of those who wait are longer by up to this times themselves."""

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * self.jitter > 0:
            raise ValueError(
                f"A lease needs duration > renew deadline > retry period * jitter > 0; got {self.duration}, {self.renew_deadline}, "
                f"{self.retry_period} * {self.jitter}."
            )


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says. Its times are for people: nobody decides by the clock of another machine."""

    holder: str = ""
    """Empty: nobody holds it."""
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
    """What is above zero; 0 stands for everything else."""
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return number if number > 0 and isfinite(number) else 0.0


def _micro(moment: datetime) -> str:
    """Kubernetes' MicroTime."""
    return iso(moment).replace("+00:00", "Z")


class Candidate:
    """One participant's view of one lease. `identity` must be nobody else's.

    The driver tells it what it sees (`observe`), asks what to do, and tells before and after each write (`sending`, `confirmed`).
    """

    def __init__(self, identity: str, rules: LeaseRules) -> None:
        self.identity = identity
        self.rules = rules
        self.record: Record | None = None
        """The last record seen; None: there is no Lease."""
        # When, by the monotonic clock, the record was first seen as it is.
        self._seen = 0.0
        # Who may act for all that is known, and for how many seconds since then others wait for them.
        self._awaited: tuple[frozenset[str], float] = (frozenset(), 0.0)
        # The last time of a renewal that was seen, also if the Lease has been deleted since.
        self._renewed: datetime | None = None
        # The write on its way, or whose answer was lost: the record and the moment before it was sent.
        self._sent: tuple[Record, Instant] | None = None
        # The times of renewal that we have written of late: each may turn out to be stored after its answer was lost.
        self._written: deque[datetime | None] = deque(maxlen=20)
        self.is_doubled = False
        """Whether somebody else was seen to renew the lease under our identity while it was ours."""
        # From when the lease is ours; None: it is not. Invariant: not None only if the last record known to be stored is ours.
        self._held_since: Instant | None = None

    def observe(self, record: Record | None, now: float) -> None:
        """Take notice of what is stored, by the monotonic time of having received it.

        A lost answer is found out here: if our write is what is stored, it succeeded when it was sent.
        """
        if record != self.record:
            if record is not None and record.holder == self.identity and self._held_since is not None:
                self.is_doubled |= record.renewed not in self._written and not self._is_by_hand(record)
            # Its holder may have renewed it just before.
            self._take_in(record, now)
        if record is None or record.holder != self.identity:
            self._held_since = None
        elif self._sent is not None and record == self._sent[0]:
            self.confirmed()

    def _take_in(self, record: Record | None, now: float) -> None:
        """Another record is stored. One that no participant wrote takes from nobody the time in which he may act."""
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
        """Whoever takes, renews or releases a lease writes the time; by a coarse clock that may be the same as before."""
        if record is None or record.renewed is None:
            return True
        return record.renewed == self._renewed and (bool(record.holder) or record.duration != RELEASED)

    def vacant_in(self, now: float) -> float:
        """Seconds until the lease may be taken, for all that is known; 0 is now."""
        holders, duration = self._awaited
        if not holders - {self.identity}:
            return 0.0
        return max(0.0, self._seen + duration - now)

    @property
    def acting_until(self) -> float | None:
        """Up to which monotonic time the one that is known to hold the lease, or to have held it last, may have acted.

        None: there was nobody, or it gave the lease back. A holder by our own name counts: it is an earlier life of ours.
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
        """The record to write in order to give the lease back, for others to take at once; None when it is not ours."""
        if self.record is None or self.record.holder != self.identity:
            return None
        return Record("", RELEASED, wall, wall, self.record.transitions)

    def sending(self, record: Record, at: Instant) -> None:
        """A proposal is about to be sent."""
        self._sent = (record, at)
        self._written.append(record.renewed)

    def confirmed(self) -> None:
        """The server has stored what was sent last: the lease is ours from the moment before the sending."""
        assert self._sent is not None
        record, at = self._sent
        self._sent = None
        self._take_in(record, at.monotonic)
        self._held_since = at if record.holder == self.identity else None

    def left(self, now: Instant) -> float:
        """For how many seconds we may still act without another renewal; 0 when the lease is not ours."""
        # Read once: threads ask as well.
        held_since = self._held_since
        if held_since is None:
            return 0.0
        return max(0.0, self.rules.renew_deadline - now.since(held_since))

    def holds(self, now: Instant) -> bool:
        """Whether we may act now."""
        return self.left(now) > 0

    def lose(self) -> None:
        """Act no more until the lease is acquired or renewed again."""
        self._held_since = None
