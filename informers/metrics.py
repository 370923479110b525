"""Counts of what informers do, as plain integers that a collector reads when it is asked."""

from dataclasses import dataclass, field

from ..runtime.metrics import Tally

LIST_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
WATCH_SECONDS = (1.0, 10.0, 60.0, 300.0, 600.0, 1800.0)


@dataclass
class ReflectorMetrics:
    """What one reflector did since it was made. Times are in seconds."""

    lists: int = 0
    """Completed lists, in pages or streamed."""
    list_seconds: Tally = field(default_factory=lambda: Tally(LIST_SECONDS))
    list_items: int = 0
    list_bytes: int = 0
    """Of pages; streamed lists count in `watch_bytes`."""
    watches: int = 0
    watch_seconds: Tally = field(default_factory=lambda: Tally(WATCH_SECONDS))
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
