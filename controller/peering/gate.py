"""Peering: a gate that is closed while another operator, of ctl or of Kopf, acts instead of this one."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace

from ...client.objects import Object
from ...client.resources import Resource
from ...client.rest import Client
from ...client.selectors import FieldRequirement
from ...informers.deltas import Delta, DeltaKind
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ...informers.reflector_state import Phase
from ...runtime import clock
from ...runtime.tasks import Tasks
from ...runtime.texts import cut
from ..leader.gate import AlwaysOpen, Gate, ManualGate
from .records import Announcer
from .rules import PeeringDecision, PeeringOptions, PeeringScope, decide, read_peers, relevant

_logger = logging.getLogger("ctl.peering")

Right = Callable[[str, Resource, str | None], Awaitable[bool]]
"""Returns whether a verb is allowed on a resource in a namespace (None: in all)."""

PATIENCE = 10.0
"""Seconds after which the operator starts without an optional peering object that cannot be read."""
LEAVE_SECONDS = 5.0
"""Seconds for the removal of the record at the end."""
POLL = 0.2
"""Seconds between two looks whether the first list may still come."""
ASK_AGAIN = (40.0, 60.0)
"""Seconds until missing rights are asked for again: random between these."""
LONGEST_SLEEP = 30.0
"""Seconds of the loop after which wall-clock deadlines are checked again: a machine may have slept."""
SHORTEST_SLEEP = 0.05


async def _may_all(verb: str, resource: Resource, namespace: str | None) -> bool:
    return True


class _Watched:
    """The peering objects of one scope, as an informer shows them."""

    def __init__(self, scope: PeeringScope, name: str, informer: Informer) -> None:
        self.scope = scope
        self.name = name
        self.informer = informer
        self.tasks = Tasks(f"peering {scope.resource!r} {scope.namespace or ''}".rstrip())
        # Whether its first list was read, or is not awaited any longer.
        self.is_known = False

    def scope_of(self, obj: Object) -> PeeringScope:
        return PeeringScope(self.scope.resource, obj.namespace)

    def objects(self) -> list[Object]:
        """The objects with the name of the peering: servers without field selectors deliver others too."""
        return [obj for obj in self.informer.store.values() if obj.name == self.name]


class Peering(ManualGate):
    """A gate that peers close, and a component with a start and a stop.

    Promised: the gate is closed until the existing peering objects have been read at the start, while a peer of higher priority lives,
    while one of the same priority lives (which pauses as well), and, if the peering is mandatory, while there is no peering object. It is
    never revoked: running attempts may end. While `leadership` is open (None: always), the operator's record is kept alive in all peering
    objects, and dead records are removed; else nothing is written. At the end the record is removed within a bounded time, also
    after a cancellation. Errors of the server never end the peering.

    Not promised: that two operators never act at once. Each decides by the records that it has seen, and by wall clocks.

    `may` is asked for each right before its use, and again every minute at most if the right is missing; None: all is tried.
    """

    def __init__(
        self,
        client: Client,
        factory: SharedInformerFactory,
        options: PeeringOptions,
        *,
        leadership: Gate | None = None,
        may: Right | None = None,
    ) -> None:
        super().__init__()
        self.options = options
        self._factory = factory
        self._leadership: Gate = AlwaysOpen() if leadership is None else leadership
        self._may: Right = _may_all if may is None else may
        self._announcer = Announcer(client, options, lambda: self._leadership.is_open, self._objects)
        self._tasks = Tasks("peering")
        self._watched: dict[PeeringScope, _Watched] = {}
        self._namespaces: frozenset[str | None] | None = None
        """The namespaces that need a peering object if it is mandatory; None: not known yet."""
        # The decisions that pause us; no others are kept.
        self._decisions: dict[PeeringScope, PeeringDecision] = {}
        # A deleted object that paused us, until the log says so.
        self._gone = ""
        # Where the rights to read, and to write, are missing.
        self._unreadable: set[PeeringScope] = set()
        self._unwritable: set[PeeringScope] = set()
        self._changing = asyncio.Lock()
        self._missing: list[str] = []
        self._moved = asyncio.Event()
        self._known = asyncio.Event()
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def blockers(self) -> tuple[str, ...]:
        """The identities of the peers that pause this operator, sorted."""
        return tuple(sorted({peer.identity for decision in self._decisions.values() for peer in decision.blockers}))

    @property
    def missing(self) -> tuple[str, ...]:
        """The namespaces without a peering object although it is mandatory, sorted."""
        return tuple(self._missing)

    def share(self, lease: str) -> None:
        """From now on the replicas of this operator share that Lease, and do not pause each other."""
        self.options = self._announcer.options = replace(self.options, rank=replace(self.options.rank, lease=lease))

    # The component.

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"peering {self.options.name}"

    async def start(self) -> None:
        """Begin to announce this operator. The gate stays closed until `serve` has read the peering objects."""
        self._unsubscribe = self._leadership.subscribe(lambda _: self._leadership_turned())
        self._tasks.spawn(self._announcer.run(), name="keep-alive")
        self._tasks.spawn(self._expire(), name="expiry")
        self._tasks.spawn(self._ask_again(), name="rights")

    async def stop(self, grace: float) -> None:
        """Close the gate and remove the record. Call it when everything that acts under the gate has stopped."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        await self._tasks.stop(min(grace, 1.0))
        leaving = asyncio.create_task(self._leave(max(1.0, min(grace, LEAVE_SECONDS))), name="peering: leaving")
        try:
            await asyncio.shield(leaving)
        except asyncio.CancelledError:
            # Also a hurried stop waits for the removal, for its bounded time.
            await asyncio.wait({leaving})
            raise
        finally:
            self.close()
            for scope in list(self._watched):
                await self._unwatch(scope)

    async def _leave(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._announcer.retract()
        except TimeoutError:
            _logger.warning(
                "The record of this operator could not be removed from the peering %r within %s s; peers wait for its end.",
                self.options.name,
                seconds,
            )

    # Where the peering objects are.

    async def serve(self, resources: Iterable[Resource], namespaces: Collection[str] | None) -> None:
        """Watch the peering objects among these resources of the cluster, in these namespaces; None: in all.

        Call it at the start and after each change of either. The first call waits until the existing objects have been read,
        PATIENCE seconds at most.
        """
        async with self._changing:
            first = await self._watch_scopes(resources, namespaces)
        while first and any(not watched.is_known for watched in self._watched.values()):
            self._known.clear()
            await self._known.wait()

    async def _watch_scopes(self, resources: Iterable[Resource], namespaces: Collection[str] | None) -> bool:
        """Watch these scopes only; returns whether this is the first time."""
        first = self._namespaces is None
        self._namespaces = (
            frozenset({None}) if self.options.clusterwide or namespaces is None else frozenset(namespaces)
        )
        found = relevant(resources, clusterwide=self.options.clusterwide)
        wanted = {PeeringScope(resource, namespace) for resource in found for namespace in self._namespaces}
        for gone in set(self._watched) - wanted:
            await self._unwatch(gone)
        self._unreadable &= wanted
        self._unwritable &= wanted
        for scope in sorted(wanted - set(self._watched) - self._unreadable, key=repr):
            await self._watch(scope, is_known=not first)
        self._decide()
        return first

    async def _ask_again(self) -> None:
        """Ask for missing rights again: they may come after the start, and without them peers would act side by side for ever."""
        while True:
            await asyncio.sleep(random.uniform(*ASK_AGAIN))
            async with self._changing:
                for scope in sorted(self._unreadable, key=repr):
                    if await self._missing_verb(scope) is None:
                        self._unreadable.discard(scope)
                        await self._watch(scope, is_known=False)
                for scope in sorted(self._unwritable, key=repr):
                    if await self._may_write(scope):
                        self._unwritable.discard(scope)
                        self._announcer.allow(scope)

    async def _watch(self, scope: PeeringScope, *, is_known: bool) -> None:
        missing = await self._missing_verb(scope)
        if missing is not None:
            mandatory = self.options.mandatory
            _logger.log(
                logging.WARNING if mandatory else logging.INFO,
                "The right to %s %r %s is missing: %s.",
                missing,
                scope.resource,
                scope,
                "the peering is mandatory, and this operator stays paused" if mandatory else "peers there are ignored",
            )
            self._unreadable.add(scope)
            return
        if not await self._may_write(scope):
            _logger.info(
                "The right to patch %r %s is missing: peers there cannot see this operator.", scope.resource, scope
            )
            self._announcer.deny(scope)
            self._unwritable.add(scope)
        selector = str(FieldRequirement("metadata.name", self.options.name))
        informer = self._factory.informer(scope.resource, scope.namespace, field_selector=selector)
        watched = self._watched[scope] = _Watched(scope, self.options.name, informer)
        watched.is_known = is_known
        watched.tasks.spawn(self._follow(watched), name="records")

    async def _missing_verb(self, scope: PeeringScope) -> str | None:
        """The verb whose right is missing to watch peers there; None: there is none."""
        for verb in ("list", "watch"):
            if not await self._may(verb, scope.resource, scope.namespace):
                return verb
        return None

    async def _may_write(self, scope: PeeringScope) -> bool:
        """Whether the record may be written there. Rights on subresources are not asked for."""
        return "status" in scope.resource.subresources or await self._may("patch", scope.resource, scope.namespace)

    async def _unwatch(self, scope: PeeringScope) -> None:
        watched = self._watched.pop(scope)
        await watched.tasks.stop(1.0)
        for obj in watched.objects():
            self._forget(watched, obj)
        await self._factory.release(watched.informer)

    # What the records say.

    def _objects(self) -> dict[PeeringScope, str]:
        return {watched.scope_of(obj): obj.uid for watched in self._watched.values() for obj in watched.objects()}

    async def _follow(self, watched: _Watched) -> None:
        async with watched.informer.subscribe(name="peering") as subscription:
            watched.tasks.spawn(self._await_list(watched, subscription.synced), name="first list")
            async for batch in subscription:
                for delta in batch:
                    if delta.object.name == watched.name:
                        self._take(watched, delta)
                self._decide()

    def _take(self, watched: _Watched, delta: Delta) -> None:
        if delta.kind is DeltaKind.DELETED:
            self._forget(watched, delta.object)
        else:
            self._look(watched, delta.object)
        if delta.old is None or delta.old.uid != delta.object.uid:
            self._announcer.wake()

    def _forget(self, watched: _Watched, obj: Object) -> None:
        """The object was deleted, or is not watched any longer."""
        if self._decisions.pop(watched.scope_of(obj), None) is not None:
            self._gone = f"{watched.scope.resource!r} {obj.key}"

    async def _await_list(self, watched: _Watched, synced: asyncio.Event) -> None:
        """Keep the gate closed until the first list, as long as one may come."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not synced.is_set() and asyncio.get_running_loop().time() < deadline:
            # A parked resource is not served, or forbidden.
            if watched.informer.state.phase is Phase.PARKED:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await synced.wait()
        if not synced.is_set():
            _logger.warning(
                "The peering object %r could not be read yet; %s: %r",
                self.options.name,
                "this operator is paused until it is" if self.options.mandatory else "peers are ignored until it is",
                watched.informer,
            )
        watched.is_known = True
        self._known.set()
        self._announcer.wake()
        self._decide()

    def _look(self, watched: _Watched, obj: Object) -> None:
        """Decide by one object as it is now."""
        now, scope = clock.now(), watched.scope_of(obj)
        decision = decide(read_peers(obj.body().get("status"), now), self.options.rank, now)
        before = self._decisions.pop(scope, PeeringDecision())
        if decision.blockers:
            self._decisions[scope] = decision
        self._report(watched, obj, before, decision)
        if decision.obsolete and self._leadership.is_open and not self._tasks.stopping:
            self._tasks.spawn(self._announcer.remove(scope, decision.obsolete), name="clean-up")
        self._moved.set()

    def _leadership_turned(self) -> None:
        """Announce this operator, or cease to; a new leader removes obsolete records, which standbys leave."""
        self._announcer.wake()
        for watched in self._watched.values():
            for obj in watched.objects():
                self._look(watched, obj)
        self._decide()

    async def _expire(self) -> None:
        """Decide again at the deadline of a record that pauses us."""
        while True:
            self._moved.clear()
            ends = [decision.until for decision in self._decisions.values() if decision.until is not None]
            wait = None
            if ends:
                wait = max(SHORTEST_SLEEP, min((min(ends) - clock.now()).total_seconds(), LONGEST_SLEEP))
            try:
                async with asyncio.timeout(wait):
                    await self._moved.wait()
            except TimeoutError:
                self._expired()

    def _expired(self) -> None:
        now = clock.now()
        for watched in self._watched.values():
            for obj in watched.objects():
                decision = self._decisions.get(watched.scope_of(obj))
                if decision is not None and decision.until is not None and decision.until <= now:
                    self._look(watched, obj)
        self._decide()

    # The decision.

    def _decide(self) -> None:
        """Open or close the gate."""
        if self._namespaces is None or self._tasks.stopping:
            return
        if self.options.mandatory:
            self._look_for_missing(self._namespaces)
        waiting = any(not watched.is_known for watched in self._watched.values())
        if self._decisions or self._missing or (self.options.mandatory and waiting):
            self.close()
        elif not waiting and not self.is_open:
            if self._gone:
                _logger.info(
                    "Resuming operations after the pause. %s, which paused this operator, is gone.", self._gone
                )
                self._gone = ""
            self.open()

    def _look_for_missing(self, namespaces: frozenset[str | None]) -> None:
        # An object may exist where nothing is listed yet.
        found = {
            watched.scope.namespace for watched in self._watched.values() if not watched.is_known or watched.objects()
        }
        before, self._missing = (
            self._missing,
            sorted("the cluster" if name is None else name for name in namespaces - found),
        )
        if self._missing and self._missing != before:
            _logger.warning(
                "Pausing operations until there is a peering object %r, which is mandatory; missing in: %s.",
                self.options.name,
                ", ".join(self._missing[:5]),
            )
        elif before and not self._missing:
            _logger.info("The peering object %r is there.", self.options.name)

    def _report(self, watched: _Watched, obj: Object, before: PeeringDecision, decision: PeeringDecision) -> None:
        identities = [peer.identity for peer in decision.blockers]
        if decision.is_conflict is before.is_conflict and identities == [peer.identity for peer in before.blockers]:
            return
        where = f"{watched.scope.resource!r} {obj.key}"
        peers = cut(str(list(decision.blockers)), 2000)
        if decision.is_conflict:
            _logger.warning("Possibly conflicting operators with the same priority: %s, as %s says.", peers, where)
            if not before.is_conflict:
                _logger.warning("Pausing all operators, including self: %s", peers)
        elif decision.blockers:
            _logger.info("Pausing operations in favour of %s, as %s says.", peers, where)
        elif not self._decisions:
            self._gone = ""
            _logger.info("Resuming operations after the pause. The peers that caused it are gone from %s.", where)
