"""Run the due change handlers of one object in order, and gather what is to be written.

A round is one task's work for one cause. Each handler has a patch of its own, merged into the gathered one when it
ends, also when it fails. A handler sees the object as the handlers before it leave it, as if the outcome of each had been written:
what it may have written by another client is read, and the gathered patch and the records are laid over that. `old`, `new` and
`diff` stay the same for the whole round.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from ...client.objects import Object, is_older
from ...client.wire.request import plain
from ...runtime import clock
from ...runtime.tasks import see_through
from ..causes.causes import ChangingCause, Reason
from ..causes.patch import Patch, compose, lay_over
from ..causes.views import Body
from ..declaration.specs import ChangingSpec
from ..execution.attempts import Call, attempt
from ..execution.lifecycles import all_at_once
from ..execution.outcomes import deliver
from ..execution.possible_writes import PossibleWrites
from ..execution.progression import Progress
from ..execution.subhandlers import Lifecycle, Offspring, current_offspring
from ..patching.writer import READ_SECONDS, change, is_refused_for_good
from ..storage.baseline import ObjectState
from ..storage.outside import inside_of
from .persistence import CyclePersistence, RecordPreview, purge
from .rule import Cycle, Records


class Round:
    """One round over one object.

    `base` is the newest version that is known of the object, `current` what of it is compared; `gathered` is what is not written yet;
    `vanished` says that the object is gone or that another one has its name; `compact`, that only a digest of the new base was written.
    """

    def __init__(self, cause: ChangingCause, cycle: Cycle, base: Object, persistence: CyclePersistence) -> None:
        self.cause = cause
        self.cycle = cycle
        self.progression = cycle.progression
        self.base = base
        self.current = cycle.told
        self.gathered = cause.patch
        self.vanished = False
        self.compact = False
        self._persistence = persistence
        self._settings = persistence.env.settings
        self._in_flight: Patch | None = None
        self._checkpoint: asyncio.Task[None] | None = None
        # Whether an outcome waits for a checkpoint; whether the round takes no more of them.
        self._unwritten = False
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._body: Body | None = cause.body
        self.writes = PossibleWrites()
        # What the handlers are shown of the records; whose functions run now, the innermost last.
        self._preview = RecordPreview()
        self._running: list[Offspring] = []
        self._marked = False

    async def run(self, specs: Sequence[ChangingSpec]) -> None:
        """Attempt each due handler once, in the order of the lifecycle.

        The round ends early, before the next handler, when the object vanished, was replaced by a namesake, or was
        marked for deletion meanwhile.
        """
        try:
            await self.attempt_due(specs, self._own_attempt)
            if self._checkpoint is not None:
                # As in `conclude`; what it does not hold is written after it.
                await see_through(self._settle_checkpoint())
        except asyncio.CancelledError:
            await self._write_before_the_end()
            raise
        finally:
            await self._settle_checkpoint()

    async def attempt_due(
        self,
        specs: Sequence[ChangingSpec],
        attempt_one: Callable[[ChangingSpec], Awaitable[None]],
        lifecycle: Lifecycle | None = None,
    ) -> None:
        """Attempt those of the handlers that are due, each at most once; used for sub-handlers too.

        Of several functions under one id the first one is called, as Kopf does: there is one record for all of them.
        """
        left: dict[str, ChangingSpec] = {}
        for spec in specs:
            left.setdefault(spec.id, spec)
        while not self._is_over() and left:
            now = clock.now()
            due = [spec for spec in left.values() if self.progression.records[spec.id].due(now)]
            choose = lifecycle or self._persistence.env.lifecycle
            # The usual one is known to look at nothing.
            is_usual = choose is all_at_once or not due
            chosen = due if is_usual else choose(due, state=self.progression, **self.cause.kwargs)
            if not chosen:
                return
            for spec in chosen:
                if self.writes.found:
                    await self._catch_up()
                if self._is_over():
                    return
                del left[spec.id]
                await attempt_one(spec)

    async def _own_attempt(self, spec: ChangingSpec) -> None:
        # What is done must not wait for this one. After the last of them the round is written.
        if self._unwritten:
            self._arm_checkpoint()
        await self._attempt_one(spec, self._cause_for(spec))

    async def attempt_spec(self, spec: ChangingSpec, cause: ChangingCause) -> None:
        """Attempt one active sub-handler, with those below it, and take in its outcome and its patch."""
        await self._attempt_one(spec, cause, current_offspring.get().root)
        # Its parent goes on.
        self._arm_checkpoint()

    async def _attempt_one(self, spec: ChangingSpec, cause: ChangingCause, root: ChangingSpec | None = None) -> None:
        offspring, found = Offspring(spec, cause, self, root), self.current
        call = Call(spec, cause, self.progression.records[spec.id], writes=self.writes, root=root)
        self._running.append(offspring)
        try:
            with offspring:
                outcome = await attempt(call, self._settings, offspring.subrefs, offspring.run_declared)
        finally:
            self._running.remove(offspring)
        now = clock.now()
        self.progression.conclude(spec.id, outcome, now, self.cycle.see(found) if outcome.final else None)
        above = [parent.waiting() for parent in self._running]
        self._preview.ended(spec.id, self.progression.records, above, now)
        if outcome.result is not None:
            deliver(cause.patch, spec.id, outcome.result, cause.logger)
        if cause.patch is not self.gathered:
            compose(self.gathered, cause.patch)
        self._unwritten = True

    def _cause_for(self, spec: ChangingSpec) -> ChangingCause:
        # The first handler takes the body that was decoded for detection; each other gets one of its own, so that a
        # mutation of nested values reaches no neighbour.
        body, self._body = self._body, None
        if body is None or self.gathered or self._in_flight:
            body = self.body_now()
        cause = self.cause.but(patch=Patch(body=body), body=body)
        if len(self.progression.records) > 1:
            # Likewise: they are plain dicts, which handlers take for their own.
            cause = cause.but(old=plain(cause.old), new=plain(cause.new))
        return cause if spec.field is None else cause.reduced(spec.field)

    def body_now(self, wanted: Patch | None = None) -> Body:
        """Decode the newest known version with everything that is not written yet laid over it, and then what a running handler wants.

        Records are laid over it when somebody looks where they are: few handlers do, and it takes longer than all the rest.
        """
        raw = self.base.body()
        for patch in (self._in_flight, self.gathered):
            if patch:
                raw = change(lay_over(raw, dict(patch)), patch.fns, self.cause.logger)
        body = Body(lay_over(raw, dict(wanted)) if wanted else raw)
        if self._preview.known:
            show = partial(self._show_records, self._preview.known, self.base)
            body._lay_over_later(show, self._persistence.baseline.record_stanzas)
        return body

    def _show_records(self, known: dict[str, Progress], base: Object) -> Patch:
        # A body may be kept, and looked at when the handlers after its own have ended: they are not to be seen in it.
        preview = self._preview if known is self._preview.known else RecordPreview(known=known)
        return preview.show(self.progression, Body(base.body()), inside_of(self._persistence.storage))

    def _is_over(self) -> bool:
        latest = self._persistence.place.latest()
        if self.vanished or latest is None or latest.uid != self.base.uid:
            self.vanished = True
            return True
        if latest.resource_version != self.base.resource_version:
            self._marked |= bool(latest.metadata().deletion_timestamp)
        return self._marked and self.cause.reason is not Reason.DELETE

    async def _catch_up(self) -> None:
        """Read the object, since a handler may have written to it by another client."""
        if not await self._checkpoint_answered():
            return
        base = self.base
        found = await self._persistence.writer(self.cause.logger).newest(base)
        await self._checkpoint_answered()
        self.writes.found = False
        if found is None:
            self.vanished = True
        elif self.base is base:
            # Otherwise a checkpoint began meanwhile, whose answer is newer than what was read.
            self._look_at(found)

    async def _checkpoint_answered(self) -> bool:
        """Wait until no checkpoint is on its way; false when that takes too long."""
        return self._checkpoint is None or bool((await asyncio.wait([self._checkpoint], timeout=READ_SECONDS))[0])

    def _look_at(self, obj: Object) -> None:
        """Go on with this version of the object, unless it is to end now: handlers of deletions are for that."""
        if obj.resource_version == self.base.resource_version:
            return
        if obj.metadata().deletion_timestamp is not None and self.cause.reason is not Reason.DELETE:
            self._marked = True
            return
        self.base = obj
        self.current = self._persistence.state_of(obj)

    # The checkpoint: outcomes must not stay unwritten for long while a slow handler runs after them.

    def _arm_checkpoint(self) -> None:
        delay = self._settings.persistence.checkpoint_interval
        if self._timer is None and self._checkpoint is None and delay is not None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._start_checkpoint)

    def _start_checkpoint(self) -> None:
        self._timer = None
        self._unwritten = False
        self._checkpoint = asyncio.create_task(
            self._write_checkpoint(), name=f"checkpoint of {self.cause.body.meta.name}"
        )
        self._checkpoint.add_done_callback(self._checkpoint_ended)

    def _checkpoint_ended(self, _: asyncio.Task[None]) -> None:
        self._checkpoint = None
        if self._unwritten and not self._ended:
            self._arm_checkpoint()

    async def _write_checkpoint(self) -> None:
        patch, self.gathered = self.gathered, Patch(body=self.cause.body)
        self._in_flight = patch
        self._put_records(Body(self.base.body()), patch)
        try:
            answer = await self._write(patch)
        except Exception as exc:  # the write at the end of the round tells of what persists
            self.cause.logger.debug("The checkpoint could not be written; the end of the round will: %r", exc)
            later, self.gathered = self.gathered, patch
            compose(self.gathered, later)
            self._unwritten = not is_refused_for_good(exc)
            self._look_again()
        else:
            if answer is None:
                self.vanished = True
            elif not is_older(answer, self.base):
                self.base = answer
                self.current = self._persistence.state_of(answer)
        finally:
            self._in_flight = None

    def _look_again(self) -> None:
        """Some requests of a write that failed may have been answered; handlers that follow are to see what they brought."""
        latest = self._persistence.place.latest()
        if latest is not None and latest.uid == self.base.uid:
            self._look_at(latest)

    def _put_records(self, body: Body, patch: Patch) -> None:
        old, size = self.cycle.base, len(self.base.raw)
        if not self._persistence.put_records(self.progression, old, body, patch, size):
            self.cause.logger.debug("The progress of handlers does not fit on the object; it is kept in memory only.")

    async def _settle_checkpoint(self) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._checkpoint is not None:
            await self._checkpoint

    async def _write_before_the_end(self) -> None:
        """The process is told to stop while a handler runs: what the handlers before it did is not to be done again."""
        await self._settle_checkpoint()
        if self._unwritten:
            self._start_checkpoint()
            await self._settle_checkpoint()

    async def conclude(self, records: Records, base: ObjectState | bytes | None) -> Object | None:
        """Write what was gathered, with the records and the next base, as the round's one write; give the newest version of the object.

        None as the base leaves it as it is. None is given back when the object vanished.
        """
        if self.vanished:
            return None
        persistence, body, patch = self._persistence, Body(self.base.body()), self.gathered
        if records is Records.WRITTEN:
            self._put_records(body, patch)
        elif records is Records.REMOVED:
            purge(self.progression, body, patch, persistence.storage)
        if base is not None:
            self.compact = persistence.put_base(body, patch, base, len(self.base.raw))
        if patch or persistence.is_unwritten(body):
            persistence.storage.touch(body=body, patch=patch, value=None)
            del body  # a large object is not to be decoded twice at once
            # The handlers have ended: a process that is told to stop now would leave them to be called again by the next one.
            answer = await see_through(self._write(patch))
        else:
            answer = self.base
        if answer is self.base and self.writes.found and self._is_soon_again():
            # Nothing was written to the object itself, so that no answer shows what handlers may have written.
            await self._persistence.writer(self.cause.logger).newest(answer)
        self.vanished = answer is None
        self.base = answer or self.base
        return answer

    def _write(self, patch: Patch) -> Coroutine[Any, Any, Object | None]:
        return self._persistence.write(self.base, patch, self.cause.logger)

    def _is_soon_again(self) -> bool:
        """Whether the next attempt may come before the watch has told of what is written now."""
        delay = self.progression.delay(clock.now())
        return delay is not None and delay < READ_SECONDS
