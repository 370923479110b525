"""Informers against whole API servers: lists, gaps with compaction, restarts, connections that break."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from controlplane import build
from controlplane.cluster import ControlPlane
from targets import Target

from ctl.client.config.access import Access
from ctl.client.config.loading import load_access
from ctl.client.errors import NotFound
from ctl.client.objects import Object
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.informers.deltas import Delta, DeltaKind
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.informer import Informer
from ctl.informers.settings import InformerSettings
from ctl.informers.transform import drop_managed_fields

from .proxy import proxied

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
NAMESPACES = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
SECONDS = 60.0
MINE = "ctl.test/informers"
SETTINGS = [InformerSettings(), InformerSettings(stream_lists=False, page_size=7)]


class Follower:
    """An informer, a subscriber that remembers, and the writes that they are to see."""

    def __init__(self, client: Client, informer: Informer, namespace: str, label: str) -> None:
        self.client = client
        self.informer = informer
        self.namespace = namespace
        self.label = label
        self.seen: list[Delta] = []
        self.known: dict[str, Object] = {}

    async def follow(self) -> None:
        async for batch in self.informer.subscribe("e2e"):
            for delta in batch:
                self._take(delta)

    def _take(self, delta: Delta) -> None:
        self.seen.append(delta)
        known = self.known.get(delta.object.name)
        if delta.kind is DeltaKind.DELETED:
            assert known is not None
            del self.known[delta.object.name]
        else:
            assert (delta.kind is DeltaKind.ADDED) == (known is None)
            assert known is None or known.uid == delta.object.uid
            self.known[delta.object.name] = delta.object

    async def put(self, name: str) -> Object:
        metadata = {"name": name, "labels": {MINE: self.label}}
        return await self.client.create(MAPS, {"metadata": metadata}, self.namespace)

    async def change(self, name: str, value: str) -> Object:
        return await self.client.patch(MAPS, name, self.namespace, {"data": {"value": value}})

    async def agreement(self, seconds: float = SECONDS) -> None:
        """The copy and the subscriber come to what the server has."""
        truth: dict[str, str] = {}
        async with asyncio.timeout(seconds):
            while True:
                found = await self.client.list(MAPS, self.namespace)
                truth = {obj.name: obj.resource_version for obj in found if self.label in obj.raw.decode()}
                copies = {obj.name: obj.resource_version for obj in self.informer.store}
                told = {obj.name: obj.resource_version for obj in self.known.values()}
                if truth == copies == told:
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def following(
    access: Access, settings: InformerSettings = SETTINGS[0], count: int = 0, *, through: Access | None = None
) -> AsyncIterator[Follower]:
    """In a namespace of its own; writes go by `access`, the informer goes `through` another way when one is given."""
    label = f"l{secrets.token_hex(6)}"
    async with Client(access) as client, Client(through or access) as way:
        space = (await client.create(NAMESPACES, {"metadata": {"generateName": "informers-"}})).name
        factory = SharedInformerFactory(way, settings)
        informer = factory.informer(MAPS, space, label_selector=f"{MINE}={label}")
        follower = Follower(client, informer, space, label)
        for number in range(count):
            await follower.put(f"o{number}")
        task = asyncio.create_task(follower.follow())
        try:
            assert await informer.wait_synced(SECONDS)
            await follower.agreement()
            yield follower
            assert not task.done(), task.exception()
        finally:
            await factory.stop()
            await asyncio.gather(task, return_exceptions=True)
            await quietly_delete(client, space)


async def quietly_delete(client: Client, space: str) -> None:
    try:
        await client.delete(NAMESPACES, space)
    except NotFound:
        return


async def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the world tells nobody
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("settings", SETTINGS, ids=["streamed", "pages"])
async def test_what_is_there_and_what_happens(target: Target, settings: InformerSettings) -> None:
    async with following(load_access(target.kubeconfig), settings, 20) as follower:
        await follower.change("o3", "2")
        await follower.put("new")
        await follower.client.delete(MAPS, "o5", follower.namespace)
        await follower.agreement()
        live = [(delta.object.name, delta.wire_type) for delta in follower.seen if not delta.initial]
        expected = [("o3", "MODIFIED"), ("new", "ADDED"), ("o5", "DELETED")]
        assert [entry for entry in live if entry[1] is not None][-3:] == expected
        streamed = follower.informer.metrics.list_bytes == 0
        assert streamed == settings.stream_lists


@pytest.mark.parametrize("settings", SETTINGS, ids=["streamed", "pages"])
async def test_deletions_in_a_gap_that_the_server_has_forgotten(target: Target, settings: InformerSettings) -> None:
    if target.compact is None:
        pytest.skip("the history of a cluster that is not ours cannot be compacted")
    url = urlsplit(target.url)
    assert url.hostname is not None
    assert url.port is not None
    access = load_access(target.kubeconfig)
    async with proxied(url.hostname, url.port) as proxy:
        through = replace(access, server=f"{url.scheme}://127.0.0.1:{proxy.listening}")
        async with following(access, settings, 30, through=through) as follower:
            proxy.port = 1  # nobody listens there: the informer is alone
            proxy.cut()
            await until(lambda: follower.informer.state.error is not None)
            for number in range(0, 30, 3):
                await follower.client.delete(MAPS, f"o{number}", follower.namespace)
            await follower.put("o0")
            await asyncio.to_thread(target.compact)
            proxy.port = url.port
            before = len(follower.seen)
            await follower.agreement(100)
            missed = [delta for delta in follower.seen[before:] if delta.kind is DeltaKind.DELETED]
            assert {delta.object.name for delta in missed} == {f"o{number}" for number in range(0, 30, 3)}
            if follower.informer.metrics.expired:
                assert all(delta.final_state_unknown for delta in missed)


async def test_connections_that_break_and_fall_silent(target: Target) -> None:
    url = urlsplit(target.url)
    assert url.hostname is not None
    assert url.port is not None
    access = load_access(target.kubeconfig)
    quick = InformerSettings(silence_limit=3.0)
    async with proxied(url.hostname, url.port) as proxy:
        through = replace(access, server=f"{url.scheme}://127.0.0.1:{proxy.listening}")
        async with following(access, quick, 5, through=through) as follower:
            for number in range(5):
                proxy.cut()
                await follower.change("o1", f"cut {number}")
                await follower.agreement()
            for number in range(2):
                proxy.stall()
                await follower.change("o2", f"stalled {number}")
                await follower.agreement()
            assert follower.informer.metrics.stalls >= 2
            assert follower.informer.metrics.lists == 1, "watches go on from where they stopped"


async def test_own_writes_are_read_at_once_and_come_as_echoes(target: Target) -> None:
    async with following(load_access(target.kubeconfig), SETTINGS[0], 1) as follower:
        informer = follower.informer
        key = informer.store.keys()[0]
        for number in range(50):
            with informer.writing(key):
                answer = await follower.change("o0", str(number))
                informer.add_own_write(answer)
            seen = informer.store.get(key)
            assert seen is not None
            assert seen.resource_version == answer.resource_version
        await follower.agreement()
        live = [delta for delta in follower.seen if delta.kind is DeltaKind.UPDATED]
        assert len(live) == 50
        assert all(delta.echo for delta in live)


async def test_the_api_server_restarts_under_a_running_informer_and_has_forgotten_what_happened() -> None:
    if not build.is_built():
        pytest.skip("the real control plane is not built: python e2e/controlplane/build.py")
    cluster = ControlPlane()
    await asyncio.to_thread(cluster.start)
    url = urlsplit(cluster.url)
    assert url.hostname is not None
    assert url.port is not None
    access = load_access(cluster.kubeconfig)
    try:
        async with proxied(url.hostname, url.port) as proxy:
            through = replace(access, server=f"{url.scheme}://127.0.0.1:{proxy.listening}")
            async with following(access, SETTINGS[0], 10, through=through) as follower:
                proxy.port = 1
                proxy.cut()
                await follower.client.delete(MAPS, "o2", follower.namespace)
                await follower.client.delete(MAPS, "o3", follower.namespace)
                again = await follower.put("o3")
                await asyncio.to_thread(cluster.compact)
                # The history that the server keeps in memory goes with the process.
                await asyncio.to_thread(cluster.restart_api_server)
                proxy.port = url.port
                await follower.agreement(100)
                assert follower.informer.metrics.expired >= 1
                gone = [delta.object.name for delta in follower.seen if delta.final_state_unknown]
                assert sorted(gone) == ["o2", "o3"]
                assert follower.known["o3"].uid == again.uid
                await follower.change("o1", "after the restart")
                await follower.agreement()
    finally:
        await asyncio.to_thread(cluster.stop)


@pytest.mark.parametrize("settings", SETTINGS, ids=["streamed", "pages"])
async def test_managed_fields_are_asked_not_to_be_sent_and_are_not_kept(
    target: Target, settings: InformerSettings
) -> None:
    async with following(load_access(target.kubeconfig), settings, 3) as follower:
        slim = SharedInformerFactory(follower.client, settings, transform=drop_managed_fields)
        informer = slim.informer(MAPS, follower.namespace)
        try:
            assert await informer.wait_synced(SECONDS)
            changed = await follower.change("o1", "1")
            assert await informer.wait_for(changed, SECONDS)
            kept = informer.store.get(changed.key)
            assert kept is not None
            assert kept.body()["data"] == {"value": "1"}
            assert {obj.key for obj in follower.informer.store} <= {obj.key for obj in informer.store}
            assert not any(b"managedFields" in obj.raw for obj in informer.store)
        finally:
            await slim.stop()
