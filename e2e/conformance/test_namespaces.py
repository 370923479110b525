"""Namespaces: what they hold, and what their deletion takes along."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable

import pytest
from conformance.api import Api, version
from conformance.spaces import Space, configmap

NAMESPACES = "/api/v1/namespaces"
GONE_SECONDS = 100.0


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.05)


async def test_a_namespace_has_its_name_as_a_label_and_is_active(api: Api, space: Space) -> None:
    found = await api.get(f"{NAMESPACES}/{space.name}")
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": space.name}
    assert found["status"] == {"phase": "Active"}
    assert found["spec"] == {"finalizers": ["kubernetes"]}


@pytest.mark.parametrize("custom", [True, False])
async def test_nothing_is_created_in_a_missing_namespace(api: Api, space: Space, custom: bool) -> None:
    absent = Space(f"{space.name}-absent", space.group)
    path, body = (absent.widgets(), absent.widget("one")) if custom else (absent.core("configmaps"), configmap("one"))
    status = (await api.call("POST", path, body)).refused(404, "NotFound")
    assert status["message"] == f'namespaces "{absent.name}" not found'
    assert status["details"] == {"name": absent.name, "kind": "namespaces"}


async def test_the_namespaces_of_every_cluster_exist(api: Api, space: Space) -> None:
    listed = await api.get(NAMESPACES)
    assert {"default", "kube-system", "kube-public", space.name} <= {
        item["metadata"]["name"] for item in listed["items"]
    }


async def test_the_default_namespace_is_not_deleted(api: Api, space: Space) -> None:
    status = (await api.call("DELETE", f"{NAMESPACES}/default", dryRun="All")).refused(403, "Forbidden")
    assert status["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'


async def is_gone(api: Api, space: Space) -> bool:
    return (await api.call("GET", f"{NAMESPACES}/{space.name}")).code == 404


async def go_with_objects(api: Api, space: Space) -> None:
    await api.create(space.core("configmaps"), configmap("one"))
    await api.create(space.widgets(), space.widget("one"))
    marked = await api.delete(f"{NAMESPACES}/{space.name}")
    assert marked["kind"] == "Namespace"
    assert marked["status"]["phase"] == "Terminating"
    assert marked["metadata"]["deletionTimestamp"]
    await until(lambda: is_gone(api, space))
    (await api.call("GET", space.widgets("one"))).refused(404, "NotFound")
    (await api.call("GET", space.core("configmaps", "one"))).refused(404, "NotFound")


async def wait_for_finalizers(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=["ctl.test/keep"]))
    await api.delete(f"{NAMESPACES}/{space.name}")

    async def is_marked() -> bool:
        return "deletionTimestamp" in (await api.get(space.widgets("one")))["metadata"]

    await until(is_marked)
    assert (await api.get(f"{NAMESPACES}/{space.name}"))["status"]["phase"] == "Terminating"
    await api.merge(space.widgets("one"), {"metadata": {"finalizers": []}})
    await until(lambda: is_gone(api, space))


async def come_and_go_on_the_watch(api: Api) -> None:
    name = f"e2e-{secrets.token_hex(6)}"
    start = version(await api.get(NAMESPACES))
    async with api.watch(NAMESPACES, fieldSelector=f"metadata.name={name}", resourceVersion=start) as watch:
        await api.create(NAMESPACES, {"metadata": {"name": name}})
        await api.delete(f"{NAMESPACES}/{name}")
        events = await watch.until("DELETED")
    assert events[0]["type"] == "ADDED"
    assert {event["type"] for event in events[1:-1]} == {"MODIFIED"}
    assert events[1]["object"]["metadata"]["deletionTimestamp"]


async def test_a_deleted_namespace_takes_its_objects_along_but_waits_for_their_finalizers(
    api: Api, space: Space
) -> None:
    other = Space(f"{space.name}-kept", space.group)
    await api.create(NAMESPACES, {"metadata": {"name": other.name}})
    # At once, since the real controller gives each deletion five seconds before it acts.
    await asyncio.gather(go_with_objects(api, space), wait_for_finalizers(api, other), come_and_go_on_the_watch(api))


async def test_nothing_is_created_in_a_namespace_that_is_being_deleted(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=["ctl.test/keep"]))
    await api.delete(f"{NAMESPACES}/{space.name}")
    status = (await api.call("POST", space.core("configmaps"), configmap("late"))).refused(403, "Forbidden")
    assert status["message"] == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {space.name} because it is being terminated'
    )
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    # What exists can still be changed.
    await api.merge(space.widgets("one"), {"spec": {"a": 1}})
    await api.merge(space.widgets("one"), {"metadata": {"finalizers": []}})
