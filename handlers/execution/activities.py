"""Run the handlers of the operator itself until each of them is done: startup, cleanup, login, probe."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...runtime import clock
from ..causes.causes import Activity, ActivityCause
from ..declaration.registry import OperatorRegistry
from ..declaration.specs import ActivitySpec
from ..indices import Indices
from ..settings import OperatorSettings
from .attempts import Call, attempt
from .outcomes import Outcome
from .progression import Progress


class ActivityError(Exception):
    """At least one handler of an activity failed for good; the cause is the first one's error."""

    def __init__(self, activity: Activity, outcomes: Mapping[str, Outcome]) -> None:
        failed = [handler_id for handler_id, outcome in outcomes.items() if outcome.exception is not None]
        super().__init__(f"One or more handlers failed in the {activity.value} activity: {', '.join(failed)}.")
        self.outcomes = outcomes


@dataclass(frozen=True, slots=True)
class Activities:
    """Runs the handlers of one operator's activities."""

    registry: OperatorRegistry
    settings: OperatorSettings
    memo: Any
    indices: Indices = field(default_factory=Indices)

    async def run(self, activity: Activity) -> dict[str, Any]:
        """Run the handlers in order, again and again those that are to be retried; give the results by id.

        Functions of one name in several modules share an id: each is called, and of their results the last one counts.
        The progress lives in memory only. Raises ActivityError when any handler failed for good, after all are done.
        """
        specs = self.registry.activities(activity)
        now = clock.now()
        known: dict[ActivitySpec, Progress] = {spec: Progress(started=now) for spec in specs}
        ended: dict[ActivitySpec, Outcome] = {}
        while len(ended) < len(known):
            for spec in specs:
                if spec not in ended and known[spec].due(clock.now()):
                    outcome = await attempt(self._call(spec, activity, known[spec]), self.settings)
                    known[spec] = known[spec].after(outcome, clock.now())
                    if outcome.final:
                        ended[spec] = outcome
            left = [progress.delayed for progress in known.values() if not progress.finished]
            waits = [0.0 if when is None else (when - clock.now()).total_seconds() for when in left]
            await asyncio.sleep(max(0.0, min(waits, default=0.0)))
        failed: dict[str, Outcome] = {spec.id: each for spec, each in ended.items() if each.exception is not None}
        if failed:
            outcomes: dict[str, Outcome] = {spec.id: outcome for spec, outcome in ended.items()}
            outcomes |= failed
            raise ActivityError(activity, outcomes) from next(iter(failed.values())).exception
        return {spec.id: outcome.result for spec, outcome in ended.items() if outcome.result is not None}

    def _call(self, spec: ActivitySpec, activity: Activity, progress: Progress) -> Call:
        cause = ActivityCause(
            logger=logging.getLogger(f"kopf.activities.{activity.value}"),
            memo=self.memo,
            indices=self.indices,
            activity=activity,
            settings=self.settings,
        )
        return Call(spec, cause, progress)
