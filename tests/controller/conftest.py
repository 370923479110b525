"""A server and its clients, a source of deltas that a test speaks through, and keys short enough to read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.objects import Object
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.informers.deltas import Delta, DeltaKind
from ctl.sandbox import Sandbox

PARENTS = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)


def make(name: str, version: int = 1, **metadata: Any) -> Object:
    """An object of some kind, in the namespace `default`."""
    return Object.from_body(
        {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": str(version),
                **metadata,
            },
        }
    )


class Told:
    """What one subscriber is told."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.batches: asyncio.Queue[list[Delta] | None] = asyncio.Queue()

    @property
    def depth(self) -> int:
        return self.batches.qsize()

    async def __aiter__(self) -> AsyncIterator[list[Delta]]:
        while (batch := await self.batches.get()) is not None:
            yield batch

    def close(self) -> None:
        self.batches.put_nowait(None)


class Feed:
    """Objects and their changes, as the test tells them."""

    def __init__(self, *, synced: bool = True) -> None:
        self.resource = PARENTS
        self.store: dict[Key, Object] = {}
        self.subscribers: list[Told] = []
        self._synced = synced
        self.asked: list[tuple[str | None, float | None]] = []
        """What `catch_up` was asked for."""
        self.caught_up = asyncio.Event()
        self.caught_up.set()

    async def catch_up(self, version: str | None, heard_after: float | None) -> bool:
        self.asked.append((version, heard_after))
        await self.caught_up.wait()
        return False

    def subscribe(self, *, name: str, relisted: bool) -> Told:
        told = Told()
        self.subscribers.append(told)
        if self.store:
            told.batches.put_nowait(
                [Delta(DeltaKind.ADDED, obj, None, initial=True, wire_type=None) for obj in self.store.values()]
            )
        if self._synced:
            told.synced.set()
        return told

    def sync(self) -> None:
        for told in self.subscribers:
            told.synced.set()

    def put(self, obj: Object, *, initial: bool = False, echo: bool = False) -> None:
        old = self.store.get(obj.key)
        kind = DeltaKind.ADDED if old is None else DeltaKind.UPDATED
        self.store[obj.key] = obj
        self._tell(Delta(kind, obj, old, initial=initial, wire_type="MODIFIED" if old else "ADDED", echo=echo))

    def remove(self, key: Key) -> None:
        obj = self.store.pop(key)
        self._tell(Delta(DeltaKind.DELETED, obj, obj, initial=False, wire_type="DELETED"))

    def _tell(self, delta: Delta) -> None:
        for told in self.subscribers:
            told.batches.put_nowait([delta])


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    """As a controller's."""
    async with Client(Access(sandbox.url)) as client:
        yield client


@pytest.fixture
async def user(sandbox: Sandbox) -> AsyncIterator[Client]:
    """Somebody who changes objects beside the controllers."""
    async with Client(Access(sandbox.url), ClientSettings(user_agent="user")) as client:
        yield client


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def unsynced_feed() -> Feed:
    return Feed(synced=False)


@pytest.fixture
def obj() -> Callable[..., Object]:
    return make
