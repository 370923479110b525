"""Dependents follow their owners: in the background, in the foreground, or not at all."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from conformance.api import Api, Body
from conformance.spaces import Space, configmap
from targets import Target

SECONDS = 100.0
"""The real collector looks at a change within a second or so; while definitions of other tests come and go, it may first wait for half a
minute until it knows all kinds."""


def reference(owner: Body, **more: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }


async def make(api: Api, space: Space, name: str, *owners: Body, **metadata: Any) -> Body:
    if owners:
        metadata["ownerReferences"] = list(owners)
    return await api.create(space.core("configmaps"), configmap(name, **metadata))


async def until(api: Api, path: str, fits: Callable[[Body | None], bool]) -> Body | None:
    """Wait until the object at a path (None: it is gone) is as wanted."""
    deadline = time.monotonic() + SECONDS
    while True:
        answer = await api.call("GET", path)
        found: Body | None = answer.body if answer.code == 200 else None
        if fits(found):
            return found
        assert time.monotonic() < deadline, f"{path} never became as wanted: {found}"
        await asyncio.sleep(0.05)


def gone(found: Body | None) -> bool:
    return found is None


@pytest.fixture(autouse=True)
async def collected(api: Api, space: Space, target: Target) -> None:
    """The collector of the real server is at work: it has seen an owner go."""
    owner = await make(api, space, "probe-owner")
    await make(api, space, "probe", reference(owner))
    await api.delete(space.core("configmaps", "probe-owner"))
    await until(api, space.core("configmaps", "probe"), gone)


@pytest.mark.parametrize("policy", [None, "Background"])
async def test_in_the_background(api: Api, space: Space, policy: str | None) -> None:
    owner = await make(api, space, "owner")
    child = await make(api, space, "child", reference(owner))
    await make(api, space, "grandchild", reference(child))
    await api.delete(space.core("configmaps", "owner"), {"propagationPolicy": policy} if policy else None)
    assert (await api.call("GET", space.core("configmaps", "owner"))).code == 404
    await until(api, space.core("configmaps", "child"), gone)
    await until(api, space.core("configmaps", "grandchild"), gone)


async def test_orphans_stay_without_the_reference(api: Api, space: Space) -> None:
    owner, other = await make(api, space, "owner"), await make(api, space, "other")
    await make(api, space, "one", reference(owner))
    await make(api, space, "two", reference(owner), reference(other))
    answer = await api.delete(space.core("configmaps", "owner"), {"propagationPolicy": "Orphan"})
    assert answer["metadata"]["finalizers"] == ["orphan"]
    await until(api, space.core("configmaps", "owner"), gone)
    one = await api.get(space.core("configmaps", "one"))
    assert "ownerReferences" not in one["metadata"]
    assert (await api.get(space.core("configmaps", "two")))["metadata"]["ownerReferences"] == [reference(other)]


async def test_one_owner_of_two_goes(api: Api, space: Space) -> None:
    owner, other = await make(api, space, "owner"), await make(api, space, "other")
    await make(api, space, "one", reference(owner), reference(other))
    await api.delete(space.core("configmaps", "owner"))
    kept = await until(
        api,
        space.core("configmaps", "one"),
        lambda found: found is not None and len(found["metadata"]["ownerReferences"]) == 1,
    )
    assert kept is not None
    assert kept["metadata"]["ownerReferences"] == [reference(other)]
    await api.delete(space.core("configmaps", "other"))
    await until(api, space.core("configmaps", "one"), gone)


async def test_in_the_foreground_the_owner_waits(api: Api, space: Space) -> None:
    owner = await make(api, space, "owner")
    await make(api, space, "held", reference(owner, blockOwnerDeletion=True), finalizers=["ctl.test/keep"])
    await make(api, space, "loose", reference(owner), finalizers=["ctl.test/keep"])
    await make(api, space, "free", reference(owner, blockOwnerDeletion=True))
    answer = await api.delete(space.core("configmaps", "owner"), {"propagationPolicy": "Foreground"})
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    await until(api, space.core("configmaps", "free"), gone)
    await until(
        api,
        space.core("configmaps", "held"),
        lambda found: found is not None and "deletionTimestamp" in found["metadata"],
    )
    # Those that do not block go as well, but the owner does not wait for them.
    await until(
        api,
        space.core("configmaps", "loose"),
        lambda found: found is not None and "deletionTimestamp" in found["metadata"],
    )
    assert (await api.get(space.core("configmaps", "owner")))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.merge(space.core("configmaps", "held"), {"metadata": {"finalizers": None}})
    await until(api, space.core("configmaps", "owner"), gone)
    await api.merge(space.core("configmaps", "loose"), {"metadata": {"finalizers": None}})


async def test_the_foreground_reaches_grandchildren(api: Api, space: Space) -> None:
    owner = await make(api, space, "owner")
    child = await make(api, space, "child", reference(owner, blockOwnerDeletion=True))
    await make(api, space, "grandchild", reference(child, blockOwnerDeletion=True), finalizers=["ctl.test/keep"])
    await api.delete(space.core("configmaps", "owner"), {"propagationPolicy": "Foreground"})
    waiting = await until(
        api,
        space.core("configmaps", "child"),
        lambda found: found is not None and "deletionTimestamp" in found["metadata"],
    )
    assert waiting is not None
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert (await api.get(space.core("configmaps", "owner")))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.merge(space.core("configmaps", "grandchild"), {"metadata": {"finalizers": None}})
    for name in ("grandchild", "child", "owner"):
        await until(api, space.core("configmaps", name), gone)


async def test_a_child_of_another_owner_survives_the_foreground(api: Api, space: Space) -> None:
    owner, other = await make(api, space, "owner"), await make(api, space, "other")
    await make(api, space, "child", reference(owner, blockOwnerDeletion=True), reference(other))
    await api.delete(space.core("configmaps", "owner"), {"propagationPolicy": "Foreground"})
    await until(api, space.core("configmaps", "owner"), gone)
    kept = await until(
        api,
        space.core("configmaps", "child"),
        lambda found: found is not None and len(found["metadata"]["ownerReferences"]) == 1,
    )
    assert kept is not None
    assert kept["metadata"]["ownerReferences"] == [reference(other)]


async def test_a_child_of_nobody_is_collected(api: Api, space: Space) -> None:
    absent = {"metadata": {"name": "absent", "uid": "00000000-0000-0000-0000-000000000001"}}
    owner = await make(api, space, "owner")
    await make(api, space, "one", reference(absent))
    await until(api, space.core("configmaps", "one"), gone)
    # A name that is there with another uid is not the owner.
    await make(api, space, "two", reference({"metadata": {"name": "owner", "uid": absent["metadata"]["uid"]}}))
    await until(api, space.core("configmaps", "two"), gone)
    # Of a kind that nobody serves nothing is known.
    unknown = {**reference(absent), "apiVersion": "absent.example/v1", "kind": "Absent"}
    await make(api, space, "three", unknown)
    await make(api, space, "four", reference(owner))
    await asyncio.sleep(1)
    assert (await api.call("GET", space.core("configmaps", "three"))).code == 200
    assert (await api.call("GET", space.core("configmaps", "four"))).code == 200
