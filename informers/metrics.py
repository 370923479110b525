"""The metrics of informers: counts as plain numbers, read by a collector, and their names."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..runtime.metrics import Families, Sample, Tally

LIST_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
WATCH_BUCKETS = (1.0, 10.0, 60.0, 300.0, 600.0, 1800.0)

FAMILIES = Families("group", "version", "resource", "namespace", "selector", prefix="ctl_informer_")
LISTS = FAMILIES.counter("lists_total", "Completed lists.")
LIST_SECONDS = FAMILIES.histogram("list_duration_seconds", "How long complete lists took.")
LIST_ITEMS = FAMILIES.counter("list_items_total", "Objects in completed lists.")
LIST_BYTES = FAMILIES.counter("list_bytes_total", "JSON of pages, in bytes.")
WATCHES = FAMILIES.counter("watches_total", "Watches that were opened.")
WATCH_SECONDS = FAMILIES.histogram("watch_duration_seconds", "How long watches lasted.")
WATCH_BYTES = FAMILIES.counter("watch_bytes_total", "Bytes that watches delivered.")
EVENTS = FAMILIES.counter("watch_events_total", "Events that watches delivered, without bookmarks.")
BOOKMARKS = FAMILIES.counter("bookmarks_total", "Bookmarks that watches delivered.")
SHORT_WATCHES = FAMILIES.counter("short_watches_total", "Watches that ended at once without any event.")
STALLS = FAMILIES.counter("stalled_watches_total", "Watches that were silent for too long and were opened again.")
EXPIRED = FAMILIES.counter(
    "expired_total", "Lists and watches that the server refused because the version had expired (410)."
)
ERRORS = FAMILIES.counter("errors_total", "Failed requests and watches.")
TRANSFORM_ERRORS = FAMILIES.counter(
    "transform_errors_total", "Objects that were stored as they came, because the transform raised."
)
STALE = FAMILIES.counter("stale_events_total", "Events dropped because they were older than the cache, or repeated.")
MALFORMED = FAMILIES.counter("malformed_events_total", "Events dropped because they had no valid object.")
AGE = FAMILIES.gauge("last_event_age_seconds", "Time since the server last delivered an event, a bookmark or a page.")
OBJECTS = FAMILIES.gauge("store_objects", "Objects in the cache.")
BYTES = FAMILIES.gauge("store_bytes", "JSON of the cache, in bytes.")
VERSION = FAMILIES.gauge("store_resource_version", "Version of the cache: its 15 low digits.")
PENDING = FAMILIES.gauge("own_writes_pending", "Own writes that are visible before the watch has delivered them.")
WAITS = FAMILIES.counter("own_write_waits_total", "Reads that waited for an own write to be delivered.")
PHASE = FAMILIES.gauge("phase", "1 for the phase that the informer is in.", "phase")
DEPTH = FAMILIES.gauge("subscriber_depth", "Deltas that wait for a subscriber.", "subscriber")
LAG = FAMILIES.gauge(
    "subscriber_lag_seconds", "The time that the oldest delta has waited for a subscriber.", "subscriber"
)
JOINED = FAMILIES.counter(
    "subscriber_joined_total", "Deltas that were joined with later ones because the subscriber was slow.", "subscriber"
)
SYNCED = FAMILIES.gauge("synced", "1 when a first list was completed, 0 before.")


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
