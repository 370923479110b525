"""The rhythm of a timer says when it is called next.

Pure: times are those of the loop, in seconds. The rules are those of Kopf's documentation:

- the interval counts from the end of a call; a sharp one from the beginning, on a grid that does not drift;
- the delay of an error goes before the interval;
- with `idle`, no call is made before the object has stood unchanged for so long; without an interval beside it, each
  change is followed by one call;
- with neither, there is one call.
"""

import enum
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ..declaration.specs import TimerSpec
from ..execution.outcomes import LONGEST_DELAY, leads_to_date

SPREAD = 600.0
"""The longest time, in seconds, over which the first calls for objects that were there at the start are spread."""
GOLDEN = (math.sqrt(5) - 1) / 2


def seconds(given: Any) -> float:
    """A number of seconds as it was declared; what leads to no date is the longest time that does: it is never reached."""
    number: Any = given if isinstance(given, Real) else float(given)
    if not leads_to_date(number):
        return -LONGEST_DELAY if number < 0 else LONGEST_DELAY
    return number if isinstance(number, (int, float)) else float(number)


class Rest(enum.Enum):
    """When there is no next time."""

    UNTIL_CHANGE = enum.auto()
    """The next call follows the object's next change."""
    FOR_EVER = enum.auto()
    """There is no further call."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What a timer was declared with, in seconds."""

    interval: float | None = None
    sharp: bool = False
    idle: float | None = None

    @classmethod
    def of(cls, spec: TimerSpec) -> "Rhythm":
        """The rhythm of a handler."""
        interval = None if spec.interval is None else seconds(spec.interval)
        return cls(interval, spec.sharp, None if spec.idle is None else seconds(spec.idle))

    def offset(self, number: int) -> float:
        """How much later than at once the first call for an object comes that was there when the operator started.

        `number` counts these objects from 0. Whatever their total, their calls are spread evenly over the interval (over
        `SPREAD` seconds of a longer one, so that restarts do not keep rare timers from ever being called); the first comes at once.
        """
        if self.interval is None:
            return 0.0
        return math.modf(number * GOLDEN)[0] * min(self.interval, SPREAD)

    def settled(self, due: float, changed: float) -> float:
        """The time of a call that was due, put off until the object has stood still since its last change."""
        return due if self.idle is None else max(due, changed + self.idle)

    def after(self, due: float, now: float, began: float, changed: float) -> float | Rest:
        """The time of the next call, after one that was due and began, ended now, and is not to be repeated for an error."""
        if self.interval is not None and self.interval > 0 and self.sharp:
            passed = math.floor((now - due) / self.interval) + 1
            # Rounding must not make a call due in its own past.
            following = due + max(1, passed) * self.interval
            return following if following > now else following + self.interval
        if self.interval is not None:
            return now + self.interval
        if self.idle is not None:
            return changed + self.idle if changed > began else Rest.UNTIL_CHANGE
        return Rest.FOR_EVER
