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
