"""The progress of the handlers of one cause: which are due, when the others are, and what each has seen.

Time is an argument everywhere. How progress is written to objects is in `records`.
"""

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from ..causes.causes import Reason
from .outcomes import Outcome

SHORTEST = 0.001
"""The shortest time to wait for something that is not due yet: timers may fire a moment early, which must not spin."""


class Progress(msgspec.Struct, frozen=True):
    """What is known of one handler in the current cycle.

    `delayed` is the earliest time of the next attempt. `retries` counts the attempts made. `purpose` is the reason of
    the cause it was made for; None (very old records) fits every reason. `seen`: the digests of
    the state that the handler was told when it finished last, and of one that it was shown besides, with a space between them.
    """

    started: datetime
    stopped: datetime | None = None
    delayed: datetime | None = None
    purpose: Reason | None = None
    retries: int = 0
    success: bool = False
    failure: bool = False
    message: str | None = None
    subrefs: frozenset[str] = frozenset()
    seen: str | None = None

    @property
    def finished(self) -> bool:
        """No further attempt is to be made in this cycle."""
        return self.success or self.failure

    @property
    def saw(self) -> frozenset[str]:
        """The digests of what it saw, one by one; none where that is not known."""
        return frozenset((self.seen or "").split())

    def due(self, now: datetime) -> bool:
        """An attempt may be made now."""
        return not self.finished and (self.delayed is None or self.delayed <= now)

    def newer_than(self, other: "Progress") -> bool:
        """Whether more was done since, or it was all begun anew."""
        return (self.started, self.retries) > (other.started, other.retries)

    def shortened(self, longest: int | None) -> "Progress":
        """The same with a message of at most so many characters; None: as long as it is."""
        if longest is None or self.message is None or len(self.message) <= longest:
            return self
        return replace(self, message=f"{self.message[: longest - 3]}...")

    def after(self, outcome: Outcome, now: datetime, seen: str | None = None) -> "Progress":
        """Add an attempt that ended now; `seen` are the digests of what the handler saw, with a space between them."""
        failed = outcome.exception is not None
        later = None if outcome.final or outcome.delay is None else now + timedelta(seconds=outcome.delay)
        return replace(
            self,
            stopped=now if outcome.final else None,
            delayed=later,
            retries=self.retries + 1,
            success=outcome.final and not failed,
            failure=outcome.final and failed,
            message=str(outcome.exception) if failed else None,
            seen=seen if outcome.final else self.seen,
            subrefs=self.subrefs | frozenset(outcome.subrefs),
        )


class Counts(msgspec.Struct):
    """How many handlers of a cause succeeded, failed, and are not finished."""

    succeeded: int
    failed: int
    left: int

    @property
    def finished(self) -> int:
        """How many are not to be called again."""
        return self.succeeded + self.failed


class Progression(msgspec.Struct):
    """The records of one cause's handlers.

    `records` holds every handler registered for the resource that has a record, and every selected one; only those in
    `active` (selected for this cause, and their sub-handlers) decide whether the cause is done. Invariant: each active
    id has a record.
    """

    purpose: Reason
    records: dict[str, Progress] = msgspec.field(default_factory=dict)
    active: dict[str, None] = msgspec.field(default_factory=dict)
    superseded: dict[Reason, Counts] = msgspec.field(default_factory=dict)

    @classmethod
    def load(
        cls,
        purpose: Reason,
        owned: Iterable[str],
        selected: Iterable[str],
        fetch: Callable[[str], Progress | None],
        now: datetime,
    ) -> "Progression":
        """Take up the records of the handlers registered for a resource (`owned`) for a cause that selects some of them.

        `fetch` gives the record of an id or None. Records made for another reason are superseded: those of selected
        handlers go on under this one, with their successes and retries kept; the others wait to be purged.
        """
        self = cls(purpose)
        for owned_id in owned:
            self._fetch(owned_id, fetch)
        if self.records:
            self._supersede()
        self.activate(selected, now)
        return self

    def _supersede(self) -> None:
        below = self._subrefs()
        own = [known for known_id, known in self.records.items() if known_id not in below]
        others = [known for known in own if known.purpose not in {None, self.purpose}]
        for reason in dict.fromkeys(known.purpose for known in others):
            if reason is not None:
                self.superseded[reason] = _count([known for known in others if known.purpose is reason])

    def _fetch(self, known_id: str, fetch: Callable[[str], Progress | None]) -> None:
        known = self.records.get(known_id) or fetch(known_id)
        if known is not None and known_id not in self.records:
            self.records[known_id] = known
            for subref in known.subrefs:
                self._fetch(subref, fetch)

    def __getitem__(self, known_id: str) -> Progress:
        """The record of a handler, as lifecycles ask for it."""
        return self.records[known_id]

    def activate(self, selected: Iterable[str], now: datetime) -> None:
        """Let these handlers take part; one seen for the first time starts now."""
        for known_id in selected:
            known = self.records.get(known_id)
            if known is None:
                self.records[known_id] = Progress(started=now, purpose=self.purpose)
            elif known.purpose is not self.purpose:
                self.records[known_id] = replace(known, purpose=self.purpose)
            self.active[known_id] = None

    def adopt(self, known_id: str, below: Iterable[str]) -> None:
        """An active handler has these sub-handlers: known before it ends, so that what is written meanwhile is found again."""
        known = self.records[known_id]
        self.records[known_id] = replace(known, subrefs=known.subrefs | frozenset(below))

    def conclude(self, known_id: str, outcome: Outcome, now: datetime, seen: str | None = None) -> None:
        """Add an attempt of an active handler; `seen` as of a record."""
        self.records[known_id] = self.records[known_id].after(outcome, now, seen)

    @property
    def done(self) -> bool:
        """Every active handler is finished."""
        return all(self.records[known_id].finished for known_id in self.active)

    @property
    def counts(self) -> Counts:
        """The counts over the active handlers."""
        return _count([self.records[known_id] for known_id in self.active])

    @property
    def told(self) -> Counts:
        """The counts over the active handlers, as the log tells them: a parent counts for its sub-handlers."""
        below = self._subrefs()
        return _count([self.records[known_id] for known_id in self.active if known_id not in below])

    def _subrefs(self) -> set[str]:
        return {subref for known in self.records.values() for subref in known.subrefs}

    def delay(self, now: datetime) -> float | None:
        """Seconds until the first unfinished handler is due (0: one is due now); None when all are finished."""
        waits = [
            0.0 if known.due(now) or known.delayed is None else max(SHORTEST, (known.delayed - now).total_seconds())
            for known in (self.records[known_id] for known_id in self.active)
            if not known.finished
        ]
        return min(waits, default=None)

    def reopen(self, handlers: AbstractSet[str], now: datetime) -> None:
        """Let these handlers, and those above them, begin anew."""
        outdated = {*handlers}
        while above := {one for one, was in self.records.items() if was.subrefs & outdated} - outdated:
            outdated |= above
        for one in outdated:
            was = self.records[one]
            self.records[one] = Progress(started=now, purpose=self.purpose, subrefs=was.subrefs, seen=was.seen)

    def below(self, handlers: Iterable[str]) -> set[str]:
        """These handlers with their sub-handlers, at all levels."""
        found = {*handlers}
        left = list(found)
        while left:
            known = self.records.get(left.pop())
            deeper = known.subrefs - found if known is not None else ()
            found.update(deeper)
            left.extend(deeper)
        return found

    @property
    def seen(self) -> set[str]:
        """The digests of what handlers saw when they finished last, as far as it is known."""
        return {one for known in self.records.values() if known.seen for one in known.saw}

    @property
    def current(self) -> dict[str, Progress]:
        """The records made for this cause, those of finished handlers' sub-handlers included; the others are superseded."""
        return {known_id: known for known_id, known in self.records.items() if known.purpose is self.purpose}


def _count(records: Collection[Progress]) -> Counts:
    succeeded = failed = 0
    for known in records:
        succeeded += known.success
        failed += known.failure
    return Counts(succeeded, failed, len(records) - succeeded - failed)
