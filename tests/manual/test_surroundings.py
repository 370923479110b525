"""The pages on startup, async functions, memory across loops, events, owners and what an embedding program gives."""

import asyncio
import json
import threading
from typing import Any

import pytest

import ctl

from ..handlers.world import KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time

CONFIGMAPS = ctl.Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
EVENTS = ctl.Resource("", "v1", "events", "Event", namespaced=True)


async def listed(world: World, resource: ctl.Resource) -> list[Any]:
    """What the server has of a resource in the default namespace."""
    path = resource.get_url(namespace="default")
    found: list[Any] = json.loads(await world.user.request("GET", path))["items"]
    return found


async def test_startup_handlers_make_what_belongs_to_the_loop(world: World, calls: Calls) -> None:
    locks: list[asyncio.Lock] = []

    @ctl.on.startup()
    async def startup(**_: Any) -> None:
        await asyncio.sleep(5)
        assert not world.sandbox.log
        locks.append(asyncio.Lock())

    @ctl.on.create(KEX.plural)
    async def create(name: str, **_: Any) -> None:
        async with locks[0]:
            calls(f"{name} begins", {})
            await asyncio.sleep(1)
            calls(f"{name} ends", {})

    for name in ("one", "two"):
        await world.create(name)
    world.sandbox.log.clear()
    async with world.running():
        await world.handled("one")
        await world.handled("two")
    first, second, third, fourth = calls.names
    assert (first.split()[0], third.split()[0]) == (second.split()[0], fourth.split()[0])


async def test_coroutines_run_in_the_loop_and_functions_beside_it(world: World, calls: Calls) -> None:
    here = threading.current_thread()

    @ctl.on.create(KEX.plural, id="in the loop")
    async def in_the_loop(**_: Any) -> None:
        calls("loop", {"thread": threading.current_thread()})

    @ctl.on.create(KEX.plural, id="in a thread")
    def in_a_thread(**_: Any) -> None:
        calls("thread", {"thread": threading.current_thread()})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.of("loop")[0]["thread"] is here
    assert calls.of("thread")[0]["thread"] is not here


async def test_children_are_adopted_and_events_are_about_both(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        child: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
        ctl.adopt(child)
        made = (await world.user.create(CONFIGMAPS, child, child["metadata"]["namespace"])).body()
        ctl.info([body, made], reason="Made", message="it is there")

    async with world.running():
        parent = await world.create(labels={"app": "x"})
        await world.handled()
        await rest(2)
    (child,) = [one for one in await listed(world, CONFIGMAPS) if "ownerReferences" in one["metadata"]]
    assert child["metadata"]["name"].startswith("one-")
    assert child["metadata"]["labels"] == {"app": "x"}
    (owner,) = child["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("KopfExample", parent["metadata"]["uid"], True)
    about = {one["involvedObject"]["uid"] for one in await listed(world, EVENTS) if one["reason"] == "Made"}
    assert about == {parent["metadata"]["uid"], child["metadata"]["uid"]}


@pytest.mark.parametrize("name", ["memories", "insights", "indexers", "vault"])
async def test_the_inner_parts_of_kopf_cannot_be_given(world: World, name: str) -> None:
    given: Any = {name: object()}
    with pytest.raises(TypeError, match=rf"operator\(\) does not know {name}"):
        await ctl.operator(clusterwide=True, registry=world.registry, **given)
