"""Peering is a gate that is closed while operators of other programs, or of Kopf, are to act instead of this one."""

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
from ..leader.gate import AlwaysOpen, Callback, Gate, ManualGate
from .records import Announcer
from .rules import PeeringOptions, Spot, Standing, Verdict, judge, lacking, read_peers, relevant

_logger = logging.getLogger("ctl.peering")

Right = Callable[[str, Resource, str | None], Awaitable[bool]]
"""Whether a verb is allowed on a resource in a namespace (None: in all)."""

PATIENCE = 10.0
"""How long an optional peering object may stay unread before the operator goes on without it, in seconds."""
LEAVE_SECONDS = 5.0
"""How long taking out the record may take at the end."""
GLANCE = 0.2
"""How often it is looked whether there is hope for that, in seconds."""
ASK_AGAIN = (40.0, 60.0)
"""How long to wait before missing rights are asked for again, in seconds; at random between these."""
LONGEST_SLEEP = 30.0
"""Deadlines are of the wall clock, and are looked at again after so many seconds of the loop's: a machine may have slept."""
SHORTEST_SLEEP = 0.05


class _Place:
    """One collection that is watched for peering objects: a resource, in one namespace or in all."""

    def __init__(self, resource: Resource, namespace: str | None, name: str, informer: Informer) -> None:
        self.resource = resource
        self.namespace = namespace
        self.name = name
        self.informer = informer
        self.tasks = Tasks(f"peering {resource!r} {namespace or ''}".rstrip())
        # Whether its first list has been judged, or has turned out not to come.
        self.is_known = False

    def spot(self, obj: Object) -> Spot:
        return Spot(self.resource, obj.namespace)

    def objects(self) -> list[Object]:
        """The peering objects: servers that know no field selectors tell of others too."""
        return [obj for obj in self.informer.store.values() if obj.name == self.name]


class Peering:
    """A gate that peers close, and a component with a start and a stop.

    Promised: the gate is closed until the peering objects that exist at the start have been judged, while a peer of higher priority lives,
    while one of the same priority lives (which pauses itself as well), and, if the peering is mandatory, while there is no peering
    object. It is never revoked: what runs when it closes may end. While `leadership` is open, or if there is none to have, this operator's
    record is kept alive in all peering objects, and records of the dead are removed; else nothing is written. At the end the record is taken
    out, also after a cancellation, within a bounded time. Errors of the server never end it.

    Not promised: that two operators never act at once. Each judges by what it has heard, and by wall clocks.

    `may` is asked for each right before it is used, and for one that is missing every minute at most; None: everything is tried.
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
        self.options = options
        self._factory = factory
        self._leadership: Gate = AlwaysOpen() if leadership is None else leadership
        self._may = may
        self._valve = ManualGate()
        self._announcer = Announcer(client, options, lambda: self._leadership.is_open, self._objects)
        self._tasks = Tasks("peering")
        self._places: dict[tuple[Resource, str | None], _Place] = {}
        self._namespaces: frozenset[str | None] | None = None
        """Where there is to be a peering object if it is mandatory; None: not known yet."""
        # What pauses us: no others are kept.
        self._verdicts: dict[Spot, Verdict] = {}
        # An object that paused us and is gone, if that was not told yet.
        self._gone = ""
        # Where it may not look, and where it may not write, by what `may` has said.
        self._refused: set[tuple[Resource, str | None]] = set()
        self._mute: set[tuple[Resource, str | None]] = set()
        self._changing = asyncio.Lock()
        self._lacking: list[str] = []
        self._moved = asyncio.Event()
        self._known = asyncio.Event()
        self._unsubscribe: Callable[[], None] | None = None

    # The gate.

    @property
    def is_open(self) -> bool:
        """Whether no peer is in the way."""
        return self._valve.is_open

    async def wait_open(self) -> None:
        """Wait until no peer is in the way."""
        await self._valve.wait_open()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Be told of each change; call what is given back to end that."""
        return self._valve.subscribe(callback)

    @property
    def blockers(self) -> tuple[str, ...]:
        """Whom this operator is paused for, by identity; sorted."""
        return tuple(sorted({peer.identity for verdict in self._verdicts.values() for peer in verdict.blockers}))

    @property
    def missing(self) -> tuple[str, ...]:
        """Where there is no peering object although it is mandatory, by namespace; sorted."""
        return tuple(self._lacking)

    def share(self, lease: str) -> None:
        """From now on this operator's replicas share that Lease, and none of them pauses another."""
        self.options = self._announcer.options = replace(self.options, rank=replace(self.options.rank, lease=lease))

    # The component.

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return f"peering {self.options.name}"

    async def start(self) -> None:
        """Begin to announce this operator. The gate stays closed until `serve` is called and what it names has been judged."""
        self._unsubscribe = self._leadership.subscribe(lambda _: self._led())
        self._tasks.spawn(self._announcer.run(), name="keep-alive")
        self._tasks.spawn(self._expire(), name="expiry")
        self._tasks.spawn(self._ask_again(), name="rights")

    async def stop(self, grace: float) -> None:
        """Close the gate and take the record out. To be called when everything that acts under it has stopped."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        await self._tasks.stop(min(grace, 1.0))
        leaving = asyncio.create_task(self._leave(max(1.0, min(grace, LEAVE_SECONDS))), name="peering: leaving")
        try:
            await asyncio.shield(leaving)
        except asyncio.CancelledError:
            # Whoever is in a hurry still leaves no record behind, for as long as that is allowed to take.
            await asyncio.wait({leaving})
            raise
        finally:
            self._valve.close()
            for place in list(self._places):
                await self._dismiss(place)

    async def _leave(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._announcer.retract()
        except TimeoutError:
            _logger.warning(
                "The record of this operator could not be taken out of the peering %r within %s s; peers wait for its end.",
                self.options.name,
                seconds,
            )

    # Where the peering objects are.

    async def serve(self, resources: Iterable[Resource], namespaces: Collection[str] | None) -> None:
        """Look for peering objects by these of the cluster's resources (others may be among them) and in these namespaces; None: all.

        To be called at the start and after each change of either; not at the same time by several. The first call waits until what
        there is has been judged, PATIENCE seconds at most.
        """
        async with self._changing:
            first = await self._look_in(resources, namespaces)
        while first and any(not place.is_known for place in self._places.values()):
            self._known.clear()
            await self._known.wait()

    async def _look_in(self, resources: Iterable[Resource], namespaces: Collection[str] | None) -> bool:
        """Look there, and nowhere else; tells whether that is the first time."""
        first = self._namespaces is None
        spaces: frozenset[str | None] = (
            frozenset({None}) if self.options.clusterwide or namespaces is None else frozenset(namespaces)
        )
        self._namespaces = spaces
        found = relevant(resources, clusterwide=self.options.clusterwide)
        wanted = {(resource, namespace) for resource in found for namespace in spaces}
        for gone in [place for place in self._places if place not in wanted]:
            await self._dismiss(gone)
        self._refused &= wanted
        self._mute &= wanted
        for resource, namespace in sorted(wanted - set(self._places) - self._refused, key=repr):
            await self._watch(resource, namespace, is_known=not first)
        self._decide()
        return first

    async def _ask_again(self) -> None:
        """Rights often come a moment too late: without them this operator and its peers would act side by side for ever."""
        while True:
            await asyncio.sleep(random.uniform(*ASK_AGAIN))
            async with self._changing:
                for resource, namespace in sorted(self._refused, key=repr):
                    if await self._missing(resource, namespace) is None:
                        self._refused.discard((resource, namespace))
                        await self._watch(resource, namespace, is_known=False)
                for resource, namespace in sorted(self._mute, key=repr):
                    if self._may is not None and await self._may("patch", resource, namespace):
                        self._mute.discard((resource, namespace))
                        self._announcer.allow(Spot(resource, namespace))

    async def _watch(self, resource: Resource, namespace: str | None, *, is_known: bool) -> None:
        missing = await self._missing(resource, namespace)
        if missing is not None:
            self._report_refusal(resource, namespace, missing)
            self._refused.add((resource, namespace))
            return
        if await self._is_mute(resource, namespace):
            spot = Spot(resource, namespace)
            _logger.info("The right to patch %r %s is missing: peers are not told of this operator.", resource, spot)
            self._announcer.deny(spot)
            self._mute.add((resource, namespace))
        informer = self._factory.informer(
            resource, namespace, field_selector=str(FieldRequirement("metadata.name", self.options.name))
        )
        place = self._places[resource, namespace] = _Place(resource, namespace, self.options.name, informer)
        place.is_known = is_known
        place.tasks.spawn(self._follow(place), name="records")

    async def _missing(self, resource: Resource, namespace: str | None) -> str | None:
        """Which right to look for peers is missing there."""
        may = self._may
        if may is not None:
            for verb in ("list", "watch"):
                if not await may(verb, resource, namespace):
                    return verb
        return None

    async def _is_mute(self, resource: Resource, namespace: str | None) -> bool:
        """Whether the record may not be written there, as far as can be asked."""
        if self._may is None or "status" in resource.subresources:
            return False
        return not await self._may("patch", resource, namespace)

    def _report_refusal(self, resource: Resource, namespace: str | None, why: str) -> None:
        mandatory = self.options.mandatory
        _logger.log(
            logging.WARNING if mandatory else logging.INFO,
            "The right to %s %r %s is missing: %s.",
            why,
            resource,
            Spot(resource, namespace),
            "the peering is mandatory, and this operator stays paused"
            if mandatory
            else "peers are not looked for there",
        )

    async def _dismiss(self, key: tuple[Resource, str | None]) -> None:
        place = self._places.pop(key)
        await place.tasks.stop(1.0)
        for obj in place.objects():
            self._forget(place, obj)
        await self._factory.release(place.informer)

    # What the records say.

    def _objects(self) -> dict[Spot, str]:
        return {place.spot(obj): obj.uid for place in self._places.values() for obj in place.objects()}

    async def _follow(self, place: _Place) -> None:
        async with place.informer.subscribe(name="peering") as subscription:
            place.tasks.spawn(self._await_list(place, subscription.synced), name="first list")
            async for batch in subscription:
                for delta in batch:
                    if delta.object.name == place.name:
                        self._take(place, delta)
                self._decide()

    def _take(self, place: _Place, delta: Delta) -> None:
        if delta.kind is DeltaKind.DELETED:
            self._forget(place, delta.object)
        else:
            self._look(place, delta.object)
        if delta.old is None or delta.old.uid != delta.object.uid:
            self._announcer.wake()

    def _forget(self, place: _Place, obj: Object) -> None:
        """There is no such object any more, or it is not ours to look at."""
        if self._verdicts.pop(place.spot(obj), None) is not None:
            self._gone = f"{place.resource!r} {obj.key}"

    async def _await_list(self, place: _Place, synced: asyncio.Event) -> None:
        """Let the gate wait for the first list, for as long as there is hope for one."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not synced.is_set() and asyncio.get_running_loop().time() < deadline:
            # What is parked is not there, or is not for us to see.
            if place.informer.state.phase is Phase.PARKED:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GLANCE):
                    await synced.wait()
        if not synced.is_set():
            _logger.warning(
                "The peering object %r could not be read yet; %s: %r",
                self.options.name,
                "this operator is paused until it is" if self.options.mandatory else "peers are not asked until it is",
                place.informer,
            )
        place.is_known = True
        self._known.set()
        self._announcer.wake()
        self._decide()

    def _look(self, place: _Place, obj: Object) -> None:
        """Judge one object as it is now."""
        now, spot = clock.now(), place.spot(obj)
        verdict = judge(read_peers(obj.body().get("status"), now), self.options.rank, now)
        before = self._verdicts.pop(spot, Verdict())
        if verdict.is_paused:
            self._verdicts[spot] = verdict
        self._report(place, obj, before, verdict)
        if verdict.obsolete and self._leadership.is_open and not self._tasks.stopping:
            self._tasks.spawn(self._announcer.remove(spot, verdict.obsolete), name="clean-up")
        self._moved.set()

    def _led(self) -> None:
        """Leadership has turned: announce ourselves, or cease to; and tidy up what standbys left to us."""
        self._announcer.wake()
        for place in self._places.values():
            for obj in place.objects():
                self._look(place, obj)
        self._decide()

    async def _expire(self) -> None:
        """Judge anew what pauses us when a record ends to count."""
        while True:
            self._moved.clear()
            ends = [verdict.until for verdict in self._verdicts.values() if verdict.until is not None]
            wait = None
            if ends:
                left = (min(ends) - clock.now()).total_seconds()
                wait = max(SHORTEST_SLEEP, min(left, LONGEST_SLEEP))
            try:
                async with asyncio.timeout(wait):
                    await self._moved.wait()
            except TimeoutError:
                self._expired()

    def _expired(self) -> None:
        now = clock.now()
        for place in self._places.values():
            for obj in place.objects():
                verdict = self._verdicts.get(place.spot(obj))
                if verdict is not None and verdict.until is not None and verdict.until <= now:
                    self._look(place, obj)
        self._decide()

    # The decision.

    def _decide(self) -> None:
        """Open or close the gate."""
        if self._namespaces is None or self._tasks.stopping:
            return
        if self.options.mandatory:
            self._look_for_lacking(self._namespaces)
        waiting = any(not place.is_known for place in self._places.values())
        if self._verdicts or self._lacking or (self.options.mandatory and waiting):
            self._valve.close()
        elif not waiting and not self._valve.is_open:
            if self._gone:
                _logger.info(
                    "Resuming operations after the pause. %s, which paused this operator, is gone.", self._gone
                )
                self._gone = ""
            self._valve.open()

    def _look_for_lacking(self, namespaces: frozenset[str | None]) -> None:
        # Of what is not listed yet nobody knows that it is missing.
        found = [
            (place.resource, place.namespace, not place.is_known or bool(place.objects()))
            for place in self._places.values()
        ]
        before, self._lacking = self._lacking, lacking(found, namespaces)
        if self._lacking and self._lacking != before:
            _logger.warning(
                "Pausing operations until there is a peering object %r, which is mandatory; missing in: %s.",
                self.options.name,
                ", ".join(self._lacking[:5]),
            )
        elif before and not self._lacking:
            _logger.info("The peering object %r is there.", self.options.name)

    def _report(self, place: _Place, obj: Object, before: Verdict, verdict: Verdict) -> None:
        who = [peer.identity for peer in verdict.blockers]
        if verdict.standing is before.standing and who == [peer.identity for peer in before.blockers]:
            return
        where = f"{place.resource!r} {obj.key}"
        peers = cut(str(list(verdict.blockers)), 2000)
        if verdict.standing is Standing.YIELDING:
            _logger.info("Pausing operations in favour of %s, as %s says.", peers, where)
        elif verdict.standing is Standing.CONFLICTING:
            _logger.warning("Possibly conflicting operators with the same priority: %s, as %s says.", peers, where)
            if before.standing is not Standing.CONFLICTING:
                _logger.warning("Pausing all operators, including self: %s", peers)
        elif not self._verdicts:
            self._gone = ""
            _logger.info("Resuming operations after the pause. Those whom it was for are gone from %s.", where)
