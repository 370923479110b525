"""A watch follows one source of changes and turns each change into keys for the queue."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...client.objects import Object, version_order
from ...client.resources import Resource
from ...informers.deltas import DELETED, SYNCED, UPDATED, Delta, DeltaKind
from .mappers import Mapper
from .predicates import Predicate
from .reconciler import Reason

_logger = logging.getLogger("ctl.controller")

K = TypeVar("K", bound=Hashable)

BACKLOG_PRIORITY = -100
"""The priority of what a start-up, a re-list or a resync brings (controller-runtime's LowPriority)."""

REPLAY_CHUNK = 500
"""How many stored objects are replayed in one turn of the loop."""


class Deltas(Protocol):
    """What an informer's subscription is to a watch."""

    synced: asyncio.Event
    """Set when what was in the store at the beginning has been delivered."""

    @property
    def depth(self) -> int:
        """How many deltas wait."""

    def __aiter__(self) -> AsyncIterator[list[Delta]]:
        """The deltas, in order."""

    def close(self) -> object:
        """End the delivery."""


class Stored(Protocol):
    """What an informer's store is to a watch."""

    def values(self) -> Iterable[Object]:
        """All objects."""


class Informed(Protocol):
    """What an informer is to a watch."""

    @property
    def resource(self) -> Resource:
        """Whose changes it tells."""

    @property
    def store(self) -> Stored:
        """The local copy."""

    def subscribe(self, *, name: str) -> Deltas:
        """Hear of all objects, and then of all changes."""

    async def catch_up(self, version: str | None, heard_after: float | None) -> bool:
        """Wait until the copy shows that version and was in touch since then; see `Informer.catch_up`."""


@dataclass(frozen=True, slots=True)
class Rules(Generic[K]):
    """Which keys a delta asks for, and how.

    The trigger is called for each delta in order, also while the gate is closed or the watch is held (its keys are dropped then;
    when that is over it is told of each stored object, as initial). The predicate is asked first; when it says no, the trigger
    is not called.
    `urgent` says for which deltas a key does not wait for the end of its back-off; by default for none.
    """

    trigger: Mapper[K]
    predicate: Predicate | None = None
    urgent: Predicate | None = None


class Watch(Generic[K]):
    """Follows one informer. Made by the controller.

    An exception of the trigger or a predicate loses the one delta: it is logged and counted, and the next one is taken.
    """

    def __init__(self, name: str, informer: Informed, rules: Rules[K], ask: "Ask[K]", errors: dict[str, int]) -> None:
        self.name = name
        self.informer = informer
        # By the names of watches; shared by those of a controller, so that counts outlive them.
        self._errors = errors
        self._rules = rules
        self._ask = ask
        self._deltas = informer.subscribe(name=name)
        self._what = repr(informer.resource)
        self.held = False
        """Whether the keys of its deltas are dropped, since the copy may be older than what a predecessor wrote."""
        self.dropped = False
        """Whether any were."""
        # What replays have shown while older deltas waited to be taken, by uid; and of whom deltas were taken during each replay.
        self._shown: dict[str, Object] = {}
        self._overtaken: list[set[str]] = []

    @property
    def synced(self) -> asyncio.Event:
        """Set when what was in the store at the beginning has been delivered."""
        return self._deltas.synced

    async def follow(self) -> None:
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
        """Ask for every stored object as if it had just been listed; what changes meanwhile comes as ever.

        Nothing goes back in time: what waited to be taken is not, if it is no newer than what is shown here, but for deletions;
        and what has been taken meanwhile is not shown.
        """
        overtaken = set[str]()
        self._overtaken.append(overtaken)
        try:
            for chunk in _chunks(list(self.informer.store.values())):
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
        self._deltas.close()

    def _take(self, delta: Delta, at: float) -> None:
        rules = self._rules
        try:
            if rules.predicate is not None and not rules.predicate(delta):
                return
            keys = rules.trigger(delta)
            if self.held:
                # Also where the trigger gave no keys: it may know that they would not be taken.
                self.dropped = True
                return
            if not keys:
                return
            priority = BACKLOG_PRIORITY if _is_repetition(delta) else 0
            urgent = rules.urgent is not None and rules.urgent(delta)
            reason = Reason(self.name, at, delta.kind, self._what, delta.object)
            for key in keys:
                self._ask(key, reason, priority, urgent)
        except Exception:
            self._errors[self.name] = self._errors.get(self.name, 0) + 1
            _logger.exception(
                "The watch %s failed for a change of %r %s, which is lost to it.",
                self.name,
                self.informer.resource,
                delta.object.key,
            )


def _is_repetition(delta: Delta) -> bool:
    """Nothing changed just now: it is there from the beginning, or shown again."""
    if delta.initial or delta.kind is SYNCED:
        return True
    return (
        delta.old is not None and delta.kind is UPDATED and delta.old.resource_version == delta.object.resource_version
    )


Ask = Callable[[K, Reason, int, bool], None]
"""Ask for an attempt: the key, the reason, the priority, and whether it is urgent."""


def _chunks(objects: list[Object]) -> Iterator[list[Object]]:
    return (objects[start : start + REPLAY_CHUNK] for start in range(0, len(objects), REPLAY_CHUNK))
