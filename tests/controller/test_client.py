"""Reconcilers write what is missing: on the sandbox, with real caches, beside other writers."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.errors import Conflict, Invalid, NotFound
from ctl.client.objects import Object
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.api import conditions
from ctl.controller.api.client import CachedClient, Change, WriteResult
from ctl.controller.api.conditions import Condition
from ctl.controller.building.builder import Builder, controller
from ctl.controller.building.built import BuiltController
from ctl.controller.building.context import Context
from ctl.informers.factory import SharedInformerFactory
from ctl.sandbox import Match, Sandbox

pytestmark = pytest.mark.virtual_time

ROUNDS = 10_000 if "SOAK_ROUNDS" in os.environ else 1_000
CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
SETS = Resource("kopf.dev", "v1", "sets", kind="Set", namespaced=True)
KEY = Key("default", "one")

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sets.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: Set, plural: sets, singular: set}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items:
                  type: object
                  properties:
                    type: {type: string}
                    status: {type: string}
                    reason: {type: string}
                    message: {type: string}
                    lastTransitionTime: {type: string}
"""


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        await sandbox.load_manifest(CRD)
        yield sandbox


class Controllers:
    """Controllers of one process: one client, one factory."""

    def __init__(self, client: Client, factory: SharedInformerFactory) -> None:
        self.client = client
        self.factory = factory
        self.built: list[BuiltController] = []

    async def start(self, blueprint: Builder, function: Callable[[Key, Context], Any]) -> CachedClient:
        built = blueprint.reconciles(function).build(self.client, self.factory)
        await built.start()
        self.built.append(built)
        await self.factory.wait_for_sync(timeout=10)
        return built.cached


@pytest.fixture
async def controllers(sandbox: Sandbox) -> AsyncIterator[Controllers]:
    async with Client(Access(sandbox.url), ClientSettings(user_agent="ctl/test")) as client:
        found = Controllers(client, SharedInformerFactory(client))
        yield found
        for built in found.built:
            await built.stop(10)
        await found.factory.stop()


async def nothing(key: Key, context: Context) -> None:
    """Reconciles what is so already."""


@pytest.fixture
async def cached(controllers: Controllers) -> CachedClient:
    """The client of a controller that looks at sets and ConfigMaps."""
    return await controllers.start(controller("sets.kopf.dev").owns("configmaps"), nothing)


def a_config(**data: Any) -> dict[str, Any]:
    return {"metadata": {"name": "one", "namespace": "default"}, "data": data}


def a_set(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kopf.dev/v1",
        "kind": "Set",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": spec,
    }


def writes(sandbox: Sandbox) -> list[str]:
    return [request.method for request in sandbox.write_log if request.user_agent.startswith("ctl/")]


# What is so already is not written.


async def test_ensure_creates_then_patches_then_rests(cached: CachedClient, sandbox: Sandbox) -> None:
    assert (await cached.ensure("configmaps", a_config(a="1"))).change is Change.CREATED
    assert cached.get("configmaps", KEY) is not None
    assert (await cached.ensure("configmaps", a_config(a="1"))).change is Change.UNCHANGED
    assert (await cached.ensure("configmaps", a_config(a="2"))).change is Change.PATCHED
    found = cached.get("configmaps", KEY)
    assert found is not None
    assert found.body()["data"] == {"a": "2"}
    assert writes(sandbox) == ["POST", "PATCH"]


async def test_ensure_takes_what_was_there_and_others_keep_theirs(cached: CachedClient, user: Client) -> None:
    await user.create(CONFIGMAPS, {"kind": "ConfigMap", "apiVersion": "v1", **a_config(theirs="x")})
    # The cache may not have heard of it yet.
    assert (await cached.ensure("configmaps", a_config(ours="y"))).change is Change.PATCHED
    assert (await user.get(CONFIGMAPS, "one", "default")).body()["data"] == {"theirs": "x", "ours": "y"}


async def test_the_servers_own_words_are_not_written_again(
    cached: CachedClient, sandbox: Sandbox, user: Client
) -> None:
    """A Deployment's lists get defaults, so that they never equal the wish."""
    labels = {"app": "one"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    wish = {
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    for _ in range(5):
        written = await cached.ensure("deployments.apps", wish)
    assert writes(sandbox) == ["POST"]
    deployments = await cached.resource("deployments.apps")
    containers = [{"name": "c", "image": "another"}]
    await user.patch(deployments, "one", "default", {"spec": {"template": {"spec": {"containers": containers}}}})
    written = await cached.ensure("deployments.apps", wish)
    assert written.change is Change.PATCHED
    assert written.object.body()["spec"]["template"]["spec"]["containers"][0]["image"] == "i"
    assert (await cached.ensure("deployments.apps", wish)).change is Change.UNCHANGED


async def test_ensure_writes_the_status_where_it_belongs(cached: CachedClient, sandbox: Sandbox) -> None:
    written = await cached.ensure("sets.kopf.dev", {**a_set(a=1), "status": {"replicas": 3}})
    assert written.object.body()["status"] == {"replicas": 3}
    assert written.change is Change.CREATED
    assert (await cached.ensure("sets.kopf.dev", {**a_set(a=1), "status": {"replicas": 3}})).change is Change.UNCHANGED
    assert writes(sandbox) == ["POST", "PATCH"]


async def test_ensure_raises_what_trying_again_does_not_mend(cached: CachedClient) -> None:
    elsewhere = {"metadata": {"name": "one", "namespace": "nowhere"}}
    with pytest.raises(NotFound):
        await cached.ensure("configmaps", elsewhere)
    with pytest.raises(Invalid):
        await cached.ensure("configmaps", {"metadata": {"name": "Not A Name", "namespace": "default"}})
    with pytest.raises(ValueError, match=r"metadata\.name"):
        await cached.ensure("configmaps", {"metadata": {"generateName": "x-"}})


# Conditions and the status.


async def test_conditions_are_written_once_and_flip_once(cached: CachedClient, sandbox: Sandbox) -> None:
    """On a status subresource; that a schema prunes them is tested on a real server."""
    obj = await cached.create("sets.kopf.dev", a_set())
    ready = Condition("Ready", True, "All", "fine")
    for _ in range(3):
        await cached.set_status("sets.kopf.dev", obj, {"replicas": 1}, [ready], generation=1)
        await asyncio.sleep(2)
    assert [request.path.rpartition("/")[2] for request in sandbox.write_log][-2:] == ["sets", "status"]
    found = cached.get("sets.kopf.dev", KEY)
    assert found is not None
    [entry] = found.body()["status"]["conditions"]
    first = entry["lastTransitionTime"]
    await asyncio.sleep(2)
    await cached.set_status("sets.kopf.dev", obj, None, [Condition("Ready", True, "Other")], generation=1)
    found = cached.get("sets.kopf.dev", KEY)
    assert found is not None
    assert conditions.find(found.body(), "Ready")["lastTransitionTime"] == first  # type: ignore[index]
    await cached.set_status("sets.kopf.dev", obj, None, [Condition("Ready", False, "Other")], generation=1)
    found = cached.get("sets.kopf.dev", KEY)
    assert found is not None
    assert conditions.find(found.body(), "Ready")["lastTransitionTime"] > first  # type: ignore[index]


async def test_a_status_without_a_subresource_is_written_once_too(cached: CachedClient, sandbox: Sandbox) -> None:
    """There the generation rises with each status."""
    await sandbox.load_manifest(
        CRD.replace("sets", "plains")
        .replace("Set", "Plain")
        .replace("singular: set", "singular: plain")
        .replace("{status: {}}", "{}")
    )
    await asyncio.sleep(1)
    body = {"apiVersion": "kopf.dev/v1", "kind": "Plain", "metadata": {"name": "one", "namespace": "default"}}
    obj = await cached.create("plains.kopf.dev", body)
    assert (await cached.resource("plains.kopf.dev")).subresources == frozenset()
    for _ in range(3):
        found = await cached.get_live("plains.kopf.dev", obj.key)
        assert found is not None
        generation = found.metadata().generation
        await cached.set_status(
            "plains.kopf.dev", obj, {"replicas": 1}, [Condition("Ready", True)], generation=generation
        )
    assert writes(sandbox) == ["POST", "PATCH"]
    [request] = [request for request in sandbox.write_log if request.method == "PATCH"]
    assert request.path.endswith("/plains/one")


async def test_a_status_is_never_written_to_a_namesake(cached: CachedClient, user: Client) -> None:
    obj = await cached.create("sets.kopf.dev", a_set())
    await user.delete(SETS, "one", "default")
    await user.create(SETS, a_set())
    assert await cached.set_status("sets.kopf.dev", obj, {"replicas": 1}) is None
    assert "status" not in (await user.get(SETS, "one", "default")).body()
    await user.delete(SETS, "one", "default")
    await asyncio.sleep(1)
    assert await cached.set_status("sets.kopf.dev", obj, {"replicas": 1}) is None


# Several writers.


async def test_two_writers_lose_no_update(controllers: Controllers, cached: CachedClient) -> None:
    """A tenth of 10,000 rounds here, and all in the soak run."""
    other = await controllers.start(controller("configmaps").named("other"), nothing)
    await cached.create("configmaps", a_config(n="0", left="0", right="0"))

    async def write(client: CachedClient, side: str) -> None:
        for _ in range(ROUNDS // 2):

            def count(body: dict[str, Any]) -> None:
                body["data"]["n"] = str(int(body["data"]["n"]) + 1)
                body["data"][side] = str(int(body["data"][side]) + 1)

            written = await client.change("configmaps", KEY, count)
            assert written is not None
            assert written.change is Change.PATCHED

    await asyncio.gather(write(cached, "left"), write(other, "right"))
    found = await cached.get_live("configmaps", KEY)
    assert found is not None
    half = str(ROUNDS // 2)
    assert found.body()["data"] == {"n": str(ROUNDS), "left": half, "right": half}


async def test_a_change_of_nothing_is_nothing(cached: CachedClient, sandbox: Sandbox) -> None:
    assert await cached.change("configmaps", KEY, lambda _: None) is None
    await cached.create("configmaps", a_config(a="1"))
    written = await cached.change("configmaps", KEY, lambda body: body["data"].update(a="1"))
    assert written == WriteResult(written.object, Change.UNCHANGED)  # type: ignore[union-attr]
    assert writes(sandbox) == ["POST"]


async def test_writers_of_one_process_hear_of_each_other_but_not_of_themselves(controllers: Controllers) -> None:
    """They share an informer; an echo is one for its author alone."""
    attempts: list[str] = []

    async def first(key: Key, context: Context) -> None:
        attempts.append("first")
        await context.change("configmaps", key.name, lambda body: body["data"].update(first="x"))

    async def second(key: Key, context: Context) -> None:
        attempts.append("second")

    await controllers.start(controller("configmaps").named("second"), second)
    cached = await controllers.start(controller("configmaps").named("first"), first)
    await cached.client.create(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", **a_config()})
    await asyncio.sleep(5)
    assert len(controllers.factory.informers) == 1
    assert attempts.count("first") == 1
    assert attempts.count("second") == 2


async def test_a_lost_answer_of_a_finalizer_is_found_out(cached: CachedClient, sandbox: Sandbox) -> None:
    obj = await cached.create("sets.kopf.dev", a_set())
    sandbox.faults.lose_answer(match=Match(method="PATCH"), times=1)
    found = await cached.add_finalizer("sets.kopf.dev", obj, "kopf.dev/a")
    assert found is not None
    assert found.metadata().finalizers == ("kopf.dev/a",)
    assert await cached.add_finalizer("sets.kopf.dev", obj, "kopf.dev/a") is not None
    await cached.add_finalizer("sets.kopf.dev", obj, "kopf.dev/b")
    await cached.remove_finalizer("sets.kopf.dev", obj, "kopf.dev/a")
    found = cached.get("sets.kopf.dev", KEY)
    assert found is not None
    assert found.metadata().finalizers == ("kopf.dev/b",)


async def test_a_finalizer_of_a_namesake_stays(cached: CachedClient, user: Client) -> None:
    body = a_set()
    body["metadata"]["finalizers"] = ["kopf.dev/a"]
    gone = Object.from_body({**body, "metadata": {**body["metadata"], "uid": "other", "resourceVersion": "1"}})
    await user.create(SETS, body)
    assert await cached.remove_finalizer("sets.kopf.dev", gone, "kopf.dev/a") is None
    assert (await user.get(SETS, "one", "default")).metadata().finalizers == ("kopf.dev/a",)


async def test_deleting_what_is_gone_is_no_error(cached: CachedClient, user: Client) -> None:
    obj = await cached.create("configmaps", a_config())
    await cached.delete("configmaps", obj)
    assert cached.get("configmaps", KEY) is None
    await cached.delete("configmaps", obj)
    again = await user.create(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", **a_config()})
    await cached.delete("configmaps", obj)
    assert (await user.get(CONFIGMAPS, "one", "default")).uid == again.uid


# Server-side apply.


async def test_applying_twice_is_one_write_and_fields_have_owners(
    cached: CachedClient, sandbox: Sandbox, user: Client
) -> None:
    first = await cached.apply("configmaps", a_config(a="1"))
    again = await cached.apply("configmaps", a_config(a="1"))
    assert again.resource_version == first.resource_version
    assert writes(sandbox) == ["PATCH"]
    owners = {entry["manager"]: entry["fieldsV1"] for entry in again.body()["metadata"]["managedFields"]}
    assert owners == {"sets.kopf.dev": {"f:data": {"f:a": {}}}}
    with pytest.raises(Conflict):
        await cached.apply("configmaps", a_config(a="2"), manager="other")
    taken = await cached.apply("configmaps", a_config(a="2"), manager="other", force=True)
    assert taken.body()["data"] == {"a": "2"}
    await user.patch(CONFIGMAPS, "one", "default", {"data": {"b": "3"}})
    await asyncio.sleep(1)
    assert (await cached.apply("configmaps", a_config(a="2"), manager="other")).body()["data"] == {"a": "2", "b": "3"}
    assert len(writes(sandbox)) == 4, "it was looked at anew since the object has changed"


# Reads.


async def test_what_is_not_looked_at_is_read_live(cached: CachedClient, sandbox: Sandbox) -> None:
    with pytest.raises(LookupError, match=r"add \.owns"):
        cached.get("secrets", KEY)
    assert await cached.get_live("secrets", KEY) is None
    assert (
        await cached.ensure("secrets", {"metadata": {"name": "one", "namespace": "default"}})
    ).change is Change.CREATED
    assert [obj.name for obj in await cached.list_live("secrets", "default")] == ["one"]
    assert cached.cache(CONFIGMAPS).resource == CONFIGMAPS
    with contextlib.suppress(NotFound):
        await cached.patch("secrets", Key("default", "two"), {})


async def test_what_the_caches_leave_out_is_read_before_it_is_written(
    controllers: Controllers, sandbox: Sandbox, user: Client
) -> None:
    """A controller that looks at labelled objects of one namespace writes elsewhere without a refused creation."""
    narrow = await controllers.start(controller("configmaps").in_namespaces("default").with_selector("a=b"), nothing)
    await user.create(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", **a_config(x="1")})
    await asyncio.sleep(1)
    assert narrow.get("configmaps", KEY) is None
    assert (await narrow.ensure("configmaps", a_config(x="1"))).change is Change.UNCHANGED
    elsewhere = {"metadata": {"name": "one", "namespace": "kube-system"}, "data": {"x": "1"}}
    assert (await narrow.ensure("configmaps", elsewhere)).change is Change.CREATED
    assert (await narrow.ensure("configmaps", elsewhere)).change is Change.UNCHANGED
    assert writes(sandbox) == ["POST"]
