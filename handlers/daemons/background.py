"""The background of one operator starts and ends the daemons and timers of all objects.

Their state is lost with the process. The finalizer makes sure that no object vanishes while one of them runs.
"""

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from ...client.objects import Object, is_older
from ...client.resources import Key, Resource
from ...runtime.tasks import Tasks
from ..causes.causes import LARGE, SpawningCause
from ..causes.patch import Patch
from ..causes.views import Body
from ..declaration.specs import DaemonSpec, HandlerId, SpawningSpec, TimerSpec
from ..environment.environment import Environment
from ..environment.memories import Memory
from ..loggers import ObjectLogger
from ..patching.writer import CachedObject
from .daemons import Daemon, ObjectDaemons, Spawned, seconds
from .live import DecodedBodies, LiveBody
from .stoppers import DaemonStoppingReason
from .termination import Termination
from .timers import Timer, Timers

HUNG = 5.0
"""Seconds that abandoned daemons have to end by themselves before the operator's end cancels them."""
CANCEL_GRACE = 1.0
"""Seconds that they have after that."""


class Background:
    """The daemons and timers of all objects of one operator. All methods belong to the operator's loop."""

    def __init__(self, env: Environment, wake: Callable[[Resource, Key], None]) -> None:
        """`wake` asks for an attempt of an object soon."""
        self._env = env
        self._ask_for = wake
        self._objects: dict[str, ObjectDaemons] = {}
        self._bodies = DecodedBodies()
        self._tasks = Tasks("background")
        self._timers = Timers(self._tasks, self._ended)
        self._termination = Termination(env.settings, self._tasks, self._wake)
        # Why nothing may be started now; None: it may.
        self._halted: DaemonStoppingReason | None = None
        self._term = 0
        # How many of the objects that were there at the start have got a timer, by handler.
        self._spread: defaultdict[HandlerId, Iterator[int]] = defaultdict(itertools.count)

    @property
    def daemons(self) -> int:
        """How many daemons run, or wait for their initial delay."""
        return sum(isinstance(one, Daemon) and one.running for one in self._spawned())

    @property
    def timers(self) -> int:
        """How many timers there are, in a call or between two."""
        return len(self._timers)

    # Called by the attempts of an object.

    async def observe(self, obj: Object, place: CachedObject, memory: Memory) -> ObjectDaemons | None:
        """Start the daemons and timers that the object should have and has not; end those that it should not have.

        Waits for those that end at once, as the settings say; the others are terminated in the background. Raises the errors
        of filters and of callbacks for delays. None: the object has no daemons, and had none.
        """
        known = self._objects.get(obj.identity)
        deleting = obj.metadata().deletion_timestamp is not None
        if known is None and (deleting or self._halted is not None):
            return None
        if len(obj.raw) >= LARGE:
            self._bodies.clear()  # the attempt needs the room
        resource = place.resource
        specs = self._env.registry.of(resource).spawning.all
        cause = self._cause(obj, resource, memory)
        wanted = [] if deleting else self._env.registry.spawning(cause)
        ids = {spec.id for spec in wanted}
        listed = self._is_listed(memory)
        lurking = [] if deleting else [spec for spec in specs if spec.id not in ids and _may_come(spec)]
        if known is None:
            if not wanted and not lurking:
                return None
            known = self._objects[obj.identity] = ObjectDaemons(obj, place, cause.memo, self._bodies)
        known.place = place
        self._notice(known, obj, specs)
        leaving = [one for one in known.spawned.values() if one.spec.id not in ids and not _is_dormant(one)]
        reason = DaemonStoppingReason.RESOURCE_DELETED if deleting else DaemonStoppingReason.FILTERS_MISMATCH
        known.observed = True
        try:
            await self._end(leaving, reason)
        finally:
            known.observed = False
        if deleting:
            self._drop_dormant(known)
        if self._halted is None and self._objects.get(obj.identity) is known:
            for spec in wanted:
                self._start(spec, known, cause, listed=listed)
            for spec in lurking:
                self._lurk(spec, known, listed=listed)
        if not known.spawned and not known.exited and self._objects.get(obj.identity) is known:
            del self._objects[obj.identity]
        return known

    def _is_listed(self, memory: Memory) -> bool:
        """Whether the object comes together with all others: at the start, or after a pause. Remembers that it came."""
        if self._halted is not None:
            return False
        known, memory.observed = memory.observed, self._term
        return memory.initial if known is None else known != self._term

    def show(self, obj: Object) -> None:
        """Show a version of an object to its running daemons, unless they see a later one already."""
        known = self._objects.get(obj.identity)
        if known is not None and not is_older(obj, known.obj):
            known.show(obj)

    def attends(self, uid: str) -> bool:
        """Whether an object has daemons or timers, or had some that are not to be started again."""
        return uid in self._objects

    def part(self, uid: str) -> None:
        """Forget an object that is gone, and end its daemons."""
        known = self._objects.pop(uid, None)
        if known is None:
            return
        known.observed = True
        self._drop_dormant(known)
        for one in self._ask(list(known.spawned.values()), DaemonStoppingReason.RESOURCE_DELETED):
            self._termination.attend(one)

    def dismiss(self, resource: Resource, namespace: str | None) -> None:
        """Forget all objects of a resource that is not served any more, in a namespace or in all."""
        for uid, known in list(self._objects.items()):
            if known.place.resource == resource and namespace in {None, known.obj.namespace}:
                self.part(uid)

    # Called by the operator.

    async def pause(self) -> None:
        """End everything, and start nothing until `resume`. Those that do not end within their limits are left alone."""
        await self._halt(DaemonStoppingReason.OPERATOR_PAUSING)

    def cut(self) -> None:
        """Cancel everything at once, and start nothing until `resume`: the right to act is lost.

        A thread cannot be cancelled: it is asked to end, and goes on until it does.
        """
        self._halted = DaemonStoppingReason.OPERATOR_PAUSING
        for known in list(self._objects.values()):
            self._drop_dormant(known)
        spawned = self._spawned()
        self._ask(spawned, self._halted)
        for one in spawned:
            if one.running and one.task is not None:
                one.stopper.set(DaemonStoppingReason.DAEMON_CANCELLED)
                one.task.cancel()

    @property
    def running(self) -> dict[asyncio.Task[None], str]:
        """The tasks of the daemons and timers whose functions run now, and their names."""
        return {one.task: str(one) for one in self._spawned() if one.task is not None and one.running}

    def renew(self) -> None:
        """Forget which handlers have ended by themselves: a new term treats all objects as new."""
        for known in self._objects.values():
            known.exited.clear()

    def resume(self) -> None:
        """Start daemons and timers again, each when its object is observed next."""
        if self._halted is DaemonStoppingReason.OPERATOR_PAUSING:
            self._halted = None
            self._term += 1

    async def stop(self) -> None:
        """End everything for good, within the handlers' limits, or HUNG seconds, and CANCEL_GRACE."""
        await self._halt(DaemonStoppingReason.OPERATOR_EXITING)
        hung = [one.task for one in self._spawned() if one.task is not None and one.running]
        if hung:
            await asyncio.wait(hung, timeout=HUNG)
        await self._tasks.stop(CANCEL_GRACE)

    # Starting.

    def _start(self, spec: SpawningSpec, owner: ObjectDaemons, cause: SpawningCause, *, listed: bool) -> None:
        known = owner.spawned.get(spec.id)
        if spec.id in owner.exited:
            return
        if isinstance(known, Timer) and known.dormant:
            self._timers.drop(known)
        elif isinstance(known, Timer) and known.rhythm.idle is None and known.due is None and not known.running:
            # Its filters did not match at the last tick, and match again.
            self._timers.arm(known, asyncio.get_running_loop().time())
            return
        elif known is not None:
            return
        initial = spec.initial_delay(**cause.kwargs) if callable(spec.initial_delay) else spec.initial_delay
        delay = max(0.0, seconds(initial or 0.0))
        if isinstance(spec, DaemonSpec):
            daemon = owner.spawned[spec.id] = Daemon(spec, owner, self._env, delay)
            daemon.task = self._tasks.spawn(self._run(daemon), name=f"daemon {daemon}")
            daemon.task.add_done_callback(partial(self._over, daemon))
            return
        timer = owner.spawned[spec.id] = Timer(spec, owner, self._env, partial(self._wake, owner))
        self._timers.start(timer, delay + self._offset(timer, listed=listed))

    def _offset(self, timer: Timer, *, listed: bool) -> float:
        return timer.rhythm.offset(next(self._spread[timer.spec.id])) if listed else 0.0

    def _lurk(self, spec: SpawningSpec, owner: ObjectDaemons, *, listed: bool) -> None:
        """Check the filters of a timer that does not match at each interval."""
        if isinstance(spec, TimerSpec) and spec.id not in owner.spawned and spec.id not in owner.exited:
            timer = owner.spawned[spec.id] = Timer(spec, owner, self._env, partial(self._wake, owner), dormant=True)
            self._timers.start(timer, self._offset(timer, listed=listed) or timer.rhythm.interval or 0.0)

    async def _run(self, daemon: Daemon) -> None:
        try:
            await daemon.run()
        finally:
            daemon.task = None
            self._ended(daemon)

    def _over(self, daemon: Daemon, task: asyncio.Task[None]) -> None:
        """Note the end of a task that was cancelled before its first step."""
        if daemon.task is task:
            daemon.task = None
            self._ended(daemon)

    # Ending.

    async def _end(self, leaving: Sequence[Spawned[Any]], reason: DaemonStoppingReason) -> None:
        for one in await self._termination.give_a_moment(self._ask(leaving, reason)):
            self._termination.attend(one)

    def _ask(self, leaving: Iterable[Spawned[Any]], reason: DaemonStoppingReason) -> list[Spawned[Any]]:
        """Ask daemons and timers to end; returns those that run and were not asked before."""
        asked = []
        for one in leaving:
            fresh = not one.stopper.is_set()
            one.stopper.set(reason)
            if one.running:
                asked += [one] if fresh else []
            elif isinstance(one, Timer):
                self._timers.drop(one)
                self._ended(one)
        return asked

    async def _halt(self, reason: DaemonStoppingReason) -> None:
        """End everything within the handlers' own limits."""
        self._halted = reason
        for known in list(self._objects.values()):
            self._drop_dormant(known)
        spawned = self._spawned()
        self._ask(spawned, reason)
        running = [one for one in spawned if one.running]
        await self._termination.end_all(await self._termination.give_a_moment(running))

    def _ended(self, one: Spawned[Any]) -> None:
        """Note the end of a daemon or timer, and wake its object, unless it is being observed."""
        owner, asked = one.owner, one.stopper.is_set()
        how = "on request" if asked else "on its own"
        one.log(f"has exited {how} and will not be retried or restarted.", level=logging.DEBUG)
        one.stopper.set(DaemonStoppingReason.DONE)
        if not asked:
            owner.exited.add(one.spec.id)
        if owner.spawned.get(one.spec.id) is one:
            del owner.spawned[one.spec.id]
        if not owner.observed:
            self._wake(owner)

    def _wake(self, owner: ObjectDaemons) -> None:
        if self._halted is None:
            self._ask_for(owner.place.resource, owner.obj.key)

    def _drop_dormant(self, owner: ObjectDaemons) -> None:
        for one in list(owner.spawned.values()):
            if isinstance(one, Timer) and one.dormant:
                self._timers.drop(one)
                del owner.spawned[one.spec.id]

    # Observing an object.

    def _cause(self, obj: Object, resource: Resource, memory: Memory) -> SpawningCause:
        body = LiveBody(obj, self._bodies)  # most filters look at its labels at the most
        return SpawningCause(
            logger=ObjectLogger(body=body, settings=self._env.settings),
            memo=self._env.memories.memo(obj.identity, self._env.memo),
            indices=self._env.indices,
            resource=resource,
            patch=Patch(body=body),
            body=body,
            size=len(obj.raw),
        )

    def _notice(self, owner: ObjectDaemons, obj: Object, specs: Iterable[SpawningSpec]) -> None:
        """Take in a version of the object; a change restarts the idle time of its timers."""
        owner.show(obj)
        if not any(isinstance(spec, TimerSpec) and spec.idle is not None for spec in specs):
            return
        mark = self._mark(obj, owner.place.resource)
        if mark == owner.mark:
            return
        if owner.mark is not None:
            owner.changed = asyncio.get_running_loop().time()
        owner.mark = mark
        for one in owner.spawned.values():
            if isinstance(one, Timer) and one.due is None and not one.running:
                self._timers.arm(one, one.rhythm.settled(owner.changed, owner.changed))

    def _mark(self, obj: Object, resource: Resource) -> object:
        """What of an object counts as a change: its essence where changes are handled, else anything (Kopf behaviour)."""
        registry, persistence = self._env.registry, self._env.settings.persistence
        if not registry.of(resource).interest.changing:
            return obj.resource_version
        fields = registry.of(resource).fields
        essence = persistence.diffbase_storage.build(body=Body(obj.body()), extra_fields=fields)
        return hash(msgspec.json.encode(persistence.progress_storage.clear(essence=essence), order="deterministic"))

    def _spawned(self) -> list[Spawned[Any]]:
        return [one for known in self._objects.values() for one in known.spawned.values()]


def _is_dormant(one: Spawned[Any]) -> bool:
    return isinstance(one, Timer) and one.dormant


def _may_come(spec: SpawningSpec) -> bool:
    """Whether a timer that does not match now may match later although its object does not change."""
    return isinstance(spec, TimerSpec) and spec.interval is not None and spec.is_volatile
