"""The log is bounded: equal messages are counted, each object has a share, long lines and tracebacks are cut.

Otherwise a loop that fails again and again, or a person who may write one object, fills the log.
"""

import logging
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from . import clock
from .metrics import Families, Sample
from .texts import cut, cut_inside

REPEATS: Final = 10
"""How many equal messages are written within a window."""
WINDOW: Final = 60.0
"""Seconds within which equal messages are counted together."""
REMEMBERED: Final = 1000
"""How many different messages are remembered; the oldest is forgotten first, and its count is written."""

SHARE = 256 * 1024
"""Characters that may be logged about one object in a minute."""
LONGEST_LINE = 32 * 1024
"""Characters of one message; a longer one is cut."""
HEAD, TAIL = 6 * 1024, 10 * 1024
"""Characters of the beginning and the end of a traceback that is longer than both together."""
MINUTE = 60.0

FAMILIES = Families()
DROPPED = FAMILIES.counter(
    "ctl_log_lines_dropped_total",
    "Log lines about an object that were dropped because its share for that minute was used up; of this process.",
)

_PLACES = 8192
_traceback = logging.Formatter().formatException

About = Callable[[logging.LogRecord], Hashable | None]
"""The object that a record is about; None if it has no share."""


@dataclass(slots=True)
class _Line:
    since: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class Omitted:
    """How often a message was not written, and since when."""

    key: Hashable
    count: int
    since: float


class RepeatFilter:
    """Decides which messages are written. Pure: time is an argument. For one thread at a time."""

    def __init__(self, limit: int = REPEATS, window: float = WINDOW, remembered: int = REMEMBERED) -> None:
        self._limit = limit
        self._window = window
        self._remembered = remembered
        # In the order in which their windows began, and so end.
        self._lines: OrderedDict[Hashable, _Line] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Count a message; returns whether to write it. Call `due` first."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(now)
        line.count += 1
        return line.count <= self._limit

    def due(self, now: float) -> Iterator[Omitted]:
        """The counts to write now: their window is over, or too many messages are remembered."""
        while self._lines:
            key, line = next(iter(self._lines.items()))
            # A clock that was set back ends the windows too.
            if line.since <= now < line.since + self._window and len(self._lines) <= self._remembered:
                return
            yield from self._forget(key)

    def rest(self) -> Iterator[Omitted]:
        """All counts; everything is forgotten."""
        while self._lines:
            yield from self._forget(next(iter(self._lines)))

    def _forget(self, key: Hashable) -> Iterator[Omitted]:
        line = self._lines.pop(key)
        if line.count > self._limit:
            yield Omitted(key, line.count - self._limit, line.since)


class Shares(logging.Filter):
    """Cuts long records, and drops records about an object that has used up its share; the first one dropped is replaced by a warning.

    The shares are counted in a table of fixed size, by hash: two objects may have one share, but nobody can bring that about. A cut
    traceback keeps its beginning and its end. For any thread.
    """

    def __init__(self, about: About, share: int | None = SHARE) -> None:
        super().__init__()
        self.share = share
        """Characters per object and minute; None: no limit."""
        self.dropped = 0
        """How many records were dropped."""
        self._about = about
        self._lock = threading.Lock()
        self._minute = 0
        self._used = array("q", bytes(8 * _PLACES))

    def filter(self, record: logging.LogRecord) -> bool:
        """Cut the record; returns whether it is written."""
        try:
            text = record.getMessage()
        except Exception:  # arguments that do not fit: the formatter reports them
            return True
        if len(text) > LONGEST_LINE:
            record.msg, record.args = cut(text, LONGEST_LINE), None
        size = min(len(text), LONGEST_LINE)
        if record.exc_info and record.exc_info[0] is not None and record.exc_text is None:
            # Formatters use the text that is there already.
            record.exc_text = shortened_traceback(_traceback(record.exc_info))
            size += len(record.exc_text)
        about = None if self.share is None else self._about(record)
        return about is None or self._take(about, size, record)

    def _take(self, about: Hashable, size: int, record: logging.LogRecord) -> bool:
        place, minute = hash(about) % _PLACES, int(clock.now().timestamp() // MINUTE)
        share = self.share or 0
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._used = array("q", bytes(8 * _PLACES))
            before = self._used[place]
            self._used[place] = min(before + size, share + 1)
            if before + size <= share:
                return True
            self.dropped += 1
        if before > share:
            return False
        record.msg = (
            "Lines about this object are dropped until the minute is over: they would have more than %d characters "
            "(settings.diagnostics.log_budget)."
        )
        record.args = (share,)
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        record.exc_info = record.exc_text = record.stack_info = None
        return True

    def samples(self) -> Iterator[Sample]:
        """How many records were dropped (a source for `ctl.runtime.metrics`)."""
        yield Sample(DROPPED, (), self.dropped)


def shortened_traceback(text: str) -> str:
    """A traceback without its middle if it is long: recursion repeats itself there."""
    return cut_inside(text, HEAD, TAIL)


def _object(record: logging.LogRecord) -> Hashable | None:
    found = vars(record)
    about = found.get("k8s_ref")
    if about:
        return about.get("uid") or (about.get("kind"), about.get("namespace"), about.get("name"))
    return found.get("key")


shares = Shares(_object)
"""The shares of this process: for the loggers of handlers, and for log lines about attempts."""
