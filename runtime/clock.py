"""Wall time is taken here and nowhere else, so that tests can replace it.

Waiting is done in the time of the event loop; wall time is for what people and other processes read. A machine that
slept, or a clock that was set, changes one of the two only: `Instant` holds both, for deadlines that must not be missed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime


def _system() -> datetime:
    return datetime.now(UTC)


class _Wall:
    """The source of wall time; one for the process, threads included."""

    source: Callable[[], datetime] = staticmethod(_system)


def now() -> datetime:
    """The wall time, aware, in UTC."""
    return _Wall.source()


def is_replaced() -> bool:
    """Whether wall time comes from another source than the system. The time of other threads' loops then differs from it."""
    return _Wall.source is not _system


@contextlib.contextmanager
def replaced(source: Callable[[], datetime]) -> Iterator[None]:
    """Take wall time from another source while the context lasts; contexts nest. The source gives aware times in UTC."""
    before, _Wall.source = _Wall.source, source
    try:
        yield
    finally:
        _Wall.source = before


def iso(moment: datetime) -> str:
    """Write a time as ISO 8601 in UTC with microseconds, such as `2031-05-06T07:08:09.000001+00:00`.

    A naive time is read as UTC.
    """
    return _aware(moment).isoformat(timespec="microseconds")


def parse(text: str) -> datetime:
    """Read an ISO 8601 time, also with `Z` for UTC and with more digits than microseconds need; the result is aware and in UTC.

    A time without an offset is read as UTC. Raises ValueError for anything else.
    """
    return _aware(datetime.fromisoformat(text))


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment on both clocks: `monotonic` is the loop's, in seconds; `wall` is aware."""

    monotonic: float
    wall: datetime

    def since(self, earlier: "Instant") -> float:
        """Seconds since another instant: the larger of the two differences, never negative.

        The monotonic clock stands still while a machine sleeps, and wall time may be set back: each difference may be too small.
        """
        return max(0.0, self.monotonic - earlier.monotonic, (self.wall - earlier.wall).total_seconds())


def instant() -> Instant:
    """The present moment on both clocks. Only inside a running event loop (RuntimeError otherwise)."""
    return Instant(asyncio.get_running_loop().time(), now())
