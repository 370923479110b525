"""Sources turn changes into keys of a controller: informers, and anything that can be iterated, such as channels and clocks."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from ...client.objects import Object, version_order
from ...client.resources import Resource
from ...informers.deltas import DELETED, SYNCED, UPDATED, Delta, DeltaKind
from ...runtime.tasks import Tasks
from .mappers import Mapper
from .predicates import Predicate
from .reconciler import Trigger

_logger = logging.getLogger("ctl.controller")

K = TypeVar("K", bound=Hashable)

T = TypeVar("T")

BACKLOG_PRIORITY = -100
"""The priority of objects from a start-up, a re-list or a resync (controller-runtime's LowPriority)."""
REPLAY_CHUNK = 500
"""How many stored objects are replayed before the loop runs other tasks."""
REMEMBERED_KEYS = 10_000
"""How many keys an iterated source remembers while the gate is closed; the last ones."""
STOP_GRACE = 1.0
"""Seconds that the tasks of a source have to end."""


class DeltaStream(Protocol):
    """The part of an informer's subscription that a source uses."""

    synced: asyncio.Event
    """Set when the objects that were stored at the beginning have been delivered."""

    @property
    def depth(self) -> int:
        """How many deltas wait."""

    def __aiter__(self) -> AsyncIterator[list[Delta]]:
        """The deltas, in order."""

    def close(self) -> object:
        """End the delivery."""


class ObjectStore(Protocol):
    """The part of an informer's store that a source uses."""

    def values(self) -> Iterable[Object]:
        """All objects."""


class SharedInformer(Protocol):
    """The part of an informer that a source uses."""

    @property
    def resource(self) -> Resource:
        """The resource of its objects."""

    @property
    def store(self) -> ObjectStore:
        """The local copy."""

    def subscribe(self, *, name: str, relisted: bool) -> DeltaStream:
        """Receive all objects, and then all changes."""

    async def catch_up(self, version: str | None, heard_after: float | None) -> bool:
        """Wait until the copy shows that version and was in touch since then; see `Informer.catch_up`."""


@dataclass(frozen=True, slots=True)
class Rules(Generic[K]):
    """The keys of a delta, and their order.

    The predicate is called first; if it returns false, the mapper is not called. The mapper is called for each delta in order, also
    while its keys are dropped because the gate is closed or the source is held; after that it is called for each stored object, as
    `initial`. For deltas that `skips_backoff` accepts (by default none) a key does not wait for the end of its back-off.
    """

    mapper: Mapper[K]
    predicate: Predicate | None = None
    skips_backoff: Predicate | None = None
    relisted: bool = False
    """Whether each list of the server gives a delta of each object."""


class SourceOwner(Protocol[K]):
    """The part of a controller that its sources use."""

    name: str

    @property
    def is_acting(self) -> bool:
        """Whether the gate is open."""

    def request(self, key: K, trigger: Trigger, priority: int, skips_backoff: bool, /) -> None:
        """Request an attempt; ignored while the gate is closed."""

    def count_error(self, source: str, /) -> None:
        """Count a change, or a key, that is lost."""

    def leave(self, source: "Source[K]", /) -> None:
        """Forget a source: it is stopped."""


class Source(Generic[K]):
    """A source of keys of one controller."""

    held = False
    """Whether its keys are dropped, since the copy may be older than the last write of a predecessor."""

    def __init__(self, name: str, controller: SourceOwner[K]) -> None:
        self.name = name
        self.synced = asyncio.Event()
        """Set when the objects that were there at the beginning have been mapped."""
        self.tasks = Tasks(f"watch {name} for {controller.name}")
        self._controller = controller

    @property
    def is_open(self) -> bool:
        """Whether its keys are attempted now: the gate is open, and the copy has caught up with the predecessors' writes."""
        return self._controller.is_acting and not self.held

    async def run(self) -> None:
        """Turn changes into requests until the source ends."""
        raise NotImplementedError

    def close(self) -> None:
        """Take no more changes."""
        self._controller.leave(self)

    async def stop(self) -> None:
        """Take no more changes. Keys that are in the queue stay there. May be called again."""
        self.close()
        await self.tasks.stop(STOP_GRACE)


class InformerSource(Source[K]):
    """Maps the deltas of an informer to keys.

    When the mapper or a predicate raises, this one delta is lost: the error is logged and counted.
    """

    def __init__(self, name: str, controller: SourceOwner[K], informer: SharedInformer, rules: Rules[K]) -> None:
        super().__init__(name, controller)
        self.informer = informer
        self.dropped = False
        """Whether keys were dropped while the source was held."""
        self._rules = rules
        self._request = controller.request
        self._deltas = informer.subscribe(name=name, relisted=rules.relisted)
        self.synced = self._deltas.synced
        self._resource = repr(informer.resource)
        # The objects that a replay has shown while older deltas of them waited, by uid; and the uids of deltas taken during each replay.
        self._shown: dict[str, Object] = {}
        self._overtaken: list[set[str]] = []

    async def run(self) -> None:
        """Take the deltas as they come, until the subscription is closed."""
        async for batch in self._deltas:
            at = asyncio.get_running_loop().time()
            for delta in batch:
                for uids in self._overtaken:
                    uids.add(delta.object.uid)
                if not self._shown or not self._is_outdated(delta):
                    self._take(delta, at)
            if not self._deltas.depth:
                self._shown.clear()

    async def replay(self) -> None:
        """Map every stored object as if it had just been listed; changes are mapped meanwhile as ever.

        No object goes back in time: waiting deltas that are no newer than the object shown here are skipped, except for deletions, and
        objects whose deltas were taken meanwhile are not shown.
        """
        overtaken = set[str]()
        self._overtaken.append(overtaken)
        objects = list(self.informer.store.values())
        try:
            for start in range(0, len(objects), REPLAY_CHUNK):
                chunk = objects[start : start + REPLAY_CHUNK]
                at = asyncio.get_running_loop().time()
                if self._deltas.depth:
                    self._shown.update((obj.uid, obj) for obj in chunk if obj.uid not in overtaken)
                for obj in chunk:
                    if obj.uid not in overtaken:
                        self._take(Delta(kind=DeltaKind.ADDED, object=obj, old=None, initial=True, wire_type=None), at)
                await asyncio.sleep(0)
        finally:
            self._overtaken = [uids for uids in self._overtaken if uids is not overtaken]

    def _is_outdated(self, delta: Delta) -> bool:
        shown = self._shown.get(delta.object.uid)
        if shown is None or delta.kind is DELETED:
            return False
        known, version = version_order(shown.resource_version), version_order(delta.object.resource_version)
        return known is not None and version is not None and version <= known

    def close(self) -> None:
        """End the subscription."""
        super().close()
        self._deltas.close()

    def _take(self, delta: Delta, at: float) -> None:
        rules = self._rules
        try:
            if rules.predicate is not None and not rules.predicate(delta):
                return
            keys = rules.mapper(delta)
            if self.held:
                # Also where the mapper returned no keys: it may know that they would be dropped.
                self.dropped = True
                return
            if not keys:
                return
            priority = BACKLOG_PRIORITY if _is_repetition(delta) else 0
            skips_backoff = rules.skips_backoff is not None and rules.skips_backoff(delta)
            trigger = Trigger(self.name, at, delta.kind, self._resource, delta.object)
            for key in keys:
                self._request(key, trigger, priority, skips_backoff)
        except Exception:
            self._controller.count_error(self.name)
            _logger.exception(
                "The watch %s failed for a change of %r %s, which is lost to it.",
                self.name,
                self.informer.resource,
                delta.object.key,
            )


def _is_repetition(delta: Delta) -> bool:
    """Whether nothing has changed just now: the object was there at the beginning, or is shown again."""
    if delta.initial or delta.kind is SYNCED:
        return True
    return (
        delta.old is not None and delta.kind is UPDATED and delta.old.resource_version == delta.object.resource_version
    )


class IteratorSource(Source[K]):
    """Maps the items of an asynchronous iterable to keys.

    Stored objects are requested anyway when a gate opens; a key without an object is known to its source only. So with `remember` keys
    that came while the gate was closed, or that a lost term has left in the queue, are requested at the next opening: the last
    REMEMBERED_KEYS of them.
    """

    def __init__(
        self,
        name: str,
        controller: SourceOwner[K],
        items: AsyncIterable[T],
        keys: Callable[[T], Iterable[K]],
        *,
        remember: bool = True,
    ) -> None:
        super().__init__(name, controller)
        self._items = items
        self._keys = keys
        self._remember = remember
        # Keys that came while the gate was closed; and those that were requested, of which some are attempted by now.
        self._missed: dict[K, Trigger] = {}
        self._requested: dict[K, Trigger] = {}

    async def run(self) -> None:
        """Take the items as they come. An exception of the iterable, or of `keys`, ends the source with an error in the log."""
        async for item in self._items:
            trigger = Trigger(self.name, asyncio.get_running_loop().time())
            for key in self._keys(item):
                self._take(key, trigger)

    def _take(self, key: K, trigger: Trigger) -> None:
        controller = self._controller
        if self._remember:
            if controller.is_acting:
                _put(self._requested, key, trigger)
            elif not _put(self._missed, key, trigger):
                controller.count_error(self.name)
        controller.request(key, trigger, 0, False)

    def put_back(self, is_pending: Callable[[K], bool]) -> None:
        """Remember the requested keys that are not attempted yet: the queue will be emptied."""
        requested, self._requested = self._requested, {}
        for key, trigger in requested.items():
            if is_pending(key):
                _put(self._missed, key, trigger)

    def request_missed(self) -> None:
        """Request the remembered keys."""
        missed, self._missed = self._missed, {}
        for key, trigger in missed.items():
            self._take(key, trigger)


def _put(keys: dict[K, Trigger], key: K, trigger: Trigger) -> bool:
    """Remember a key with its first trigger; false when the oldest key had to be forgotten."""
    keys[key] = keys.pop(key, trigger)
    if len(keys) <= REMEMBERED_KEYS:
        return True
    del keys[next(iter(keys))]
    return False


class Channel(AsyncIterator[T]):
    """A source for a program's own events: sent from any thread, at any time, received by one listener in order.

    Items that are sent before somebody listens wait. After `close` the waiting items are still received, and no more can be sent.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._closed = False

    def send(self, item: T) -> None:
        """Send an item; returns at once. Raises RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError("The channel is closed; nothing can be sent any more.")
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """End the channel: the listener ends when it has received all items."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        waiting = self._waiting
        if waiting is not None:
            loop, event = waiting
            # This may be another thread.
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Receive the next item. Raises RuntimeError when there is a listener already."""
        if self._waiting is not None:
            raise RuntimeError("The channel has a listener already; a channel has one.")
        event = asyncio.Event()
        self._waiting = (asyncio.get_running_loop(), event)
        try:
            while not self._items:
                if self._closed:
                    raise StopAsyncIteration
                event.clear()
                # A thread may have sent an item before it could see the event.
                if not self._items:
                    await event.wait()
            return self._items.popleft()
        finally:
            self._waiting = None


def every(seconds: float, *, at_once: bool = False) -> Callable[[], AsyncIterator[int]]:
    """Make a clock that ticks in a period, without drift, and gives the ticks' numbers. Ticks that nobody awaits in time are left out.

    The first tick comes after one period, or at once. Raises ValueError for a period that is not positive.
    """
    if seconds <= 0:
        raise ValueError(f"A clock needs a positive period, in seconds; got {seconds}.")

    async def ticks() -> AsyncIterator[int]:
        now = asyncio.get_running_loop().time
        began = now()
        number = 0 if at_once else 1
        while True:
            await asyncio.sleep(began + number * seconds - now())
            yield number
            number = max(number + 1, int((now() - began) / seconds))

    return ticks
