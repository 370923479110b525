"""Watches carry changes to their clients: one encoded line is shared by all that see the same event."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import rendering
from .history import Change, Stored
from .reading import check_watch, switched_on, version_of
from .rendering import Form
from .resources import Resource
from .selecting import Selection
from .status import Refused, expired, too_new
from .store import Store, chosen, stamp


@dataclass(frozen=True)
class View:
    """What a watch shows: a resource in one version, a selection of it, and the form of its events."""

    resource: Resource
    selection: Selection
    form: Form


class Feed:
    """The lines that wait for one watch client, bounded in bytes.

    A client that reads too slowly loses its feed: `on_overflow` is called once and nothing more is taken
    up. Lines are handed out in order and never twice.
    """

    def __init__(self, view: View, limit: int) -> None:
        self.view = view
        self.on_overflow: Callable[[], None] = lambda: None
        # Changes up to this version are not wanted.
        self.after = 0
        # The version of the last bookmark sent.
        self.bookmarked = 0
        self._limit = limit
        self._lines: list[bytes] = []
        self._size = 0
        self._wake = asyncio.Event()
        self._ended = False
        self._stalled = False

    @property
    def ended(self) -> bool:
        """Whether no more lines will come after those that wait."""
        return self._ended

    def offer(self, line: bytes, *, bounded: bool = True) -> None:
        """Queue a line; nothing happens after the end."""
        if self._ended:
            return
        self._lines.append(line)
        self._size += len(line)
        if bounded and self._size > self._limit:
            self._lines.clear()
            self.end()
            self.on_overflow()
        elif not self._stalled:
            self._wake.set()

    def end(self) -> None:
        """Let the stream end after the lines that wait."""
        self._ended = True
        self._wake.set()

    def stall(self, stalled: bool) -> None:
        """Hold lines back (the stream stays open, silent), or let them go on."""
        self._stalled = stalled
        if not stalled and self._lines:
            self._wake.set()

    async def take(self, timeout: float | None) -> bytes | None:
        """All waiting lines as one chunk; empty after `timeout` seconds without any; None at the end."""
        if not self._wake.is_set():
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return b""
        self._wake.clear()
        if self._ended and not self._lines:
            self._wake.set()
            return None
        if self._ended:
            self._wake.set()
        chunk = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        return chunk


class Hub:
    """All open feeds. Opening one and every change happen on the loop, so a feed misses and repeats nothing."""

    def __init__(self, store: Store, now: Callable[[], str], limit: int) -> None:
        self._store = store
        self._now = now
        self._limit = limit
        self._feeds: dict[str, list[Feed]] = {}
        # Invariant: for each kind that was restarted, the version at which it was.
        self._restarted: dict[str, int] = {}
        store.listen(self._publish)

    def __len__(self) -> int:
        return sum(len(feeds) for feeds in self._feeds.values())

    def open(self, view: View, query: Mapping[str, str]) -> Feed:
        """A feed from where the query asks for: a version's changes, or the state first.

        A version that is forgotten makes a feed of one ERROR line, as the real server answers. Raises a
        422 for parameters that contradict each other.
        """
        check_watch(query)
        feed = Feed(view, self._limit)
        version = version_of(query)
        streamed = switched_on(query, "sendInitialEvents")
        current = self._store.history.current
        try:
            if streamed and version > current:
                raise too_new(version, current)
            if streamed or (version == 0 and query.get("sendInitialEvents") is None):
                self._state(feed)
                if switched_on(query, "allowWatchBookmarks"):
                    line = rendering.bookmark(view.resource, current, view.form, initial_end=True)
                    feed.offer(line, bounded=False)
                    feed.bookmarked = current
            else:
                feed.after = version
                self._past(feed, version)
        except Refused as refused:
            feed.offer(rendering.error(refused), bounded=False)
            feed.end()
            return feed
        self._feeds.setdefault(view.resource.bucket, []).append(feed)
        return feed

    def _state(self, feed: Feed) -> None:
        view = feed.view
        items = self._store.select(view.resource, view.selection)
        lines = b"".join(rendering.lines(view.resource, items, view.form, self._now()))
        if lines:
            feed.offer(lines, bounded=False)

    def _past(self, feed: Feed, version: int) -> None:
        restarted = self._restarted.get(feed.view.resource.bucket, 0)
        if version and version < restarted:
            raise expired(f"too old resource version: {version} ({restarted})")
        for change in self._store.history.since(version or self._store.history.current, feed.view.resource.bucket):
            if (line := self._line(feed.view, change)) is not None:
                feed.offer(line, bounded=False)

    def bookmark(self, feed: Feed) -> bytes:
        """A bookmark of the current version: all changes up to it have been offered before."""
        feed.bookmarked = self._store.history.current
        return rendering.bookmark(feed.view.resource, self._store.history.current, feed.view.form)

    def news(self, feed: Feed) -> bool:
        """Whether a bookmark would tell more than the last one."""
        return feed.bookmarked != self._store.history.current

    def close(self, feed: Feed) -> None:
        """Forget a feed; harmless when it is already forgotten."""
        feeds = self._feeds.get(feed.view.resource.bucket, [])
        if feed in feeds:
            feeds.remove(feed)

    def end_bucket(self, bucket: str) -> None:
        """End all feeds of a kind that is no longer served."""
        for feed in self._feeds.pop(bucket, []):
            feed.end()

    def restart_bucket(self, bucket: str) -> None:
        """End all feeds of a kind whose definition changed, and forget its changes before now.

        The real server builds a new watch cache then, so that a client that resumes from an older version
        is told that it is expired. Lists of older versions are answered on.
        """
        self.end_bucket(bucket)
        self._restarted[bucket] = self._store.history.current

    def end_all(self) -> None:
        """End all feeds: the server stops."""
        for bucket in list(self._feeds):
            self.end_bucket(bucket)

    def _publish(self, change: Change) -> None:
        for feed in tuple(self._feeds.get(change.bucket, ())):
            if change.version > feed.after and (line := self._line(feed.view, change)) is not None:
                feed.offer(line)
                if feed.ended:
                    self.close(feed)

    def _line(self, view: View, change: Change) -> bytes | None:
        """The change as one view sees it: objects enter and leave a selection as ADDED and DELETED."""
        seen = chosen(view.selection, change.object)
        before = change.previous is not None and chosen(view.selection, change.previous)
        if change.type == "DELETED":
            return self._encoded(view, "DELETED", change, change.object) if before else None
        if seen:
            return self._encoded(view, "MODIFIED" if before else "ADDED", change, change.object)
        if before and change.previous is not None:
            return self._encoded(view, "DELETED", change, None)
        return None

    def _encoded(self, view: View, type: str, change: Change, stored: Stored | None) -> bytes:
        key = (type, stored is None, view.resource.group_version, view.form)
        line = change.lines.get(key)
        if line is None:
            if stored is None:
                assert change.previous is not None
                stored = stamp(view.resource, change.previous, change.version)
            line = rendering.event(view.resource, type, stored, view.form, self._now())
            change.lines[key] = line
        return line
