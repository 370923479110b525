"""A manager starts components in one readable order and stops them in the reverse, within a time."""

import asyncio
import logging
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Protocol, Self

from ...runtime.tasks import Tasks

_logger = logging.getLogger("ctl.controller")


class Stage(IntEnum):
    """The order of the start; the stop is the reverse. Components of one stage start in the order they were added."""

    HTTP = 1
    """Metrics and health: to be seen from the first moment to the last."""
    WEBHOOKS = 2
    """Admission: the API server may need it to serve anything else."""
    CACHES = 3
    """Informers."""
    ELECTION = 4
    """Who opens the gates. Before the controllers, so that a lease is released after their last write."""
    CONTROLLERS = 5
    """On every replica: a standby's fill their queues when their gate opens, and leaders only act."""
    OTHERS = 6
    """The user's own."""


class Component(Protocol):
    """Something that runs from its start to its stop."""

    @property
    def name(self) -> str:
        """What it is called in the log."""

    async def start(self) -> None:
        """Begin; returns when it runs. An exception ends the whole."""

    async def stop(self, grace: float) -> None:
        """End within about `grace` seconds. Not called when the start failed."""


class StopError(ExceptionGroup[Exception]):
    """Components that raised while they were stopped; all others were stopped all the same."""


@dataclass(slots=True)
class Manager:
    """The components of one program, or of one part of it: managers are components themselves.

    It starts no loop, catches no signals and touches no task but its own, so it runs beside anything else in a loop. `grace` is the time
    for the whole stop, in seconds; each component gets what the ones before it have left, and a second at least.
    """

    name: str = "manager"
    grace: float = 30.0
    _stages: dict[Stage, list[Component]] = field(default_factory=dict)
    _started: list[Component] = field(default_factory=list)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: BaseException | None = None

    def add(self, component: Component, stage: Stage = Stage.OTHERS) -> None:
        """Have a component started with the rest. Raises RuntimeError when the manager runs: start and stop it yourself then."""
        if self._started:
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
        for component in self.order():
            _logger.debug("%s starts %s.", self.name, component.name)
            try:
                await component.start()
            except BaseException:
                await self.stop()
                raise
            self._started.append(component)

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
        while self._started:
            component = self._started.pop()
            left = 1.0 if cancelled else max(1.0, deadline - loop.time())
            stopping = tasks.spawn(component.stop(0.0 if cancelled else left), name=f"stop of {component.name}")
            try:
                # A second more than the component was given, so that it is the one to say what it had to abandon.
                await asyncio.wait({stopping}, timeout=left + 1.0)
            except asyncio.CancelledError as exc:
                cancelled = exc
                await asyncio.wait({stopping}, timeout=1.0)
            if not stopping.done():
                _logger.warning(
                    "%s: %s did not stop within %.1f s and is left to itself.", self.name, component.name, left
                )
                stopping.cancel()
            elif not stopping.cancelled() and isinstance(error := stopping.exception(), Exception):
                errors.append(error)
        await tasks.stop(0.0)
        if cancelled is not None:
            raise cancelled
        if errors:
            raise StopError(f"{self.name}: {len(errors)} components failed to stop", errors)

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
            await self.stop()
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
