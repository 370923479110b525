"""A reflector keeps one watch cache up to date: it carries out the actions of the reflector's state machine.

It ends only by cancellation. Every failure is retried; the log tells of the first one and of the recovery.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, Self

from ..client.errors import AccessError, APIError, Gone, RequestError
from ..client.lists import ListOptions
from ..client.objects import Object, version_order
from ..client.watch import WatchEvent, WatchOptions
from ..runtime import clock
from .deltas import Delta
from .listwatch import ListWatch
from .metrics import ReflectorMetrics
from .reflector_state import FetchPage, FetchVersion, OpenWatch, Phase, ReflectorState, StreamList, Wait
from .relist import Listing
from .settings import InformerSettings
from .transform import Transform
from .watch_cache import WatchCache

_logger = logging.getLogger("ctl.informers")
TICK = 15.0
"""Seconds between two looks at the clocks at the most: a machine that slept is noticed this soon after it wakes."""
STALL_GRACE = 1.0
"""Seconds to read what has arrived already before a silence is believed: the loop itself may have been blocked."""
SHORTEST = 0.001
"""Seconds between two looks at the least: timers may fire a moment early, which must not spin."""
LISTED = 100
"""So many new objects show that a streamed list makes progress."""
_TROUBLE = {Phase.BACKING_OFF, Phase.PARKED}


class ChangeListener(Protocol):
    """Receives the changes of the cache (an informer does), without any `await` since they were made."""

    def changed(self, deltas: list[Delta]) -> None:
        """The watch has delivered changes."""

    def listed(self, changes: list[Delta], listing: Listing) -> None:
        """A list has replaced the cache's contents, with these changes."""


class StallTimer:
    """Calls back once when nothing was heard for `limit()` seconds, by the loop's clock or the wall clock. A context manager.

    `hear` costs next to nothing: the timer compares the clocks when it fires and is not moved before.
    """

    __slots__ = ("_arrived", "_fire", "_heard", "_limit", "_looked", "_suspicious", "_timer", "arriving")

    def __init__(self, limit: Callable[[], float], fire: Callable[[], None]) -> None:
        self.arriving: Callable[[], int] = int
        """Returns how much of an unfinished event has come: while that changes, the watch is not silent."""
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
        """Note that something came now."""
        self._heard = clock.instant()
        self._suspicious = False
        return self._heard

    def _look(self) -> None:
        limit = self._limit()
        grace = min(STALL_GRACE, limit / 4)
        now, arrived = clock.instant(), self.arriving()
        if arrived != self._arrived and self._looked.since(self._heard) > 0:
            # It came after the last look, at an unknown time. The earliest one counts, so that no silence looks shorter than it is.
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


class Reflector:
    """Lists and watches for one informer."""

    def __init__(
        self,
        name: str,
        source: ListWatch,
        cache: WatchCache,
        listener: ChangeListener,
        settings: InformerSettings,
        random: Callable[[], float],
    ) -> None:
        """`random` returns numbers in [0, 1)."""
        self.name = name
        self.metrics = ReflectorMetrics()
        self.transform: Transform | None = None
        """Set it before the start."""
        self.heard: clock.Instant | None = None
        """When the server has last sent something."""
        self._source = source
        self._cache = cache
        self._listener = listener
        self._settings = settings
        self._random = random
        self.state = ReflectorState(settings, 0.0)
        self._listing: Listing | None = None
        self._list_began = 0.0
        self._nudged = asyncio.Event()
        # The number of lists that were begun; and the waiters, each with the first number that satisfies it.
        self._begun = 0
        self._relists: dict[asyncio.Future[None], int] = {}
        # Ends the open watch; None while there is none.
        self._interrupt: Callable[[], None] | None = None
        self._transform_failed = False
        # Whether the open watch is ended in order to ask for the server's version.
        self._doubting = False
        # The failure that was logged.
        self._told: Phase | None = None

    async def run(self) -> None:
        """List and watch until cancelled."""
        self.state.since = self._now()
        try:
            while True:
                await self._step()
        finally:
            self.state.stop(self._now())

    def retry_now(self) -> None:
        """Retry at once instead of waiting for the back-off."""
        self.state.retry_now()
        self._nudged.set()

    async def relist(self) -> None:
        """Wait until a consistent list that began after this call is in the cache; failures are retried for ever."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._relists[done] = self._begun + 1
        self.retry_now()
        if self._interrupt is not None and self.state.version is not None:
            self._interrupt()
        try:
            await done
        finally:
            self._relists.pop(done, None)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _step(self) -> None:
        if self._relists:
            self.state.relist()
        action = self.state.next(self._random())
        if isinstance(action, Wait):
            await self._wait(action.seconds)
            return
        self.state.begun(self._now(), action)
        try:
            if isinstance(action, FetchPage):
                await self._list(action)
            elif isinstance(action, FetchVersion):
                page = await self._source.list_page(ListOptions(limit=1))
                self.state.probed(page.resource_version)
            else:
                await self._watch(action)
        except Exception as error:
            self._failed(error)
        self._report()

    async def _wait(self, seconds: float) -> None:
        self._nudged.clear()
        error = self.state.error
        forget = self._source.when_back(error, self.retry_now) if error is not None else None
        try:
            async with asyncio.timeout(seconds):
                await self._nudged.wait()
        except TimeoutError:
            return
        finally:
            if forget is not None:
                forget()

    # Lists.

    async def _list(self, action: FetchPage) -> None:
        listing = self._listing
        if listing is None or action.continue_token is None:
            listing = self._begin(consistent=action.consistent)
        options = ListOptions(
            limit=action.limit,
            continue_token=action.continue_token,
            resource_version=action.resource_version,
            resource_version_match=action.resource_version_match,
        )
        page = await self._source.list_page(options)
        self.heard = clock.instant()
        self.metrics.list_bytes += page.size
        size = self._settings.page_size
        for start in range(0, len(page.items), size):
            listing.add(self._slim(page.items[start : start + size]))
            await asyncio.sleep(0)
        if page.continue_token is None:
            await self._finish(listing, page.resource_version)
        self.state.paged(self._now(), page.resource_version, page.continue_token)

    def _begin(self, *, consistent: bool = True) -> Listing:
        self._list_began = self._now()
        self._begun += 1
        self._listing = Listing(self._cache, consistent=consistent)
        return self._listing

    async def _finish(self, listing: Listing, version: str) -> None:
        for _ in listing.prepare(version):
            await asyncio.sleep(0)
        changes = listing.finish()
        self._listing = None
        self.metrics.lists += 1
        self.metrics.list_items += len(listing)
        self.metrics.list_seconds.add(self._now() - self._list_began)
        self._listener.listed(changes, listing)
        for done in [done for done, number in self._relists.items() if number <= self._begun]:
            del self._relists[done]
            if not done.done():
                done.set_result(None)
        if self._interrupt is not None and self._relists:
            self._interrupt()

    # Watches.

    async def _watch(self, action: OpenWatch | StreamList) -> None:
        state = self.state
        listing: Listing | None = None
        if isinstance(action, StreamList):
            listing = self._begin()
            options = WatchOptions(send_initial_events=True, timeout_seconds=action.timeout)
        else:
            options = WatchOptions(action.resource_version, timeout_seconds=action.timeout)
        limit = self._settings.stream_limit
        until = None if limit is None else self._now() + limit
        guard = asyncio.timeout_at(until)

        def interrupt() -> None:
            # It may be interrupted already.
            if not guard.expired():
                guard.reschedule(0.0)

        try:
            async with guard:
                self._interrupt = interrupt
                await self._follow(options, listing, interrupt)
        except Exception as error:
            if self._doubting:
                # The next action asks for the server's version.
                return
            if not isinstance(error, TimeoutError) or not guard.expired():
                raise
            # Interrupted by `relist`. But a silent streamed list, which may itself be that list, is a stall.
            if self._relists and state.version is not None:
                return
            if until is not None and self._now() >= until:
                state.ended(self._now(), self._random())
                return
            self.metrics.stalls += 1
            _logger.debug("The watch of %s is silent and is opened again.", self.name)
            state.stalled()
            return
        finally:
            self._interrupt = None
            self._doubting = False
        errors = state.error
        state.ended(self._now(), self._random())
        if state.error is not errors:
            self.metrics.short_watches += 1

    async def _follow(self, options: WatchOptions, listing: Listing | None, interrupt: Callable[[], None]) -> None:
        state, metrics = self.state, self.metrics

        def limit() -> float:
            return state.cadence.limit if state.version is not None else self._settings.stream_patience

        metrics.watches += 1
        began, listed = self._now(), 0
        with StallTimer(limit, interrupt) as timer:
            async with self._source.watch(options) as stream:
                timer.arriving = lambda: stream.unfinished
                opened = timer.hear()
                if state.opened(self._now()):
                    self.heard = opened
                self._report()
                try:
                    async for batch in stream:
                        self.heard = clock.instant()
                        if listing is not None:
                            rest = await self._gather(batch, listing)
                            if rest is None:
                                # Only new objects are progress: servers without streamed lists send changes instead.
                                if len(listing) - listed >= LISTED:
                                    listed = len(listing)
                                    timer.hear()
                                continue
                            listing = None
                        else:
                            rest = batch
                        timer.hear()
                        self._take(rest)
                finally:
                    metrics.watch_bytes += stream.nbytes
                    metrics.watch_seconds.add(self._now() - began)

    async def _gather(self, batch: list[WatchEvent], listing: Listing) -> list[WatchEvent] | None:
        """Add events to a streamed list; returns the events after its end, None while it goes on."""
        end = next((at for at, event in enumerate(batch) if event.initial_events_end), None)
        self.state.progressed("")
        if end is None:
            listing.apply(self._slim_events(batch))
            return None
        listing.apply(self._slim_events(batch[:end]))
        version = batch[end].object.resource_version
        await self._finish(listing, version)
        self.state.streamed(self._now(), version)
        self._report()
        return batch[end + 1 :]

    def _take(self, batch: list[WatchEvent]) -> None:
        cache = self._cache
        bookmarks, stale, before = cache.bookmarks, cache.stale, cache.resource_version
        deltas = cache.apply(self._slim_events(batch))
        self.state.progressed(cache.resource_version)
        bookmarks = cache.bookmarks - bookmarks
        odd = (bookmarks or cache.stale != stale) and _are_older(batch, before)
        if odd and self.state.doubted(self._now()):
            self._doubting = True
            assert self._interrupt is not None
            self._interrupt()
        if bookmarks:
            self.metrics.bookmarks += bookmarks
            self.state.cadence.bookmark(self._now())
        self.metrics.events += len(batch) - bookmarks
        if deltas or bookmarks:
            self._listener.changed(deltas)

    # Transforms.

    def _slim(self, objects: list[Object]) -> list[Object]:
        return objects if self.transform is None else [self._slim_one(obj) for obj in objects]

    def _slim_events(self, batch: list[WatchEvent]) -> list[WatchEvent]:
        if self.transform is not None:
            for event in batch:
                if event.type != "BOOKMARK":
                    event.object = self._slim_one(event.object)
        return batch

    def _slim_one(self, obj: Object) -> Object:
        assert self.transform is not None
        try:
            return self.transform(obj)
        except Exception:
            self.metrics.transform_errors += 1
            if not self._transform_failed:
                self._transform_failed = True
                _logger.exception(
                    "The transform of %s failed for %s; the object is stored unchanged.", self.name, obj.key
                )
            return obj

    def slim(self, obj: Object) -> Object:
        """The object as it is stored: transformed, or unchanged if the transform fails."""
        return obj if self.transform is None else self._slim_one(obj)

    # Trouble.

    def _failed(self, error: Exception) -> None:
        self._listing = None
        self.metrics.errors += 1
        self.metrics.expired += isinstance(error, Gone)
        if not isinstance(error, (APIError, RequestError, AccessError)):
            _logger.error("The watch of %s failed unexpectedly: %r", self.name, error, exc_info=error)
        self.state.failed(self._now(), self._random(), error)

    def _report(self) -> None:
        """Log the first of several failures, and the recovery."""
        phase, error = self.state.phase, self.state.error
        if phase not in _TROUBLE:
            if self._told is not None:
                self._told = None
                _logger.info("The watch of %s recovered.", self.name)
            return
        if phase is self._told:
            return
        self._told = phase
        reason = str(error) or repr(error)
        if phase is Phase.PARKED:
            _logger.warning("The watch of %s is parked and retried from time to time: %s", self.name, reason)
        else:
            _logger.warning("The watch of %s is interrupted and retried: %s", self.name, reason)


def _are_older(batch: list[WatchEvent], than: str) -> bool:
    """Whether an event is older than the version that the watch began at."""
    stood = version_order(than)
    orders = [version_order(event.object.resource_version) for event in batch]
    return stood is not None and any(order is not None and order < stood for order in orders)
