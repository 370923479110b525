"""Keep the indices filled while the operator may not act: they are warm when its turn comes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

from ...client.objects import Object
from ...client.resources import Resource
from ...controller.kernel.controller import Controller
from ...controller.kernel.result import Result
from ...informers.deltas import Delta, DeltaKind
from .barrier import Barrier
from .event_buffer import Backlog
from .indexing import Indexing
from .keyed_lock import Turns


class Keyed(Protocol):
    """A key that says of which resource its object is."""

    @property
    def resource(self) -> Resource:
        """The resource."""

    def __hash__(self) -> int:
        """Keys are hashable."""


K = TypeVar("K", bound=Keyed)


class Keeper(Generic[K]):
    """Indexes objects beside the attempts, one at a time for each object, and never while an attempt of the object runs.

    `latest` finds an object; `part` is told of those that are gone. The controller is to be started and stopped by
    whoever runs the operator.
    """

    def __init__(
        self,
        indexing: Indexing,
        barrier: Barrier[K],
        latest: Callable[[K], Object | None],
        part: Callable[[Object], None],
    ) -> None:
        self._indexing = indexing
        self._barrier = barrier
        self._latest = latest
        self._part = part
        self._backlogs: dict[K, Backlog] = {}
        self._turns = Turns[K]()
        self.controller: Controller[K] = Controller("indices", lambda key, _: self._work(key), concurrency=None)

    def take(self, key: K, delta: Delta) -> None:
        """Index what an event shows, soon."""
        self._backlogs.setdefault(key, Backlog()).add(delta)
        self.controller.queue.add(key)

    def retry(self, key: K) -> None:
        """Call the object's functions again when their delays are over."""
        self.controller.queue.add(key)

    def drop(self, is_gone: Callable[[K], bool]) -> None:
        """These keys are not served any more."""
        for key in filter(is_gone, list(self._backlogs)):
            del self._backlogs[key]

    @asynccontextmanager
    async def turn(self, key: K) -> AsyncIterator[None]:
        """Make an attempt of an object: what waits is indexed first, and nothing is indexed beside what is inside.

        When that is cancelled, the object is indexed anew as it is: nobody knows how far its events have come.
        """
        async with self._turns.of(key):
            await self._catch_up(key)
            try:
                yield
            except asyncio.CancelledError:
                if (obj := self._latest(key)) is not None:
                    self.take(key, Delta(DeltaKind.UPDATED, obj, None, initial=False, wire_type=None))
                raise

    async def _work(self, key: K) -> Result | None:
        async with self._turns.of(key):
            await self._catch_up(key)
            obj = self._latest(key)
            delay = None if obj is None else await self._indexing.retry(obj, key.resource)
        return None if delay is None else Result(requeue_after=delay)

    async def _catch_up(self, key: K) -> None:
        backlog = self._backlogs.get(key)
        if backlog is None:
            return
        try:
            # Taken when it is indexed, not before: a cancellation must lose nothing.
            while (delta := backlog.first()) is not None:
                await self._indexing.take(delta, key.resource)
                backlog.take()
                if delta.kind is DeltaKind.DELETED:
                    self._part(delta.object)
        except Exception:
            backlog.take()
            raise
        finally:
            if len(backlog):
                self.controller.queue.add(key)
            elif self._backlogs.get(key) is backlog:
                del self._backlogs[key]
                self._barrier.indexed(key)
