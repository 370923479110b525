"""Call the index functions for each event of an object, and keep their results in the indices.

The effect of each outcome on an index is stated at `indices.Indices`. Failures are remembered in the process only, by uid: a
function that failed for good is never called for the object again; one that is to be retried is called when its delay is
over, or with the first event after that. While the operator may not act, `StandbyIndexing` keeps the indices filled.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from ...client.objects import Object
from ...client.resources import Resource
from ...controller.kernel.controller import Controller
from ...controller.kernel.reconciler import Result
from ...informers.deltas import Delta, DeltaKind
from ...runtime import clock
from ..causes.causes import IndexingCause
from ..causes.patch import Patch
from ..causes.views import Body
from ..declaration.specs import HandlerId, IndexingSpec
from ..environment.environment import Environment, ObjectKey
from ..errors import ErrorsMode
from ..execution.attempts import Call, attempt
from ..execution.progression import SHORTEST, Progress
from ..loggers import TerseObjectLogger
from .barrier import IndexBarrier
from .event_buffer import EventBuffer


class Indexing:
    """The index functions of one operator. Called from the task of the object's key: never twice at once for an object."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        # By uid; objects whose functions have never failed, or have succeeded since, are not here.
        self._failed: dict[str, dict[HandlerId, Progress]] = {}

    @property
    def failing(self) -> int:
        """For how many objects the last call of an index function has failed."""
        return len(self._failed)

    async def take(self, delta: Delta, resource: Resource) -> None:
        """Index the object of an event, or remove it when it is gone. Raises the errors of callbacks of filters."""
        if delta.kind is DeltaKind.DELETED:
            self.forget(delta.object)
        else:
            await self._index(delta.object, resource)

    async def retry(self, obj: Object, resource: Resource) -> float | None:
        """Call the functions whose delay is over; gives the seconds until the next one's is, None when none waits."""
        now = clock.now()
        due = {
            handler_id
            for handler_id, progress in self._failed.get(obj.identity, {}).items()
            if progress.delayed is not None and progress.due(now)
        }
        if due:
            await self._index(obj, resource, only=due)
        now = clock.now()
        delays = [progress.delayed for progress in self._failed.get(obj.identity, {}).values()]
        # A retry without a delay waits for the next event: at once, it would be repeated without end.
        waits = [(when - now).total_seconds() for when in delays if when is not None and when > now]
        return max(SHORTEST, min(waits)) if waits else None

    def waits(self, obj: Object) -> bool:
        """Whether a function of the object is to be called again without any event."""
        return any(progress.delayed is not None for progress in self._failed.get(obj.identity, {}).values())

    def forget(self, obj: Object) -> None:
        """Remove an object from all indices: it is gone, or not served any more."""
        self._env.indices.discard(obj.identity)
        self._failed.pop(obj.identity, None)

    async def _index(self, obj: Object, resource: Resource, *, only: Container[HandlerId] | None = None) -> None:
        registry, indices = self._env.registry, self._env.indices
        cause = self._cause(obj, resource)
        matching = registry.indexing(cause)
        for unmatched in {spec.id for spec in registry.of(resource).indexing.all} - {spec.id for spec in matching}:
            indices.discard(obj.identity, unmatched)
        wanted = [spec for spec in matching if only is None or spec.id in only]
        for number, spec in enumerate(wanted):
            if number:
                # Nested values are real dicts: each function gets its own, so that a mutation reaches no other function.
                cause = self._cause(obj, resource)
            await self._call(spec, cause, obj.identity)

    async def _call(self, spec: IndexingSpec, cause: IndexingCause, uid: str) -> None:
        failed = self._failed.get(uid, {})
        known, now = failed.get(spec.id), clock.now()
        if known is not None and not known.due(now):
            return
        progress = known or Progress(started=now)
        outcome = await attempt(Call(spec, cause, progress, ErrorsMode.IGNORED), self._env.settings)
        if outcome.exception is None:
            self._env.indices.replace(spec.id, uid, outcome.result)
            failed.pop(spec.id, None)
            if not failed:
                self._failed.pop(uid, None)
            return
        self._env.indices.discard(uid, spec.id)
        self._failed.setdefault(uid, failed)[spec.id] = progress.after(outcome, clock.now())

    def _cause(self, obj: Object, resource: Resource) -> IndexingCause:
        env, body = self._env, Body(obj.body())
        return IndexingCause(
            logger=TerseObjectLogger(body=body, settings=env.settings),
            memo=env.memories.memo(obj.identity, env.memo),
            indices=env.indices,
            resource=resource,
            patch=Patch(),
            body=body,
            size=len(obj.raw),
        )


class StandbyIndexing:
    """Indexes objects while the operator may not act, so that the indices are complete when it may.

    Objects are indexed beside the attempts, one at a time for each key, and never during an attempt of the same key.
    `latest` finds an object; `part` is called with those that are gone. The reconciler starts and stops the controller.
    """

    def __init__(
        self,
        indexing: Indexing,
        barrier: IndexBarrier[ObjectKey],
        latest: Callable[[ObjectKey], Object | None],
        part: Callable[[Object], None],
    ) -> None:
        self._indexing = indexing
        self._barrier = barrier
        self._latest = latest
        self._part = part
        self._buffers: dict[ObjectKey, EventBuffer] = {}
        self._locks: WeakValueDictionary[ObjectKey, asyncio.Lock] = WeakValueDictionary()
        self.controller: Controller[ObjectKey] = Controller("indices", lambda key, _: self._work(key), concurrency=None)

    def take(self, key: ObjectKey, delta: Delta) -> None:
        """Index the object of an event soon."""
        self._buffers.setdefault(key, EventBuffer()).add(delta)
        self.controller.queue.add(key)

    def retry(self, key: ObjectKey) -> None:
        """Call the object's functions again when their delays are over."""
        self.controller.queue.add(key)

    def drop(self, is_gone: Callable[[ObjectKey], bool]) -> None:
        """Forget keys that are not served any more."""
        for key in filter(is_gone, list(self._buffers)):
            del self._buffers[key]

    @asynccontextmanager
    async def turn(self, key: ObjectKey) -> AsyncIterator[None]:
        """Hold back indexing of a key while an attempt of it runs inside; waiting events are indexed before.

        When the attempt is cancelled, the object is indexed anew as it is: how many of its events were indexed is unknown.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            await self._catch_up(key)
            try:
                yield
            except asyncio.CancelledError:
                if (obj := self._latest(key)) is not None:
                    self.take(key, Delta(DeltaKind.UPDATED, obj, None, initial=False, wire_type=None))
                raise

    async def _work(self, key: ObjectKey) -> Result | None:
        async with self._locks.setdefault(key, asyncio.Lock()):
            await self._catch_up(key)
            obj = self._latest(key)
            delay = None if obj is None else await self._indexing.retry(obj, key.resource)
        return None if delay is None else Result(requeue_after=delay)

    async def _catch_up(self, key: ObjectKey) -> None:
        buffer = self._buffers.get(key)
        if buffer is None:
            return
        try:
            # An event is taken out when it is indexed, not before: a cancellation must lose nothing.
            while (delta := buffer.first()) is not None:
                await self._indexing.take(delta, key.resource)
                buffer.take()
                if delta.kind is DeltaKind.DELETED:
                    self._part(delta.object)
        except Exception:
            buffer.take()
            raise
        finally:
            if len(buffer):
                self.controller.queue.add(key)
            elif self._buffers.get(key) is buffer:
                del self._buffers[key]
                self._barrier.indexed(key)
