"""Bring one object's handlers up to date: its raw events and indices first, then what has changed, then one write.

This is the page on which an attempt can be read from its beginning to its end. It runs in the key's own task: nothing
of one object ever runs beside anything else of it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from ...client.objects import Object
from ...client.resources import Key, Resource
from ...controller.api.writes import KeepsChanging
from ...controller.kernel.reconciler import Result
from ...controller.kernel.source import BACKLOG_PRIORITY
from ...controller.leader.gate import AlwaysOpen, Gate
from ...informers.deltas import DELETED, SYNCED, Delta
from ...informers.informer import Informer
from ..causes.causes import LARGE, Reason
from ..daemons.background import Background
from ..declaration.registry import Interest
from ..environment.environment import Environment, ObjectKey
from ..environment.large_objects import LargeObjectLimit
from ..environment.memories import Memory
from ..execution.progression import SHORTEST
from ..indexing.barrier import IndexBarrier
from ..indexing.event_buffer import LIMIT, EventBuffer
from ..indexing.indexing import Indexing, StandbyIndexing
from ..loggers import ObjectLogger
from ..patching.writer import CachedObject
from .change_cycle import QUIET, ChangeCycle
from .events import show, write_left
from .prefilter import is_nobodys, is_settled, is_told, settle, stays_settled

__all__ = ["ObjectKey", "ObjectReconciler"]

logger = logging.getLogger(__name__)


class ObjectReconciler:
    """The reconciler behind all decorators: from a key to the handlers' calls and the object's patch.

    `wake` asks for an attempt of a key soon, at a priority; `attempts` are those that run now. While the `gate` is closed
    nothing is asked for and nothing is shown to handlers; only the indices are kept filled, by the `keeper`, if there are any.
    Whoever runs the reconciler tells the `barrier` what is to be indexed before handlers run, calls `start`, `closed` and
    `begin_term`, and stops the `background` and then the reconciler.
    """

    def __init__(
        self,
        env: Environment,
        wake: Callable[[ObjectKey, int], None],
        gate: Gate = AlwaysOpen(),  # noqa: B008 - has no state
        attempts: Callable[[], Mapping[ObjectKey, asyncio.Task[Any]]] = dict,
    ) -> None:
        self._env = env
        self._attempts = attempts
        self._gate = gate
        self._ask_for = wake
        self.background = Background(
            env, lambda resource, key: self._wake(ObjectKey(resource, key.namespace, key.name))
        )
        self.barrier = IndexBarrier[ObjectKey](lambda key: self._wake(key, BACKLOG_PRIORITY), needed=bool(env.indices))
        self._indexing = Indexing(env)
        self.keeper = StandbyIndexing(self._indexing, self.barrier, self._latest, self._part) if env.indices else None
        # By their resources, as text, and namespaces.
        self._informers: dict[tuple[str, str | None], Informer] = {}
        self._turns: WeakValueDictionary[tuple[Hashable, ...], asyncio.Lock] = WeakValueDictionary()
        self._large = LargeObjectLimit()
        self._backlogs: dict[ObjectKey, EventBuffer] = {}
        self.collapsed = 0
        """Raw events that were not shown to handlers because too many waited."""
        # Of which own write the watch has not told yet, and until when (loop time) it is awaited.
        self._untold: dict[ObjectKey, tuple[str, float]] = {}

    async def start(self) -> None:
        """Begin to keep the indices."""
        if self.keeper is not None:
            await self.keeper.controller.start()

    async def stop(self) -> None:
        """Keep nothing any more."""
        if self.keeper is not None:
            await self.keeper.controller.stop(0.0)

    # What there is to do: the trigger is called for every delta, in order.

    def serve(
        self, informer: Informer, is_open: Callable[[], bool] | None = None
    ) -> Callable[[Delta], Iterable[ObjectKey]]:
        """Take a resource's informer into service; gives the trigger that turns its deltas into keys.

        `is_open` tells whether the keys are taken: the gate is open, and the copy is as new as what a predecessor wrote.
        """
        resource, kind = informer.resource, repr(informer.resource)
        self._informers[kind, informer.namespace] = informer
        self._env.serve(known.resource for known in self._informers.values())
        takes = is_open or (lambda: self._gate.is_open)
        handlers_of = self._env.registry.of

        def trigger(delta: Delta) -> Iterable[ObjectKey]:
            # Asked each time: handlers can be declared while the operator runs.
            interest, gone = handlers_of(resource).interest, delta.kind is DELETED
            raw = interest.watching or interest.indexing
            if delta.kind is SYNCED or (delta.echo and not is_told(delta, interest)):
                return ()
            obj = delta.object
            key = ObjectKey(resource, obj.namespace, obj.name, kind)
            if not takes():
                self._overlook(key, delta, indexing=interest.indexing)
                return ()
            if not gone and (interest.changing or interest.spawning):
                self._env.meet(resource, delta)
                self.background.show(obj)
            if interest.is_selective and not gone and not interest.indexing and self._is_nobodys(obj, resource):
                return ()
            if interest.changing and not interest.spawning and stays_settled(delta, resource, self._env) and not raw:
                return ()
            if raw or gone:
                self._note_event(key, delta)
            if delta.initial and interest.indexing:
                self.barrier.found(key)
            return (key,)

        return trigger

    def _is_nobodys(self, obj: Object, resource: Resource, *, raw: bool = True) -> bool:
        return is_nobodys(obj, resource, self._env, self.background, raw=raw)

    def _note_event(self, key: ObjectKey, delta: Delta) -> None:
        backlog = self._backlogs.get(key)
        if backlog is None:
            backlog = self._backlogs[key] = EventBuffer()
        if backlog.add(delta):
            return
        if not self.collapsed:
            logger.warning(
                "Events of %s come faster than its handlers take them: more than %d wait, and of those that follow each other only "
                "the last is shown. ctl_raw_events_collapsed_total counts what is not shown, of all objects from now on.",
                key,
                LIMIT,
            )
        self.collapsed += 1

    def _overlook(self, key: ObjectKey, delta: Delta, *, indexing: bool) -> None:
        """Take notice of a delta while the gate is closed: of what indices need, and of ends."""
        if indexing and self.keeper is not None:
            if delta.initial:
                self.barrier.found(key)
            self.keeper.take(key, delta)
        elif delta.kind is DELETED:
            self._part(delta.object)
        else:
            self.background.show(delta.object)

    def closed(self) -> None:
        """The gate has been closed: what waits to be shown to handlers is dropped. What is to be indexed is not."""
        self._env.memories.unlearn()
        self.barrier.let_go()
        backlogs, self._backlogs = self._backlogs, {}
        for key, backlog in backlogs.items():
            is_indexed = self._env.registry.of(key.resource).interest.indexing and self.keeper is not None
            shown, new = backlog.drain()
            for delta in shown if is_indexed else [*shown, *new]:
                if delta.kind is DELETED:
                    self._part(delta.object)
            if is_indexed:
                for delta in new:
                    self._overlook(key, delta, indexing=True)
        if self.keeper is not None and self._indexing.failing:
            # What attempts would call again after its delay is the keeper's now.
            for informer in self._informers.values():
                for obj in filter(self._indexing.waits, informer.store.values()):
                    self.keeper.retry(ObjectKey(informer.resource, obj.namespace, obj.name))

    def begin_term(self) -> None:
        """Leadership was won, and the gate is about to open: all objects are what they are to a process that has just started."""
        self._env.renew()
        self.background.renew()
        for informer in self._informers.values():
            interest = self._env.registry.of(informer.resource).interest
            if interest.changing or interest.spawning:
                for obj in informer.store.values():
                    self._env.memories.recall(obj.identity, initial=True)

    def dismiss(self, informer: Informer) -> None:
        """Take a resource out of service; what waits for its objects is dropped."""
        self._informers.pop((repr(informer.resource), informer.namespace), None)
        self._env.serve(known.resource for known in self._informers.values())

        def is_gone(key: ObjectKey) -> bool:
            return key.resource == informer.resource and informer.namespace in {None, key.namespace}

        for key in filter(is_gone, [*self._backlogs, *self._untold]):
            self._backlogs.pop(key, None)
            self._untold.pop(key, None)
        if self.keeper is not None:
            self.keeper.drop(is_gone)
        self.barrier.drop(is_gone)
        for obj in informer.store.values():
            self._env.forget(obj.identity)
        self.background.dismiss(informer.resource, informer.namespace)

    def unindex(self, informer: Informer) -> None:
        """Remove a resource's objects from all indices. Not at the operator's end: handlers that still run look there."""
        for obj in informer.store.values():
            self._indexing.forget(obj)

    # What is done about it: called by the controller, one attempt of a key at a time.

    def reconcile(self, key: ObjectKey) -> Coroutine[Any, Any, Result | None]:
        """Make one attempt for an object; says when the next is due, if any is without a change of the object.

        Errors of handlers are outcomes and never leave this method. Other errors (the server's, or ours) throttle this
        one object as `settings.queueing.error_delays` say.
        """
        informer, interest = self._informer(key), self._env.registry.of(key.resource).interest
        if informer is None:
            return _nothing()
        obj = informer.store.get((key.namespace, key.name))
        size = 0 if obj is None else len(obj.raw)
        if size >= LARGE or (self.keeper is not None and interest.indexing) or self._env.has_versions(key.resource):
            return self._in_turn(key, informer, interest, size)
        return self._attempt(key, informer, interest)

    async def _in_turn(self, key: ObjectKey, informer: Informer, interest: Interest, size: int) -> Result | None:
        async with AsyncExitStack() as turns:
            if self._env.has_versions(key.resource):
                # Of several served versions of one object, only one at a time is worked on.
                place = (key.resource.group, key.resource.plural, key.namespace, key.name)
                await turns.enter_async_context(self._turns.setdefault(place, asyncio.Lock()))
            if self.keeper is not None and interest.indexing:
                await turns.enter_async_context(self.keeper.turn(key))
            if size >= LARGE:
                await turns.enter_async_context(self._large.room(size))
            return await self._attempt(key, informer, interest)

    @property
    def running(self) -> dict[asyncio.Task[Any], str]:
        """The tasks in which handlers run now, daemons and timers included, and how people know them."""
        attempts = {task: f"the handlers of {key}" for key, task in self._attempts().items()}
        return {**attempts, **self.background.running}

    async def _attempt(self, key: ObjectKey, informer: Informer, interest: Interest) -> Result | None:
        memories, store, name = self._env.memories, informer.store, (key.namespace, key.name)
        obj = store.get(name)
        memory = memories.find(obj.identity) if obj is not None else None
        if memory is not None and memory.throttled_until is not None and (wait := self._throttled(memory, obj)) > 0:
            return Result(requeue_after=wait)
        delay: float | None = None
        try:
            if not self.barrier.is_open and not await self._pass_barrier(key, interest):
                return None
            backlog = self._backlogs.get(key)
            if backlog is not None:
                await self._drain(key, backlog, interest)
                obj = store.get(name)
            if obj is not None:
                ahead = self._ahead(obj, key, informer) if interest.watching or interest.indexing else 0.0
                if ahead:
                    delay = ahead
                elif (interest.changing or interest.spawning) and not self._env.is_record(obj):
                    delay = await self._advance(obj, key, informer, interest)
                elif (known := memories.find(obj.identity)) is not None and known.unwritten:
                    await write_left(obj, self._place(key, informer), known, self._env)
            if interest.indexing and (latest := store.get(name)) is not None:
                delay = _sooner(delay, await self._indexing.retry(latest, key.resource))
        except Exception as exc:
            if obj is None:
                raise
            return Result(requeue_after=self._throttle(obj, exc), error=exc)
        if obj is not None:
            uid = obj.identity
            memory = memories.find(uid)
            if memory is not None:
                memory.failures, memory.error = 0, None
            memories.rest(uid, self._env.memo)
        return None if delay is None else Result(requeue_after=delay)

    async def _pass_barrier(self, key: ObjectKey, interest: Interest) -> bool:
        """While not everything that was there at the start is indexed, only index what is new of the object."""
        backlog = self._backlogs.get(key)
        try:
            if interest.indexing:
                while backlog is not None and (delta := backlog.look_ahead()) is not None:
                    await self._indexing.take(delta, key.resource)
        finally:
            self.barrier.indexed(key)
        if not self.barrier.is_open:
            self.barrier.hold(key)
        return self.barrier.is_open

    async def _drain(self, key: ObjectKey, backlog: EventBuffer, interest: Interest) -> None:
        """Index and show all waiting raw events; what handlers want written waits in the memory of the object they saw."""
        while backlog.deltas:
            is_indexed = backlog.ahead > 0
            delta = backlog.take()
            try:
                if interest.indexing and not is_indexed:
                    await self._indexing.take(delta, key.resource)
                if interest.watching and self._gate.is_open:
                    await show(delta, key.resource, self._env)
            finally:
                # Also when its last state could not be decoded.
                if delta.kind is DELETED:
                    self._untold.pop(key, None)
                    self._part(delta.object, told=interest.changing)
        if self._backlogs.get(key) is backlog:
            del self._backlogs[key]

    def _informer(self, key: ObjectKey) -> Informer | None:
        return self._informers.get((key.kind, None)) or self._informers.get((key.kind, key.namespace))

    def _latest(self, key: ObjectKey) -> Object | None:
        informer = self._informer(key)
        return None if informer is None else informer.store.get(Key(key.namespace, key.name))

    def _wake(self, key: ObjectKey, priority: int = 0) -> None:
        # When the gate opens, every object is asked for.
        if self._gate.is_open:
            self._ask_for(key, priority)

    def _part(self, obj: Object, *, told: bool = False) -> None:
        if told and self._env.memories.find(obj.identity) is not None:
            logger = ObjectLogger(body=obj.stub(), settings=self._env.settings)
            logger.debug(QUIET[Reason.GONE])
        self._env.forget(obj.identity)
        self.background.part(obj.identity)

    def _ahead(self, obj: Object, key: ObjectKey, informer: Informer) -> float:
        """How long yet to wait for the watch to tell of an own write, in seconds.

        Handlers of raw events and indices learn of it from there, and are to know of a state before others act on it. The watch
        brings another attempt about; it is not awaited for longer than `settings.persistence.consistency_timeout`.
        """
        if informer.has_told_of(obj):
            self._untold.pop(key, None)
            return 0.0
        now = asyncio.get_running_loop().time()
        version, deadline = self._untold.get(key, ("", now))
        if version != obj.resource_version:
            deadline = now + self._env.settings.persistence.consistency_timeout
            self._untold[key] = obj.resource_version, deadline
        return max(0.0, deadline - now)

    async def _advance(self, obj: Object, key: ObjectKey, informer: Informer, interest: Interest) -> float | None:
        if self._is_nobodys(obj, key.resource, raw=False):
            return None
        if not interest.spawning and is_settled(obj, key.resource, self._env):
            return None
        place, memory = self._place(key, informer), self._env.memories.recall(obj.identity)
        aspect = memory.aspect(place.resource.version)
        if aspect.leaving and obj.metadata().deletion_timestamp is None:
            # The watch lags behind an answer of the server, and has yet to tell what we know.
            return None
        daemons = await self.background.observe(obj, place, memory) if interest.spawning else None
        latest = place.latest() if interest.spawning else obj
        if latest is None or latest.uid != obj.uid:
            return None
        delay = await ChangeCycle(self._env, place, aspect, daemons).handle(latest)
        if delay is None and place.latest() is latest:
            settle(latest, self._env)  # nothing was written, and nothing is to be done later
        return delay

    def _place(self, key: ObjectKey, informer: Informer) -> CachedObject:
        return CachedObject(informer, Key(key.namespace, key.name), self._env.settings.persistence.consistency_timeout)

    # An object whose attempts fail for reasons that are not its handlers'.

    def _throttled(self, memory: Memory, obj: Object | None) -> float:
        if memory.throttled_until is None:
            return 0.0
        wait = memory.throttled_until - asyncio.get_running_loop().time()
        if wait > 0:
            return max(wait, SHORTEST)
        if obj is not None:
            memory.throttled_until = None
            self._logger(obj).info("Throttling is over. Switching back to normal operations.")
        return 0.0

    def _throttle(self, obj: Object, exc: Exception) -> float:
        memory = self._env.memories.recall(obj.identity)
        # They may be infinite.
        delays = list(islice(self._env.settings.queueing.error_delays, memory.failures + 1))
        if not delays:
            raise exc
        delay = float(delays[-1])
        memory.failures += 1
        memory.error = repr(exc)
        memory.throttled_until = asyncio.get_running_loop().time() + delay
        message = "Throttling for %s seconds due to an unexpected error: %r"
        self._logger(obj).error(message, delay, exc, exc_info=None if isinstance(exc, KeepsChanging) else exc)
        return delay

    def _logger(self, obj: Object) -> ObjectLogger:
        return ObjectLogger(body=obj.stub(), settings=self._env.settings)


async def _nothing() -> None:
    """The attempt of a key whose resource is not served any more."""


def _sooner(delay: float | None, other: float | None) -> float | None:
    return min((wait for wait in (delay, other) if wait is not None), default=None)
