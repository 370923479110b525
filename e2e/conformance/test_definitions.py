"""Custom resource definitions: from creation to deletion."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

import pytest
from conformance.api import Api, Body
from conformance.spaces import DEFINITIONS, REMOVAL_SECONDS, Space, custom, definition, establish, established


@pytest.fixture
async def own(api: Api) -> AsyncIterator[str]:
    """A group of the test's own; its gadgets are removed afterwards."""
    group = f"e2e-{secrets.token_hex(6)}.ctl.test"
    yield group
    await api.call("DELETE", f"{DEFINITIONS}/gadgets.{group}")


def two_versions(group: str) -> Body:
    body = definition(group, "gadgets", "Gadget")
    body["spec"]["names"] |= {"shortNames": ["gdg"], "categories": ["all", "mine"]}
    second = {**body["spec"]["versions"][0], "name": "v2beta1", "storage": False, "subresources": {"status": {}}}
    body["spec"]["versions"].append(second)
    return body


async def test_a_definition_is_established_with_its_names(api: Api, own: str) -> None:
    body = two_versions(own)
    made = await api.create(DEFINITIONS, body)
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"]["storedVersions"] == ["v1"]
    found = await established(api, body)
    conditions = {one["type"]: one for one in found["status"]["conditions"]}
    assert {name: one["status"] for name, one in conditions.items()} == {"NamesAccepted": "True", "Established": "True"}
    assert conditions["Established"]["reason"] == "InitialNamesAccepted"
    assert conditions["NamesAccepted"]["reason"] == "NoConflicts"
    assert found["status"]["acceptedNames"] == body["spec"]["names"]
    assert found["metadata"]["generation"] == 1


async def test_becoming_established_is_seen_on_the_watch(api: Api, own: str) -> None:
    async with api.watch(DEFINITIONS, fieldSelector=f"metadata.name=gadgets.{own}") as watch:
        await api.create(DEFINITIONS, definition(own, "gadgets", "Gadget"))
        event = await watch.next()
        assert event["type"] == "ADDED"
        while "Established" not in [
            one["type"] for one in event["object"]["status"]["conditions"] or [] if one["status"] == "True"
        ]:
            event = await watch.next()
            assert event["type"] == "MODIFIED"


async def test_an_object_is_served_in_each_version(api: Api, own: str, space: Space) -> None:
    await establish(api, two_versions(own))
    first, second = (f"/apis/{own}/{name}/namespaces/{space.name}/gadgets" for name in ("v1", "v2beta1"))
    made = await api.create(first, custom(f"{own}/v1", "Gadget", "one", {"spec": {"a": 1}}))
    found = await api.get(f"{second}/one")
    assert found["apiVersion"] == f"{own}/v2beta1"
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert found["spec"] == {"a": 1}
    async with api.watch(second) as watch:
        event = await watch.next()
    assert event["object"] == found
    changed = await api.merge(f"{second}/one", {"spec": {"a": 2}})
    assert changed["apiVersion"] == f"{own}/v2beta1"
    assert (await api.get(f"{first}/one"))["spec"] == {"a": 2}


async def test_subresources_belong_to_a_version(api: Api, own: str, space: Space) -> None:
    await establish(api, two_versions(own))
    first, second = (f"/apis/{own}/{name}/namespaces/{space.name}/gadgets" for name in ("v1", "v2beta1"))
    await api.create(first, custom(f"{own}/v1", "Gadget", "one", {"status": {"s": 1}}))
    assert (await api.call("GET", f"{first}/one/status")).code == 404
    assert (await api.get(f"{second}/one/status"))["status"] == {"s": 1}
    assert (await api.merge(f"{second}/one", {"status": {"s": 2}}))["status"] == {"s": 1}


async def test_a_version_that_is_not_served_is_not_found(api: Api, own: str) -> None:
    body = two_versions(own)
    body["spec"]["versions"][1]["served"] = False
    await establish(api, body)
    assert (await api.call("GET", f"/apis/{own}/v2beta1/gadgets")).code == 404
    assert (await api.call("GET", f"/apis/{own}/v1/gadgets")).code == 200


async def test_a_cluster_scoped_resource_has_no_namespace(api: Api, own: str) -> None:
    await establish(api, definition(own, "gadgets", "Gadget", scope="Cluster"))
    made = await api.create(f"/apis/{own}/v1/gadgets", custom(f"{own}/v1", "Gadget", "one", {}))
    assert "namespace" not in made["metadata"]
    assert await api.get(f"/apis/{own}/v1/gadgets/one") == made
    assert (await api.call("GET", f"/apis/{own}/v1/namespaces/default/gadgets")).code == 404


async def test_discovery_tells_of_a_definition(api: Api, own: str) -> None:
    await establish(api, two_versions(own))
    found = await api.get(f"/apis/{own}/v1")
    assert found["groupVersion"] == f"{own}/v1"
    (resource,) = found["resources"]
    assert resource["name"] == "gadgets"
    assert resource["singularName"] == "gadget"
    assert resource["kind"] == "Gadget"
    assert resource["namespaced"] is True
    assert resource["shortNames"] == ["gdg"]
    assert resource["categories"] == ["all", "mine"]
    assert set(resource["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    found = await api.get(f"/apis/{own}/v2beta1")
    assert {one["name"]: one["verbs"] for one in found["resources"]}["gadgets/status"] == ["get", "patch", "update"]
    group = await api.get(f"/apis/{own}")
    assert [one["version"] for one in group["versions"]] == ["v1", "v2beta1"]
    assert group["preferredVersion"] == {"groupVersion": f"{own}/v1", "version": "v1"}


async def test_a_deleted_definition_takes_its_objects_along(api: Api, own: str, space: Space) -> None:
    await establish(api, definition(own, "gadgets", "Gadget"))
    path = f"/apis/{own}/v1/namespaces/{space.name}/gadgets"
    await api.create(path, custom(f"{own}/v1", "Gadget", "one", {}))
    async with api.watch(path) as watch:
        assert (await watch.next())["type"] == "ADDED"
        marked = await api.delete(f"{DEFINITIONS}/gadgets.{own}")
        assert marked["kind"] == "CustomResourceDefinition"
        assert marked["metadata"]["deletionTimestamp"]
        assert (await watch.next())["type"] == "DELETED"
        assert await watch.ended() == []
    await vanished(api, own)
    assert (await api.call("GET", path)).code == 404


async def vanished(api: Api, group: str) -> None:
    deadline = time.monotonic() + REMOVAL_SECONDS
    while (await api.call("GET", f"{DEFINITIONS}/gadgets.{group}")).code != 404:
        assert time.monotonic() < deadline, "the definition was not removed"
        await asyncio.sleep(0.05)


async def test_a_definition_can_be_deleted_and_created_again(api: Api, own: str, space: Space) -> None:
    await establish(api, definition(own, "gadgets", "Gadget"))
    path = f"/apis/{own}/v1/namespaces/{space.name}/gadgets"
    await api.create(path, custom(f"{own}/v1", "Gadget", "one", {}))
    await api.delete(f"{DEFINITIONS}/gadgets.{own}")
    await vanished(api, own)
    await establish(api, definition(own, "gadgets", "Gadget"))
    assert (await api.get(path))["items"] == []


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda body: body["metadata"].update(name="wrong"), "metadata.name"),
        (lambda body: body["spec"]["versions"][0].update(storage=False), "spec.versions"),
        (lambda body: body["spec"]["versions"][0].pop("schema"), "spec.versions[0].schema.openAPIV3Schema"),
        (lambda body: body["spec"].update(scope="Galaxy"), "spec.scope"),
    ],
    ids=["name", "storage", "schema", "scope"],
)
async def test_a_definition_that_is_wrong_is_refused(api: Api, own: str, spoil: object, field: str) -> None:
    body = definition(own, "gadgets", "Gadget")
    assert callable(spoil)
    spoil(body)
    status = (await api.call("POST", DEFINITIONS, body)).refused(422, "Invalid")
    assert field in [cause["field"] for cause in status["details"]["causes"]]
    assert status["details"]["kind"] == "CustomResourceDefinition"


async def test_an_unknown_resource_is_not_found(api: Api, space: Space) -> None:
    for path in (
        f"/apis/{space.group}/v1/nothings",
        f"/apis/{space.group}/v9/widgets",
        f"/apis/absent.{space.group}/v1/widgets",
    ):
        answer = await api.call("GET", path)
        assert (answer.code, answer.body) == (404, "404 page not found\n")
