"""A queue hands each key to one worker at a time, to as many workers as ask.

The rules are the ledger's, and so client-go's. All methods belong to one event loop; other threads
call `add_threadsafe`, and nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from ..runtime.metrics import Sample
from .ledger import Ageing, Ledger
from .metrics import QueueMetrics

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):
    """The queue was shut down, and no key is left."""


class Queue(Generic[K]):
    """Keys to be worked on.

    Promised: a key is with one worker at a time; a key that was added while it was worked on is handed out again, once;
    what is waiting when the queue is shut down is still handed out. The order is that of priorities with ageing (see the
    ledger). Not promised: one hand-out for each add.

    `name` is the queue's in metrics; `controller` the label beside it (the name again when None).
    """

    def __init__(self, name: str = "", *, ageing: Ageing = Ageing(), controller: str | None = None) -> None:  # noqa: B008 (frozen)
        self.name = name
        self.metrics = QueueMetrics(name, controller)
        self._ledger: Ledger[K] = Ledger(ageing)
        # Workers that wait for a key. Invariant: none waits for longer than a turn of the loop while a key does.
        self._getters: deque[asyncio.Future[None]] = deque()
        self.shutting_down = False
        """Whether the queue was told to shut down."""
        self._drained: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._time: Callable[[], float] = self._first_time

    def _first_time(self) -> float:
        return self._bound().time()

    def _bound(self) -> asyncio.AbstractEventLoop:
        """The loop of the queue: the one in which it is used first."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._time = self._loop.time
        return self._loop

    def __len__(self) -> int:
        """How many keys could be handed out now."""
        return len(self._ledger)

    def __contains__(self, key: object) -> bool:
        """Whether the key waits to be handed out, now or when its work is done."""
        return key in self._ledger

    @property
    def highest(self) -> int | None:
        """The highest priority at which a key could be handed out now; None when there is none."""
        return self._ledger.highest

    def working(self) -> tuple[K, ...]:
        """The keys in work."""
        return tuple(self._ledger.in_work)

    def priority(self, key: K) -> int:
        """The priority with which a key in work was handed out; 0 when it is not in work."""
        entry = self._ledger.in_work.get(key)
        return 0 if entry is None else entry.priority

    def rank(self, key: K) -> int | None:
        """The priority with which the key waits; None when it does not wait."""
        entry = self._ledger.waiting(key)
        return None if entry is None else entry.priority

    def waits_since(self, key: K) -> float | None:
        """Since when (in the loop's time) the key could have been handed out; None when it does not wait."""
        entry = self._ledger.waiting(key)
        return None if entry is None else entry.added

    def add(self, key: K, *, priority: int = 0) -> None:
        """Let the key be worked on, soon. Nothing is done for a key that waits (its priority may rise), nor after a shut-down."""
        if not self.shutting_down:
            self._put(key, priority, self._time())

    def add_threadsafe(self, key: K, *, priority: int = 0) -> None:
        """Add from any thread; the only method that may be called outside of the loop. The key is added a turn later.

        Raises RuntimeError when the queue has never been used in a loop, or when that loop is closed.
        """
        if self._loop is None:
            raise RuntimeError(
                f"The queue {self.name!r} is not used by any loop yet; start its controller before adding from threads."
            )
        self._loop.call_soon_threadsafe(lambda: self.add(key, priority=priority))

    def _put(self, key: K, priority: int, now: float) -> None:
        if self._ledger.add(key, priority, now):
            self.metrics.adds += 1
            if self._getters:
                self._wake()

    def _wake(self) -> None:
        """Wake one waiting worker if there is a key for it."""
        while self._getters and len(self._ledger):
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def take(self) -> K | None:
        """Take a key if one waits, as `get` does; None when there is none."""
        now = self._time()
        entry = self._ledger.take(now)
        if entry is None:
            return None
        self.metrics.in_queue.add(now - entry.added)
        return entry.key

    async def get(self) -> K:
        """Wait for a key and take it; `done` must be called for it. Raises ShutDown when there will be none any more.

        After a shut-down that is when none waits and none in work was added again. A cancellation loses no key.
        """
        while True:
            key = self.take()
            if key is not None:
                return key
            if self._is_over:
                raise ShutDown(f"The queue {self.name!r} is shut down.")
            getter = self._bound().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # Another worker has to take the key that this one was woken for.
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise

    def done(self, key: K) -> None:
        """Say that the work on the key has ended, well or not. If it was added meanwhile, it waits again."""
        now = self._time()
        entry = self._ledger.done(key, now)
        if entry is None:
            return
        self.metrics.in_work.add(now - entry.since)
        if self._getters:
            self._wake_all() if self._is_over else self._wake()
        if self._drained is not None and not self._ledger.in_work and not len(self._ledger):
            self._drained.set()

    def clear(self) -> None:
        """Forget all keys that wait, those too that were added while in work. What is in work goes on; more can be added."""
        self._ledger.clear()
        if self._is_over:
            self._wake_all()
        if self._drained is not None and not self._ledger.in_work:
            self._drained.set()

    def shut_down(self) -> None:
        """Take no more keys. Those that wait are still handed out; then `get` raises ShutDown. May be called again."""
        self.shutting_down = True
        self._wake_all()

    @property
    def _is_over(self) -> bool:
        """Whether no other key will wait: the queue was shut down, and nothing in work was added again."""
        return self.shutting_down and not self._ledger.returning

    def _wake_all(self) -> None:
        getters, self._getters = self._getters, deque()
        for getter in getters:
            if not getter.done():
                getter.set_result(None)

    async def shut_down_with_drain(self, timeout: float | None = None) -> bool:
        """Shut down, and wait until the workers have taken and done everything that waited or was in work.

        Somebody must be getting. Tells whether that was reached within `timeout` seconds (None: no limit).
        """
        self.shut_down()
        if not self._ledger.in_work and not len(self._ledger):
            return True
        if self._drained is None:
            self._drained = asyncio.Event()
        try:
            async with asyncio.timeout(timeout):
                await self._drained.wait()
        except TimeoutError:
            return False
        return True

    def samples(self) -> Iterator[Sample]:
        """The queue's metrics at this moment (a source for `ctl.runtime.metrics`)."""
        return self.metrics.samples(self._ledger, self._time())
