"""The recorder writes events to the server, in the background, in order for each object.

Nobody waits for that. After the back-offs of its options an event is given up with a warning.
"""

import asyncio
import logging
import math
import threading
from collections import deque
from datetime import datetime

from ...client.errors import InternalError, NotFound, ServiceUnavailable, is_outcome_unknown, is_retriable
from ...client.resources import Resource
from ...client.rest import Client
from ...client.wire.request import PatchKind
from ...runtime import clock
from ..api.access_review import Rights
from ..kernel.controller import Controller
from ..kernel.reconciler import Result
from .correlator import CorrelatorOptions, EventCorrelator, EventSeries, SpamFilter
from .event import Event, EventSource, build_event, cut_message, namespace_of, stamp

logger = logging.getLogger(__name__)

EVENTS = Resource("", "v1", "events", kind="Event", namespaced=True)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Repetitions are counted for so many seconds before the Event object is patched; twice as long each time."""
EARLY = 0.01
"""Writes that are due in so many seconds are made now: timers may fire slightly early."""
WINDOW = 600.0
"""The same without the right to patch Event objects: each write is a new object."""


class Recorder:
    """Takes events from any thread and writes them.

    The first event of a series is a new Event object, at once. Further ones are counted, and the object's count is patched, less and
    less often; without the right to patch they are one new object for each WINDOW. At most `concurrency` requests run at once; None:
    no limit.
    """

    def __init__(self, client: Client, source: EventSource, rights: Rights, *, concurrency: int | None = None) -> None:
        """Belongs to the running loop and its thread."""
        self._client = client
        self._source = source
        self._rights = rights
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._incoming: deque[tuple[Event, CorrelatorOptions, datetime]] = deque()
        self._correlator = EventCorrelator()
        self._spam_filter = SpamFilter()
        self._is_ending = False
        self._denied: set[str] = set()
        self._controller: Controller[tuple[str | None, ...]] = Controller(
            "events", lambda key, _: self._reconcile(key), concurrency=concurrency
        )

    async def start(self) -> None:
        """Begin to write."""
        await self._controller.start()

    async def stop(self, grace: float) -> None:
        """Write the events that wait, delayed or not, once, within `grace` seconds; give up the rest."""
        self._is_ending = True
        for key in self._correlator:
            self._controller.queue.add(key)
        await self._controller.stop(grace)

    def add(self, event: Event, options: CorrelatorOptions) -> None:
        """Add an event. From any thread; ignored after the end."""
        if self._loop.is_closed():
            return
        self._incoming.append((event, options, clock.now()))
        if threading.get_ident() == self._thread:
            self._take()
        else:
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        """Take the events in their order: those of other threads wait here for the loop."""
        while self._incoming:
            event, options, now = self._incoming.popleft()
            if not self._is_ending and not self._correlator.is_spam(event, options):
                self._correlator.take(event, options, now)
                self._controller.queue.add(event.object_key)

    # Writing, as the reconciler of one object's key.

    async def _reconcile(self, key: tuple[str | None, ...]) -> Result | None:
        waits = []
        for series in self._correlator.unwritten(key):
            wait = 0.0 if self._is_ending else await self._due(series) - self._loop.time()
            if wait < EARLY:
                wait = self._allowed(key, series) or await self._write(series)
            if wait > 0:
                waits.append(wait)
                if series.failures:
                    # Keep the order.
                    break
        return Result(requeue_after=min(waits)) if waits else None

    def _allowed(self, key: tuple[str | None, ...], series: EventSeries) -> float:
        """0 when the event may be written now, or the seconds until then."""
        spam = series.options.spam
        return 0.0 if spam is None or self._is_ending else self._spam_filter.spend(key, spam, self._loop.time())

    async def _due(self, series: EventSeries) -> float:
        """When a series may be written, in loop time."""
        if series.failures:
            return series.again
        if not series.writes:
            return 0.0
        if not await self._may("patch", series, "repetitions are posted as one new event for each 10 minutes"):
            return series.again + WINDOW
        return series.again + min(LONGEST_PAUSE, math.ldexp(FIRST_PAUSE, min(series.writes - 1, 10)))

    async def _write(self, series: EventSeries) -> float:
        """Write a series; returns the seconds until the next try, 0 for none."""
        count, is_new = series.count, series.name is None
        try:
            await self._send(series, count)
        except Exception as exc:  # whatever it is: events are worth a warning, not more
            return self._fail(series, exc, is_new=is_new)
        series.failures = 0
        series.writes += 1
        series.again = self._loop.time()
        self._correlator.note_written(series, count)
        return 0.0

    def _fail(self, series: EventSeries, exc: Exception, *, is_new: bool) -> float:
        series.failures += 1
        pause = series.options.pause(series.failures)
        # With a generated name the Event object could be there twice. After these two errors that is unlikely.
        is_doubtful = is_outcome_unknown(exc) and not isinstance(exc, (InternalError, ServiceUnavailable))
        is_repeatable = is_retriable(exc) and not (is_new and is_doubtful)
        if is_repeatable and pause is not None and not self._is_ending:
            series.again = self._loop.time() + pause
            return pause
        event = series.event
        logger.warning(
            "Failed to post an event. Ignoring and continuing. Event: type=%r, reason=%r, message=%r. Error: %s",
            event.type,
            event.reason,
            event.message,
            exc,
        )
        self._correlator.drop(series)
        return 0.0

    async def _send(self, series: EventSeries, count: int) -> None:
        if series.name is not None and await self._may("patch", series):
            try:
                await self._count(series, series.name, count)
            except NotFound:
                # The server deletes Event objects after some time, an hour by default.
                await self._create(series, count, series.first)
        elif not await self._may("create", series, "nothing is posted"):
            self._correlator.drop(series)
        else:
            await self._create(series, count - series.written, series.since)

    async def _create(self, series: EventSeries, count: int, first: datetime) -> None:
        series.name = None
        body = build_event(series.event, self._source, first)
        if count > 1:
            body |= {"count": count, "lastTimestamp": stamp(series.last)}
        event = await self._client.create(EVENTS, body, retry=False)
        series.name, series.namespace = event.name, event.namespace

    async def _count(self, series: EventSeries, name: str, count: int) -> None:
        change = {"count": count, "lastTimestamp": stamp(series.last), "message": cut_message(series.event.message)}
        await self._client.request(
            "PATCH",
            EVENTS.get_object_url(namespace=series.namespace, name=name),
            body=change,
            headers={"Content-Type": PatchKind.MERGE.value},
            retry=False,
            repeatable=True,
        )

    async def _may(self, verb: str, series: EventSeries, otherwise: str = "") -> bool:
        namespace = series.namespace or namespace_of(series.event)
        if await self._rights.have(verb, EVENTS, namespace):
            return True
        if otherwise and verb not in self._denied:
            self._denied.add(verb)
            logger.info("The right to %s events is missing in namespace %r: %s.", verb, namespace, otherwise)
        return False
