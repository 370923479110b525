"""Decide from the records of one cause which handlers are due, when the others are, and what is to be remembered.

A record is what is known of one handler in the current cycle; it lives on the object in Kopf's format (see the
storages) for as long as the cycle is unfinished, so that another process, or Kopf itself, goes on where this one
stopped. Time is an argument everywhere.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from ...runtime.clock import iso, parse
from ..causes.causes import Reason
from ..causes.patch import Patch, compose, lay_over
from ..causes.views import Body
from ..storage.progress import ProgressRecord, ProgressStorage
from .outcomes import Outcome

SHORTEST = 0.001
"""The shortest time to wait for something that is not due yet: timers may fire a moment early, which must not spin."""


class Progress(msgspec.Struct, frozen=True):
    """What is known of one handler in the current cycle.

    `delayed` is the earliest time of the next attempt. `retries` counts the attempts made. `purpose` is the reason of
    the cause it was made for; None (very old records) fits every reason. `seen`: the digests of what a finished handler was told of, and of what it was shown besides, with a space between them.
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
            seen=seen if outcome.final else None,
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


class Shown(msgspec.Struct):
    """What the handlers of a round are shown of the records that are not written yet.

    `known` are all records as they were when a handler ended last; `patch` has those in `stored`. `waiting` are the records of handlers
    that run, as if these waited for sub-handlers of which some have ended.
    """

    known: dict[str, Progress] = msgspec.field(default_factory=dict)
    waiting: dict[str, Progress] = msgspec.field(default_factory=dict)
    stored: dict[str, Progress] = msgspec.field(default_factory=dict)
    patch: Patch | None = None

    def ended(
        self, known_id: str, records: Mapping[str, Progress], above: Iterable[tuple[str, Outcome]], now: datetime
    ) -> None:
        """A handler has ended, which leaves these records; those `above` it, which run, would wait now and so be called again.

        It is not counted there a second time when its own sub-handlers were: those and it end together.
        """
        if self.waiting.pop(known_id, None) is None:
            for parent, outcome in above:
                self.waiting[parent] = (self.waiting.get(parent) or records[parent]).after(outcome, now)
        self.known = {**records, **self.waiting}


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

    def store(self, body: Body, patch: Patch, storage: ProgressStorage, longest: int | None = None) -> None:
        """Write the active records into a patch, each only if the body holds it otherwise; purge the superseded.

        Messages of errors are cut to the `longest`, in characters.
        """
        for known_id, known in self.records.items():
            if known_id not in self.active:
                if known.purpose not in {None, self.purpose}:
                    storage.purge(key=known_id, body=body, patch=patch)
                continue
            shown = known.shortened(longest)
            stored = storage.fetch(key=known_id, body=body)
            if stored is None or from_record(stored) != shown:
                storage.store(key=known_id, record=to_record(shown), body=body, patch=patch)

    def show(self, shown: "Shown", body: Body, storage: ProgressStorage) -> Patch:
        """A patch with what would have been stored at each end of a handler so far; what is in it already is not put there again."""
        active = {known_id: None for known_id in self.active if known_id in shown.known}
        patch = shown.patch
        if patch is None:
            patch = shown.patch = Patch()
            replace(self, records=shown.known, active=active).store(body, patch, storage)
        else:
            changed = [known_id for known_id in active if shown.stored.get(known_id) is not shown.known[known_id]]
            for known_id in changed:
                storage.store(key=known_id, record=to_record(shown.known[known_id]), body=body, patch=patch)
        shown.stored = shown.known
        return patch

    def purge(self, body: Body, patch: Patch, storage: ProgressStorage) -> None:
        """Remove every record that the body holds, those of sub-handlers included.

        What the patch would put there may be there already: it was written, and the answer was lost.
        """
        perhaps = [body, Body(lay_over(body, dict(patch)))] if patch else [body]
        for held in perhaps:
            removed = Patch()
            for known_id, known in self.records.items():
                for purged in (known_id, *known.subrefs):
                    storage.purge(key=purged, body=held, patch=removed)
            if removed:
                compose(patch, removed)

    def reopen(self, known: Collection[str], now: datetime) -> None:
        """Let handlers that saw any other state than those with these digests when they finished begin anew.

        So do the handlers above them. Those of which it is not known what they saw stay as they are.
        """
        outdated = {one for one, was in self.records.items() if was.finished and not was.saw <= {*known}}
        while above := {one for one, was in self.records.items() if was.subrefs & outdated} - outdated:
            outdated |= above
        for one in outdated:
            self.records[one] = Progress(started=now, purpose=self.purpose, subrefs=self.records[one].subrefs)

    def retell(self, old: str, told: Collection[str], now: datetime) -> None:
        """A resumption turns into a change from the state with this digest: let those that are told of changes, and saw it, begin anew.

        Otherwise that state would become the base of one more change, which is this one again, for everybody. What the other handlers
        saw of it, and those below them, is forgotten: they are told of no change.
        """
        spared = [one for one in self.active if one not in told]
        for one in spared:
            known = self.records[one]
            spared.extend(known.subrefs & self.records.keys() - {*spared})
            if known.saw == {old}:
                self.records[one] = replace(known, seen=None)
        self.reopen(self.seen - {old}, now)

    @property
    def seen(self) -> set[str]:
        """The digests of what finished handlers saw, as far as it is known."""
        return {one for known in self.records.values() if known.seen and known.finished for one in known.saw}

    def rearm(self) -> Mapping[str, Progress]:
        """The active records, to be remembered in the process until they are known to be on the object."""
        return {known_id: self.records[known_id] for known_id in self.active}


def unfinished(ids: Iterable[str], body: Body, storage: ProgressStorage) -> set[Reason | None]:
    """For what reasons a body holds records of these handlers that are to be called again."""
    if not storage.may_hold(body):
        return set()
    found = (storage.fetch(key=known_id, body=body) for known_id in ids)
    return {known.purpose for known in map(from_record, filter(None, found)) if not known.finished}


def from_record(record: ProgressRecord) -> Progress:
    """Read a stored record; naive times (written by Kopf before 1.37) are UTC. A missing start is the epoch."""

    def moment(text: str | None) -> datetime | None:
        return parse(text) if text else None

    purpose = record.get("purpose")
    return Progress(
        started=moment(record.get("started")) or datetime.fromtimestamp(0, UTC),
        stopped=moment(record.get("stopped")),
        delayed=moment(record.get("delayed")),
        purpose=Reason(purpose) if purpose else None,
        retries=record.get("retries") or 0,
        success=bool(record.get("success")),
        failure=bool(record.get("failure")),
        message=record.get("message"),
        subrefs=frozenset(record.get("subrefs") or ()),
        seen=record.get("seen"),
    )


def to_record(known: Progress) -> ProgressRecord:
    """Write a record in the form that storages keep."""

    def moment(when: datetime | None) -> str | None:
        return None if when is None else iso(when)

    record = ProgressRecord(
        started=moment(known.started),
        stopped=moment(known.stopped),
        delayed=moment(known.delayed),
        purpose=None if known.purpose is None else known.purpose.value,
        retries=known.retries,
        success=known.success,
        failure=known.failure,
        message=known.message,
        subrefs=sorted(known.subrefs) or None,
    )
    if known.seen is not None:
        record["seen"] = known.seen
    return record


def _count(records: Collection[Progress]) -> Counts:
    succeeded = failed = 0
    for known in records:
        succeeded += known.success
        failed += known.failure
    return Counts(succeeded, failed, len(records) - succeeded - failed)
