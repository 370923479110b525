"""What is written about one object has a share of the log: whoever may write that object cannot fill the log with it.

A filter for loggers whose records say what they are about. The shares are counted by a few thousand numbers, whatever the number of
objects: two objects may share one, which nobody can bring about.
"""

import logging
import threading
from array import array
from collections.abc import Callable, Hashable, Iterator

from . import clock
from .metrics import Family, Sample
from .texts import cut, cut_inside

SHARE = 256 * 1024
"""Characters about one object within a minute."""
LONGEST_LINE = 32 * 1024
"""Characters of one message; longer ones are cut."""
HEAD, TAIL = 6 * 1024, 10 * 1024
"""Characters of the beginning and the end of a traceback that is longer than both together."""
MINUTE = 60.0

DROPPED = Family(
    "ctl_log_lines_dropped_total",
    "Lines about an object that were not logged, since its share of the log was used up for that minute; of this process.",
    "counter",
)
FAMILIES = (DROPPED,)

_PLACES = 8192
_traceback = logging.Formatter().formatException

About = Callable[[logging.LogRecord], Hashable | None]
"""What a record is about; None: nothing that has a share."""


class Shares(logging.Filter):
    """Cuts long records, and drops those of whatever has used up its share for the minute; the first that is dropped says so instead.

    Of a traceback that is cut the end and the beginning are kept. To be called from any thread.
    """

    def __init__(self, about: About, share: int | None = SHARE) -> None:
        super().__init__()
        self.share = share
        """Characters of one subject within a minute; None: no limit."""
        self.dropped = 0
        """How many records were dropped."""
        self._about = about
        self._lock = threading.Lock()
        self._minute = 0
        self._used = array("q", bytes(8 * _PLACES))

    def filter(self, record: logging.LogRecord) -> bool:
        """Cut the record, and say whether it is written."""
        try:
            text = record.getMessage()
        except Exception:  # arguments that do not fit: that is told by whoever formats it
            return True
        if len(text) > LONGEST_LINE:
            record.msg, record.args = cut(text, LONGEST_LINE), None
        size = min(len(text), LONGEST_LINE)
        if record.exc_info and record.exc_info[0] is not None and record.exc_text is None:
            # Formatters take what is there already.
            record.exc_text = shown_traceback(_traceback(record.exc_info))
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


def shown_traceback(text: str) -> str:
    """A traceback, without its middle if it is long: recursion repeats itself there."""
    return cut_inside(text, HEAD, TAIL)


def _object(record: logging.LogRecord) -> Hashable | None:
    found = vars(record)
    about = found.get("k8s_ref")
    if about:
        return about.get("uid") or (about.get("kind"), about.get("namespace"), about.get("name"))
    return found.get("key")


shares = Shares(_object)
"""The shares of the objects of this process: of handlers' loggers, and of what is logged about attempts."""
