"""Server-side apply by the types of a kind: lists and maps of each sort, and the kinds that are built in."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from conformance.api import Api, Body
from conformance.managed import applied, apply, entries
from conformance.spaces import DEFINITIONS, Space, configmap, custom, definition, establish


@dataclass(frozen=True)
class Typed:
    """A kind with a schema: lists and maps of each sort."""

    group: str
    path: str

    def __call__(self, name: str, **spec: Any) -> Body:
        """A body of the kind."""
        return custom(f"{self.group}/v1", "Typed", name, {"spec": spec})


@pytest.fixture
async def typed(api: Api, space: Space) -> AsyncIterator[Typed]:
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
    spec: dict[str, Any] = {
        "a": {"type": "integer"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "am": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
        "lm": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
        "ls": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "la": {"type": "array", "items": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    # A group of the test's own: the next one need not wait until this one is gone.
    group = f"t{secrets.token_hex(4)}.{space.group}"
    body = definition(group, "typeds", "Typed")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    await establish(api, body)
    yield Typed(group, space.grouped(f"{group}/v1", "typeds"))
    await api.call("DELETE", f"{DEFINITIONS}/typeds.{group}")


async def test_lists_and_maps_by_their_schema(api: Api, space: Space, typed: Typed) -> None:
    first = typed(
        "one",
        o={"x": 1},
        m={"q": "r"},
        am={"q": "r"},
        lm=[{"k": "a", "v": 1}, {"k": "b"}],
        ls=["x", "y"],
        la=["y"],
        any={"z": {"y": 1}},
    )
    made = await applied(api, f"{typed.path}/one", first)
    assert entries(made)["one", "Apply", ""]["f:spec"] == {
        "f:o": {"f:x": {}},
        "f:m": {"f:q": {}},
        "f:am": {},
        "f:lm": {'k:{"k":"a"}': {".": {}, "f:k": {}, "f:v": {}}, 'k:{"k":"b"}': {".": {}, "f:k": {}}},
        "f:ls": {'v:"x"': {}, 'v:"y"': {}},
        "f:la": {},
        "f:any": {"f:z": {".": {}, "f:y": {}}},
    }
    second = typed("one", o={"y": 2}, m={"s": "t"}, lm=[{"k": "c"}, {"k": "b", "v": 2}], ls=["z"])
    found = await applied(api, f"{typed.path}/one", second, "two")
    assert found["spec"] == {
        "o": {"x": 1, "y": 2},
        "m": {"q": "r", "s": "t"},
        "am": {"q": "r"},
        "lm": [{"k": "a", "v": 1}, {"k": "c"}, {"k": "b", "v": 2}],
        "ls": ["x", "y", "z"],
        "la": ["y"],
        "any": {"z": {"y": 1}},
    }
    status = (await apply(api, f"{typed.path}/one", typed("one", am={"s": "t"}, la=["z"]), "two")).refused(
        409, "Conflict"
    )
    assert {cause["field"] for cause in status["details"]["causes"]} == {".spec.am", ".spec.la"}
    status = (await apply(api, f"{typed.path}/one", typed("one", lm=[{"k": "a", "v": 3}]), "two")).refused(
        409, "Conflict"
    )
    assert status["details"]["causes"][0]["field"] == '.spec.lm[k="a"].v'
    found = await applied(api, f"{typed.path}/one", typed("one", lm=[{"k": "b"}], ls=["y"]))
    assert found["spec"] == {"o": {"y": 2}, "m": {"s": "t"}, "lm": [{"k": "c"}, {"k": "b", "v": 2}], "ls": ["y", "z"]}


async def test_the_order_of_a_configuration(api: Api, space: Space, typed: Typed) -> None:
    await applied(api, f"{typed.path}/one", typed("one", lm=[{"k": key} for key in "abc"]))
    found = await applied(api, f"{typed.path}/one", typed("one", lm=[{"k": key} for key in "cxa"]), "two")
    assert [item["k"] for item in found["spec"]["lm"]] == ["b", "c", "x", "a"]


# What the specification says, and what the server says to it.
UNFIT: list[tuple[Body, str]] = [
    ({"unknown": 1}, ".spec.unknown: field not declared in schema"),
    ({"lm": [{"k": "a"}, {"k": "a"}]}, '.spec.lm: duplicate entries for key [k="a"]'),
    (
        {"lm": [{"v": 1}]},
        '.spec.lm: element 0: associative list with keys has an element that omits all key fields ["k"]',
    ),
    ({"a": "text"}, ".spec.a: expected numeric (int or float), got string"),
    ({"o": 1}, ".spec.o: expected map, got &{1}"),
]


@pytest.mark.parametrize(("spec", "words"), UNFIT)
async def test_a_configuration_that_does_not_fit(api: Api, space: Space, typed: Typed, spec: Body, words: str) -> None:
    answer = await apply(api, f"{typed.path}/one", typed("one", **spec))
    assert answer.code == 500
    head = f"failed to create typed patch object (/one; {typed.group}/v1, Kind=Typed): "
    assert answer.body["message"].startswith(head + words)


async def test_configmaps_of_two_appliers(api: Api, space: Space) -> None:
    path = space.core("configmaps", "one")
    await applied(api, path, configmap("one", {"a": "1"}))
    found = await applied(api, path, configmap("one", {"b": "2"}), "two")
    assert found["data"] == {"a": "1", "b": "2"}
    assert entries(found) == {
        ("one", "Apply", ""): {"f:data": {"f:a": {}}},
        ("two", "Apply", ""): {"f:data": {"f:b": {}}},
    }
    assert (await applied(api, path, configmap("one")))["data"] == {"b": "2"}
    status = (await apply(api, path, configmap("one", {"b": "3"}))).refused(409, "Conflict")
    assert status["details"]["causes"][0]["field"] == ".data.b"
    unknown = await apply(api, path, {**configmap("one"), "unknown": 1})
    assert (unknown.code, "field not declared in schema" in unknown.body["message"]) == (500, True)


def deployment(name: str, **spec: Any) -> Body:
    container = {"name": "c", "image": "x", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": whole}


async def test_a_deployment_by_post_and_by_apply(api: Api, space: Space) -> None:
    path = space.grouped("apps/v1", "deployments")
    made = await api.create(path, deployment("one"), fieldManager="maker")
    spec = entries(made)["maker", "Update", ""]["f:spec"]
    assert set(spec) == {
        *("f:progressDeadlineSeconds", "f:replicas", "f:revisionHistoryLimit"),
        *("f:selector", "f:strategy", "f:template"),
    }
    assert spec["f:strategy"] == {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}}
    container = spec["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container["f:env"] == {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}
    port: Body = {".": {}, "f:containerPort": {}, "f:protocol": {}}
    assert container["f:ports"] == {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': port}
    other = await applied(api, f"{path}/two", deployment("two", replicas=0))
    own = entries(other)["one", "Apply", ""]["f:spec"]
    assert set(own) == {"f:replicas", "f:selector", "f:template"}
    assert set(own["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]) == {
        'k:{"containerPort":80,"protocol":"TCP"}'
    }


async def test_scaling_takes_the_replicas(api: Api, space: Space) -> None:
    path = space.grouped("apps/v1", "deployments", "one")
    await applied(api, path, deployment("one", replicas=0))
    await api.merge(f"{path}/scale", {"spec": {"replicas": 2}}, fieldManager="scaler")
    found = entries(await api.get(path))
    assert found["scaler", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in found["one", "Apply", ""]["f:spec"]
    status = (await apply(api, path, deployment("one", replicas=0))).refused(409, "Conflict")
    assert 'conflict with "scaler" with subresource "scale" using apps/v1' in status["message"]


async def test_built_in_objects_as_they_are_made(api: Api, space: Space) -> None:
    """Fields that the server fills in itself belong to nobody, defaults to the writer."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}]}}
    made = await api.create(space.core("services"), service, fieldManager="maker")
    assert set(entries(made)["maker", "Update", ""]["f:spec"]) == {
        *("f:internalTrafficPolicy", "f:ports", "f:sessionAffinity", "f:type"),
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    made = await api.create(space.core("pods"), pod, fieldManager="maker")
    owned = entries(made)["maker", "Update", ""]["f:spec"]
    assert "." not in owned
    assert "." not in owned["f:containers"]
    assert owned["f:containers"]['k:{"name":"c"}']["f:resources"] == {}
    change = {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Running"}}
    found = await api.merge(space.core("pods", "one", "status"), change, fieldManager="kubelet")
    assert entries(found)["kubelet", "Update", "status"] == {
        "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
        "f:status": {"f:phase": {}},
    }
    found = await api.get(f"/api/v1/namespaces/{space.name}")
    assert entries(found)["Python", "Update", ""] == {
        "f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}
    }
    found = await api.get(f"{DEFINITIONS}/widgets.{space.group}")
    assert "f:acceptedNames" in entries(found)["kube-apiserver", "Update", "status"]["f:status"]
