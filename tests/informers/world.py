"""A server in a few lines: the truth, its history, and a list-watch whose wire can be broken on purpose."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from ctl.client.errors import (
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    NotFound,
    RequestError,
    StreamBroken,
    TooManyRequests,
)
from ctl.client.lists import ListOptions, ListPage
from ctl.client.objects import Object
from ctl.client.watch import WatchEvent, WatchOptions

Name = tuple[str | None, str]

ERRORS: dict[str, Callable[[], Exception]] = {
    "expired": lambda: Expired(410),
    "forbidden": lambda: Forbidden(403),
    "missing": lambda: NotFound(404),
    "broken": lambda: StreamBroken("no event"),
    "internal": lambda: InternalError(500),
    "busy": lambda: TooManyRequests(429, retry_after=3.0),
    "refused": lambda: RequestError("connection refused"),
}


def make(name: str, version: int | str, uid: str, namespace: str | None = "ns", **body: object) -> Object:
    meta = {"name": name, "uid": uid, "resourceVersion": str(version)}
    if namespace is not None:
        meta["namespace"] = namespace
    return Object.from_raw(msgspec.json.encode({"apiVersion": "v1", "kind": "Thing", "metadata": meta, **body}))


@dataclass
class World:
    """What is true. Versions begin where the number of their digits is about to change."""

    version: int = 95
    objects: dict[Name, Object] = field(default_factory=dict)
    history: list[tuple[int, str, Object]] = field(default_factory=list)
    floor: int = 0
    uids: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def _note(self, kind: str, obj: Object) -> Object:
        self.history.append((self.version, kind, obj))
        self.changed.set()
        return obj

    def write(self, name: str) -> Object:
        """Create or update."""
        self.version += 1
        old = self.objects.get(("ns", name))
        if old is None:
            self.uids += 1
        obj = make(name, self.version, old.uid if old is not None else f"uid-{self.uids}")
        self.objects[obj.key] = obj
        return self._note("ADDED" if old is None else "MODIFIED", obj)

    def delete(self, name: str) -> Object | None:
        old = self.objects.pop(("ns", name), None)
        if old is None:
            return None
        self.version += 1
        return self._note("DELETED", make(name, self.version, old.uid))

    def compact(self) -> None:
        self.floor = self.version

    def state(self) -> dict[Name, tuple[str, str]]:
        return {name: (obj.uid, obj.resource_version) for name, obj in self.objects.items()}


@dataclass(eq=False)
class Stream:
    """One open watch. `pos` is the last version that was sent."""

    world: World
    pos: int
    initial: deque[WatchEvent] = field(default_factory=deque)
    extra: deque[WatchEvent] = field(default_factory=deque)
    failure: Exception | None = None
    stalled: bool = False
    over: bool = False
    swapped: bool = False
    chunk: int = 3
    nbytes: int = 0
    unfinished: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        while True:
            if not self.stalled:
                batch = self._batch()
                if batch:
                    return batch
                if self.failure is not None:
                    raise self.failure
                if self.over:
                    raise StopAsyncIteration
            self.wake.clear()
            await self.wake.wait()

    def _batch(self) -> list[WatchEvent]:
        batch = [self.initial.popleft() for _ in range(min(self.chunk, len(self.initial)))]
        while not self.initial and self.extra:
            batch.append(self.extra.popleft())
        if not self.initial and not (self.failure or self.over):
            fresh = [entry for entry in self.world.history if entry[0] > self.pos][: self.chunk]
            events = [WatchEvent(kind, obj) for _, kind, obj in fresh]
            if fresh:
                self.pos = fresh[-1][0]
            if self.swapped and len(events) > 1:
                events[0], events[1] = events[1], events[0]
                self.swapped = False
            batch += events
        return batch

    def end(self, failure: Exception | None = None) -> None:
        """End in order, or by an error. What was not sent is lost with the connection."""
        self.over, self.failure = True, failure
        self.initial.clear()
        self.wake.set()


def bookmark(version: int, *, end: bool = False) -> WatchEvent:
    return WatchEvent("BOOKMARK", Object(b"{}", None, "", "", str(version)), end)


@dataclass
class Source:
    """The list-watch of a world."""

    world: World
    streams_lists: bool = True
    streams: list[Stream] = field(default_factory=list)
    refusals: deque[Exception] = field(default_factory=deque)
    log: list[str] = field(default_factory=list)
    bookmark_period: float | None = 60.0
    _tokens: dict[str, tuple[int, list[Object]]] = field(default_factory=dict)

    async def list_page(self, options: ListOptions) -> ListPage:
        self.log.append(f"list rv={options.resource_version} limit={options.limit} continue={options.continue_token}")
        await asyncio.sleep(0.01)
        self._refuse()
        if options.continue_token is not None:
            version, items = self._tokens.pop(options.continue_token)
            if version < self.world.floor:
                raise Expired(410)
        else:
            version, items = self.world.version, list(self.world.objects.values())
        limit = options.limit or len(items)
        page, rest = items[:limit], items[limit:]
        token = f"{version}:{len(rest)}" if rest else None
        if token is not None:
            self._tokens[token] = (version, rest)
        return ListPage(page, str(version), token, len(rest), 10 * len(page))

    def when_back(self, error: Exception, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.popleft()

    @asynccontextmanager
    async def watch(self, options: WatchOptions) -> AsyncIterator[Stream]:
        self.log.append(f"watch rv={options.resource_version} initial={options.send_initial_events}")
        await asyncio.sleep(0.01)
        self._refuse()
        world = self.world
        stream = Stream(world, int(options.resource_version or world.version))
        if options.send_initial_events:
            if not self.streams_lists:
                raise Invalid(422)
            stream.initial.extend(WatchEvent("ADDED", obj) for obj in world.objects.values())
            stream.initial.append(bookmark(world.version, end=True))
        elif stream.pos < world.floor:
            stream.end(Expired(410))
        self.streams.append(stream)
        tasks = [asyncio.create_task(self._feed(stream))]
        if self.bookmark_period is not None:
            tasks.append(asyncio.create_task(self._bookmarks(stream, self.bookmark_period)))
        tasks.append(asyncio.create_task(self._limit(stream, options.timeout_seconds or 300)))
        try:
            yield stream
        finally:
            for task in tasks:
                task.cancel()
            self.streams.remove(stream)

    async def _feed(self, stream: Stream) -> None:
        while True:
            stream.wake.set()
            await self.world.changed.wait()
            await asyncio.sleep(0)
            self.world.changed.clear()

    @staticmethod
    async def _bookmarks(stream: Stream, period: float) -> None:
        while True:
            await asyncio.sleep(period)
            if not stream.stalled and not stream.initial:
                stream.extra.append(bookmark(stream.pos))
                stream.wake.set()

    @staticmethod
    async def _limit(stream: Stream, timeout: float) -> None:
        await asyncio.sleep(timeout)
        if not stream.stalled:
            stream.end()

    def open(self) -> Iterator[Stream]:
        return iter([stream for stream in self.streams if not stream.over])
