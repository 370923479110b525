"""A manager starts the components of a program stage by stage, and stops them in the reverse order, within one grace."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Any, Protocol, Self

from ...runtime.tasks import Tasks

_logger = logging.getLogger("ctl.controller")


class Stage(IntEnum):
    """The order of the start; the stop is the reverse. Components of one stage start in the order they were added."""

    HTTP = 1
    """Metrics and health: to be seen from the first moment to the last."""
    STARTUP = 2
    """Startup and cleanup handlers; the client."""
    WEBHOOKS = 3
    """Admission: the API server may need it to serve anything else."""
    CACHES = 4
    """Informers."""
    ELECTION = 5
    """What opens the gate. Before the controllers, so that a lease is released after their last write."""
    CONTROLLERS = 6
    """On every replica; only a leader's act. They stop all at once: their attempts have one time together."""
    OTHERS = 7
    """The user's own."""


class Component(Protocol):
    """Something that runs from its start to its stop."""

    @property
    def name(self) -> str:
        """What it is called in the log."""

    async def start(self) -> object:
        """Begin; returns when it runs. An exception stops the program."""

    async def stop(self, grace: float) -> object:
        """End within about `grace` seconds. Not called when the start failed."""


async def _nothing(*_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Hooks:
    """A component of two functions."""

    name: str
    start: Callable[[], Coroutine[Any, Any, object]] = _nothing
    stop: Callable[[float], Coroutine[Any, Any, object]] = _nothing


class StopError(ExceptionGroup[Exception]):
    """Components that raised while they were stopped; all others were stopped all the same."""


_OVER = max(Stage) + 1


async def _ended(component: Component, grace: float) -> None:
    await component.stop(grace)


@dataclass(slots=True)
class Manager:
    """The components of one program, or of one part of it: managers are components themselves.

    It starts no loop, catches no signals and touches no task but its own, so it runs beside anything else in a loop. `grace` is the time
    for the whole stop, in seconds; each component gets what the ones before it have left, and a second at least. One that takes `patience`
    seconds longer is left to itself; None: it is waited for. Context variables that a component sets in its start are seen by the starts
    after it, and by all stops.
    """

    name: str = "manager"
    grace: float = 30.0
    patience: float | None = 1.0
    _stages: dict[Stage, list[Component]] = field(default_factory=dict)
    _begun: int | None = None
    _started: list[tuple[Stage, Component]] = field(default_factory=list)
    _context: contextvars.Context | None = None
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: BaseException | None = None

    def add(self, component: Component, stage: Stage = Stage.OTHERS) -> None:
        """Have a component started with the rest. A component may add others in its start, to its own stage or later ones.

        Raises RuntimeError when the stage is over: start and stop it yourself then.
        """
        if self._begun is not None and stage < self._begun:
            raise RuntimeError(f"{self.name} runs already; {component.name} comes too late to be started in its stage.")
        self._stages.setdefault(stage, []).append(component)

    def order(self) -> list[Component]:
        """In which order the components start; they stop in the reverse."""
        return [component for stage in sorted(self._stages) for component in self._stages[stage]]

    def fail(self, name: str, error: BaseException) -> None:
        """Tell that a component cannot go on: `run` stops everything and raises the first such error.

        It fits as `on_failure` of `ctl.runtime.tasks.Tasks`.
        """
        _logger.error("%s: %s failed; everything is stopped: %r", self.name, name, error)
        if self._failure is None:
            self._failure = error
            self._failed.set()

    async def start(self) -> None:
        """Start everything. When one start fails or is cancelled, what had started is stopped, and the error is raised."""
        try:
            for stage in Stage:
                self._begun = stage
                # The list may grow meanwhile.
                for component in self._stages.get(stage, ()):
                    _logger.debug("%s starts %s.", self.name, component.name)
                    await component.start()
                    self._started.append((stage, component))
                    self._context = contextvars.copy_context()
            self._begun = _OVER
        except BaseException as error:
            await self._stop_after(error)
            raise

    async def stop(self, grace: float | None = None) -> None:
        """Stop everything that was started, in the reverse order, within about `grace` seconds (None: the manager's own).

        A component that does not return in its time is left to itself with a warning. Raises StopError, at the end, with the exceptions of
        components. A cancellation of the caller ends the waiting: each component left is told to stop with no grace.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.grace if grace is None else grace)
        errors: list[Exception] = []
        cancelled: asyncio.CancelledError | None = None
        tasks = Tasks(self.name)
        context = self._context or contextvars.copy_context()
        while self._started:
            left = 0.0 if cancelled else max(1.0, deadline - loop.time())
            stopping = {
                context.run(tasks.spawn, _ended(component, left), name=f"stop of {component.name}"): component
                for component in self._last()
            }
            # The components have a little more time than they were told, so that they can log what they abandon.
            timeout = None if self.patience is None else max(1.0, left) + self.patience
            try:
                await asyncio.wait(stopping, timeout=timeout)
            except asyncio.CancelledError as exc:
                cancelled = exc
                await asyncio.wait(stopping, timeout=1.0)
            for task, component in stopping.items():
                if not task.done():
                    _logger.warning(
                        "%s: %s did not stop within %.1f s and is left to itself.", self.name, component.name, left
                    )
                    task.cancel()
                elif not task.cancelled() and isinstance(error := task.exception(), Exception):
                    errors.append(error)
        await tasks.stop(0.0)
        self._begun = None
        if cancelled is not None:
            raise cancelled
        if errors:
            raise StopError(f"{self.name}: {len(errors)} components failed to stop", errors)

    def _last(self) -> list[Component]:
        """What is to be stopped next: the controllers at once, others one by one."""
        stage, component = self._started.pop()
        last = [component]
        while stage is Stage.CONTROLLERS and self._started and self._started[-1][0] is stage:
            last.append(self._started.pop()[1])
        return last

    async def _stop_after(self, error: BaseException) -> None:
        """Stop everything because of an error, which matters more than those of the stop; a cancellation does not."""
        try:
            await self.stop()
        except StopError as stopping:
            if isinstance(error, asyncio.CancelledError):
                raise
            _logger.exception("%s: components failed to stop after %r", self.name, error, exc_info=stopping)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Start, wait until the event is set, something fails, or the caller is cancelled; then stop. Raises the failure.

        The start is given up as well when one of them comes first.
        """
        wishes = {asyncio.ensure_future(self._failed.wait())}
        if stop is not None:
            wishes.add(asyncio.ensure_future(stop.wait()))
        starting = asyncio.ensure_future(self.start())
        try:
            await asyncio.wait({starting, *wishes}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                # Raises what the start has raised.
                starting.result()
                await asyncio.wait(wishes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (starting, *wishes):
                task.cancel()
            await self._given_up(starting)
            if self._failure is None:
                await self.stop()
            else:
                await self._stop_after(self._failure)
        if self._failure is not None:
            raise self._failure

    @staticmethod
    async def _given_up(starting: asyncio.Future[None]) -> None:
        """Wait for a start that was cancelled: it stops what had started. Another cancellation hurries that. Raises what it has raised."""
        while not starting.done():
            try:
                await asyncio.wait({starting})
            except asyncio.CancelledError:
                starting.cancel()
                await asyncio.wait({starting})
                raise
        if not starting.cancelled():
            starting.result()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
