"""The stages say how a daemon that does not end when asked is treated, step by step.

Asked gracefully, then by force, then given up; or, without a limit for the force, looked at again and again. The order, the
conditions and the sentences are Kopf's. Pure: ages are arguments, in seconds since the daemon was asked to end.
"""

import enum
from dataclasses import dataclass

from ..declaration.specs import DaemonSpec, SpawningSpec
from .rhythm import seconds


class Stage(enum.Enum):
    """How far the termination of one daemon or timer has come."""

    ASKED = enum.auto()
    """`stopped` is set; time for an end at once has passed."""
    SIGNALLED = enum.auto()
    """It has its `cancellation_backoff` to end by itself."""
    CANCELLED = enum.auto()
    """Its task is cancelled, and has its `cancellation_timeout` to end."""
    POLLED = enum.auto()
    """It may take any time; it is looked at again and again."""
    ABANDONED = enum.auto()
    """Nobody waits for it any more. The last stage."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each stage lasts, in seconds. Without `timeout` there is no cancellation.

    `patient`: it is waited for, for as long as it takes; else (the operator ends or pauses) it is given up instead.
    """

    backoff: float | None
    timeout: float | None
    polling: float
    patient: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """The stage to be entered, and the seconds until the next step unless it ends before."""

    stage: Stage
    delay: float


def limits(spec: SpawningSpec, polling: float, *, patient: bool) -> Limits:
    """The limits of a handler; `polling` is the settings'. Timers have none: their calls are expected to end."""
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


def advance(stage: Stage, limits: Limits, age: float) -> Step:
    """Give the next step of a termination that stands at a stage. The time of a stage that is over is never given again."""
    backoff = limits.backoff or 0.0
    if stage is Stage.ASKED and age < backoff:
        return Step(Stage.SIGNALLED, backoff - age)
    if stage in {Stage.ASKED, Stage.SIGNALLED} and limits.timeout is not None:
        left = backoff + limits.timeout - age
        if left > 0 or stage is Stage.SIGNALLED:
            return Step(Stage.CANCELLED, max(0.0, left))
    if stage in {Stage.CANCELLED, Stage.ABANDONED} or limits.timeout is not None or not limits.patient:
        return Step(Stage.ABANDONED, 0.0)
    return Step(Stage.POLLED, limits.polling)
