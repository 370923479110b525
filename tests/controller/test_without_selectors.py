"""Some proxies and aggregated servers know no field selectors: what they list is looked at by its name."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ctl.cli.finalizers import HeldObject, Removal, _free
from ctl.client.config.access import Access
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client, PatchKind
from ctl.client.settings import ClientSettings
from ctl.controller.api.client import CachedClient
from ctl.controller.leader.lease_client import LEASES, LeaderElectionConfig, LeaseObject
from ctl.controller.leader.lease_rules import Record
from ctl.controller.peering.gate import Peering
from ctl.controller.peering.rules import PeeringOptions, Rank
from ctl.informers.factory import SharedInformerFactory
from ctl.runtime import clock
from ctl.sandbox import Sandbox

from ..handlers.weather import Asked, Fate, Weather, a_weather
from .peering.test_gate import CLUSTER, crd

pytestmark = pytest.mark.virtual_time

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)


def unselecting(asked: Asked) -> Fate:
    def everything(asked: Asked) -> Asked:
        return replace(asked, query={name: text for name, text in asked.query.items() if name != "fieldSelector"})

    return Fate(asked=everything)


@pytest.fixture
async def proxy(sandbox: Sandbox) -> AsyncIterator[Weather]:
    async with a_weather(sandbox.url, random.Random(0)) as weather:
        weather.judge = unselecting
        yield weather


@pytest.fixture
async def behind(proxy: Weather) -> AsyncIterator[Client]:
    """The client of somebody behind the proxy."""
    async with Client(Access(proxy.url), ClientSettings(user_agent="ctl/test")) as client:
        yield client


def config(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", **metadata}}


async def test_an_object_is_found_by_its_name(user: Client, behind: Client) -> None:
    for name in ("a", "b"):
        await user.create(CONFIGMAPS, config(name))
    cached = CachedClient(behind, SharedInformerFactory(behind), author="test")
    found = await cached.get_live(CONFIGMAPS, Key("default", "b"))
    assert found is not None
    assert found.name == "b"
    assert await cached.get_live(CONFIGMAPS, Key("default", "c")) is None


async def test_a_finalizer_is_taken_off_the_object_that_has_it(user: Client, behind: Client) -> None:
    await user.create(CONFIGMAPS, config("a"))
    held = await user.create(CONFIGMAPS, config("b", finalizers=["x/y"]))
    ops = [{"op": "add", "path": "/metadata/finalizers/0", "value": "x/z"}]
    await user.patch(CONFIGMAPS, "b", "default", ops, kind=PatchKind.JSON)  # so that what is known is old
    assert await _free(behind, HeldObject(CONFIGMAPS, held), "x/y") is Removal.FREED
    assert (await user.get(CONFIGMAPS, "b", "default")).metadata().finalizers == ("x/z",)


async def test_a_lease_is_told_of_no_other_lease(user: Client, behind: Client) -> None:
    told: list[str | None] = []
    lease = LeaseObject(behind, LeaderElectionConfig("ours", "default", "a"))
    task = asyncio.create_task(
        lease.follow(lambda record: told.append(record.holder if record is not None else None), 2.0)
    )
    await asyncio.sleep(1)
    for name in ("ours", "theirs"):
        spec = Record(f"holder of {name}", 15.0, clock.now(), clock.now(), 0).spec()
        await user.create(LEASES, {**config(name), "spec": spec})
    await user.delete(LEASES, "theirs", "default")
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait({task})
    assert told == ["holder of ours"]


async def test_a_peering_is_paused_by_its_own_peers_alone(sandbox: Sandbox, user: Client, behind: Client) -> None:
    await sandbox.load_manifest(crd(CLUSTER))
    body = {"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind}
    rival = {"rival": {"priority": 100, "lifetime": 600, "lastseen": clock.now().isoformat()}}
    for name, records in (("ours", {}), ("theirs", rival)):
        await user.create(CLUSTER, {**body, "metadata": {"name": name}, "status": records})
    factory = SharedInformerFactory(behind)
    peering = Peering(behind, factory, PeeringOptions(Rank("a"), name="ours", mandatory=True))
    await peering.start()
    await peering.serve([CLUSTER], None)
    async with asyncio.timeout(5):
        await peering.wait_open()
    await user.patch(CLUSTER, "theirs", None, {"status": {"rival": {"priority": 101}}})
    await asyncio.sleep(5)
    assert (peering.is_open, peering.blockers) == (True, ())
    await user.delete(CLUSTER, "ours")
    await asyncio.sleep(5)
    assert not peering.is_open, "the one that is mandatory is gone, though there is another one"
    await peering.stop(5)
    await factory.stop()
