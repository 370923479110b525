"""Write posts to the server as Event objects, in the background, in order for each object.

Nobody waits for it, and what cannot be written is given up with a warning, as the settings' back-offs say.
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
from .correlator import Allowances, Line, Repeats, Way
from .event import Post, Reporter, build_event, cut_message, namespace_of, stamp

logger = logging.getLogger(__name__)

EVENTS = Resource("", "v1", "events", kind="Event", namespaced=True)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Repetitions are counted for so long before the Event object is told of them, in seconds: twice as long each time."""
EARLY = 0.01
"""What is due so soon is due now, in seconds."""
WINDOW = 600.0
"""The same without the right to patch Event objects, where each telling is a new object."""


class Recorder:
    """Takes posts from any thread, and tells the server.

    The first post of a line is a new Event object, at once. Equal ones after it are counted, and the object's count is patched,
    less and less often; where patching is not allowed, they are one new object with a count for each WINDOW. At most
    `concurrency` objects are written about at once; None: any number.
    """

    def __init__(self, client: Client, reporter: Reporter, rights: Rights, *, concurrency: int | None = None) -> None:
        """Belongs to the running loop and its thread. Where the reporter names no namespace, that of the credentials is used."""
        self._client = client
        self._reporter = reporter
        self._rights = rights
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._coming: deque[tuple[Post, Way, datetime]] = deque()
        self._repeats = Repeats()
        self._allowances = Allowances()
        self._is_ending = False
        self._missing: set[str] = set()
        self._controller: Controller[tuple[str | None, ...]] = Controller(
            "events", lambda key, _: self._tell(key), concurrency=concurrency
        )

    async def start(self) -> None:
        """Begin to write."""
        await self._controller.start()

    async def stop(self, grace: float) -> None:
        """Write what waits, delayed or not, once, within `grace` seconds; give up the rest."""
        self._is_ending = True
        for key in self._repeats:
            self._controller.queue.add(key)
        await self._controller.stop(grace)

    def add(self, post: Post, way: Way) -> None:
        """Take a post, to be written soon. From any thread; after the end nothing happens."""
        if self._loop.is_closed():
            return
        self._coming.append((post, way, clock.now()))
        if threading.get_ident() == self._thread:
            self._take()
        else:
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        """Take what was said, by whomever first: what a thread has said before waits for a turn of the loop."""
        while self._coming:
            post, way, now = self._coming.popleft()
            if not self._is_ending and not self._repeats.refuses(post, way):
                self._repeats.take(post, way, now)
                self._controller.queue.add(post.object_key)

    # Writing: an attempt of one object's key, one at a time.

    async def _tell(self, key: tuple[str | None, ...]) -> Result | None:
        waits = []
        for line in self._repeats.untold(key):
            wait = 0.0 if self._is_ending else await self._due(line) - self._loop.time()
            # A timer may fire a hair too early.
            if wait < EARLY:
                wait = self._allowed(key, line) or await self._write(line)
            if wait > 0:
                waits.append(wait)
                if line.failures:
                    # What comes after it is not to be told before it.
                    break
        return Result(requeue_after=min(waits)) if waits else None

    def _allowed(self, key: tuple[str | None, ...], line: Line) -> float:
        """0 when so much may be written about the object, or the seconds until then."""
        spam = line.way.spam
        return 0.0 if spam is None or self._is_ending else self._allowances.spend(key, spam, self._loop.time())

    async def _due(self, line: Line) -> float:
        """When a line may be written, in loop time."""
        if line.failures:
            return line.again
        if not line.writes:
            return 0.0
        if not await self._may("patch", line, "repetitions are posted as one new event for each 10 minutes"):
            return line.again + WINDOW
        return line.again + min(LONGEST_PAUSE, math.ldexp(FIRST_PAUSE, min(line.writes - 1, 10)))

    async def _write(self, line: Line) -> float:
        """Tell the server of a line; gives the seconds until this is to be tried again, 0 when it is not."""
        count, is_new = line.count, line.name is None
        try:
            await self._send(line, count)
        except Exception as exc:  # whatever it is: posts are worth a warning, not more
            return self._fail(line, exc, is_new=is_new)
        line.failures = 0
        line.writes += 1
        line.again = self._loop.time()
        self._repeats.told(line, count)
        return 0.0

    def _fail(self, line: Line, exc: Exception, *, is_new: bool) -> float:
        line.failures += 1
        pause = line.way.pause(line.failures)
        # An Event object with a generated name could be there twice. A server that says it failed has hardly written it.
        is_doubtful = is_outcome_unknown(exc) and not isinstance(exc, (InternalError, ServiceUnavailable))
        is_repeatable = is_retriable(exc) and not (is_new and is_doubtful)
        if is_repeatable and pause is not None and not self._is_ending:
            line.again = self._loop.time() + pause
            return pause
        post = line.post
        logger.warning(
            "Failed to post an event. Ignoring and continuing. Event: type=%r, reason=%r, message=%r. Error: %s",
            post.type,
            post.reason,
            post.message,
            exc,
        )
        self._repeats.drop(line)
        return 0.0

    async def _send(self, line: Line, count: int) -> None:
        if line.name is not None and await self._may("patch", line):
            try:
                await self._count(line, line.name, count)
            except NotFound:
                # The server forgets Event objects, after an hour by default.
                await self._create(line, count, line.first)
        elif not await self._may("create", line, "nothing is posted"):
            self._repeats.drop(line)
        else:
            await self._create(line, count - line.told, line.since)

    async def _create(self, line: Line, count: int, first: datetime) -> None:
        line.name = None
        body = build_event(line.post, self._reporter, first)
        if count > 1:
            body |= {"count": count, "lastTimestamp": stamp(line.last)}
        event = await self._client.create(EVENTS, body, retry=False)
        line.name, line.namespace = event.name, event.namespace

    async def _count(self, line: Line, name: str, count: int) -> None:
        change = {"count": count, "lastTimestamp": stamp(line.last), "message": cut_message(line.post.message)}
        await self._client.request(
            "PATCH",
            EVENTS.get_object_url(namespace=line.namespace, name=name),
            body=change,
            headers={"Content-Type": PatchKind.MERGE.value},
            retry=False,
            repeatable=True,
        )

    async def _may(self, verb: str, line: Line, otherwise: str = "") -> bool:
        namespace = line.namespace or namespace_of(line.post)
        if await self._rights.have(verb, EVENTS, namespace):
            return True
        if otherwise and verb not in self._missing:
            self._missing.add(verb)
            logger.info("The right to %s events is missing in namespace %r: %s.", verb, namespace, otherwise)
        return False
