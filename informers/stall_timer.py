"""A watch that is silent for too long is noticed, whichever clock says so."""

import asyncio
from collections.abc import Callable
from typing import Self

from ..runtime import clock

TICK = 15.0
"""The longest time between two looks at the clocks: a machine that slept is noticed this soon after it wakes."""
GRACE = 1.0
"""Time to read what has arrived already, before the silence is believed: the loop itself may have stood still."""
SHORTEST = 0.001
"""The shortest time between two looks: timers may fire a moment early, which must not spin."""


class Watchdog:
    """Calls back once when nothing was heard for `limit()` seconds, by the loop's clock or by the wall's.

    Hearing costs next to nothing, since the timer looks at the clocks when it fires and is not moved. Use it as a context.
    """

    __slots__ = ("_arrived", "_fire", "_heard", "_limit", "_looked", "_suspicious", "_timer", "arriving")

    def __init__(self, limit: Callable[[], float], fire: Callable[[], None]) -> None:
        self.arriving: Callable[[], int] = int
        """How much has come of something whose end has not: as long as that changes, something is heard."""
        self._arrived = 0
        self._limit = limit
        self._fire = fire
        self._heard = self._looked = clock.instant()
        self._suspicious = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self.hear()
        self._look()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hear(self) -> clock.Instant:
        """Something was heard now."""
        self._heard = clock.instant()
        self._suspicious = False
        return self._heard

    def _look(self) -> None:
        limit = self._limit()
        grace = min(GRACE, limit / 4)
        now, arrived = clock.instant(), self.arriving()
        if arrived != self._arrived and self._looked.since(self._heard) > 0:
            # It came after the last look, nobody knows when: no silence is taken for shorter than it is.
            self._heard = self._looked
        self._looked, self._arrived = now, arrived
        left = limit - grace - now.since(self._heard)
        if left > 0:
            self._suspicious = False
            self._arm(min(TICK, max(left, SHORTEST)))
        elif not self._suspicious:
            self._suspicious = True
            self._arm(grace)
        else:
            self._timer = None
            self._fire()

    def _arm(self, delay: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay, self._look)
