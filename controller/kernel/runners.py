"""Keys are attempted in tasks, and no more tasks than the attempts need: one that ends without having waited leaves its task to the next key."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeAlias, TypeVar

from ...runtime.tasks import Isolated, Tasks
from ...workqueue import RateLimitingQueue, ShutDown
from .worker import Worker

K = TypeVar("K", bound=Hashable)

Pause: TypeAlias = Callable[[], Awaitable[object]]

SLICE = 0.005
"""For how long, in seconds, attempts that never wait may follow each other before the loop turns."""
STARTS = 8
"""How many tasks are begun before the loop turns; one, when those begun before have ended."""


class Runners(Generic[K]):
    """The tasks of one controller in which attempts are made; each key in work is in one of them.

    `limit` is how many keys may be in work at once (None: all that there are). `is_ready` says whether attempts may begin now,
    and `next_key` waits for a key until they may. `pause`, if there is one, is awaited after every STARTS tasks at the most, which
    have had their turn then, while nothing but a backlog waits: keys of a priority below 0.
    """

    def __init__(
        self,
        tasks: Tasks,
        queue: RateLimitingQueue[K],
        worker: Worker[K],
        is_ready: Callable[[], bool],
        limit: int | None,
    ) -> None:
        self.running: dict[K, asyncio.Task[None]] = {}
        self.pause: Pause | None = None
        self._tasks = tasks
        self._queue = queue
        self.work: Callable[[K], Coroutine[Any, Any, None]] = worker.work
        """Gives the attempt of a key in hand, to be awaited."""
        self._worker = worker
        self._is_ready = is_ready
        self._slots = None if limit is None else asyncio.Semaphore(limit)
        self._slice_ends = 0.0

    async def dispatch(self, next_key: Callable[[], Awaitable[K]]) -> None:
        """Begin a task for a key as soon as there is one, until the queue is shut down and empty."""
        time, starts = asyncio.get_running_loop().time, 1
        while True:
            if self._slots is not None:
                await self._slots.acquire()
            if not starts:
                # What was begun has its turn first: it may take the keys that wait, and does if attempts never wait.
                await asyncio.sleep(0)
                starts = STARTS if self.running else 1
                if self.pause is not None and (self._queue.highest or 0) < 0:
                    await self.pause()
            try:
                key = await next_key()
            except ShutDown:
                return
            starts -= 1
            self._slice_ends = time() + SLICE
            run = _Run(self, key)
            task = run.task = self.running[key] = self._tasks.spawn(run.attempts(), name="attempts")
            task.add_done_callback(run.ended)

    def another(self) -> K | None:
        """A key for a task that is at its end, if it may take one."""
        if asyncio.get_running_loop().time() >= self._slice_ends or not self._is_ready():
            return None
        return self._queue.take()

    def release(self) -> None:
        """A task has ended."""
        if self._slots is not None:
            self._slots.release()

    def name(self) -> None:
        """Let the tasks be known by the keys in work, for those that will have to be abandoned."""
        for key, task in self.running.items():
            task.set_name(f"{self._tasks.name}: attempt of {key}")

    def skip(self, key: K) -> None:
        """A key whose attempt was cancelled before it began waits again."""
        self._worker.skip(key)


class _Run(Generic[K]):
    """One task, and the key that it has in hand."""

    __slots__ = ("_attempt", "_key", "_runners", "task")

    task: asyncio.Task[None]

    def __init__(self, runners: Runners[K], key: K) -> None:
        self._runners = runners
        self._key: K | None = key
        self._attempt: Coroutine[Any, Any, None] | None = runners.work(key)

    async def attempts(self) -> None:
        runners, task = self._runners, self.task
        while (key := self._key) is not None and self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            try:
                # What handlers set in context variables is not the next key's business.
                await Isolated(attempt)
            finally:
                self._key = None
                # The key may have been handed out again already: then the entry is of the next attempt.
                if runners.running.get(key) is task:
                    del runners.running[key]
            if task.cancelling():
                return
            key = runners.another()
            if key is not None:
                self._key, self._attempt = key, runners.work(key)
                runners.running[key] = task

    def ended(self, task: asyncio.Task[None]) -> None:
        """The task has ended, perhaps before it began."""
        key = self._key
        if key is not None and self._attempt is not None:
            self._attempt.close()
            if self._runners.running.get(key) is task:
                del self._runners.running[key]
            self._runners.skip(key)
        self._runners.release()
