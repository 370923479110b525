"""A parent that owns ConfigMaps, reconciled on the sandbox by a controller that was put together by a sentence."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ctl.client.objects import Object
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client
from ctl.controller.api import ownership
from ctl.controller.api.client import UnknownResource
from ctl.controller.building.builder import ControllerSpec, controller
from ctl.controller.building.built import BuiltController
from ctl.controller.building.context import Context
from ctl.controller.kernel import mappers, predicates
from ctl.controller.kernel.reconciler import Result
from ctl.informers.factory import SharedInformerFactory
from ctl.sandbox import Sandbox

pytestmark = pytest.mark.virtual_time

DEPLOYMENTS = Resource("apps", "v1", "deployments", kind="Deployment", namespaced=True)
CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
SECRETS = Resource("", "v1", "secrets", kind="Secret", namespaced=True)


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


class Replicas:
    """Keeps as many ConfigMaps as the parent asks for. It reads the caches only."""

    def __init__(self) -> None:
        self.attempts: list[Context] = []

    async def __call__(self, key: Key, context: Context) -> Result | None:
        self.attempts.append(context)
        parent = context.object
        if parent is None:
            return None
        body = parent.body()
        children = {child.name: child for child in context.owned("configmaps")}
        wanted = {ownership.child_name(key.name, str(number)) for number in range(body["spec"]["replicas"])}
        for name in sorted(wanted - set(children)):
            child: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            ownership.adopt(child, body)
            await context.create("configmaps", child)
        for name in sorted(set(children) - wanted):
            await context.delete("configmaps", children[name])
        assert {child.name for child in context.owned("configmaps")} == wanted  # its own writes are seen at once
        return None


@contextlib.asynccontextmanager
async def running(client: Client, assembly: ControllerSpec) -> AsyncIterator[BuiltController]:
    factory = SharedInformerFactory(client)
    built = assembly.build(client, factory)
    try:
        await built.start()
        yield built
    finally:
        await built.stop(10)
        assert factory.informers == ()
        await factory.stop()


async def _names(client: Client) -> list[str]:
    owned = [obj for obj in await client.list(CONFIGMAPS, "default") if obj.metadata().owner_references]
    return sorted(obj.name for obj in owned)


async def test_children_follow_their_parent_and_are_repaired(client: Client, sandbox: Sandbox) -> None:
    reconcile = Replicas()
    await client.create(DEPLOYMENTS, _deployment("early", 2))
    async with running(client, controller("deployments.apps").owns("configmaps").reconciles(reconcile)) as built:
        await asyncio.sleep(1)
        assert await _names(client) == ["early-0", "early-1"]
        await client.patch(DEPLOYMENTS, "early", "default", {"spec": {"replicas": 3}})
        await asyncio.sleep(1)
        assert await _names(client) == ["early-0", "early-1", "early-2"]
        await client.delete(CONFIGMAPS, "early-1", "default")
        await asyncio.sleep(1)
        assert await _names(client) == ["early-0", "early-1", "early-2"]
        trigger = reconcile.attempts[-1].attempt.trigger
        assert trigger.name == "configmaps.v1" or trigger.object is not None
        await client.patch(DEPLOYMENTS, "early", "default", {"spec": {"replicas": 0}})
        await asyncio.sleep(1)
        assert await _names(client) == []
        assert built.explain_text("default/early").state == "at rest"


async def test_a_burst_of_child_events_is_few_attempts_and_no_reads(client: Client, sandbox: Sandbox) -> None:
    """100 events about a child within 100 ms cause at most two attempts, which ask the server for nothing."""
    attempts: list[float] = []

    async def reconcile(key: Key, context: Context) -> None:
        attempts.append(asyncio.get_running_loop().time())
        assert len(context.owned("configmaps")) == 1
        await asyncio.sleep(0.1)

    parent = (await client.create(DEPLOYMENTS, _deployment("parent", 1))).body()
    child: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}}
    ownership.adopt(child, parent)
    await client.create(CONFIGMAPS, child)
    async with running(client, controller("deployments.apps").owns("configmaps").reconciles(reconcile)):
        await asyncio.sleep(10)
        attempts.clear()
        sandbox.log.clear()
        began = asyncio.get_running_loop().time()
        for number in range(100):
            await client.patch(CONFIGMAPS, "child", "default", {"data": {"n": str(number)}})
        assert asyncio.get_running_loop().time() - began <= 0.1
        await asyncio.sleep(10)
        assert 1 <= len(attempts) <= 2
        assert attempts[0] - began < 1
        assert {request.method for request in sandbox.log} == {"PATCH"}  # the test's own; not one read


async def test_nothing_is_attempted_before_all_caches_are_filled(client: Client) -> None:
    reconcile = Replicas()
    await client.create(DEPLOYMENTS, _deployment("parent", 2))
    for _ in range(3):
        async with running(client, controller("deployments.apps").owns("configmaps").reconciles(reconcile)):
            await asyncio.sleep(1)
            assert await _names(client) == ["parent-0", "parent-1"]


async def test_other_resources_predicates_and_options(client: Client) -> None:
    seen: list[tuple[Key, str]] = []

    async def reconcile(key: Key, context: Context) -> Result | None:
        seen.append((key, context.attempt.trigger.name))
        return None

    blueprint = (
        controller("deployments.apps")
        .watches("secrets", mappers.from_label("belongs-to"))
        .with_predicate(predicates.generation_changed())
        .skips_backoff_on(predicates.generation_changed())
        .named("mine")
        .concurrency(4)
        .timeout(30)
        .in_namespaces("default")
    )
    async with running(client, blueprint.reconciles(reconcile)) as built:
        assert built.name == "mine"
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "default", "labels": {"belongs-to": "d"}},
        }
        await client.create(SECRETS, secret)
        # Not both at once: of two changes before an attempt only the first is its reason.
        await asyncio.sleep(1)
        await client.create(DEPLOYMENTS, _deployment("d", 1))
        await asyncio.sleep(1)
        count = len(seen)
        await client.patch(DEPLOYMENTS, "d", "default", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(1)
        assert len(seen) == count
    assert {key for key, _ in seen} == {Key("default", "d")}
    assert {trigger for _, trigger in seen} == {"secrets.v1", "deployments.v1.apps"}


async def test_reconcilers_are_functions_or_objects(client: Client) -> None:
    seen: list[str] = []

    class Thing:
        async def reconcile(self, key: Key, context: Context) -> Result | None:
            seen.append(f"object {key.name} {context.trigger.change}")
            return None

    async def of_the_key(key: Key) -> None:
        seen.append(f"key {key.name}")

    def plain(key: Key, context: Context) -> Result | None:
        seen.append(f"plain {key.name} {context.attempt.number}")
        return Result(requeue_after=100) if len(seen) < 5 else None

    await client.create(CONFIGMAPS, {"metadata": {"name": "one", "namespace": "default"}})
    blueprint = controller("configmaps")
    async with contextlib.AsyncExitStack() as stack:
        for assembly in (blueprint.reconciles(Thing()), blueprint.reconciles(of_the_key), blueprint.reconciles(plain)):
            await stack.enter_async_context(running(client, assembly))
        await asyncio.sleep(10)
        assert sorted(seen) == ["key one", "object one ADDED", "plain one 1"]
        await asyncio.sleep(100)
        assert seen[3:] == ["plain one 1"]


def test_what_cannot_reconcile_is_refused_where_it_is_said() -> None:
    def too_many(key: Key, context: Context, more: str) -> None: ...

    with pytest.raises(TypeError, match="takes a key, or a key and an attempt"):
        controller("configmaps").reconciles(too_many)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has a method `reconcile`; got 5"):
        controller("configmaps").reconciles(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["unicorns", "unicorns.apps", "deployments.nowhere.example"])
async def test_an_unknown_resource_is_named(client: Client, name: str) -> None:
    factory = SharedInformerFactory(client)
    built = controller(name).reconciles(Replicas()).build(client, factory)
    with pytest.raises(UnknownResource, match=name):
        await built.start()
    await built.stop(1)
    await factory.stop()


@pytest.mark.parametrize("name", ["deployments.apps", "deployments.v1.apps", "configmaps", "configmaps.v1"])
async def test_every_form_of_a_name_is_understood(client: Client, name: str) -> None:
    async with running(client, controller(name).reconciles(Replicas())) as built:
        assert built.name == name


async def test_looking_at_what_was_not_announced_is_an_error_that_says_so(client: Client) -> None:
    errors: list[str] = []

    async def reconcile(key: Key, context: Context) -> None:
        try:
            context.owned("secrets")
        except LookupError as error:
            errors.append(str(error))

    async with running(client, controller("deployments.apps").owns("configmaps").reconciles(reconcile)):
        await client.create(DEPLOYMENTS, _deployment("d", 1))
        await asyncio.sleep(1)
    assert errors == [
        "This controller does not look at 'secrets', only at deployments.apps, configmaps; add .owns(), .watches() or .reads()."
    ]


async def test_what_is_read_and_indexed_asks_for_nothing_and_is_found(client: Client) -> None:
    found: list[dict[str, Any]] = []

    def by_label(obj: Object) -> list[str]:
        return [(obj.metadata().labels or {}).get("app", "")]

    async def reconcile(key: Key, context: Context) -> None:
        live = await context.get_live("secrets", "s")
        here = context.get("secrets", "s")
        assert context.get("secrets", "s", "kube-system") is None
        assert context.metadata is not None
        assert not context.is_being_deleted
        found.append(
            {
                "live": live and live.name,
                "here": here and here.name,
                "listed": [obj.name for obj in context.list("secrets", "default", "app=x")],
                "indexed": [obj.name for obj in context.lister("secrets").by_index("app", "x")],
                "reason": context.trigger.name,
            }
        )

    secret = {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "s", "namespace": "default", "labels": {"app": "x"}},
    }
    await client.create(SECRETS, secret)
    await client.create(DEPLOYMENTS, _deployment("d", 1))
    sentence = controller("deployments.apps").reads("secrets").indexes("secrets", "app", by_label).reconciles(reconcile)
    async with running(client, sentence):
        await asyncio.sleep(1)
        await client.patch(SECRETS, "s", "default", {"data": {"a": "Yg=="}})
        await asyncio.sleep(1)
    told = {"live": "s", "here": "s", "listed": ["s"], "indexed": ["s"], "reason": "deployments.v1.apps"}
    assert found == [told]


async def test_some_namespaces_are_looked_at_as_one(client: Client) -> None:
    namespaces = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
    seen: list[str] = []
    known: list[str] = []

    async def reconcile(key: Key, context: Context) -> None:
        seen.append(str(key))
        known[:] = sorted(str(obj.key) for obj in context.list("configmaps"))
        written = await context.ensure(
            "configmaps", {"metadata": dict(zip(("namespace", "name"), key, strict=True)), "data": {"a": "b"}}
        )
        assert context.object == written.object

    for name in ("blue", "green", "red"):
        await client.create(namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await client.create(
            CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": name}}
        )
    async with running(client, controller("configmaps").in_namespaces("blue", "green").reconciles(reconcile)):
        await asyncio.sleep(1)
    assert sorted(seen) == known == ["blue/one", "green/one"]
