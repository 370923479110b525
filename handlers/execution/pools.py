"""The threads of sync handlers are looked after: how many are busy, how many calls wait for one, and for how long."""

import asyncio
import contextvars
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

from ...runtime.metrics import MetricFamily, Sample, Tally

logger = logging.getLogger(__name__)

SIZE = MetricFamily("ctl_pool_threads", "Threads that the pool may have at most.", "gauge", ("pool",))
BUSY = MetricFamily("ctl_pool_busy_threads", "Threads in which a handler's function runs now.", "gauge", ("pool",))
QUEUED = MetricFamily("ctl_pool_queued_calls", "Calls of handlers that wait for a thread.", "gauge", ("pool",))
SATURATION = MetricFamily(
    "ctl_pool_saturation_ratio",
    "Running and waiting calls per thread of the pool: from 1 on, the next call waits.",
    "gauge",
    ("pool",),
)
WAIT = MetricFamily("ctl_pool_wait_seconds", "How long calls of handlers waited for a thread.", "histogram", ("pool",))
FAMILIES = (SIZE, BUSY, QUEUED, SATURATION, WAIT)

BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300)


class Job:
    """One call of a function in a thread. `started` is set by the thread, everything else by the loop."""

    __slots__ = ("_clock", "_lock", "_withdrawn", "began", "name", "started")

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self._clock = clock
        self.began = clock()
        self.started: float | None = None
        self._lock = threading.Lock()
        self._withdrawn = False

    def withdraw(self) -> bool:
        """Call the function no more, if it has not begun; gives whether that is so. In the loop."""
        with self._lock:
            self._withdrawn = self.started is None
            return self._withdrawn

    def run(self, context: contextvars.Context, fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the function, unless it was withdrawn; in the thread. RuntimeError for a StopIteration, as from a coroutine."""
        with self._lock:
            if self._withdrawn:
                return None
            self.started = self._clock()
        try:
            return context.run(fn, **kwargs)
        except StopIteration as exc:
            # No future takes it, so that whoever waits for one would wait for ever.
            raise RuntimeError("the function raised StopIteration") from exc


class Pool:
    """The calls in one executor. Methods belong to the loop.

    When a call has waited for `patience` seconds because all threads were busy, a warning says so, once.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.patience: float | None = None
        """None: there is no warning."""
        self.executor: Executor | None = None
        """The one that was used last."""
        self._jobs: set[Job] = set()
        self._wait = Tally(BUCKETS)
        self._warned = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int | None:
        """How many threads there may be; None where the executor does not tell."""
        size = getattr(self.executor, "_max_workers", None)
        return size if isinstance(size, int) else None

    @property
    def busy(self) -> int:
        """How many functions run."""
        return sum(job.started is not None for job in self._jobs)

    @property
    def queued(self) -> int:
        """How many calls wait for a thread."""
        return sum(job.started is None for job in self._jobs)

    def submit(
        self, name: str, executor: Executor | None, call: tuple[Callable[..., Any], Mapping[str, Any]]
    ) -> tuple[Job, asyncio.Future[Any]]:
        """Call a function with keyword arguments in a thread, with a copy of the context; gives the call and what comes of it."""
        loop = asyncio.get_running_loop()
        job = Job(name, loop.time)
        self.executor = executor
        self._jobs.add(job)
        try:
            future = loop.run_in_executor(executor, job.run, contextvars.copy_context(), *call)
        except BaseException:
            self._jobs.discard(job)
            raise
        future.add_done_callback(lambda _: self._ended(job))
        if self.patience is not None and not self._warned and self._timer is None and self._is_full():
            self._timer = loop.call_later(self.patience, self._look, self.patience)
        return job, future

    def _ended(self, job: Job) -> None:
        self._jobs.discard(job)
        if job.started is not None:
            self._wait.add(job.started - job.began)

    def _is_full(self) -> bool:
        size = self.size
        return size is not None and len(self._jobs) > size

    def _look(self, patience: float) -> None:
        """Look whether a call waits for too long; and again, while the pool is full."""
        self._timer = None
        loop = asyncio.get_running_loop()
        waits = [loop.time() - job.began for job in self._jobs if job.started is None]
        if not waits or not self._is_full():
            return
        if max(waits) < patience:
            self._timer = loop.call_later(max(patience - max(waits), 0.01), self._look, patience)
            return
        self._warned = True
        running = Counter(job.name for job in self._jobs if job.started is not None)
        logger.warning(
            "Sync handlers wait for threads: all %d of settings.execution.executor are busy (with %s), %d calls wait, the first "
            "for %.1f s. Set settings.execution.max_workers higher in a startup handler, or settings.execution.executor to a "
            "pool of its own size, or make the slow handlers async. The metrics ctl_pool_* show how it goes on.",
            self.size,
            ", ".join(f"{name}: {count}" for name, count in running.most_common(5)),
            len(waits),
            max(waits),
        )

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def samples(self) -> Iterator[Sample]:
        """Everything there is to say at this moment."""
        labels, size, busy, queued = (self.name,), self.size, self.busy, self.queued
        if size is not None:
            yield Sample(SIZE, labels, size)
            yield Sample(SATURATION, labels, (busy + queued) / size)
        yield Sample(BUSY, labels, busy)
        yield Sample(QUEUED, labels, queued)
        yield Sample(WAIT, labels, self._wait)


async def in_thread(
    fn: Callable[..., Any], kwargs: Mapping[str, Any], executor: Executor | None, pool: Pool, name: str
) -> Any:
    """Call a plain function in the executor, with a copy of the context, and give what it returns; its exceptions pass through.

    None is the loop's own executor. The call is counted in the `pool` under a name. A thread cannot be interrupted: a cancellation
    takes effect when the function has returned. One that still waits for a thread is not called any more.
    """
    job, future = pool.submit(name, executor, (fn, kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if job.withdraw():
            future.cancel()
            raise
        # The thread still uses the object and the patch: whoever cancels must not go on before it has ended.
        await asyncio.wait([future])
        if not future.cancelled():
            # What it raised is nobody's any more; asyncio would tell of it as never retrieved.
            future.exception()
        raise
