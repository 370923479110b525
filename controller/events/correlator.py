"""Decides which events are new and which are counted or combined, as client-go's event correlator does. Pure: time is an argument.

Equal events are one series with a count. Of events about one object that differ in their messages only, the first few have series of
their own, and all others within the window share one, which has the latest message.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ...runtime.token_bucket import TokenBucket
from .event import Event

SIMILAR_WINDOW = timedelta(minutes=10)
"""Similar events are forgotten when none has come for so long (client-go: 600 s)."""
COMBINED = "(combined from similar events): "
"""The prefix of the message of combined events (client-go's)."""
REMEMBERED = 4096
"""How many series, and how many groups of similar events, are remembered (client-go's)."""


@dataclass(frozen=True, slots=True)
class SpamLimit:
    """How many events may be written about one object: `burst` at once, and one more every `refill` seconds (client-go: 25 and 300)."""

    burst: int
    refill: float


@dataclass(frozen=True, slots=True)
class CorrelatorOptions:
    """How events are written.

    `backoffs`: the pauses between the attempts to write, in seconds; a number is one pause. `max_similar`: so many different messages
    have series of their own before further ones are combined. `spam`: None is no limit. Events over the limit are counted and written
    later; but at most `burst` unwritten series wait for one object, and further events are dropped.
    """

    backoffs: float | Iterable[float]
    max_similar: int
    spam: SpamLimit | None = None

    def pause(self, failures: int) -> float | None:
        """The pause after so many failures in a row, in seconds; None: give up."""
        pauses = (self.backoffs,) if isinstance(self.backoffs, (int, float)) else self.backoffs
        return next((float(pause) for number, pause in enumerate(pauses, 1) if number == failures), None)


@dataclass(slots=True, eq=False)
class EventSeries:
    """Equal, or combined, events about one object.

    `count` events came; `written` of them are in the Event object of `name` and `namespace` (None: there is none to patch). `since` is
    the time of the first event that is not written, `first` and `last` are those of all. `writes`, `failures` (in a row) and `again`
    (a loop time) belong to the recorder.
    """

    key: tuple[str | None, ...]
    event: Event
    options: CorrelatorOptions
    first: datetime
    last: datetime
    since: datetime
    count: int = 0
    written: int = 0
    name: str | None = None
    namespace: str | None = None
    writes: int = 0
    failures: int = 0
    again: float = 0.0

    @property
    def is_written(self) -> bool:
        """Whether all events are written."""
        return self.written >= self.count


@dataclass(slots=True)
class _Similar:
    last: datetime
    messages: set[str] = field(default_factory=set)


class SpamFilter:
    """How much may still be written about each object. Times are in seconds of a monotonic clock."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._buckets: OrderedDict[tuple[str | None, ...], TokenBucket] = OrderedDict()

    def spend(self, key: tuple[str | None, ...], spam: SpamLimit, now: float) -> float:
        """Spend one write: 0 when it may be made now, or the seconds until it may be tried again."""
        bucket = self._buckets.pop(key, None) or TokenBucket(1 / spam.refill, spam.burst)
        self._buckets[key] = bucket
        if len(self._buckets) > self._remembered:
            self._buckets.popitem(last=False)
        return bucket.take(now)


class EventCorrelator:
    """The series of all objects. Written ones are forgotten in time, the least recently used first."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._series: OrderedDict[tuple[str | None, ...], EventSeries] = OrderedDict()
        self._similar: OrderedDict[tuple[str | None, ...], _Similar] = OrderedDict()
        # By object, in the order of their first unwritten events.
        self._unwritten: dict[tuple[str | None, ...], dict[EventSeries, None]] = {}

    def __len__(self) -> int:
        return len(self._series)

    def __iter__(self) -> Iterator[tuple[str | None, ...]]:
        """The keys of the objects with unwritten events."""
        return iter(tuple(self._unwritten))

    def is_spam(self, event: Event, options: CorrelatorOptions) -> bool:
        """Whether to drop an event: it begins a series, and too many unwritten ones wait for its object."""
        if options.spam is None or len(self._unwritten.get(event.object_key, ())) < options.spam.burst:
            return False
        return event.repeat_key not in self._series and ("combined", *event.similar_key) not in self._series

    def take(self, event: Event, options: CorrelatorOptions, now: datetime) -> EventSeries:
        """Count an event; returns its series."""
        key = event.repeat_key
        if self._is_combined(event, options, now):
            key = ("combined", *event.similar_key)
            event = replace(event, message=COMBINED + event.message)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = EventSeries(key, event, options, first=now, last=now, since=now)
        elif series.is_written:
            series.since = now
        series.event, series.last = event, now
        series.count += 1
        self._series.move_to_end(key)
        self._unwritten.setdefault(event.object_key, {})[series] = None
        self._forget()
        return series

    def unwritten(self, object_key: tuple[str | None, ...]) -> list[EventSeries]:
        """The series of an object with unwritten events, in order."""
        return list(self._unwritten.get(object_key, ()))

    def note_written(self, series: EventSeries, count: int) -> None:
        """Note that so many events of a series are written now."""
        series.written = count
        if series.is_written:
            self._finish(series)

    def drop(self, series: EventSeries) -> None:
        """Forget a series: the next event begins a new one."""
        self._finish(series)
        if self._series.get(series.key) is series:
            del self._series[series.key]

    def _finish(self, series: EventSeries) -> None:
        lines = self._unwritten.get(series.event.object_key, {})
        lines.pop(series, None)
        if not lines:
            self._unwritten.pop(series.event.object_key, None)

    def _is_combined(self, event: Event, options: CorrelatorOptions, now: datetime) -> bool:
        similar = self._similar.get(event.similar_key)
        if similar is None or now - similar.last > SIMILAR_WINDOW:
            similar = self._similar[event.similar_key] = _Similar(now)
        similar.last = now
        self._similar.move_to_end(event.similar_key)
        if event.message in similar.messages:
            return False
        if len(similar.messages) + 1 >= options.max_similar:
            return True
        similar.messages.add(event.message)
        return False

    def _forget(self) -> None:
        while len(self._similar) > self._remembered:
            self._similar.popitem(last=False)
        # At most one step for each series over the limit, so that an event costs the same however many wait.
        for _ in range(len(self._series) - self._remembered):
            key, series = self._series.popitem(last=False)
            if not series.is_written:
                self._series[key] = series
