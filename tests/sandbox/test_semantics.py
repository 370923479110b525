"""Less common rules: versions of definitions, owners, events in two shapes, discovery, dry runs, PUT."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from ctl.sandbox import Refused, Sandbox

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def definition(**spec: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": "v1beta1", "served": True, "storage": False, "schema": schema},
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": schema,
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "subresources": {"status": {}},
        },
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"], "categories": ["all"]},
            "versions": versions,
            **spec,
        },
    }


def foo(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as found:
        yield found


class Http:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def __call__(self, method: str, path: str, body: Any = None, accept: str = "*/*") -> tuple[int, Any]:
        merge = "application/merge-patch+json" if method == "PATCH" else "application/json"
        head = {"Content-Type": merge, "Accept": accept}
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, self.url + path, data=data, headers=head) as response:
            return response.status, json.loads(await response.read())


@pytest.fixture
async def http(sandbox: Sandbox) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        yield Http(session, sandbox.url)


async def test_versions_of_a_definition_share_their_objects(http: Http) -> None:
    code, made = await http("POST", CRDS, definition())
    assert (code, made["status"]["conditions"]) == (201, None)
    _, crd = await http("GET", CRDS + "/foos.example.com")
    assert [one["type"] for one in crd["status"]["conditions"]] == ["NamesAccepted", "Established"]
    await http("POST", "/apis/example.com/v1/foos", foo("one", color="red"))
    _, beta = await http("GET", "/apis/example.com/v1beta1/foos/one")
    assert (beta["apiVersion"], beta["spec"]) == ("example.com/v1beta1", {"color": "red"})
    _, reds = await http("GET", "/apis/example.com/v1/foos?fieldSelector=spec.color%3Dred")
    assert [item["metadata"]["name"] for item in reds["items"]] == ["one"]
    _, blues = await http("GET", "/apis/example.com/v1/foos?fieldSelector=spec.color%3Dblue")
    assert blues["items"] == []
    _, group = await http("GET", "/apis/example.com")
    assert group["preferredVersion"]["version"] == "v1"


async def test_wrong_definitions_are_invalid(http: Http) -> None:
    code, status = await http("POST", CRDS, {**definition(), "metadata": {"name": "wrong"}})
    assert code == 422
    assert 'must be spec.names.plural+"."+spec.group' in status["message"]
    code, status = await http("POST", CRDS, definition(versions=[{"name": "v1", "served": True, "storage": True}]))
    assert code == 422
    assert "spec.versions[0].schema.openAPIV3Schema: Required value" in status["message"]


async def test_a_definition_waits_for_its_last_object(http: Http) -> None:
    await http("POST", CRDS, definition())
    held = foo("one")
    held["metadata"]["finalizers"] = ["x.io/hold"]
    await http("POST", "/apis/example.com/v1/foos", held)
    code, crd = await http("DELETE", CRDS + "/foos.example.com")
    assert (code, crd["metadata"]["finalizers"]) == (200, ["customresourcecleanup.apiextensions.k8s.io"])
    assert (await http("POST", "/apis/example.com/v1/foos", foo("two")))[0] == 403
    await http("PATCH", "/apis/example.com/v1/foos/one", {"metadata": {"finalizers": None}})
    assert (await http("GET", CRDS + "/foos.example.com"))[0] == 404


async def test_aggregated_discovery(http: Http) -> None:
    await http("POST", CRDS, definition())
    _, groups = await http("GET", "/apis", accept=AGGREGATED)
    assert groups["kind"] == "APIGroupDiscoveryList"
    found = {item["metadata"]["name"]: item for item in groups["items"]}
    (version, beta) = found["example.com"]["versions"]
    assert (version["version"], beta["version"]) == ("v1", "v1beta1")
    (resource,) = version["resources"]
    assert resource["subresources"][0]["subresource"] == "status"
    assert (resource["scope"], resource["shortNames"], resource["categories"]) == ("Cluster", ["fo"], ["all"])
    assert "subresources" not in beta["resources"][0]
    _, core = await http("GET", "/api", accept=AGGREGATED)
    assert {"pods", "events"} <= {resource["resource"] for resource in core["items"][0]["versions"][0]["resources"]}


def owned(name: str, uid: str, **meta: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    meta = {"name": name, "ownerReferences": [owner], **meta}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


@pytest.mark.parametrize(
    ("policy", "owner_left", "child_left"),
    [("Background", False, False), ("Foreground", False, False), ("Orphan", False, True)],
)
async def test_owners_take_their_dependents_along(
    sandbox: Sandbox, http: Http, policy: str, owner_left: bool, child_left: bool
) -> None:
    owner = sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
    sandbox.create(owned("child", owner["metadata"]["uid"]))
    code, _ = await http("DELETE", "/api/v1/namespaces/default/configmaps/owner", {"propagationPolicy": policy})
    assert code == 200
    assert (sandbox.get("v1", "ConfigMap", "owner") is not None) is owner_left
    child = sandbox.get("v1", "ConfigMap", "child")
    assert (child is not None) is child_left
    if child is not None:
        assert "ownerReferences" not in child["metadata"]


async def test_a_held_dependent_holds_its_owner_in_the_foreground(sandbox: Sandbox, http: Http) -> None:
    owner = sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
    sandbox.create(owned("child", owner["metadata"]["uid"], finalizers=["x.io/hold"]))
    path = "/api/v1/namespaces/default/configmaps"
    await http("DELETE", path + "/owner", {"propagationPolicy": "Foreground"})
    assert sandbox.get("v1", "ConfigMap", "owner") is not None
    await http("PATCH", path + "/child", {"metadata": {"finalizers": None}})
    assert sandbox.get("v1", "ConfigMap", "child") is None
    assert sandbox.get("v1", "ConfigMap", "owner") is None


async def test_events_have_two_shapes(http: Http) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Because",
        "message": "text",
        "source": {"component": "me"},
    }
    assert (await http("POST", "/api/v1/namespaces/default/events", event))[0] == 201
    _, new = await http("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e")
    assert (new["apiVersion"], new["note"], new["regarding"]["name"]) == ("events.k8s.io/v1", "text", "p")
    path = "/apis/events.k8s.io/v1/namespaces/default/events/e"
    assert (await http("PATCH", path, {"note": "other"}))[0] == 422
    old = "/api/v1/namespaces/default/events/e"
    assert (await http("PATCH", old, {"message": "other"}))[1]["message"] == "other"
    assert (await http("GET", path))[1]["note"] == "other"
    _, core = await http("GET", "/api/v1/events?fieldSelector=involvedObject.name%3Dp,source%3Dme")
    assert [item["message"] for item in core["items"]] == ["other"]
    foreign = {**event, "metadata": {"name": "f"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "x"}}
    code, status = await http("POST", "/api/v1/namespaces/default/events", foreign)
    assert code == 422
    assert "does not match event.namespace" in status["message"]


async def test_dry_runs_change_nothing(sandbox: Sandbox, http: Http) -> None:
    before = sandbox.history.current
    path = "/api/v1/namespaces/default/configmaps"
    code, made = await http("POST", path + "?dryRun=All", {"metadata": {"name": "one"}})
    assert code == 201
    assert "resourceVersion" not in made["metadata"]
    sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}})
    code, patched = await http("PATCH", path + "/two?dryRun=All", {"data": {"a": "b"}})
    assert (code, patched["data"]) == (200, {"a": "b"})
    assert (await http("DELETE", path + "/two?dryRun=All"))[0] == 200
    assert sandbox.history.current == before + 1


async def test_leases_are_created_by_put_and_never_overwritten_blindly(http: Http) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/one"
    lease = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "a"}}
    assert (await http("PUT", path, lease))[0] == 201
    code, status = await http("PUT", path, lease)
    assert code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in status["message"]


async def test_oversized_objects_and_bodies(sandbox: Sandbox, http: Http) -> None:
    path = "/api/v1/namespaces/default/secrets"
    before = sandbox.history.current
    for size, expected in ((2_000_000, (500, "etcdserver: request is too large")), (3_500_000, None)):
        body = io.BytesIO(json.dumps({"metadata": {"name": "one"}, "data": {"a": "x" * size}}).encode())
        head = {"Content-Type": "application/json"}
        async with http.session.post(sandbox.url + path, data=body, headers=head) as response:
            answer = await response.json()
        assert (response.status, answer["message"]) == (expected or (413, "Request entity too large: limit is 3145728"))
    assert sandbox.history.current == before


async def test_generated_names_differ(sandbox: Sandbox) -> None:
    made = [
        sandbox.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}}) for _ in range(50)
    ]
    names = {one["metadata"]["name"] for one in made}
    assert len(names) == 50
    assert all(name.startswith("s-") and len(name) == 7 for name in names)


async def test_manifests_are_loaded_in_order(sandbox: Sandbox) -> None:
    text = json.dumps(definition()) + "\n---\n" + json.dumps(foo("one")) + "\n---\n"
    made = await sandbox.load_manifest(text + json.dumps({"kind": "List", "apiVersion": "v1", "items": [foo("two")]}))
    assert [one["metadata"]["name"] for one in made] == ["foos.example.com", "one", "two"]
    with pytest.raises(Refused, match="ensure CRDs are loaded first"):
        await sandbox.load_manifest("{kind: Bar, apiVersion: example.com/v1, metadata: {name: x}}")


async def test_a_secret_keeps_what_was_given_in_clear(sandbox: Sandbox) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    made = sandbox.create(secret)
    assert (made["data"], made["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in made
