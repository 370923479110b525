"""A controller joins sources, a queue and a worker, and starts and stops them together."""

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from ...runtime.metrics import Sample
from ...workqueue import RateLimitingQueue
from ..leader.gate import AlwaysOpen, Gate, LeaseGate, Turn
from .mappers import Mapper
from .reconciler import Reconciler, Result, Trigger, as_function
from .source import InformerSource, IteratorSource, Rules, SharedInformer, Source
from .worker import Explanation, Pause, Worker

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_logger = logging.getLogger("ctl.controller")

CATCH_UP_PAUSE = 1.0
"""Seconds until a copy that could not catch up with the predecessors' writes is tried again."""


class Controller(Generic[K]):
    """Calls a reconciler for the keys that its sources request.

    `reconcile` gets a key and an `Attempt`; see `Reconciler` for its promises. At most `concurrency` keys are in work at once (None: no
    limit), each in a task of its own, for at most `timeout` seconds. Each attempt passes the gate: while it is closed no attempt
    begins and requests are ignored; when it opens every stored object is requested at low priority; when it is revoked the running
    attempts are cancelled.

    If the gate opens for terms (a `LeaseGate`, such as leadership), each opening after a revocation begins a term: the queue is
    emptied, and a source requests nothing until its copy has caught up, then every stored object.

    Sources can be added and stopped at any time, also before the start: the queue fills, and attempts begin with the start.
    """

    def __init__(
        self,
        name: str,
        reconcile: "Reconciler[K] | Callable[..., Awaitable[Result | None]]",
        *,
        queue: RateLimitingQueue[K] | None = None,
        concurrency: int | None = 1,
        gate: Gate | None = None,
        timeout: float | None = None,
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise ValueError(
                f"The controller {name} needs a concurrency of 1 at least, or None for no limit; got {concurrency}."
            )
        self.name = name
        self.queue: RateLimitingQueue[K] = RateLimitingQueue(name) if queue is None else queue
        self._gate: Gate = AlwaysOpen() if gate is None else gate
        self._lease: LeaseGate | None = self._gate if isinstance(self._gate, LeaseGate) else None
        left = None if self._lease is None else self._lease.left
        self._worker = Worker(
            name, as_function(reconcile), self.queue, concurrency=concurrency, timeout=timeout, left=left
        )
        self.metrics = self._worker.metrics
        # Whether the gate has opened and was not revoked since; and how many terms have begun.
        self._in_term = False
        self._terms = 0
        self._sources: dict[Source[K], None] = {}
        # No attempt begins before these are synced and have caught up; the event is set when one of them has.
        self._awaited: list[InformerSource[K]] = []
        self._progress = asyncio.Event()
        self._unsubscribe: Callable[[], None] | None = None
        self._stopping = False

    # Sources.

    def watch(
        self,
        informer: SharedInformer,
        mapper: Mapper[K] | Rules[K],
        *,
        name: str | None = None,
        wait: bool = False,
    ) -> Source[K]:
        """Add an informer, inside the running loop: the keys of its deltas are requested from now on.

        Each stored object comes first (at priority -100, like everything that is listed), then each delta, in order. `wait`: no attempt of this controller begins before this source has mapped all stored objects and, in
        each term, has caught up. So a reconciler that reads several informers never takes an empty cache for an empty cluster.
        """
        name = repr(informer.resource) if name is None else name
        rules = mapper if isinstance(mapper, Rules) else Rules(mapper)
        source = InformerSource(name, self, informer, rules)
        source.held = self._lease is not None
        self._add(source)
        if wait:
            self._awaited.append(source)
            source.tasks.spawn(self._note_synced(source), name="first list")
        if self._in_term:
            self._admit(source, replay=False)
        return source

    def follow(
        self, items: AsyncIterable[T], keys: Callable[[T], Iterable[K]], *, name: str, remember: bool = True
    ) -> Source[K]:
        """Add anything that can be iterated asynchronously, inside the running loop: the keys of its items are requested from now on.

        See `IteratorSource` for `remember`, and for errors.
        """
        source = IteratorSource(name, self, items, keys, remember=remember)
        self._add(source)
        return source

    def _add(self, source: Source[K]) -> None:
        self._sources[source] = None
        self.metrics.source_added(source.name)
        source.tasks.spawn(source.run(), name="changes")

    def leave(self, source: Source[K]) -> None:
        """Forget a source. Called by the source when it is stopped."""
        if source not in self._sources:
            return
        del self._sources[source]
        self.metrics.source_removed(source.name)
        # A stopped source is not awaited. But when the controller stops, all sources do, and what they lack stays lacking.
        if not self._stopping:
            self._awaited = [awaited for awaited in self._awaited if awaited is not source]
            self._progress.set()

    async def _note_synced(self, source: Source[K]) -> None:
        await source.synced.wait()
        self._progress.set()

    def request(self, key: K, trigger: Trigger, priority: int, skips_backoff: bool) -> None:
        """Request an attempt; ignored while the gate is closed. For sources."""
        if self._gate.is_open:
            self._worker.notes.request(key, trigger)
            self.queue.add(key, priority=priority, urgent=skips_backoff)

    def count_error(self, source: str) -> None:
        """Count a change, or a key, that is lost. For sources."""
        self.metrics.trigger_errors[source] = self.metrics.trigger_errors.get(source, 0) + 1

    # Starting and stopping.

    def pace(self, pause: Pause) -> None:
        """Await `pause()` after every few attempts while only a backlog waits (priorities below 0): no more begin until it returns."""
        self._worker.pause = pause

    async def start(self) -> None:
        """Begin to attempt keys. Raises RuntimeError when the controller was started or stopped before."""
        if self._worker.is_started:
            raise RuntimeError(f"The controller {self.name} was started before; a controller runs once.")
        self._unsubscribe = self._gate.subscribe(self._turned)
        if self._gate.is_open:
            self._begin_term()
            self._request_missed()
        self._worker.start(self._next, self._may_begin)

    async def stop(self, grace: float = 30.0) -> None:
        """Stop within `grace` seconds and CANCEL_GRACE: stop the sources, attempt the waiting keys, cancel the attempts that still run.

        Waiting keys are left while no attempt may begin: the gate is closed, or an awaited source is not synced. Attempts that go on
        after their cancellation are abandoned with a warning.
        """
        self._stopping, deadline = True, asyncio.get_running_loop().time() + grace
        for source in tuple(self._sources):
            await source.stop()
        await self._worker.drain(deadline)
        if self._unsubscribe is not None:
            self._unsubscribe()
        await self._worker.stop()

    async def _next(self) -> K:
        while True:
            await self._until_ready()
            key = await self.queue.get()
            terms = self._terms
            try:
                await self._until_ready()
            except asyncio.CancelledError:
                self.queue.done(key)
                raise
            if terms == self._terms:
                return key
            # A term has ended meanwhile; the next one requests everything again.
            self.queue.done(key)

    def _may_begin(self) -> bool:
        if not self._gate.is_open:
            return False
        return not self._awaited or all(source.synced.is_set() and not source.held for source in self._awaited)

    async def _until_ready(self) -> None:
        while not self._may_begin():
            await self._gate.wait_open()
            self._progress.clear()
            if self._gate.is_open and not self._may_begin():
                await self._progress.wait()

    # The gate.

    def _turned(self, turn: Turn) -> None:
        if turn is Turn.REVOKED:
            self._end_term()
        elif not self._stopping and turn is Turn.OPENED:
            if not self._in_term:
                self._begin_term()
            for source in self._informer_sources():
                if not source.held:
                    source.tasks.spawn(source.replay(), name="replay")
            self._request_missed()
        if self._stopping:
            # Also at an opening, which comes too late: the sources, which have stopped, do not know what has changed meanwhile.
            self._worker.begin_no_more()

    def _informer_sources(self) -> Iterator[InformerSource[K]]:
        for source in tuple(self._sources):
            if isinstance(source, InformerSource) and not source.tasks.stopping:
                yield source

    def _iterator_sources(self) -> Iterator[IteratorSource[K]]:
        return (source for source in tuple(self._sources) if isinstance(source, IteratorSource))

    def _begin_term(self) -> None:
        self._in_term = True
        if self._lease is None:
            return
        self._terms += 1
        for iterated in self._iterator_sources():
            iterated.put_back(lambda key: key in self._worker.running or self.queue.rank(key) is not None)
        self.queue.clear()
        self._worker.notes.forget_requests()
        for source in self._informer_sources():
            self._admit(source, replay=True)

    def _request_missed(self) -> None:
        for source in self._iterator_sources():
            source.request_missed()

    def _end_term(self) -> None:
        self._in_term = False
        if self._lease is not None:
            for source in self._informer_sources():
                source.held = True
        self._worker.cancel()

    def _admit(self, source: InformerSource[K], *, replay: bool) -> None:
        """Let a source request attempts as soon as its copy has caught up."""
        if self._lease is not None:
            source.tasks.spawn(self._catch_up(self._lease, source, replay=replay), name="taking over")

    async def _catch_up(self, lease: LeaseGate, source: InformerSource[K], *, replay: bool) -> None:
        terms = self._terms
        while True:
            try:
                await lease.catch_up(source.informer)
            except Exception:
                # Whatever it is: without a retry this leader would do nothing for a whole term.
                _logger.exception(
                    "Catching up failed and will be tried again: the watch %s of the controller %s.",
                    source.name,
                    self.name,
                )
                await asyncio.sleep(CATCH_UP_PAUSE)
            else:
                break
        if terms != self._terms or not self._in_term:
            return
        source.held = False
        self._progress.set()
        # In a pause nothing can be requested; the opening after it replays everything.
        if self._gate.is_open and (replay or source.dropped):
            await source.replay()

    # Looking in.

    @property
    def running(self) -> tuple[K, ...]:
        """The keys in work."""
        return tuple(self._worker.running)

    @property
    def attempts(self) -> dict[K, asyncio.Task[None]]:
        """The keys in work, and the tasks of their attempts."""
        return dict(self._worker.running)

    def explain(self, key: K) -> Explanation:
        """Return the state of a key."""
        return self._worker.explain(key, gate_open=self._gate.is_open)

    @property
    def is_acting(self) -> bool:
        """Whether attempts may begin: the gate is open."""
        return self._gate.is_open

    def samples(self) -> Iterator[Sample]:
        """The metrics of the controller and its queue at this moment (a source for `ctl.runtime.metrics`)."""
        yield from self.metrics.samples(is_open=self._gate.is_open)
        yield from self.queue.samples()
