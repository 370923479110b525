"""How the state of one object's cycle is read and written: the records of its handlers and its base, as far as they fit there.

Records are in Kopf's format, so that another process, or Kopf itself, goes on where this one stopped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from ...client.objects import Object
from ...runtime import clock
from ...runtime.clock import iso, parse
from ..causes.causes import ChangingCause, Logger, Reason
from ..causes.patch import Patch, compose, lay_over
from ..causes.views import Body, BodyEssence
from ..environment.environment import Environment
from ..environment.memories import Memory
from ..execution.outcomes import Outcome
from ..execution.progression import Progress, Progression
from ..patching.writer import CachedObject, Writer
from ..storage.baseline import Baseline, ObjectState, Recalled
from ..storage.progress import ProgressRecord, ProgressStorage

SHORT_MESSAGE = 100
"""To how many characters the messages of errors are cut where all of them do not fit."""


@dataclass(slots=True)
class CyclePersistence:
    """Reads and writes what is remembered of one object's cycle."""

    env: Environment
    place: CachedObject
    memory: Memory

    baseline: Baseline = field(init=False)
    storage: ProgressStorage = field(init=False)
    """Where records are kept."""

    def __post_init__(self) -> None:
        """Ask the environment once."""
        self.baseline = self.env.baseline(self.place.resource)
        self.storage = self.env.settings.persistence.progress_storage

    def recall(self, body: Body, new: BodyEssence, *, deleting: bool) -> Recalled:
        """The base of an object that is `new` now."""
        known, baseline = self.memory.known, self.baseline
        if not baseline.several or known.digest is not None or known.copied or deleting:
            return baseline.recall(body, new, known)
        left = unfinished(self.env.registry.of(self.place.resource).changing_ids, body, self.storage)
        return baseline.recall_of_several(body, new, known, left)

    def state_of(self, obj: Object) -> ObjectState:
        """What of an object is compared."""
        return ObjectState(self.baseline.essence(Body(obj.body())))

    def load(self, cause: ChangingCause, selected: Iterable[str] = ()) -> Progression:
        """The progress of all handlers of the resource, for a cause that some of them are selected for."""
        env, memory, remembered = self.env, self.memory, self.memory.progress
        copied, owned, selected = memory.known.copied, env.registry.of(cause.resource).changing_ids, list(selected)
        # A function for several versions has one id, and one record, for all of them.
        shared = env.ids_beside(cause.resource) if memory.known.behind else ()

        def fetch(handler_id: str) -> Progress | None:
            record = None if copied or handler_id in shared else self.storage.fetch(key=handler_id, body=cause.body)
            stored = None if record is None else from_record(record)
            known = remembered.get(handler_id)
            return known if stored is None or (known is not None and known.newer_than(stored)) else stored

        if not selected and self.baseline.several and (whole := env.memories.find(cause.body.metadata.uid or "")):
            owned = tuple(known for known in owned if known not in whole.in_work_beside(memory))
        return Progression.load(cause.reason, owned, selected, fetch, clock.now())

    def may_be_left(self, cause: ChangingCause) -> bool:
        """Whether there may be records of an unfinished cycle. Each event that changes nothing asks for them: mostly there are none."""
        return bool(self.memory.progress or cause.patch) or self.storage.may_hold(cause.body)

    def left_on(self, obj: Object, cause: ChangingCause) -> Patch:
        """What removes the records from an object that others keep when we let it go; nothing for one that vanishes."""
        patch = Patch()
        if any(name != self.env.settings.persistence.finalizer for name in obj.metadata().finalizers or ()):
            body = Body(obj.body())
            if self.storage.may_hold(body):
                purge(self.load(cause.but(body=body)), body, patch, self.storage)
        return patch

    def put_base(self, body: Body, patch: Patch, base: ObjectState | bytes, size: int) -> bool:
        """Put the base, or the digest of one that is not known, on an object of this size; true if the process has to keep the rest."""
        if isinstance(base, bytes):
            self.baseline.note(body, patch, base)
            return False
        return self.baseline.keep(body, patch, base.essence, self.baseline.room(size), self.memory.known.thrift)

    def put_records(
        self, progression: Progression, old: BodyEssence | None, body: Body, patch: Patch, size: int
    ) -> bool:
        """Put the records on an object of this size, whose base is `old`; false when they do not fit, and a crash would lose them.

        Where it is too tight for them the messages are cut, then the base makes room.
        """
        known = self.memory.known
        if known.thrift == 0 and self._try(progression, body, patch, size, None):
            return True
        if known.thrift > 1:
            return False
        if self._try(progression, body, patch, size, SHORT_MESSAGE):
            return True
        if not old or not self.baseline.is_on(body):
            return False
        smaller = Patch()
        self.baseline.keep(body, smaller, old, self.baseline.room(size), 1)
        compose(patch, smaller)
        known.learn(old, keep=True)
        return self._try(progression, body, patch, size, SHORT_MESSAGE)

    def _try(self, progression: Progression, body: Body, patch: Patch, size: int, longest: int | None) -> bool:
        records = Patch()
        store(progression, body, records, self.storage, longest)
        if not self.baseline.room(size).has(body, patch, records):
            return False
        compose(patch, records)
        return True

    def writer(self, logger: Logger) -> Writer:
        """Writes to the object."""
        env, baseline = self.env, self.baseline
        own, fields = baseline.own, baseline.own_fields
        return Writer(env.client, self.place, logger, keep=env.keeper(), own=own, fields=fields, astray=env.disbelieve)

    async def write(self, obj: Object, patch: Patch, logger: Logger) -> Object | None:
        """Write a patch, with what storages have gathered."""
        self.storage.flush()
        return await self.writer(logger).write(obj, patch)

    def is_unwritten(self, body: Body) -> bool:
        """Whether a storage outside of the object waits for a write."""
        return any(storage.is_unwritten(body) for storage in self.env.outside)


class RecordPreview(msgspec.Struct):
    """The records that are not written yet, as the handlers of a round are shown them.

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

    def show(self, progression: Progression, body: Body, storage: ProgressStorage) -> Patch:
        """A patch with what would have been stored at each end of a handler so far; what is in it already is not put there again."""
        patch = self.patch
        if patch is None:
            patch = self.patch = Patch()
            store(replace(progression, records=self.known), body, patch, storage)
        else:
            for known_id in progression.active.keys() & self.known.keys():
                if self.stored.get(known_id) is not self.known[known_id]:
                    storage.store(key=known_id, record=to_record(self.known[known_id]), body=body, patch=patch)
        self.stored = self.known
        return patch


def store(
    progression: Progression, body: Body, patch: Patch, storage: ProgressStorage, longest: int | None = None
) -> None:
    """Write the records of this cause into a patch, each only if the body holds it otherwise; purge the superseded.

    Messages of errors are cut to the `longest`, in characters.
    """
    for known_id, known in progression.records.items():
        if known.purpose is not progression.purpose:
            if known.purpose is not None:
                storage.purge(key=known_id, body=body, patch=patch)
            continue
        shown = known.shortened(longest)
        stored = storage.fetch(key=known_id, body=body)
        if stored is None or from_record(stored) != shown:
            storage.store(key=known_id, record=to_record(shown), body=body, patch=patch)


def purge(progression: Progression, body: Body, patch: Patch, storage: ProgressStorage) -> None:
    """Remove every record that the body holds, those of sub-handlers included.

    What the patch would put there may be there already: it was written, and the answer was lost.
    """
    perhaps = [body, Body(lay_over(body, dict(patch)))] if patch else [body]
    for held in perhaps:
        removed = Patch()
        for known_id, known in progression.records.items():
            for purged in (known_id, *known.subrefs):
                storage.purge(key=purged, body=held, patch=removed)
        if removed:
            compose(patch, removed)


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
