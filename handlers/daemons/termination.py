"""Termination: how daemons and timers that were asked to end do so, stage by stage, or are given up.

The order of the stages, their conditions and their log messages are Kopf's.
"""

import asyncio
import enum
import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...runtime.tasks import Tasks
from ..declaration.specs import DaemonSpec, SpawningSpec
from ..settings import OperatorSettings
from .daemons import ObjectDaemons, Spawned, seconds
from .stoppers import DaemonStoppingReason


class TerminationStage(enum.Enum):
    """How far the termination of one daemon or timer has come."""

    ASKED = enum.auto()
    """`stopped` is set; the time for an instant exit has passed."""
    SIGNALLED = enum.auto()
    """It has its `cancellation_backoff` to end by itself."""
    CANCELLED = enum.auto()
    """Its task is cancelled, and has its `cancellation_timeout` to end."""
    POLLED = enum.auto()
    """It has no limit; its state is checked again and again."""
    ABANDONED = enum.auto()
    """It is not waited for any more. The last stage."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each stage lasts, in seconds. Without `timeout` there is no cancellation.

    `patient`: it is waited for as long as it takes; else (the operator ends or pauses) it is abandoned.
    """

    backoff: float | None
    timeout: float | None
    polling: float
    patient: bool = True


def limits(spec: SpawningSpec, polling: float, *, patient: bool) -> Limits:
    """The limits of a handler; `polling` is that of the settings. Timers have no limits: their calls are expected to end."""
    if not isinstance(spec, DaemonSpec):
        return Limits(None, None, polling, patient)
    own = spec.cancellation_polling
    backoff, timeout = spec.cancellation_backoff, spec.cancellation_timeout
    return Limits(
        None if backoff is None else seconds(backoff),
        None if timeout is None else seconds(timeout),
        seconds(polling if own is None else own),
        patient,
    )


def advance(stage: TerminationStage, limits: Limits, age: float) -> tuple[TerminationStage, float]:
    """The next stage and the seconds to wait in it, so many seconds (`age`) after the request to end.

    A stage whose time is over is skipped.
    """
    stages, backoff = TerminationStage, limits.backoff or 0.0
    if stage is stages.ASKED and age < backoff:
        return stages.SIGNALLED, backoff - age
    if stage in {stages.ASKED, stages.SIGNALLED} and limits.timeout is not None:
        left = backoff + limits.timeout - age
        if left > 0 or stage is stages.SIGNALLED:
            return stages.CANCELLED, max(0.0, left)
    if stage in {stages.CANCELLED, stages.ABANDONED} or limits.timeout is not None or not limits.patient:
        return stages.ABANDONED, 0.0
    return stages.POLLED, limits.polling


class Termination:
    """Takes daemons and timers through the stages. `wake` is called for the object of each abandoned one."""

    def __init__(self, settings: OperatorSettings, tasks: Tasks, wake: Callable[[ObjectDaemons], None]) -> None:
        self._settings = settings
        self._tasks = tasks
        self._wake = wake

    async def give_a_moment(self, asked: list[Spawned[Any]]) -> list[Spawned[Any]]:
        """Wait for those that end at once; returns those that do not."""
        known = self._settings.background
        tasks = [one.task for one in asked if one.task is not None]
        if tasks and known.instant_exit_timeout is not None:
            await asyncio.wait(tasks, timeout=known.instant_exit_timeout)
        elif known.instant_exit_zero_time_cycles is not None:
            for _ in range(known.instant_exit_zero_time_cycles):
                if all(task.done() for task in tasks):
                    break
                await asyncio.sleep(0)
        return [one for one in asked if one.running]

    def attend(self, one: Spawned[Any]) -> None:
        """Terminate one in a task of its own, for as long as it takes."""
        since = asyncio.get_running_loop().time()
        one.waiter = self._tasks.spawn(self._terminate(one, since, patient=True), name=f"the end of {one}")

    async def end_all(self, spawned: Iterable[Spawned[Any]]) -> None:
        """Terminate several within their own limits: the operator ends or pauses."""
        since = asyncio.get_running_loop().time()
        left = [one for one in spawned if not one.abandoned]
        for one in left:
            if one.waiter is not None:
                one.waiter.cancel()
        await asyncio.gather(*(self._terminate(one, since, patient=False) for one in left))

    async def _terminate(self, one: Spawned[Any], since: float, *, patient: bool) -> None:
        loop, task = asyncio.get_running_loop(), one.task
        known = limits(one.spec, self._settings.background.cancellation_polling, patient=patient)
        stage = TerminationStage.ASKED
        while task is not None and not task.done():
            stage, delay = advance(stage, known, loop.time() - since)
            self._enter(one, stage, delay)
            if stage is TerminationStage.ABANDONED:
                return
            await asyncio.wait([task], timeout=delay)
        if not patient:
            one.log("has exited gracefully.", level=logging.DEBUG)

    def _enter(self, one: Spawned[Any], stage: TerminationStage, delay: float) -> None:
        match stage:
            case TerminationStage.SIGNALLED:
                one.stopper.set(DaemonStoppingReason.DAEMON_SIGNALLED)
                one.log("is signalled to exit gracefully.", level=logging.DEBUG)
            case TerminationStage.CANCELLED:
                one.stopper.set(DaemonStoppingReason.DAEMON_CANCELLED)
                one.log("is signalled to exit by force.", level=logging.DEBUG)
                if one.task is not None:
                    one.task.cancel()
            case TerminationStage.POLLED:
                one.log("is still exiting. The next check is in %s seconds.", delay, level=logging.DEBUG)
            case TerminationStage.ABANDONED:
                self._abandon(one)

    def _abandon(self, one: Spawned[Any]) -> None:
        one.abandoned = True
        one.stopper.set(DaemonStoppingReason.DAEMON_ABANDONED)
        one.log("did not exit in time. Leaving it orphaned.", level=logging.WARNING)
        self._wake(one.owner)
        # In a turn of the loop of its own: where warnings are errors, this one must not stop the termination of the others.
        warn = partial(warnings.warn, f"{one} did not exit in time.", ResourceWarning)
        asyncio.get_running_loop().call_soon(warn)
