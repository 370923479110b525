"""The metrics of informers by name, as an operator exposes them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..runtime.metrics import MetricFamily, Sample
from .informer import Informer
from .metrics import ReflectorMetrics

_LABELS = ("group", "version", "resource", "namespace", "selector")


def _counter(name: str, help: str) -> MetricFamily:
    return MetricFamily(f"ctl_informer_{name}_total", help, "counter", _LABELS)


def _gauge(name: str, help: str, *labels: str) -> MetricFamily:
    return MetricFamily(f"ctl_informer_{name}", help, "gauge", _LABELS + labels)


_LISTS = _counter("lists", "Completed lists.")
_LIST_SECONDS = MetricFamily(
    "ctl_informer_list_duration_seconds", "How long complete lists took.", "histogram", _LABELS
)
_LIST_ITEMS = _counter("list_items", "Objects in completed lists.")
_LIST_BYTES = _counter("list_bytes", "JSON of pages, in bytes.")
_WATCHES = _counter("watches", "Watches that were opened.")
_WATCH_SECONDS = MetricFamily("ctl_informer_watch_duration_seconds", "How long watches lasted.", "histogram", _LABELS)
_WATCH_BYTES = _counter("watch_bytes", "What watches delivered, in bytes.")
_EVENTS = _counter("watch_events", "Events that watches delivered, without bookmarks.")
_BOOKMARKS = _counter("bookmarks", "Bookmarks that watches delivered.")
_SHORT = _counter("short_watches", "Watches that ended at once without any event.")
_STALLS = _counter("stalled_watches", "Watches that were silent for too long and were opened again.")
_EXPIRED = _counter("expired", "How often the server no longer had the history (410).")
_ERRORS = _counter("errors", "Failed requests and watches.")
_UNSLIMMED = _counter("transform_errors", "Objects that were stored as they came, because the transform raised.")
_STALE = _counter("stale_events", "Events dropped as older than what was known, or as repeated.")
_MALFORMED = _counter("malformed_events", "Events dropped as no events of an object.")
_AGE = _gauge("last_event_age_seconds", "Time since the server was heard last, by any event, bookmark or page.")
_OBJECTS = _gauge("store_objects", "Objects in the copy.")
_BYTES = _gauge("store_bytes", "JSON of the copy, in bytes.")
_VERSION = _gauge("store_resource_version", "Version of the copy: its 15 low digits.")
_OVERLAID = _gauge("own_writes_pending", "Own writes that are visible before the watch has delivered them.")
_WAITS = _counter("own_write_waits", "Reads that waited for an own write to be delivered.")
_PHASE = _gauge("phase", "1 for the phase that the informer is in.", "phase")
_DEPTH = _gauge("subscriber_depth", "Deltas that wait for a subscriber.", "subscriber")
_LAG = _gauge("subscriber_lag_seconds", "For how long the oldest of them has waited.", "subscriber")
_JOINED = MetricFamily(
    "ctl_informer_subscriber_joined_total",
    "Deltas that were joined with later ones because the subscriber was slow.",
    "counter",
    (*_LABELS, "subscriber"),
)

_SYNCED = _gauge("synced", "1 when a first list was completed, 0 before.")

FAMILIES = (
    _LISTS,
    _LIST_SECONDS,
    _LIST_ITEMS,
    _LIST_BYTES,
    _WATCHES,
    _WATCH_SECONDS,
    _WATCH_BYTES,
    _EVENTS,
    _BOOKMARKS,
    _SHORT,
    _STALLS,
    _EXPIRED,
    _ERRORS,
    _UNSLIMMED,
    _STALE,
    _MALFORMED,
    _AGE,
    _OBJECTS,
    _BYTES,
    _VERSION,
    _OVERLAID,
    _WAITS,
    _PHASE,
    _DEPTH,
    _LAG,
    _JOINED,
    _SYNCED,
)


def samples(informers: Iterable[Informer]) -> Iterator[Sample]:
    """The present values of informers; a source for the operator's metrics."""
    for informer in informers:
        resource = informer.resource
        chosen = replace(informer.selection, namespace=None)
        labels = (resource.group, resource.version, resource.plural, informer.namespace or "", str(chosen))
        yield from _reflected(informer.metrics, labels)
        yield from _stored(informer, labels)
        for subscription in informer.subscriptions:
            names = (*labels, subscription.name)
            yield Sample(_DEPTH, names, subscription.depth)
            yield Sample(_LAG, names, subscription.lag)
            yield Sample(_JOINED, names, subscription.joined)


def _reflected(metrics: ReflectorMetrics, labels: tuple[str, ...]) -> Iterator[Sample]:
    for family, value in (
        (_LISTS, metrics.lists),
        (_LIST_SECONDS, metrics.list_seconds),
        (_LIST_ITEMS, metrics.list_items),
        (_LIST_BYTES, metrics.list_bytes),
        (_WATCHES, metrics.watches),
        (_WATCH_SECONDS, metrics.watch_seconds),
        (_WATCH_BYTES, metrics.watch_bytes),
        (_EVENTS, metrics.events),
        (_BOOKMARKS, metrics.bookmarks),
        (_SHORT, metrics.short_watches),
        (_STALLS, metrics.stalls),
        (_EXPIRED, metrics.expired),
        (_ERRORS, metrics.errors),
        (_UNSLIMMED, metrics.transform_errors),
    ):
        yield Sample(family, labels, value)


def _stored(informer: Informer, labels: tuple[str, ...]) -> Iterator[Sample]:
    store = informer.store
    version = store.resource_version[-15:]
    age = informer.state.age
    for family, value in (
        (_STALE, informer.stale),
        (_MALFORMED, informer.malformed),
        (_OBJECTS, len(store)),
        (_BYTES, store.nbytes),
        (_VERSION, int(version) if version.isdecimal() else 0),
        (_OVERLAID, informer.overlaid),
        (_WAITS, informer.waits),
    ):
        yield Sample(family, labels, value)
    if age is not None:
        yield Sample(_AGE, labels, age)
    yield Sample(_SYNCED, labels, int(informer.has_synced))
    yield Sample(_PHASE, (*labels, informer.state.phase.value), 1)
