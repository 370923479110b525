"""Termination sees to it that daemons and timers that were asked to end do so, or are given up."""

import asyncio
import logging
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...runtime.tasks import Tasks
from .base import Companion, Ground, Host
from .stages import Stage, Step, advance, limits
from .stoppers import DaemonStoppingReason


class Termination:
    """Drives companions through the stages of their ends. `wake` is called for the host of each that was given up."""

    def __init__(self, ground: Ground, tasks: Tasks, wake: Callable[[Host], None]) -> None:
        self._ground = ground
        self._tasks = tasks
        self._wake = wake

    async def give_a_moment(self, asked: list[Companion[Any]]) -> list[Companion[Any]]:
        """Wait for those that end at once; gives those that do not."""
        known = self._ground.settings.background
        tasks = [companion.task for companion in asked if companion.task is not None]
        if tasks and known.instant_exit_timeout is not None:
            await asyncio.wait(tasks, timeout=known.instant_exit_timeout)
        elif known.instant_exit_zero_time_cycles is not None:
            for _ in range(known.instant_exit_zero_time_cycles):
                if all(task.done() for task in tasks):
                    break
                await asyncio.sleep(0)
        return [companion for companion in asked if companion.running]

    def attend(self, companion: Companion[Any]) -> None:
        """See one out beside everything else, for as long as it takes."""
        since = asyncio.get_running_loop().time()
        companion.waiter = self._tasks.spawn(
            self._see_out(companion, since, patient=True), name=f"the end of {companion}"
        )

    async def see_out_all(self, companions: Iterable[Companion[Any]]) -> None:
        """See some out, with no more patience than their own limits have: the operator ends or pauses."""
        since = asyncio.get_running_loop().time()
        left = [companion for companion in companions if not companion.abandoned]
        for companion in left:
            if companion.waiter is not None:
                companion.waiter.cancel()
        await asyncio.gather(*(self._see_out(companion, since, patient=False) for companion in left))

    async def _see_out(self, companion: Companion[Any], since: float, *, patient: bool) -> None:
        """Go through the stages of termination until the companion has ended or is given up."""
        loop, task = asyncio.get_running_loop(), companion.task
        known = limits(companion.spec, self._ground.settings.background.cancellation_polling, patient=patient)
        stage = Stage.ASKED
        while task is not None and not task.done():
            step = advance(stage, known, loop.time() - since)
            stage = step.stage
            self._enter(companion, step)
            if stage is Stage.ABANDONED:
                return
            await asyncio.wait([task], timeout=step.delay)
        if not patient:
            companion.log("has exited gracefully.", level=logging.DEBUG)

    def _enter(self, companion: Companion[Any], step: Step) -> None:
        stopper = companion.stopper
        match step.stage:
            case Stage.SIGNALLED:
                stopper.set(DaemonStoppingReason.DAEMON_SIGNALLED)
                companion.log("is signalled to exit gracefully.", level=logging.DEBUG)
            case Stage.CANCELLED:
                stopper.set(DaemonStoppingReason.DAEMON_CANCELLED)
                companion.log("is signalled to exit by force.", level=logging.DEBUG)
                if companion.task is not None:
                    companion.task.cancel()
            case Stage.POLLED:
                text = "is still exiting. The next check is in %s seconds."
                companion.log(text, step.delay, level=logging.DEBUG)
            case Stage.ABANDONED:
                self._abandon(companion)

    def _abandon(self, companion: Companion[Any]) -> None:
        companion.abandoned = True
        companion.stopper.set(DaemonStoppingReason.DAEMON_ABANDONED)
        companion.log("did not exit in time. Leaving it orphaned.", level=logging.WARNING)
        self._wake(companion.host)
        # In a turn of its own: where warnings are errors, this one must not stop what ends the others.
        warn = partial(warnings.warn, f"{companion} did not exit in time.", ResourceWarning)
        asyncio.get_running_loop().call_soon(warn)
