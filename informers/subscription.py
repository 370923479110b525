"""A subscription delivers deltas to one subscriber, in order, at its own pace.

    async for batch in informer.subscribe(name="mine"):
        for delta in batch: ...

A fast subscriber receives every delta. When more than a limit wait for a slow one, consecutive updates of one object are joined into the
last; additions and deletions stay, in their order. Above a second, much larger limit objects that came and went meanwhile are left out,
so memory is bounded by the objects that exist. A slow subscriber does not delay others.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Self

from ..client.objects import Object
from .deltas import ADDED, SYNCED, Delta, annihilate, collapse
from .settings import InformerSettings

SHORTEST_RESYNC = 1.0


class Subscription(AsyncIterator[list[Delta]]):
    """An iterator over batches of deltas, which are never empty and belong to the consumer. Ends when it is closed.

    For one consumer at a time, in the informer's loop. A consumer that stops iterating may continue later; only the last batch it was
    given is lost. `async with` closes the subscription.
    """

    def __init__(self, name: str, settings: InformerSettings, snapshot: Callable[[], list[Object]]) -> None:
        """`snapshot` returns the objects as the watch has delivered them, for resyncs."""
        self.name = name
        self.synced = asyncio.Event()
        """Set when the subscriber has processed the objects that existed at the beginning."""
        self.joined = 0
        """Deltas that were joined with later ones because the subscriber was slow."""
        self.wants_relisted = False
        self._settings = settings
        self._snapshot = snapshot
        self._pending: list[Delta] = []
        self._roof = settings.subscriber_limit
        # Objects to repeat; they come before the pending deltas, which are newer.
        self._replay: Iterator[Delta] | None = None
        self._left = 0
        self._begun = False
        self._resync_due = False
        self._resync_timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since: float | None = None
        self.closed = False
        """Whether it was closed."""
        self._consumer: asyncio.Task[object] | None = None
        self._returned = asyncio.Event()
        self._on_close: Callable[[Subscription], None] | None = None

    # For the subscriber.

    async def __anext__(self) -> list[Delta]:
        self._come_back()
        if self.depth:
            # Let other tasks run between two batches.
            await asyncio.sleep(0)
        while not self.closed:
            batch = self._next()
            if batch:
                self._consumer = asyncio.current_task()
                return batch
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    @property
    def depth(self) -> int:
        """How many deltas wait."""
        return len(self._pending) + self._left

    @property
    def lag(self) -> float:
        """Seconds for which the oldest of them has waited; 0 when none does."""
        if self._waiting_since is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._waiting_since

    def close(self) -> None:
        """Drop the waiting deltas and end the iteration. May be called again."""
        if self.closed:
            return
        self.closed = True
        self._pending, self._replay, self._left = [], None, 0
        self._waiting_since = None
        if self._resync_timer is not None:
            self._resync_timer.cancel()
        self._wake()
        if self._on_close is not None:
            self._on_close(self)

    async def join(self, timeout: float | None = None) -> bool:
        """Wait until the subscriber has processed its last batch; false after `timeout` seconds.

        It has when it asks for the next one, or when its task has ended. Always true for the subscriber itself.
        """
        consumer = self._consumer
        if consumer is None or consumer.done() or consumer is asyncio.current_task():
            return True
        self._returned.clear()

        def ended(_: object) -> None:
            self._returned.set()

        consumer.add_done_callback(ended)
        try:
            async with asyncio.timeout(timeout):
                await self._returned.wait()
        except TimeoutError:
            return False
        finally:
            consumer.remove_done_callback(ended)
        return True

    # For the informer.

    def begin(self, objects: list[Object]) -> None:
        """Deliver the existing objects, as additions."""
        self._begun = True
        self._show(objects, lambda obj: Delta(ADDED, obj, None, True, None))
        if not objects:
            self.synced.set()

    def offer(self, deltas: list[Delta]) -> None:
        """Add deltas. The list stays the caller's."""
        if self.closed:
            return
        if len(self._pending) + len(deltas) > self._roof:
            self._make_room(len(deltas))
        self._pending += deltas
        self._wake()

    def resync_every(self, seconds: float) -> None:
        """Repeat all objects in this period, at least a second, when the subscriber is idle."""
        period = max(seconds, SHORTEST_RESYNC)

        def due() -> None:
            self._resync_due = True
            self._resync_timer = asyncio.get_running_loop().call_later(period, due)
            if self._waiter is not None:
                self._wake()

        self._resync_timer = asyncio.get_running_loop().call_later(period, due)

    def on_close(self, callback: "Callable[[Subscription], None]") -> None:
        """Call back once when the subscription is closed."""
        self._on_close = callback

    # Inside.

    def _come_back(self) -> None:
        self._consumer = None
        self._returned.set()
        if self._begun and not self._left and not self.synced.is_set():
            self.synced.set()

    def _next(self) -> list[Delta]:
        limit = self._settings.batch_limit
        if self._resync_due and self._replay is None and not self._pending and self.synced.is_set():
            self._resync_due = False
            self._show(self._snapshot(), lambda obj: Delta(SYNCED, obj, obj, False, None))
        if self._replay is not None:
            batch = list(islice(self._replay, limit))
            self._left -= len(batch)
            if not self._left:
                self._replay = None
        elif len(self._pending) <= limit:
            batch, self._pending = self._pending, []
            self._roof = self._settings.subscriber_limit
        else:
            batch = self._pending[:limit]
            del self._pending[:limit]
        if not self._left and not self._pending:
            self._waiting_since = None
        return batch

    def _show(self, objects: list[Object], delta: Callable[[Object], Delta]) -> None:
        if objects and not self.closed:
            self._replay = map(delta, objects)
            self._left = len(objects)
            self._wake()

    def _make_room(self, more: int) -> None:
        before = len(self._pending)
        join = collapse if before < self._settings.subscriber_hard_limit else annihilate
        self._pending = join(self._pending)
        self.joined += before - len(self._pending)
        # Twice the rest: so the total cost of joining is linear in the deltas that come.
        self._roof = max(self._settings.subscriber_limit, 2 * (len(self._pending) + more))

    def _wake(self) -> None:
        if self._waiting_since is None and not self.closed:
            self._waiting_since = asyncio.get_running_loop().time()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
