"""Each background task has an owner, which names it, learns of its failure, and ends it within a given time."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Collection, Coroutine, Generator
from types import GeneratorType
from typing import Any, Generic, TypeVar, cast
from weakref import WeakSet

from .log_context import log_context

_logger = logging.getLogger("ctl.runtime")

T = TypeVar("T")

LAST_SECONDS = 5.0
"""How long other tasks have to end before their loop is closed, and again after they were cancelled."""

_abandoned: WeakSet[asyncio.Task[Any]] = WeakSet()
"""Tasks that did not end in time when they were cancelled: nothing waits for them again."""

left_behind: set[asyncio.Task[Any]] = set()
"""Tasks that have outlived their loop. They are kept, because collecting them would print tracebacks."""


class Tasks:
    """The tasks of one owner.

    A task that fails is logged with its traceback, told to `on_failure`, and kept for `wait_failure`; the other tasks
    go on. A task that returns is forgotten. After `stop` nothing can be spawned.
    """

    def __init__(self, name: str, on_failure: Callable[[str, BaseException], None] | None = None) -> None:
        self.name = name
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()
        self.stopping = False
        """Whether `stop` was called."""
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a task under the owner's name, without the caller's log context. Raises RuntimeError when the owner was stopped."""
        if self.stopping:
            coro.close()
            raise RuntimeError(f"{self.name} is stopped; the task {name!r} cannot be started any more.")
        context = None
        if log_context.get() is not None:
            # Its log lines should not look like part of the caller's work.
            context = contextvars.copy_context()
            context.run(log_context.set, None)
        task = asyncio.get_running_loop().create_task(coro, name=f"{self.name}: {name}", context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        _logger.error("Task %r failed: %r", task.get_name(), error, exc_info=error)
        if self._failure is None:
            self._failure = error
            self._failed.set()
        if self._on_failure is not None:
            self._on_failure(task.get_name(), error)

    async def wait_failure(self) -> BaseException:
        """Wait until a task has failed, for ever if none does; returns the first failure."""
        await self._failed.wait()
        assert self._failure is not None
        return self._failure

    async def stop(self, grace: float) -> tuple[str, ...]:
        """Cancel every task and wait for their ends, at most `grace` seconds in all.

        Tasks that still live then are abandoned: a warning names each with the place where it stands, and their names
        are given back. The task that calls this is not cancelled when it is one of ours. A cancellation of the caller
        is passed on at once.
        """
        self.stopping = True
        current = asyncio.current_task()
        tasks = {task for task in self._tasks if task is not current}
        for task in tasks:
            task.cancel()
        if not tasks:
            return ()
        _, left = await asyncio.wait(tasks, timeout=grace)
        _abandon(left, grace)
        return tuple(sorted(task.get_name() for task in left))


async def alone(coro: Coroutine[Any, Any, T], *, grace: float = LAST_SECONDS) -> T:
    """Await in a loop that is closed afterwards: the tasks that others have begun there may end by themselves first.

    They have `grace` seconds. What is left then, or when this is cancelled or the coroutine fails, is for the closing of the loop.
    """
    result = await coro
    others = asyncio.all_tasks() - {asyncio.current_task(), *_abandoned}
    if others:
        names = ", ".join(sorted(task.get_name() for task in others))
        _logger.info("Tasks that are not the operator's own have %g s to end: %s.", grace, names)
        await asyncio.wait(others, timeout=grace)
    return result


async def cancel_all(*, grace: float = LAST_SECONDS) -> None:
    """Cancel all other tasks of the loop, which is to be closed then, and wait at most `grace` seconds for their ends.

    Tasks that are still alive then are abandoned with a warning. Those that were abandoned before have one second.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, left = await asyncio.wait(tasks, timeout=grace if tasks - {*_abandoned} else min(grace, 1.0))
    _abandon(left - {*_abandoned}, grace)
    left_behind.update(left)


def _abandon(tasks: Collection[asyncio.Task[Any]], grace: float) -> None:
    for task in tasks:
        _logger.warning(
            "Task %r did not end within %s s and is abandoned; it stands at %s.", task.get_name(), grace, where(task)
        )
    _abandoned.update(tasks)


async def see_through(coro: Coroutine[Any, Any, T]) -> T:
    """Await to the end, also when the awaiting task is cancelled meanwhile: it is cancelled after that, whatever the result.

    A second cancellation ends it.
    """
    task = asyncio.get_running_loop().create_task(coro)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.gather(task, return_exceptions=True)
        finally:
            task.cancel()
        raise


class Isolated(Generic[T]):
    """Awaits a coroutine in a copy of the present context: what it sets in context variables is not seen afterwards.

    A task of its own would do the same for ten times the price. Cancellation and current_task() are those of the awaiting task.
    """

    __slots__ = ("_coro",)

    def __init__(self, coro: Coroutine[Any, Any, T]) -> None:
        self._coro = coro

    def __await__(self) -> Generator[Any, Any, T]:
        coro = self._coro
        run, send = contextvars.copy_context().run, coro.send
        try:
            waits = run(send, None)
            while True:
                error: BaseException | None = None
                try:
                    value = yield waits
                except GeneratorExit:
                    run(coro.close)
                    raise
                except BaseException as exc:
                    error = exc
                if error is None:
                    waits = run(send, value)
                    continue
                # Not in the clause above: what the coroutine raises next would seem to come of handling this error.
                try:
                    waits = run(coro.throw, error)
                finally:
                    error = None
        except StopIteration as end:
            result: T = end.value
            return result


def where(task: asyncio.Task[Any]) -> str:
    """The place in the source where a task waits, as `file:line in function`: the innermost coroutine outside of asyncio itself."""
    frame, awaited = None, cast("Any", task.get_coro())
    while awaited is not None:
        inner = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if inner is not None and inner.f_globals.get("__name__", "").partition(".")[0] != "asyncio":
            frame = inner
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
        if isinstance(awaited, GeneratorType) and awaited.gi_code is Isolated.__await__.__code__:
            awaited = awaited.gi_frame.f_locals["coro"] if awaited.gi_frame is not None else None
    return "its end" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
