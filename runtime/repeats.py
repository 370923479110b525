"""Messages that repeat too often are counted instead of written.

Pure: moments are arguments. A failure that a loop runs into again and again would bury everything else in the log; what is counted is told
when its time is over, or at the end.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

LIMIT: Final = 10
"""So many equal messages are written within a window."""
WINDOW: Final = 60.0
"""How long equal messages are counted together, in seconds."""
REMEMBERED: Final = 1000
"""How many different messages are remembered; the oldest are forgotten first, and what was counted of them is told."""


@dataclass(slots=True)
class _Line:
    since: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """What was not written: how often, and since when."""

    key: Hashable
    count: int
    since: float


class Repeats:
    """Which messages are to be written. Not to be used from several threads at once."""

    def __init__(self, limit: int = LIMIT, window: float = WINDOW, remembered: int = REMEMBERED) -> None:
        self._limit = limit
        self._window = window
        self._remembered = remembered
        # In the order in which their windows began, and so end.
        self._lines: OrderedDict[Hashable, _Line] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Count one more; tell whether it is to be written. Ask `due` before."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(now)
        line.count += 1
        return line.count <= self._limit

    def due(self, now: float) -> Iterator[Held]:
        """What was held back and is to be told now: its window is over, or too much is remembered."""
        while self._lines:
            key, line = next(iter(self._lines.items()))
            # A clock that was set back ends the windows too.
            if line.since <= now < line.since + self._window and len(self._lines) <= self._remembered:
                return
            yield from self._told(key)

    def rest(self) -> Iterator[Held]:
        """What was held back until now; everything is forgotten."""
        while self._lines:
            yield from self._told(next(iter(self._lines)))

    def _told(self, key: Hashable) -> Iterator[Held]:
        line = self._lines.pop(key)
        if line.count > self._limit:
            yield Held(key, line.count - self._limit, line.since)
