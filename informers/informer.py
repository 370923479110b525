"""The shared informer: a local cache of the objects of one resource, and subscriptions to their changes.

Promised: each subscriber receives every object that exists, each change that the watch delivers (a slow subscriber the last of several),
and every deletion, in the order of each object's versions. The store is never older than the deltas that subscribers have received, and
shows own writes that were added at once.

Not promised: any order between objects; that the store is as new as the server; or, after an interruption, the states in between.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..client.objects import Object, version_order
from ..client.resources import Key, Resource
from ..runtime import clock
from ..runtime.metrics import Sample
from ..runtime.tasks import Tasks
from . import metrics
from .deltas import Delta
from .indexers import IndexFunction, Name
from .lister import Lister
from .listwatch import ListWatch, ObjectSelection, SelectionMatcher
from .own_writes import OwnWrites
from .reader import Reader
from .reflector import Reflector
from .reflector_state import Phase
from .relist import Listing
from .settings import InformerSettings
from .subscription import Subscription
from .transform import Transform
from .watch_cache import WatchCache

_WHOLE: Name = (None, "")
"""The name of no object: waits for the whole cache."""

STOP_GRACE = 5.0
"""Seconds that the reflector has to end."""


@dataclass(frozen=True)
class Waiting:
    """A reader that waits for a version of an object."""

    name: Name
    version: str
    reached: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class InformerState:
    """The state of an informer at one moment, for readiness, logs and people. Times are aware; ages are in seconds."""

    phase: Phase
    since: datetime
    """When the phase began."""
    synced: bool
    """Whether a first list was completed: the store shows a true state of the server, although perhaps an old one."""
    last_event: datetime | None
    """When the server last sent an event, a bookmark or a page, or accepted a watch where it has sent no bookmarks yet."""
    age: float | None
    """Seconds since then, by the loop's clock or the wall clock, whichever shows more."""
    error: str | None
    """The present error; None while there is none."""

    def is_stale(self, limit: float = 90.0) -> bool:
        """Whether this informer was synced and has heard nothing for that long, for another reason than being parked."""
        return self.synced and self.phase is not Phase.PARKED and self.age is not None and self.age > limit

    def __str__(self) -> str:
        heard = "never heard" if self.age is None else f"heard {self.age:.0f} s ago"
        return f"{self.phase.value}, {heard}" + (f": {self.error}" if self.error else "")


class Informer:
    """The shared informer of one resource, namespace and selection. A factory makes, starts and stops it. See the module for its promises."""

    def __init__(
        self,
        resource: Resource,
        selection: ObjectSelection,
        source: ListWatch,
        settings: InformerSettings = InformerSettings(),  # noqa: B008 - frozen
        *,
        transform: Transform | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.selection = selection
        self.namespace = selection.namespace
        """The watched namespace; None is all."""
        self.settings = settings
        self._cache = WatchCache()
        self._own_writes = OwnWrites(self._cache, settings.own_writes_limit)
        self._holding: asyncio.TimerHandle | None = None
        self.store = Reader(self._cache, self._own_writes)
        """The objects, with own writes."""
        self.lister = Lister(self.store)
        """Reads of the store by namespace, selector or index."""
        self._reflector = Reflector(self._name(), source, self._cache, self, settings, chance)
        self.transform = self._reflector.transform = transform
        """The transform of objects before they are stored."""
        self.metrics = self._reflector.metrics
        """The counts of its reflector."""
        self._matcher = SelectionMatcher(selection)
        self._subscriptions: dict[Subscription, None] = {}
        self._synced = asyncio.Event()
        self._waiting: list[Waiting] = []
        self._tasks: Tasks | None = None
        self.waits = 0
        """How often a reader waited for a version."""

    def _name(self) -> str:
        selection = str(self.selection)
        return f"{self.resource!r} {selection}" if selection else f"{self.resource!r}"

    def __repr__(self) -> str:
        return f"<Informer of {self._name()}: {self.state}>"

    # Reading.

    def delivered(self, key: Key) -> Object | None:
        """One object as the watch has delivered it, without newer own writes; None: there is none."""
        return self._cache.objects.get(key)

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add an indexer, also after the start. See `Reader.add_indexer`."""
        self.store.add_indexer(index, function)

    @property
    def state(self) -> InformerState:
        """The state at this moment."""
        state, heard = self._reflector.state, self._reflector.heard
        present = clock.instant()
        return InformerState(
            phase=state.phase,
            since=present.wall - timedelta(seconds=max(0.0, present.monotonic - state.since)),
            synced=self._synced.is_set(),
            last_event=None if heard is None else heard.wall,
            age=None if heard is None else present.since(heard),
            error=None if state.error is None else str(state.error) or repr(state.error),
        )

    @property
    def own_writes_pending(self) -> int:
        """How many own writes are visible before the watch has delivered them."""
        return len(self._own_writes)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The open subscriptions."""
        return tuple(self._subscriptions)

    # Subscribing.

    def subscribe(
        self, name: str = "anonymous", *, relisted: bool = False, resync: float | None = None
    ) -> Subscription:
        """Subscribe to all changes, at any time. The existing objects come first, as ADDED and `initial`.

        `relisted`: a new list of the server repeats each object, as UPDATED with the same version where it has not changed. `resync`:
        all objects are repeated in this period, in seconds, as SYNCED.
        """
        subscription = Subscription(name, self.settings, self._snapshot)
        subscription.wants_relisted = relisted
        subscription.on_close(lambda closed: self._subscriptions.pop(closed, None))
        if self._synced.is_set():
            subscription.begin(self._snapshot())
        self._subscriptions[subscription] = None
        if resync is not None:
            subscription.resync_every(resync)
        return subscription

    def _snapshot(self) -> list[Object]:
        # Held deltas are older than this snapshot.
        self._publish(self._own_writes.flush())
        return list(self._cache.objects.values())

    # Synced.

    @property
    def has_synced(self) -> bool:
        """Whether the first list is complete. Subscriptions have a `synced` of their own."""
        return self._synced.is_set()

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Wait for the first complete list; false after `timeout` seconds. `state` has the reason."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    # Own writes.

    def add_own_write(self, obj: Object, *, author: str | None = None, echo: bool = True) -> bool:
        """Show the response to an own write to all readers at once. When the watch delivers it, the delta is an echo.

        With an `author` the delta has that name instead and is no echo: several writers in one process may want to receive each other's
        changes. Without `echo` the delta is an ordinary change: for objects that were only read, and for responses to writes that may
        have changed nothing, whose version is the last writer's.

        False when versions cannot be compared, or before the first list: then the object is not shown, and `wait_for` waits for the
        watch. Responses may come in any order, and after the watch. Objects outside of the informer's namespace are ignored; an object
        that the write has put outside of its selectors is hidden.
        """
        if not self._matcher.covers(obj.namespace):
            return True
        obj = self.slim(obj)
        return self._own_writes.answered(obj, author, echo=echo, hidden=not self._matcher.matches(obj))

    def slim(self, obj: Object) -> Object:
        """An object as it is stored: transformed."""
        return self._reflector.slim(obj)

    def has_told_of(self, obj: Object) -> bool:
        """Whether the watch has delivered this version of an object; false for an own write that it has yet to deliver."""
        return self._cache.objects.get((obj.namespace, obj.name)) is obj

    def add_own_deletion(self, key: Key, uid: str) -> None:
        """Hide an object that an own write has deleted for good, until the watch delivers the deletion."""
        self._own_writes.deleted(key, uid)

    @contextmanager
    def writing(self, key: Key) -> Iterator[None]:
        """A context for the request of an own write: deltas of this object wait until the response shows which of them are echoes.

        They wait for one second at the most; after that an echo is an ordinary change. Call `add_own_write` with the response inside.
        """
        name = (key[0], key[1])
        self._own_writes.begin(name)
        try:
            yield
        finally:
            self._publish(self._own_writes.end(name))

    async def wait_for(self, obj: Object, timeout: float | None = None) -> bool:
        """Wait until the store has this version of an object, or a later one; false after `timeout` seconds."""
        return await self._wait_for((obj.namespace, obj.name), obj.resource_version, timeout)

    async def _wait_for(self, name: Name, version: str, timeout: float | None) -> bool:
        if self._is_reached(name, version):
            return True
        self.waits += 1
        waiting = Waiting(name, version, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(timeout):
                await waiting.reached
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(waiting)
        return True

    async def catch_up(self, version: str | None, heard_after: float | None = None, patience: float = 5.0) -> bool:
        """Wait until the store shows the writes of a predecessor; tells whether that took a list.

        It does when it has the version (empty: any; None: unknown) and the server has sent something after the given moment in the
        loop's time (None: does not matter). If not within `patience` seconds, or if the version is unknown, one consistent list does.
        Waits for the first list, and for that one, for any time.
        """
        await self._synced.wait()
        heard = self._reflector.heard
        if heard_after is None or (heard is not None and heard.monotonic > heard_after):
            if version == "":
                return False
            if version is not None and await self._wait_for(_WHOLE, version, patience):
                return False
        await self._reflector.relist()
        return True

    def _is_reached(self, name: Name, version: str) -> bool:
        present = self.store.get(name)
        if present is not None and present.resource_version == version:
            return True
        wanted, stands = version_order(version), version_order(self.store.resource_version)
        if wanted is None:
            return False
        seen = None if present is None else version_order(present.resource_version)
        return (stands is not None and stands >= wanted) or (seen is not None and seen >= wanted)

    def _wake_readers(self) -> None:
        for waiting in self._waiting:
            if not waiting.reached.done() and self._is_reached(waiting.name, waiting.version):
                waiting.reached.set_result(None)

    # For the reflector.

    def changed(self, deltas: list[Delta]) -> None:
        """The watch has delivered changes."""
        loop = asyncio.get_running_loop()
        self._publish(self._own_writes.follow(deltas, loop.time()))
        self._await_held(loop)
        if self._waiting:
            self._wake_readers()

    def _await_held(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._own_writes.next_due
        if due is not None and self._holding is None:
            self._holding = loop.call_at(due, self._tell_held, loop)

    def _tell_held(self, loop: asyncio.AbstractEventLoop) -> None:
        self._holding = None
        # Timers may be early by the clock's resolution.
        self._publish(self._own_writes.overdue(loop.time() + 0.001))
        self._await_held(loop)

    def listed(self, changes: list[Delta], listing: Listing) -> None:
        """A list has replaced the cache's contents."""
        changes += self._own_writes.relisted(
            listing.number, consistent=listing.consistent, rewound=listing.rewound, gone=changes
        )
        if not self._synced.is_set():
            self._synced.set()
            for subscription in self._subscriptions:
                subscription.begin(list(self._cache.objects.values()))
        else:
            # Held deltas are older than the list.
            self._publish(self._own_writes.flush())
            self._publish(changes)
            eager = [subscription for subscription in self._subscriptions if subscription.wants_relisted]
            if eager:
                relisted = listing.relisted()
                for subscription in eager:
                    subscription.offer(relisted)
        if self._waiting:
            self._wake_readers()

    def _publish(self, deltas: list[Delta]) -> None:
        if deltas:
            for subscription in self._subscriptions:
                subscription.offer(deltas)

    # For the factory.

    def start(self) -> None:
        """Begin to list and watch. May be called again; RuntimeError after `stop`."""
        if self._tasks is None:
            self._tasks = Tasks("informers")
            self._tasks.spawn(self._reflector.run(), name=self._name())
        elif self._tasks.stopping:
            raise RuntimeError(f"The informer of {self._name()} was stopped; ask the factory for a new one.")

    async def stop(self) -> None:
        """Close the watch and all subscriptions. The store stays readable."""
        if self._holding is not None:
            self._holding.cancel()
        for subscription in self.subscriptions:
            subscription.close()
        if self._tasks is not None:
            await self._tasks.stop(STOP_GRACE)

    def retry_now(self) -> None:
        """Retry at once instead of waiting for the back-off."""
        self._reflector.retry_now()

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment."""
        resource, store, state = self.resource, self.store, self.state
        selectors = str(replace(self.selection, namespace=None))
        labels = (resource.group, resource.version, resource.plural, self.namespace or "", selectors)
        yield from self.metrics.samples(labels)
        version = store.resource_version[-15:]
        for family, value in (
            (metrics.STALE, self._cache.stale),
            (metrics.MALFORMED, self._cache.malformed),
            (metrics.OBJECTS, len(store)),
            (metrics.BYTES, store.nbytes),
            (metrics.VERSION, int(version) if version.isdecimal() else 0),
            (metrics.PENDING, self.own_writes_pending),
            (metrics.WAITS, self.waits),
            (metrics.SYNCED, int(state.synced)),
        ):
            yield Sample(family, labels, value)
        if state.age is not None:
            yield Sample(metrics.AGE, labels, state.age)
        yield Sample(metrics.PHASE, (*labels, state.phase.value), 1)
        for subscription in self._subscriptions:
            names = (*labels, subscription.name)
            yield Sample(metrics.DEPTH, names, subscription.depth)
            yield Sample(metrics.LAG, names, subscription.lag)
            yield Sample(metrics.JOINED, names, subscription.joined)
