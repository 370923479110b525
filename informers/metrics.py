"""The metrics of informers: counts as plain numbers, read by a collector, and their names."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ..runtime.metrics import MetricFamily, Sample, Tally

LIST_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
WATCH_BUCKETS = (1.0, 10.0, 60.0, 300.0, 600.0, 1800.0)

FAMILIES: list[MetricFamily] = []
LABELS = ("group", "version", "resource", "namespace", "selector")


def _family(name: str, kind: Literal["counter", "gauge", "histogram"], help: str, *labels: str) -> MetricFamily:
    family = MetricFamily(f"ctl_informer_{name}", help, kind, LABELS + labels)
    FAMILIES.append(family)
    return family


def _counter(name: str, help: str, *labels: str) -> MetricFamily:
    return _family(f"{name}_total", "counter", help, *labels)


def _gauge(name: str, help: str, *labels: str) -> MetricFamily:
    return _family(name, "gauge", help, *labels)


LISTS = _counter("lists", "Completed lists.")
LIST_SECONDS = _family("list_duration_seconds", "histogram", "How long complete lists took.")
LIST_ITEMS = _counter("list_items", "Objects in completed lists.")
LIST_BYTES = _counter("list_bytes", "JSON of pages, in bytes.")
WATCHES = _counter("watches", "Watches that were opened.")
WATCH_SECONDS = _family("watch_duration_seconds", "histogram", "How long watches lasted.")
WATCH_BYTES = _counter("watch_bytes", "Bytes that watches delivered.")
EVENTS = _counter("watch_events", "Events that watches delivered, without bookmarks.")
BOOKMARKS = _counter("bookmarks", "Bookmarks that watches delivered.")
SHORT_WATCHES = _counter("short_watches", "Watches that ended at once without any event.")
STALLS = _counter("stalled_watches", "Watches that were silent for too long and were opened again.")
EXPIRED = _counter("expired", "Lists and watches that the server refused because the version had expired (410).")
ERRORS = _counter("errors", "Failed requests and watches.")
TRANSFORM_ERRORS = _counter("transform_errors", "Objects that were stored as they came, because the transform raised.")
STALE = _counter("stale_events", "Events dropped because they were older than the cache, or repeated.")
MALFORMED = _counter("malformed_events", "Events dropped because they had no valid object.")
AGE = _gauge("last_event_age_seconds", "Time since the server last delivered an event, a bookmark or a page.")
OBJECTS = _gauge("store_objects", "Objects in the cache.")
BYTES = _gauge("store_bytes", "JSON of the cache, in bytes.")
VERSION = _gauge("store_resource_version", "Version of the cache: its 15 low digits.")
PENDING = _gauge("own_writes_pending", "Own writes that are visible before the watch has delivered them.")
WAITS = _counter("own_write_waits", "Reads that waited for an own write to be delivered.")
PHASE = _gauge("phase", "1 for the phase that the informer is in.", "phase")
DEPTH = _gauge("subscriber_depth", "Deltas that wait for a subscriber.", "subscriber")
LAG = _gauge("subscriber_lag_seconds", "The time that the oldest delta has waited for a subscriber.", "subscriber")
JOINED = _counter(
    "subscriber_joined", "Deltas that were joined with later ones because the subscriber was slow.", "subscriber"
)
SYNCED = _gauge("synced", "1 when a first list was completed, 0 before.")


@dataclass
class ReflectorMetrics:
    """What one reflector did since it was made. Times are in seconds."""

    lists: int = 0
    """Completed lists, in pages or streamed."""
    list_seconds: Tally = field(default_factory=lambda: Tally(LIST_BUCKETS))
    list_items: int = 0
    list_bytes: int = 0
    """Of pages; streamed lists count in `watch_bytes`."""
    watches: int = 0
    watch_seconds: Tally = field(default_factory=lambda: Tally(WATCH_BUCKETS))
    watch_bytes: int = 0
    """Of the watches that have ended."""
    events: int = 0
    """Without bookmarks."""
    bookmarks: int = 0
    short_watches: int = 0
    stalls: int = 0
    expired: int = 0
    """How often the history had gone (410)."""
    errors: int = 0
    """All failures, the expired ones included."""
    transform_errors: int = 0

    def samples(self, labels: tuple[str, ...]) -> Iterator[Sample]:
        """The counts at this moment."""
        for family, value in (
            (LISTS, self.lists),
            (LIST_SECONDS, self.list_seconds),
            (LIST_ITEMS, self.list_items),
            (LIST_BYTES, self.list_bytes),
            (WATCHES, self.watches),
            (WATCH_SECONDS, self.watch_seconds),
            (WATCH_BYTES, self.watch_bytes),
            (EVENTS, self.events),
            (BOOKMARKS, self.bookmarks),
            (SHORT_WATCHES, self.short_watches),
            (STALLS, self.stalls),
            (EXPIRED, self.expired),
            (ERRORS, self.errors),
            (TRANSFORM_ERRORS, self.transform_errors),
        ):
            yield Sample(family, labels, value)
