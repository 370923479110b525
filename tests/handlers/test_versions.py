"""Several served versions of one kind: handlers of each are called, never beside each other, and nothing goes round in circles."""

import asyncio
from typing import Any

import pytest

import ctl

from .world import LAST, Calls, a_world, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

NEW = ctl.Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)
OLD = ctl.Resource("kopf.dev", "v1beta1", "kopfexamples", "KopfExample", namespaced=True)

_VERSION = """
  - name: {name}
    served: true
    storage: {storage}
    subresources: {{status: {{}}}}
    schema:
      openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: KopfExample, plural: kopfexamples, singular: kopfexample}
  versions:""" + "".join(
    _VERSION.format(name=name, storage=storage) for name, storage in [("v1", "true"), ("v1beta1", "false")]
)


@pytest.mark.parametrize("before", [False, True])
async def test_handlers_of_each_version_see_each_change_once_and_never_together(calls: Calls, before: bool) -> None:
    async with a_world(definitions=[CRD]) as world:
        busy: set[str] = set()

        def declare(version: str, reason: str) -> None:
            decorator: Any = getattr(ctl.on, reason)

            async def handle(body: Any, **kwargs: Any) -> None:
                assert not busy
                busy.add(version)
                await asyncio.sleep(0.2)
                busy.discard(version)
                assert body["apiVersion"] == f"kopf.dev/{version}"
                calls(f"{reason} {version}", kwargs)

            decorator("kopf.dev", version, "kopfexamples", id=f"{reason}-{version}")(handle)

        for version in ("v1", "v1beta1"):
            for reason in ("create", "update", "delete", "resume"):
                declare(version, reason)
        if before:
            await world.create(resource=NEW)
        async with world.running():
            if not before:
                await world.create(resource=NEW)
            await world.until(lambda: len(calls) >= 2)
            await rest(5)
            assert sorted(calls.names) == ["create v1", "create v1beta1"]
            await world.patch({"spec": {"field": "other"}}, resource=OLD)
            await rest(5)
            assert sorted(calls.names[2:]) == ["update v1", "update v1beta1"]
            for given in calls.of("update v1") + calls.of("update v1beta1"):
                assert tuple(given["diff"]) == (("change", ("spec", "field"), "value", "other"),)
            written = len(world.writes(NEW))
            await rest(3600)
            assert len(world.writes(NEW)) == written
        async with world.running():
            await rest(5)
            assert sorted(calls.names[4:]) == ["resume v1", "resume v1beta1"]
            await world.delete(resource=NEW)
            await world.gone(resource=NEW)
            await rest(5)
        assert {"delete v1", "delete v1beta1"} >= set(calls.names[6:])
        assert calls.names[6:]


async def test_one_version_alone_is_like_any_resource(calls: Calls) -> None:
    async with a_world(definitions=[CRD]) as world:

        @ctl.on.create("kopf.dev", "v1beta1", "kopfexamples", id="create")
        async def create(**kwargs: Any) -> None:
            calls("create", kwargs)

        async with world.running():
            await world.create(resource=NEW)
            await world.until(lambda: LAST in world.annotations(resource=NEW))
            await rest(5)
        assert calls.names == ["create"]
        assert len(world.writes(NEW)) == 1


@pytest.mark.parametrize("guard", ["v1", "v1beta1"])
async def test_a_version_whose_handlers_guard_nothing_lets_no_object_go(calls: Calls, guard: str) -> None:
    """Else one of the two would put the finalizer on and the other take it off, for ever, and the deletion would be nobody's."""
    async with a_world(definitions=[CRD]) as world:

        @ctl.on.delete("kopf.dev", guard, "kopfexamples", id="delete")
        async def delete(**kwargs: Any) -> None:
            calls("delete", kwargs)

        for version in ("v1", "v1beta1"):

            @ctl.on.update("kopf.dev", version, "kopfexamples", id=f"update-{version}")
            @ctl.on.create("kopf.dev", version, "kopfexamples", id=f"create-{version}")
            async def change(reason: str, version: str = version, **kwargs: Any) -> None:
                calls(f"{reason} {version}", kwargs)

        async with world.running():
            await world.create(resource=NEW)
            await rest(5)
            assert sorted(calls.names) == ["create v1", "create v1beta1"]
            await world.patch({"spec": {"field": "other"}}, resource=OLD)
            await rest(5)
            assert sorted(calls.names[2:]) == ["update v1", "update v1beta1"]
            assert len(world.writes(NEW)) < 10
            assert world.get(resource=NEW)["metadata"]["finalizers"]
            await world.delete(resource=NEW)
            await world.gone(resource=NEW)
            assert calls.names[4:] == ["delete"]


async def test_an_object_that_no_version_guards_is_let_go(calls: Calls) -> None:
    async with a_world(definitions=[CRD]) as world:
        for version in ("v1", "v1beta1"):

            @ctl.on.create("kopf.dev", version, "kopfexamples", id=f"create-{version}")
            async def create(version: str = version, **kwargs: Any) -> None:
                calls(f"create {version}", kwargs)

            @ctl.on.delete("kopf.dev", version, "kopfexamples", id=f"delete-{version}", labels={"guarded": "yes"})
            async def delete(version: str = version, **kwargs: Any) -> None:
                calls(f"delete {version}", kwargs)

        async with world.running():
            await world.create(resource=NEW, labels={"guarded": "yes"})
            await rest(5)
            assert world.get(resource=NEW)["metadata"]["finalizers"]
            await world.patch({"metadata": {"labels": {"guarded": "no"}}}, resource=NEW)
            await rest(5)
            await world.delete(resource=NEW)
            await world.gone(resource=NEW)
        assert sorted(calls.names) == ["create v1", "create v1beta1"]
