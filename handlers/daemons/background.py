"""The background of one operator starts and ends the daemons and timers of all objects.

Nothing of it is kept outside of the process. What a companion (a daemon or a timer) has reached is lost with it; the finalizer
makes sure that no object goes away while one of its companions runs.
"""

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import msgspec

from ...client.objects import Object, is_older
from ...client.resources import Key, Resource
from ...runtime.tasks import Tasks
from ..causes.causes import SpawningCause
from ..causes.patch import Patch
from ..causes.views import Body
from ..declaration.specs import DaemonSpec, HandlerId, SpawningSpec, TimerSpec
from ..environment.memories import Memory
from ..loggers import ObjectLogger
from ..patching.writer import Copy
from .base import Companion, Ground, Host
from .daemons import Daemon
from .rhythm import seconds
from .stoppers import DaemonStoppingReason
from .termination import Termination
from .timers import Timer, Timers

HUNG = 5.0
"""Seconds that companions which were given up have to end by themselves before the operator's end cancels them."""
CANCEL_GRACE = 1.0
"""Seconds that they have after that."""


class Standing:
    """What an object's companions mean for its finalizer, now and whenever it is asked."""

    __slots__ = ("_host",)

    def __init__(self, host: Host | None = None) -> None:
        self._host = host

    @property
    def exited(self) -> AbstractSet[HandlerId]:
        """The ids of those that ended by themselves and need no finalizer any more."""
        return self._host.exited if self._host is not None else frozenset()

    @property
    def busy(self) -> bool:
        """Whether the object is to stay because one that was asked to end has not; the object is woken when it has."""
        companions = self._host.companions.values() if self._host is not None else ()
        return any(known.stopper.is_set() and known.running and not known.abandoned for known in companions)


NOBODY = Standing()


class Background:
    """The daemons and timers of all objects of one operator. All methods belong to the operator's loop."""

    def __init__(self, ground: Ground, wake: Callable[[Resource, Key], None]) -> None:
        """`wake` asks for an attempt of an object soon."""
        self._ground = ground
        self._ask_for = wake
        self._hosts: dict[str, Host] = {}
        self._tasks = Tasks("background")
        self._timers = Timers(self._tasks, self._ended)
        self._termination = Termination(ground, self._tasks, self._wake)
        # Why nothing may be started now; None: it may.
        self._halted: DaemonStoppingReason | None = None
        self._term = 0
        # How many objects of a herd have got a timer, by handler.
        self._spread: defaultdict[HandlerId, Iterator[int]] = defaultdict(itertools.count)

    @property
    def daemons(self) -> int:
        """How many daemons run, or are going to after their delay."""
        return sum(isinstance(companion, Daemon) and companion.running for companion in self._companions())

    @property
    def timers(self) -> int:
        """How many timers there are, in a call or between two."""
        return len(self._timers)

    # What an object's attempts tell.

    async def observe(self, obj: Object, place: Copy, memory: Memory) -> Standing:
        """Start the companions that the object is to have and has not; end those that it is not to have any more.

        Waits for those that end at once, as the settings say; the others are seen to in the background. Raises what
        filters and callbacks for delays raise.
        """
        host = self._hosts.get(obj.identity)
        deleting = obj.metadata().deletion_timestamp is not None
        if host is None and (deleting or self._halted is not None):
            return NOBODY
        resource = place.resource
        specs = self._ground.registry.spawning_specs(resource)
        cause = self._cause(obj, resource, memory)
        wanted = [] if deleting else self._ground.registry.spawning(cause)
        ids = {spec.id for spec in wanted}
        herd = self._is_one_of_many(memory)
        lurking = [] if deleting else [spec for spec in specs if spec.id not in ids and _may_come(spec)]
        if host is None:
            if not wanted and not lurking:
                return NOBODY
            host = self._hosts[obj.identity] = Host(obj, place, cause.memo)
        host.place = place
        self._notice(host, obj, specs)
        leaving = [known for known in host.companions.values() if known.spec.id not in ids and not _is_dormant(known)]
        reason = DaemonStoppingReason.RESOURCE_DELETED if deleting else DaemonStoppingReason.FILTERS_MISMATCH
        host.observed = True
        try:
            await self._end(leaving, reason)
        finally:
            host.observed = False
        if deleting:
            self._drop_dormant(host)
        if self._halted is None and self._hosts.get(obj.identity) is host:
            for spec in wanted:
                self._start(spec, host, cause, herd=herd)
            for spec in lurking:
                self._lurk(spec, host, herd=herd)
        return self._standing(host)

    def _is_one_of_many(self, memory: Memory) -> bool:
        """Whether the object comes together with all others: at the start, or after a pause. Notes that it came."""
        if self._halted is not None:
            return False
        known, memory.observed = memory.observed, self._term
        return memory.initial if known is None else known != self._term

    def show(self, obj: Object) -> None:
        """Let the companions that run now see a version of their object, unless they see a later one already."""
        host = self._hosts.get(obj.identity)
        if host is not None and not is_older(obj, host.obj):
            host.show(obj)

    def attends(self, uid: str) -> bool:
        """Whether an object has daemons or timers, or had some that are not to be started again."""
        return uid in self._hosts

    def part(self, uid: str) -> None:
        """Forget an object that is gone, and end what is left of its companions."""
        host = self._hosts.pop(uid, None)
        if host is None:
            return
        host.observed = True
        self._drop_dormant(host)
        for companion in self._ask(list(host.companions.values()), DaemonStoppingReason.RESOURCE_DELETED):
            self._termination.attend(companion)

    def dismiss(self, resource: Resource, namespace: str | None) -> None:
        """Forget all objects of a resource that is not served any more, in a namespace or in all."""
        for uid, host in list(self._hosts.items()):
            if host.place.resource == resource and namespace in {None, host.obj.namespace}:
                self.part(uid)

    # What the operator tells.

    async def pause(self) -> None:
        """End everything, and start nothing until `resume`. Those that do not end within their limits are left alone."""
        await self._halt(DaemonStoppingReason.OPERATOR_PAUSING)

    def cut(self) -> None:
        """End everything at once, without patience, and start nothing until `resume`: the right to act is lost.

        What cannot be cancelled (a thread) is asked, and goes on until it has ended.
        """
        self._halted = DaemonStoppingReason.OPERATOR_PAUSING
        for host in list(self._hosts.values()):
            self._drop_dormant(host)
        everybody = self._companions()
        self._ask(everybody, self._halted)
        for companion in everybody:
            if companion.running and companion.task is not None:
                companion.stopper.set(DaemonStoppingReason.DAEMON_CANCELLED)
                companion.task.cancel()

    @property
    def running(self) -> dict[asyncio.Task[None], str]:
        """The tasks of the daemons and timers whose functions run now, and how people know them."""
        return {known.task: str(known) for known in self._companions() if known.task is not None and known.running}

    def renew(self) -> None:
        """Forget who has ended by itself: to those who come into their turn, all objects are new."""
        for host in self._hosts.values():
            host.exited.clear()

    def resume(self) -> None:
        """Start companions again, each when its object is observed next."""
        if self._halted is DaemonStoppingReason.OPERATOR_PAUSING:
            self._halted = None
            self._term += 1

    async def stop(self) -> None:
        """End everything for good, within the handlers' limits, HUNG seconds for those that have none, and a bit."""
        await self._halt(DaemonStoppingReason.OPERATOR_EXITING)
        hung = [known.task for known in self._companions() if known.task is not None and known.running]
        if hung:
            await asyncio.wait(hung, timeout=HUNG)
        await self._tasks.stop(CANCEL_GRACE)

    # Starting.

    def _start(self, spec: SpawningSpec, host: Host, cause: SpawningCause, *, herd: bool) -> None:
        known = host.companions.get(spec.id)
        if spec.id in host.exited:
            return
        if isinstance(known, Timer) and known.dormant:
            self._timers.drop(known)
        elif isinstance(known, Timer) and known.rhythm.idle is None and known.due is None and not known.running:
            # Its filters said no at the last tick, and say yes again.
            self._timers.arm(known, asyncio.get_running_loop().time())
            return
        elif known is not None:
            return
        initial = spec.initial_delay(**cause.kwargs) if callable(spec.initial_delay) else spec.initial_delay
        delay = max(0.0, seconds(initial or 0.0))
        if isinstance(spec, DaemonSpec):
            daemon = host.companions[spec.id] = Daemon(spec, host, self._ground, delay)
            daemon.task = self._tasks.spawn(self._accompany(daemon), name=f"daemon {daemon}")
            daemon.task.add_done_callback(partial(self._over, daemon))
            return
        timer = host.companions[spec.id] = Timer(spec, host, self._ground, partial(self._wake, host))
        self._timers.start(timer, delay + self._offset(timer, herd=herd))

    def _offset(self, timer: Timer, *, herd: bool) -> float:
        return timer.rhythm.offset(next(self._spread[timer.spec.id])) if herd else 0.0

    def _lurk(self, spec: SpawningSpec, host: Host, *, herd: bool) -> None:
        """Keep looking whether a timer that does not match will."""
        if isinstance(spec, TimerSpec) and spec.id not in host.companions and spec.id not in host.exited:
            timer = host.companions[spec.id] = Timer(spec, host, self._ground, partial(self._wake, host), dormant=True)
            self._timers.start(timer, self._offset(timer, herd=herd) or timer.rhythm.interval or 0.0)

    async def _accompany(self, daemon: Daemon) -> None:
        try:
            await daemon.run()
        finally:
            daemon.task = None
            self._ended(daemon)

    def _over(self, daemon: Daemon, task: asyncio.Task[None]) -> None:
        """A task is over. One that was cancelled before its first step has noted nothing itself."""
        if daemon.task is task:
            daemon.task = None
            self._ended(daemon)

    # Ending.

    async def _end(self, leaving: Sequence[Companion[Any]], reason: DaemonStoppingReason) -> None:
        for companion in await self._termination.give_a_moment(self._ask(leaving, reason)):
            self._termination.attend(companion)

    def _ask(self, leaving: Iterable[Companion[Any]], reason: DaemonStoppingReason) -> list[Companion[Any]]:
        """Ask companions to end; gives those that run and were not asked before."""
        asked = []
        for companion in leaving:
            fresh = not companion.stopper.is_set()
            companion.stopper.set(reason)
            if companion.running:
                asked += [companion] if fresh else []
            elif isinstance(companion, Timer):
                self._timers.drop(companion)
                self._ended(companion)
        return asked

    async def _halt(self, reason: DaemonStoppingReason) -> None:
        """End everything, with no more patience than the handlers' own limits."""
        self._halted = reason
        for host in list(self._hosts.values()):
            self._drop_dormant(host)
        everybody = self._companions()
        self._ask(everybody, reason)
        running = [companion for companion in everybody if companion.running]
        await self._termination.see_out_all(await self._termination.give_a_moment(running))

    def _ended(self, companion: Companion[Any]) -> None:
        """Note that a companion has ended, and let its object see what that means, unless it is looking already."""
        host, asked = companion.host, companion.stopper.is_set()
        how = "on request" if asked else "on its own"
        companion.log(f"has exited {how} and will not be retried or restarted.", level=logging.DEBUG)
        companion.stopper.set(DaemonStoppingReason.DONE)
        if not asked:
            host.exited.add(companion.spec.id)
        if host.companions.get(companion.spec.id) is companion:
            del host.companions[companion.spec.id]
        if not host.observed:
            self._wake(host)

    def _wake(self, host: Host) -> None:
        if self._halted is None:
            self._ask_for(host.place.resource, host.obj.key)

    def _drop_dormant(self, host: Host) -> None:
        for companion in list(host.companions.values()):
            if isinstance(companion, Timer) and companion.dormant:
                self._timers.drop(companion)
                del host.companions[companion.spec.id]

    # Looking at an object.

    def _cause(self, obj: Object, resource: Resource, memory: Memory) -> SpawningCause:
        body = Body(obj.body())
        return SpawningCause(
            logger=ObjectLogger(body=body, settings=self._ground.settings),
            memo=self._ground.memories.memo(obj.identity, self._ground.memo),
            indices=self._ground.indices,
            resource=resource,
            patch=Patch(body=body),
            body=body,
            size=len(obj.raw),
        )

    def _notice(self, host: Host, obj: Object, specs: Iterable[SpawningSpec]) -> None:
        """Take in a version of the object; a change starts the idle time of its timers anew."""
        host.show(obj)
        if not any(isinstance(spec, TimerSpec) and spec.idle is not None for spec in specs):
            return
        mark = self._mark(obj, host.place.resource)
        if mark == host.mark:
            return
        if host.mark is not None:
            host.changed = asyncio.get_running_loop().time()
        host.mark = mark
        for companion in host.companions.values():
            if isinstance(companion, Timer) and companion.due is None and not companion.running:
                self._timers.arm(companion, companion.rhythm.settled(host.changed, host.changed))

    def _mark(self, obj: Object, resource: Resource) -> object:
        """What of an object counts as a change: its essence where changes are handled, else anything (Kopf behaviour)."""
        registry, persistence = self._ground.registry, self._ground.settings.persistence
        if not registry.handles(resource).changing:
            return obj.resource_version
        fields = registry.extra_fields(resource)
        essence = persistence.diffbase_storage.build(body=Body(obj.body()), extra_fields=fields)
        return hash(msgspec.json.encode(persistence.progress_storage.clear(essence=essence), order="deterministic"))

    def _standing(self, host: Host) -> Standing:
        if not host.companions and not host.exited and self._hosts.get(host.obj.identity) is host:
            del self._hosts[host.obj.identity]
        return Standing(host)

    def _companions(self) -> list[Companion[Any]]:
        return [known for host in self._hosts.values() for known in host.companions.values()]


def _is_dormant(companion: Companion[Any]) -> bool:
    return isinstance(companion, Timer) and companion.dormant


def _may_come(spec: SpawningSpec) -> bool:
    """Whether a timer that does not match now may match later, though its object stays as it is."""
    return isinstance(spec, TimerSpec) and spec.interval is not None and spec.is_volatile
