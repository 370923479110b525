"""What a server says of itself: discovery, version, health."""

import asyncio
import time

from conformance.api import Api, Body
from conformance.spaces import AGGREGATED, Space

SECONDS = 60.0
VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


def by_name(found: Body, group: str) -> Body:
    (item,) = [one for one in found["items"] if one["metadata"].get("name", "") == group]
    assert isinstance(item, dict)
    return item


async def test_the_health_of_the_server(api: Api) -> None:
    deadline = time.monotonic() + SECONDS
    for path in ("/healthz", "/readyz", "/livez"):
        # A server that waits for its etcd for a moment says so.
        while (answer := await api.call("GET", path)).code != 200 and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert (answer.code, answer.body) == (200, "ok")
        assert answer.headers["Content-Type"].startswith("text/plain")


async def test_the_version_of_the_server(api: Api) -> None:
    found = await api.get("/version")
    assert found["major"] == "1"
    assert int(found["minor"].rstrip("+")) >= 30
    assert found["gitVersion"].startswith(f"v1.{found['minor'].rstrip('+')}.")
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= set(found)


async def test_the_core_group_in_legacy_discovery(api: Api) -> None:
    found = await api.get("/api")
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])
    found = await api.get("/api/v1")
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", "v1")
    resources = {one["name"]: one for one in found["resources"]}
    for name, kind, singular, short in (
        ("pods", "Pod", "pod", ["po"]),
        ("configmaps", "ConfigMap", "configmap", ["cm"]),
        ("events", "Event", "event", ["ev"]),
        ("services", "Service", "service", ["svc"]),
    ):
        assert resources[name]["kind"] == kind
        assert resources[name]["singularName"] == singular
        assert resources[name]["namespaced"] is True
        assert resources[name]["shortNames"] == short
        assert set(resources[name]["verbs"]) == VERBS
    assert resources["pods"]["categories"] == ["all"]
    assert resources["namespaces"]["namespaced"] is False
    assert set(resources["namespaces"]["verbs"]) == VERBS - {"deletecollection"}
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]


async def test_the_named_groups_in_legacy_discovery(api: Api) -> None:
    found = await api.get("/apis")
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    groups = {one["name"]: one for one in found["groups"]}
    for name in (
        "apps",
        "batch",
        "coordination.k8s.io",
        "apiextensions.k8s.io",
        "events.k8s.io",
        "rbac.authorization.k8s.io",
    ):
        assert groups[name]["preferredVersion"] == {"groupVersion": f"{name}/v1", "version": "v1"}
        assert {"groupVersion": f"{name}/v1", "version": "v1"} in groups[name]["versions"]
        single = await api.get(f"/apis/{name}")
        assert single["kind"] == "APIGroup"
        assert single["preferredVersion"] == groups[name]["preferredVersion"]
    found = await api.get("/apis/coordination.k8s.io/v1")
    (leases,) = found["resources"]
    assert (leases["name"], leases["kind"], leases["namespaced"]) == ("leases", "Lease", True)


async def test_aggregated_discovery_of_the_core_group(api: Api) -> None:
    answer = await api.call("GET", "/api", accept=f"{AGGREGATED},application/json")
    assert answer.headers["Content-Type"] == AGGREGATED
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (version,) = by_name(answer.body, "")["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    resources = {one["resource"]: one for one in version["resources"]}
    pods = resources["pods"]
    assert pods["responseKind"]["kind"] == "Pod"
    assert (pods["scope"], pods["singularResource"], pods["shortNames"]) == ("Namespaced", "pod", ["po"])
    assert pods["categories"] == ["all"]
    assert set(pods["verbs"]) == VERBS
    assert "status" in [one["subresource"] for one in pods["subresources"]]
    assert resources["namespaces"]["scope"] == "Cluster"


async def test_aggregated_discovery_of_custom_resources(api: Api, group: str, space: Space) -> None:
    answer = await api.call("GET", "/apis", accept=AGGREGATED)
    assert answer.headers["Content-Type"] == AGGREGATED
    (version,) = by_name(answer.body, group)["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    resources = {one["resource"]: one for one in version["resources"]}
    assert resources["widgets"]["responseKind"] == {"group": group, "version": "v1", "kind": "Widget"}
    assert resources["widgets"]["singularResource"] == "widget"
    assert resources["widgets"]["subresources"] == [
        {
            "subresource": "status",
            "responseKind": {"group": group, "version": "v1", "kind": "Widget"},
            "verbs": ["get", "patch", "update"],
        },
    ]
    assert "subresources" not in resources["plains"]
    assert {"apps", "coordination.k8s.io"} <= {one["metadata"]["name"] for one in answer.body["items"]}


async def test_both_discoveries_tell_the_same(api: Api) -> None:
    # The definitions of other tests go meanwhile.
    deadline = time.monotonic() + SECONDS
    while True:
        legacy = await api.get("/apis")
        aggregated = (await api.call("GET", "/apis", accept=AGGREGATED)).body
        old = {one["name"]: {version["version"] for version in one["versions"]} for one in legacy["groups"]}
        new = {one["metadata"]["name"]: {v["version"] for v in one["versions"]} for one in aggregated["items"]}
        if new == old:
            return
        assert time.monotonic() < deadline, (new, old)
        await asyncio.sleep(0.1)


async def test_an_unknown_builtin_resource_is_not_found(api: Api) -> None:
    for path in ("/apis/apps/v1/nothings", "/api/v1/nothings"):
        status = (await api.call("GET", path)).refused(404, "NotFound")
        assert status["message"] == "the server could not find the requested resource"


async def test_an_unknown_path_is_not_found(api: Api) -> None:
    assert (await api.call("GET", "/nothing")).code == 404
