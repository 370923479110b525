"""Handle what has changed in one object since its handlers last saw it: detect why, run the round, write it once."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from ...client.objects import Object
from ...client.wire.request import plain
from ...runtime import clock
from ...runtime.log_context import LogContext, log_context
from ..causes.causes import ChangingCause, FinalizerStep, Reason, decide_finalizer, detect_reason
from ..causes.diffs import diff
from ..causes.fields import remove
from ..causes.patch import Patch, compose
from ..causes.untold import hidden, others
from ..causes.views import Body, BodyEssence
from ..daemons.daemons import ObjectDaemons
from ..declaration.specs import ChangingSpec, HandlerId
from ..environment.environment import Environment
from ..environment.memories import NOTHING, Memory
from ..execution.doing import Doing
from ..execution.progression import Progress, Progression, from_record, unfinished
from ..execution.records import Records
from ..loggers import ObjectLogger
from ..patching.writer import CachedObject, Writer, is_refused_for_good, is_too_large
from ..storage.baseline import Baseline, Recalled, digest
from ..storage.secrets import Shown, is_secret
from .rounds import Round, Sight, Surroundings, ids
from .wording import QUIET, TITLES, superseded, tell_processed

AT_ONCE = 0.0


@dataclass(slots=True)
class Changes:
    """The change handling of one object in one attempt.

    `daemons` are those of the object, None if it has none. `patch` is what is to be written: it begins with what raw event
    handlers and earlier attempts left.
    """

    env: Environment
    place: CachedObject
    memory: Memory
    daemons: ObjectDaemons | None
    patch: Patch = field(default_factory=Patch)
    _baseline: Baseline = field(init=False)
    _recalled: Recalled = field(init=False)
    # As it was detected. Of a Secret it is sealed, as all that is remembered; the cause has what handlers see.
    _new: BodyEssence = field(init=False)
    # That of the object as it was detected, decoded.
    _metadata: dict[str, Any] = field(init=False)
    # Whether an earlier write failed, or its answer was lost: then the base on the object may be, or become, another than we know.
    _again: bool = field(init=False, default=False)

    # The object as it was detected last, and what is done around this.
    _cause: ChangingCause | None = field(init=False, default=None)
    _around: LogContext | None = field(init=False, default_factory=log_context.get)

    def __post_init__(self) -> None:
        self._baseline = self.env.baseline(self.place.resource)

    async def handle(self, obj: Object) -> float | None:
        """Do everything that is due for this version of the object; give the seconds until something is due again.

        None: nothing is, until the object changes. Raises the client's errors when a write was refused or impossible;
        what was achieved is remembered and goes with the next attempt, unless the server refused it for good.
        """
        self.patch = self.memory.take_pending()
        self._again = bool(self.patch)
        try:
            return await self._handle(obj)
        except Exception as exc:
            if is_too_large(exc) and self.memory.known.thrift < 2:
                # Perhaps it was what we remember there: less of it, then.
                self.memory.known.thrift += 1
                self.memory.keep_pending(self.patch)
            elif self.patch and (is_refused_for_good(exc) or is_too_large(exc)):
                # The handlers do it anew, and better.
                self._forget_cycle()
            else:
                self.memory.keep_pending(self.patch)
            raise
        finally:
            if self._cause is not None:
                self._cause.let_go()

    async def _handle(self, obj: Object) -> float | None:
        if self.env.outside:
            await self.env.load(obj)
        cause = self._detect(obj)
        released = await self._settle_finalizer(obj, cause)
        if released is None:
            return None
        if released is not obj:
            obj = released
            cause.let_go()  # a large object is decoded once at a time
            cause = self._detect(obj)
        if not self.env.registry.prematch(cause):
            if self._old is None:
                self.env.values.forget(obj.identity)
            answer = await self._write_rest(obj, cause)
            if cause.reason is Reason.DELETE and answer is not None and not self._has_busy_daemons:
                await self._release(answer, cause)
            return None
        if cause.reason in QUIET:
            return await self._idle(obj, cause)
        return await self._handle_due(obj, cause)

    @property
    def _has_busy_daemons(self) -> bool:
        return self.daemons is not None and self.daemons.busy

    # Detection.

    def _detect(self, obj: Object) -> ChangingCause:
        env, persistence = self.env, self.env.settings.persistence
        raw = obj.body()
        body = Body(raw)
        metadata = self._metadata = raw["metadata"]
        deleting = metadata.get("deletionTimestamp") is not None
        self.memory.leaving |= deleting
        new = self._new = self._baseline.essence(body)
        self._recalled = self._recall(body, new, deleting=deleting)
        old = self._old
        if self.memory.known.copied:
            self._baseline.disown(body, self.patch, list(env.registry.changing_ids(self.place.resource)))
        changed = diff(old, new)
        reason, initial = detect_reason(
            finalizer=persistence.finalizer in (metadata.get("finalizers") or ()) and not self.memory.released,
            deleting=deleting,
            old=old,
            diff=changed,
            initial=self.memory.initial and not self.memory.handled_once,
        )
        shown_old, shown_new = self._reveal(metadata.get("uid") or "")
        cause = ChangingCause(
            logger=ObjectLogger(body=body, settings=env.settings),
            memo=env.memories.memo(obj.identity, env.memo),
            indices=env.indices,
            resource=self.place.resource,
            patch=self.patch,
            body=body,
            size=len(obj.raw),
            initial=initial,
            reason=reason,
            old=shown_old,
            new=shown_new,
            diff=changed if shown_new is new and shown_old is old else diff(shown_old, shown_new),
        )
        log_context.set(Doing(cause, self._around))
        if self._cause is not None:
            self._cause.let_go()
        self._cause = cause
        return cause

    @property
    def _old(self) -> BodyEssence | None:
        """What was handled last."""
        return self._recalled.essence

    def _reveal(self, uid: str) -> tuple[BodyEssence | None, BodyEssence]:
        """What was handled last, and what is now, with the values of a Secret as far as they are known: those of now always are."""
        values, old = self.env.values, self._old
        shown = None if old is None else values.reveal(uid, old), values.reveal(uid, self._new)
        if shown[1] is not self._new:
            seen = {**self.memory.carried, **self.memory.seen}
            values.retain(uid, [old or {}, self._new, *seen.values()])
        return shown

    def _recall(self, body: Body, new: BodyEssence, *, deleting: bool) -> Recalled:
        known = self.memory.known
        if not self._baseline.several or known.digest is not None or known.copied or deleting:
            return self._baseline.recall(body, new, known)
        storage = self.env.settings.persistence.progress_storage
        left = unfinished(self.env.registry.changing_ids(self.place.resource), body, storage)
        return self._baseline.recall_of_several(body, new, known, left)

    # Writes beside the round.

    def _writer(self, cause: ChangingCause) -> Writer:
        env, baseline = self.env, self._baseline
        return Writer(
            env.client,
            self.place,
            cause.logger,
            keep=env.keeper(),
            own=baseline.own,
            fields=baseline.own_fields,
            astray=env.disbelieve,
        )

    async def _write(self, cause: ChangingCause, obj: Object, patch: Patch) -> Object | None:
        self.env.settings.persistence.progress_storage.flush()
        return await self._writer(cause).write(obj, patch)

    async def _settle_finalizer(self, obj: Object, cause: ChangingCause) -> Object | None:
        """Put the finalizer on before anything with side effects runs, or take it off when nobody needs it any more."""
        finalizer = self.env.settings.persistence.finalizer
        if self._metadata.get("deletionTimestamp") is not None:
            return obj
        present = finalizer in (self._metadata.get("finalizers") or ())
        exited = self.daemons.exited if self.daemons is not None else frozenset[HandlerId]()
        needed = self.env.requires_finalizer(cause, exited, present=present)
        step = decide_finalizer(needed=needed, present=present, deleting=False)
        if step is FinalizerStep.ADD:
            return await self._writer(cause).add_finalizer(obj, finalizer)
        if step is FinalizerStep.DROP and not self._has_busy_daemons:
            cause.logger.debug("Removing the finalizer, as there are no handlers requiring it.")
            return await self._writer(cause).remove_finalizer(obj, finalizer)
        return obj

    async def _release(self, obj: Object, cause: ChangingCause) -> None:
        """Let the object go, with the records in the same write: a crash before it keeps both, one after it needs neither.

        Where the object is kept by others, records that are not in its annotations go after that.
        """
        if self.env.is_for_others(cause):
            return
        self.patch = Patch()  # it is written; what the server refuses from here on is not the handlers'
        cause.logger.debug("Removing the finalizer, thus allowing the actual deletion.")
        left = self._left_records(cause, obj)
        annotations = list(left.metadata.annotations)
        finalizer = self.env.settings.persistence.finalizer
        answer = await self._writer(cause).remove_finalizer(obj, finalizer, annotations)
        # The answer to what makes an object vanish has its last version: the copy shows the finalizer until the watch has told.
        self.memory.released = True
        for name in annotations:
            remove(left, ("metadata", "annotations", name))
        if answer is not None and left:
            await self._write(cause, answer, left)

    async def _write_rest(self, obj: Object, cause: ChangingCause) -> Object | None:
        due = self.patch or self._records(None).are_unwritten(cause.body)
        return await self._write(cause, obj, self.patch) if due else obj

    async def _idle(self, obj: Object, cause: ChangingCause) -> float | None:
        """Nothing is to be handled now; clean up after a cycle whose change was taken back before it was finished."""
        cause.logger.debug(QUIET[cause.reason])
        outdated, compact, later, seen = None, False, None, {**self.memory.carried, **self.memory.seen}
        if cause.reason is Reason.FREE:
            compose(self.patch, self._left_records(cause, obj))
        if cause.reason is Reason.NOOP:
            left = self._purge_left(cause)
            outdated = next((state for state in seen.values() if state != self._new), None)
            missed = None if outdated is not None else self._missed(left, Sight(self._new))
            if missed is not None:
                self._baseline.note(cause.body, self.patch, missed)
                self.memory.known.unlearn()
            elif outdated is not None:
                # A handler has seen a state that is no more: what it saw is the base of a change of its own.
                compact = self._keep(obj, cause, outdated)
            elif self._recalled.misplaced:
                later = self.memory.known.until_restored(asyncio.get_running_loop().time()) or None
                compact = later is None and self._keep(obj, cause, self._new)
        answer = await self._write_rest(obj, cause)
        self._forget_cycle()
        if cause.reason is Reason.NOOP:
            # What is now, too: who has not finished knows no other state, and the object may be at the new base by now.
            now = Sight(self._new)
            self.memory.carried = {} if outdated is None else others({**seen, now.digest: now.essence}, outdated)
        if outdated is not None:
            self.memory.known.learn(outdated, keep=bool(compact))
        elif compact:
            self.memory.known.learn(self._new, keep=True)
        # What was written may be a diff-base, now or by an attempt that failed before: then there is something to handle.
        return later if answer is None or answer is obj else AT_ONCE

    def _purge_left(self, cause: ChangingCause) -> Progression:
        """Remove the records of an unfinished cycle. This is on the way of each event that changes nothing: mostly there are none."""
        storage = self.env.settings.persistence.progress_storage
        if not (self.memory.progress or self.patch or storage.may_hold(cause.body)):
            return Progression(cause.reason)
        left = self._progression(cause, [])
        left.purge(cause.body, self.patch, storage)
        return left

    def _left_records(self, cause: ChangingCause, obj: Object) -> Patch:
        """What removes the records of handlers from an object that others keep when we let it go; nothing for one that vanishes."""
        persistence, patch = self.env.settings.persistence, Patch()
        if any(name != persistence.finalizer for name in obj.metadata().finalizers or ()):
            body = Body(obj.body())
            if persistence.progress_storage.may_hold(body):
                self._progression(cause.but(body=body), []).purge(body, patch, persistence.progress_storage)
        return patch

    def _records(self, old: BodyEssence | None) -> Records:
        return Records(self._baseline, self.memory.known, old, self.env.outside)

    def _keep(self, obj: Object, cause: ChangingCause, essence: BodyEssence) -> bool:
        room, known = self._baseline.room(len(obj.raw)), self.memory.known
        return self._baseline.keep(cause.body, self.patch, essence, room, known.thrift)

    # The round.

    async def _handle_due(self, obj: Object, cause: ChangingCause) -> float | None:
        logger, title = cause.logger, TITLES[cause.reason]
        if logger.isEnabledFor(logging.DEBUG):
            secret = is_secret(cause.body)
            logger.debug("%s is in progress: %r", title, Shown(cause.body, is_secret=secret))
            if cause.diff and cause.old is not None:
                logger.debug("%s diff: %r", title, Shown(tuple(cause.diff), is_secret=secret))
        specs = self.env.registry.changing(cause)
        progression = self._progression(cause, specs)
        if cause.reason is Reason.UPDATE and progression.seen:
            if not self.memory.progress:
                # What handlers saw in another process is not what is to be handled now: they are told with the others.
                progression.reopen({digest(self._new).hex()}, clock.now())
            elif Reason.RESUME in progression.superseded:
                told = ids(self.env.registry.changing(cause.but(initial=False)))
                progression.retell(digest(self._old or {}).hex(), told, clock.now())
                self.memory.seen = others(self.memory.seen, self._old or {})
        for old, counts in progression.superseded.items():
            logger.info("%s", superseded(old, cause.reason, counts))
        # Handlers get real dicts; what becomes the diff-base must not be what they may have mutated.
        pristine = plain(self._new) if specs else self._new
        around = Surroundings(
            settings=self.env.settings,
            lifecycle=self.env.lifecycle,
            latest=self.place.latest,
            newest=self._writer(cause).newest,
            write=lambda base, patch: self._write(cause, base, patch),
            records=self._records(self._old),
        )
        round_ = Round(cause, progression, obj, around, pristine)
        elsewhere = progression.seen
        if elsewhere and round_.shown.digest in elsewhere:
            # What a handler of another process saw is no riddle while the object is as it was.
            self.memory.seen = {**self.memory.seen, round_.shown.digest: pristine}
        try:
            await round_.run(specs)
        finally:
            self.memory.progress = progression.rearm()
            self.memory.seen = {**self.memory.seen, **round_.seen} if round_.seen else self.memory.seen
            self.patch = round_.gathered
        return await self._conclude(round_, pristine)

    def _progression(self, cause: ChangingCause, specs: list[ChangingSpec]) -> Progression:
        storage, remembered = self.env.settings.persistence.progress_storage, self.memory.progress
        copied, owned = self.memory.known.copied, self.env.registry.changing_ids(cause.resource)
        # A function for several versions has one id, and one record, for all of them.
        shared = self.env.ids_beside(cause.resource) if self.memory.known.behind else ()

        def fetch(handler_id: str) -> Progress | None:
            record = None if copied or handler_id in shared else storage.fetch(key=handler_id, body=cause.body)
            stored = None if record is None else from_record(record)
            known = remembered.get(handler_id)
            if stored is None or (known is not None and known.newer_than(stored)):
                return known
            return stored

        if not specs and self._baseline.several and (memory := self.env.memories.find(cause.body.metadata.uid or "")):
            owned = tuple(known for known in owned if known not in memory.in_work_beside(self.memory))
        return Progression.load(cause.reason, owned, ids(specs), fetch, clock.now())

    async def _conclude(self, round_: Round, pristine: BodyEssence) -> float | None:
        cause, progression = round_.cause, round_.progression
        if cause.reason is not Reason.DELETE:
            cause.let_go()  # the handlers have ended; large objects are decoded again below
        done, told, start = progression.done, self.memory.seen, round_.base
        releasing = done and cause.reason is Reason.DELETE
        if releasing and self._has_busy_daemons:
            # The records stay: the delete handlers are not to run again when the daemons have ended.
            await round_.conclude(None, hold=True)
            return None
        now = self._newest(round_) if done and not releasing else round_.shown
        # What earlier cycles have left to tell is told by this one now that all its handlers have finished, or hidden from it.
        carried = self.memory.carried if done else {}
        seen = {**hidden(carried, self._old or {}, now.essence), **told} if carried else told
        outdated = next((state for known, state in seen.items() if known != now.digest), None)
        # The first state that a handler of the cycle saw and that is no more is the base of a change to what is now. While all saw
        # what is now, nobody else needs to be told; where there was no handler, nobody was told of what has come since the detection.
        essence = outdated if outdated is not None else now.essence if told else pristine
        missed = self._missed(progression, now) if done and outdated is None and not releasing else None
        if missed is not None:
            # Between a handler's end and the end of another process the object changed, and nobody can tell the handler how. It is not
            # one of those that were told of a change since the old state: all are told that something has changed.
            answer = await round_.conclude(missed)
            self._forget_cycle()
            self.memory.known.unlearn()
            self.memory.known.created |= cause.reason is Reason.CREATE
            return None if answer is None else AT_ONCE
        is_there = essence == self._old and not self._again
        answer = await round_.conclude(None if is_there or releasing else essence)
        if done:
            tell_processed(cause, progression)
            if not releasing:
                self._forget_cycle()
            self.memory.handled_once = True
        if answer is None:
            return None
        if done and not releasing:
            self._learn(round_, answer, essence, now)
        if releasing:
            await self._release(answer, cause)
            # Not before: should that fail, the next attempt has the release to make, and no handler to call.
            self._forget_cycle()
            return None
        if not done:
            return progression.delay(clock.now())
        # Own changes of the essence, and those that came meanwhile, get a round of their own.
        current = round_.shown.essence if answer is start else self._baseline.essence(Body(answer.body()))
        # What is now, too: until a cycle tells everybody of it, the object may go back to the base, as if nothing had been.
        self.memory.carried = others(seen, essence)
        if current != essence or self.memory.carried:
            return AT_ONCE  # the way back, too, is a change to those who saw it
        if self.env.registry.may_let_go(cause.resource):
            return AT_ONCE  # the finalizer may be needed for what was only, or may not be there for what is now
        cause.logger.debug("Handling cycle is finished, waiting for new changes.")
        return None

    def _learn(self, round_: Round, answer: Object, essence: BodyEssence, now: Sight) -> None:
        """Know what was handled last."""
        known = self.memory.known
        known.created |= round_.cause.reason is Reason.CREATE
        known.dropped = not round_.compact and known.thrift < 2 and self._baseline.is_dropped(answer)
        known.learn(
            essence,
            keep=round_.compact or self._baseline.several or (self._recalled.compact and essence == self._old),
            known=bytes.fromhex(now.digest) if essence is now.essence else None,
        )

    def _newest(self, round_: Round) -> Sight:
        """How the object is now, as far as is known; it may have changed while the handlers ran."""
        latest = self.place.latest()
        if latest is None or latest.uid != round_.base.uid or latest.resource_version == round_.base.resource_version:
            return round_.shown
        return Sight(self._baseline.essence(Body(latest.body())))

    def _missed(self, progression: Progression, now: Sight) -> bytes | None:
        """The digest of what a handler saw, in another process, that is not how the object is now; None when there is none."""
        elsewhere = progression.seen
        if elsewhere:
            elsewhere -= {now.digest, *self.memory.seen}
        return bytes.fromhex(min(elsewhere)) if elsewhere else None

    def _forget_cycle(self) -> None:
        self.memory.progress = NOTHING
        self.memory.seen = {}
