"""Bring the change handlers of one object up to date: find why they are to be called, call them, and write once what is left of it.

What is decided, and why, is in `rule`; how it is read and written, in `persistence`; how handlers are called, in `round`.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final

from ...client.objects import Object
from ...client.wire.request import plain
from ...runtime import clock
from ...runtime.log_context import LogContext, log_context
from ..causes.causes import ChangingCause, Reason
from ..causes.diffs import diff
from ..causes.fields import remove
from ..causes.patch import Patch, compose
from ..causes.views import Body, BodyEssence
from ..daemons.daemons import ObjectDaemons
from ..declaration.specs import HandlerId
from ..environment.environment import Environment
from ..environment.memories import NOTHING, Memory
from ..execution.attempts import HandlerLogContext
from ..execution.progression import Counts, Progression
from ..loggers import ObjectLogger
from ..patching.writer import CachedObject, is_refused_for_good, is_too_large
from ..storage.baseline import ObjectState, Recalled
from ..storage.secrets import Shown, is_secret
from .persistence import CyclePersistence, purge
from .round import Round
from .rule import QUIET_ENDING, Cycle, CyclePhase, Ending, reason_of

AT_ONCE = 0.0

# The log's words are Kopf's, which people and their tools know.
TITLES: Final = {
    Reason.CREATE: "Creation",
    Reason.UPDATE: "Updating",
    Reason.DELETE: "Deletion",
    Reason.RESUME: "Resuming",
}
QUIET: Final = {
    Reason.GONE: "Deleted, really deleted, and we are notified.",
    Reason.FREE: "Deletion, but we are done with it, and we do not care.",
    Reason.NOOP: "Something has changed, but we are not interested (the essence is the same).",
}


@dataclass(slots=True)
class ChangeCycle:
    """The change handling of one object in one attempt.

    `daemons` are those of the object, None if it has none. `patch` is what is to be written: it begins with what raw event
    handlers and earlier attempts left.
    """

    env: Environment
    place: CachedObject
    memory: Memory
    daemons: ObjectDaemons | None
    patch: Patch = field(default_factory=Patch)
    _persistence: CyclePersistence = field(init=False)
    _recalled: Recalled = field(init=False)
    # As it was detected. Of a Secret it is sealed, as all that is remembered; the cause has what handlers see.
    _new: ObjectState = field(init=False)
    # That of the object as it was detected, decoded.
    _metadata: dict[str, Any] = field(init=False)
    # Whether an earlier write failed, or its answer was lost: then the base on the object may be, or become, another than we know.
    _again: bool = field(init=False, default=False)

    # The object as it was detected last, and what is done around this.
    _cause: ChangingCause | None = field(init=False, default=None)
    _around: LogContext | None = field(init=False, default_factory=log_context.get)

    def __post_init__(self) -> None:
        self._persistence = CyclePersistence(self.env, self.place, self.memory)

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
        return await self._run(obj, cause)

    @property
    def _has_busy_daemons(self) -> bool:
        return self.daemons is not None and self.daemons.busy

    def _detect(self, obj: Object) -> ChangingCause:
        env, persistence = self.env, self.env.settings.persistence
        raw = obj.body()
        body = Body(raw)
        metadata = self._metadata = raw["metadata"]
        deleting = metadata.get("deletionTimestamp") is not None
        self.memory.leaving |= deleting
        new = self._persistence.baseline.essence(body)
        self._new = ObjectState(new)
        self._recalled = self._persistence.recall(body, new, deleting=deleting)
        old = self._old
        if self.memory.known.copied:
            self._persistence.baseline.disown(body, self.patch, list(env.registry.of(self.place.resource).changing_ids))
        changed = diff(old, new)
        is_initial = self.memory.initial and not self.memory.handled_once
        reason = reason_of(
            is_ending=deleting,
            is_held=persistence.finalizer in (metadata.get("finalizers") or ()) and not self.memory.released,
            base=old,
            is_changed=bool(changed),
            is_initial=is_initial,
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
            initial=is_initial
            and reason is not Reason.CREATE,  # an object without a base is new wherever it was first seen
            reason=reason,
            old=shown_old,
            new=shown_new,
            diff=changed if shown_new is new and shown_old is old else diff(shown_old, shown_new),
        )
        log_context.set(HandlerLogContext(cause, self._around))
        if self._cause is not None:
            self._cause.let_go()
        self._cause = cause
        return cause

    @property
    def _old(self) -> BodyEssence | None:
        """What was handled last."""
        return self._recalled.essence

    def _reveal(self, uid: str) -> tuple[BodyEssence | None, BodyEssence]:
        """The base, and what is now, with the values of a Secret as far as they are known: those of now always are."""
        values, old, new = self.env.values, self._old, self._new.essence
        shown = None if old is None else values.reveal(uid, old), values.reveal(uid, new)
        if shown[1] is not new:
            values.retain(uid, [old or {}, new, *self.memory.shown.values()])
        return shown

    async def _settle_finalizer(self, obj: Object, cause: ChangingCause) -> Object | None:
        """Put the finalizer on before anything with side effects runs, or take it off when nobody needs it any more."""
        finalizer = self.env.settings.persistence.finalizer
        if self._metadata.get("deletionTimestamp") is not None:
            return obj
        present = finalizer in (self._metadata.get("finalizers") or ())
        exited = self.daemons.exited if self.daemons is not None else frozenset[HandlerId]()
        needed = self.env.requires_finalizer(cause, exited, present=present)
        if needed and not present:
            return await self._persistence.writer(cause.logger).add_finalizer(obj, finalizer)
        if present and not needed and not self._has_busy_daemons:
            cause.logger.debug("Removing the finalizer, as there are no handlers requiring it.")
            return await self._persistence.writer(cause.logger).remove_finalizer(obj, finalizer)
        return obj

    async def _release(self, obj: Object, cause: ChangingCause) -> None:
        """Let the object go, with the records in the same write: a crash before it keeps both, one after it needs neither.

        Where the object is kept by others, records that are not in its annotations go after that.
        """
        if self.env.is_for_others(cause):
            return
        self.patch = Patch()  # it is written; what the server refuses from here on is not the handlers'
        cause.logger.debug("Removing the finalizer, thus allowing the actual deletion.")
        left = self._persistence.left_on(obj, cause)
        annotations = list(left.metadata.annotations)
        finalizer = self.env.settings.persistence.finalizer
        answer = await self._persistence.writer(cause.logger).remove_finalizer(obj, finalizer, annotations)
        # The answer to what makes an object vanish has its last version: the copy shows the finalizer until the watch has told.
        self.memory.released = True
        for name in annotations:
            remove(left, ("metadata", "annotations", name))
        if answer is not None and left:
            await self._persistence.write(answer, left, cause.logger)

    async def _write_rest(self, obj: Object, cause: ChangingCause) -> Object | None:
        due = self.patch or self._persistence.is_unwritten(cause.body)
        return await self._persistence.write(obj, self.patch, cause.logger) if due else obj

    async def _idle(self, obj: Object, cause: ChangingCause) -> float | None:
        """Nothing is to be handled now; clean up after a cycle whose change was taken back before it was finished."""
        cause.logger.debug(QUIET[cause.reason])
        persistence, known, later = self._persistence, self.memory.known, None
        ending, base = QUIET_ENDING, None
        if cause.reason is Reason.FREE:
            compose(self.patch, persistence.left_on(obj, cause))
        else:
            if self.memory.shown or persistence.may_be_left(cause):
                cycle = Cycle(persistence.load(cause), self._old, self._new, dict(self.memory.shown))
                ending = cycle.end(self._new)
                base, self.memory.shown = ending.base, cycle.shown or NOTHING
                purge(cycle.progression, cause.body, self.patch, persistence.storage)
            if base is None and self._recalled.misplaced:
                later = known.until_restored(asyncio.get_running_loop().time()) or None
                base = self._new if later is None else None
        compact = base is not None and persistence.put_base(cause.body, self.patch, base, len(obj.raw))
        answer = await self._write_rest(obj, cause)
        self._remember(ending)
        if isinstance(base, bytes):
            known.unlearn()
        elif base is not None and (compact or base is not self._new):
            known.learn(base.essence, keep=compact)
        # What was written may be a diff-base, now or by an attempt that failed before: then there is something to handle.
        return later if answer is None or answer is obj else AT_ONCE

    # The round.

    async def _run(self, obj: Object, cause: ChangingCause) -> float | None:
        self._log_beginning(cause)
        specs = self.env.registry.changing(cause)
        progression = self._persistence.load(cause, [spec.id for spec in specs])
        # Handlers get real dicts; what becomes the base must not be what they may have mutated.
        told = ObjectState(plain(self._new.essence)) if specs else self._new
        cycle = Cycle(progression, self._old, told, dict(self.memory.shown))
        if not cycle.begin({spec.id for spec in specs if not spec.initial}, clock.now()):
            specs = []
        for old, counts in progression.superseded.items():
            cause.logger.info("%s", superseded(old, cause.reason, counts))
        round_ = Round(cause, cycle, obj, self._persistence)
        try:
            await round_.run(specs)
        finally:
            self.memory.progress = progression.current
            self.memory.shown = cycle.shown or NOTHING
            self.patch = round_.gathered
        return await self._conclude(round_)

    def _log_beginning(self, cause: ChangingCause) -> None:
        logger, title = cause.logger, TITLES[cause.reason]
        if logger.isEnabledFor(logging.DEBUG):
            secret = is_secret(cause.body)
            logger.debug("%s is in progress: %r", title, Shown(cause.body, is_secret=secret))
            if cause.diff and cause.old is not None:
                logger.debug("%s diff: %r", title, Shown(tuple(cause.diff), is_secret=secret))

    async def _conclude(self, round_: Round) -> float | None:
        cause, cycle, start = round_.cause, round_.cycle, round_.base
        deletion = cause.reason is Reason.DELETE
        if not deletion:
            cause.let_go()  # the handlers have ended; large objects are decoded again below
        ending = cycle.end(self._newest(round_), held=self._has_busy_daemons)
        base = ending.base
        is_there = isinstance(base, ObjectState) and base.essence == self._old and not self._again
        answer = await round_.conclude(ending.records, None if is_there else base)
        if ending.phase is CyclePhase.PENDING:
            return None if answer is None else cycle.progression.delay(clock.now())
        if deletion and ending.phase is CyclePhase.HELD:
            return None
        tell_processed(cause, cycle.progression)
        self.memory.handled_once |= not cycle.is_void
        if deletion:
            if answer is not None:
                await self._release(answer, cause)
                # Not before: should that fail, the next attempt has the release to make, and no handler to call.
                self._forget_cycle()
            return None
        self._remember(ending)
        if answer is None:
            return None
        self._learn(base, round_, answer)
        if ending.shown or not isinstance(base, ObjectState):
            return AT_ONCE  # the way back, too, is a change to those who saw it
        # Own changes of the essence, and those that came meanwhile, get a round of their own.
        current = round_.current if answer is start else self._persistence.state_of(answer)
        if current.essence != base.essence or self.env.registry.of(cause.resource).may_let_go:
            return AT_ONCE  # the finalizer may be needed for what was only, or may not be there for what is now
        cause.logger.debug("Handling cycle is finished, waiting for new changes.")
        return None

    def _learn(self, base: ObjectState | bytes | None, round_: Round, answer: Object) -> None:
        """Know what was handled last."""
        known, baseline = self.memory.known, self._persistence.baseline
        known.created |= round_.cause.reason is Reason.CREATE
        if not isinstance(base, ObjectState):
            known.unlearn()
            return
        known.dropped = not round_.compact and known.thrift < 2 and baseline.is_dropped(answer)
        is_kept = round_.compact or baseline.several or (self._recalled.compact and base.essence == self._old)
        known.learn(base.essence, keep=is_kept, known=bytes.fromhex(base.digest))

    def _newest(self, round_: Round) -> ObjectState:
        """How the object is now, as far as is known, if that matters; it may have changed while the handlers ran."""
        latest = self.place.latest()
        if round_.cause.reason is Reason.DELETE or not round_.cycle.progression.done:
            return round_.current
        if latest is None or latest.uid != round_.base.uid or latest.resource_version == round_.base.resource_version:
            return round_.current
        return self._persistence.state_of(latest)

    def _remember(self, ending: Ending) -> None:
        self.memory.progress = NOTHING
        self.memory.shown = ending.shown or NOTHING

    def _forget_cycle(self) -> None:
        self.memory.progress = self.memory.shown = NOTHING


def tell_processed(cause: ChangingCause, progression: Progression) -> None:
    """Say how the handlers of a cause have ended, if there were any."""
    if progression.active and cause.logger.isEnabledFor(logging.INFO):
        counts = progression.told
        text = "%s is processed: %d succeeded; %d failed."
        cause.logger.info(text, TITLES[cause.reason], counts.succeeded, counts.failed)


def superseded(old: Reason, new: Reason, counts: Counts) -> str:
    """How far the handling of a cause had come when another one took its place."""
    return (
        f"{TITLES[old]} is superseded by {TITLES[new].lower()}: {counts.succeeded} succeeded; {counts.failed} failed; "
        f"{counts.left} left to the moment."
    )
