"""Server-side apply and the managed fields that every write keeps."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from conformance.api import APPLY, JSON, MERGE, Answer, Api, Body
from conformance.spaces import DEFINITIONS, Space, configmap, custom, definition, establish

pytestmark = pytest.mark.usefixtures("target")


def entries(body: Body) -> dict[tuple[str, str, str], Any]:
    """The fields by manager, operation and subresource."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in body["metadata"].get("managedFields", [])
    }


async def apply(api: Api, path: str, body: object, manager: str = "one", **params: str | int) -> Answer:
    return await api.call("PATCH", path, body, kind=APPLY, fieldManager=manager, **params)


async def applied(api: Api, path: str, body: object, manager: str = "one", **params: str | int) -> Body:
    answer = await apply(api, path, body, manager, **params)
    assert answer.code in (200, 201), answer
    found: Body = answer.body
    return found


async def test_each_write_names_its_manager(api: Api, space: Space) -> None:
    one = space.widget("one", spec={"a": 1, "l": [1], "e": {}, "n": None, "m": {"x": 1}}, labels={"l": "1"})
    made = await api.create(space.widgets(), one, fieldManager="maker")
    (entry,) = made["metadata"]["managedFields"]
    assert set(entry) == {"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"}
    assert (entry["apiVersion"], entry["fieldsType"]) == (f"{space.group}/v1", "FieldsV1")
    spec = {".": {}, "f:a": {}, "f:l": {}, "f:e": {}, "f:n": {}, "f:m": {".": {}, "f:x": {}}}
    whole = {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:spec": spec}
    assert entries(made) == {("maker", "Update", ""): whole}
    patched = await api.merge(space.widgets("one"), {"spec": {"a": 2, "l": [1]}}, fieldManager="other")
    assert entries(patched) == {
        ("maker", "Update", ""): {
            **whole,
            "f:spec": {key: {} if key != "f:m" else spec[key] for key in spec if key != "f:a"},
        },
        ("other", "Update", ""): {"f:spec": {"f:a": {}}},
    }
    patched = await api.merge(space.widgets("one", "status"), {"status": {"s": 1}}, fieldManager="other")
    assert entries(patched)["other", "Update", "status"] == {"f:status": {".": {}, "f:s": {}}}
    patched = await api.merge(space.widgets("one"), {"spec": {"a": None}}, fieldManager="maker")
    assert ("other", "Update", "") not in entries(patched)


async def test_the_manager_is_the_user_agent_when_none_is_given(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
    # aiohttp's is "Python/3.x aiohttp/3.y".
    assert list(entries(made)) == [("Python", "Update", "")]


async def test_a_write_that_changes_nothing_changes_no_times(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"a": 1}), fieldManager="maker")
    await asyncio.sleep(1.1)
    assert await api.merge(space.widgets("one"), {"spec": {"a": 1}}, fieldManager="other") == made
    assert await api.replace(space.widgets("one"), made, fieldManager="other") == made


async def test_apply_creates_and_repeats_without_a_new_version(api: Api, space: Space) -> None:
    one = space.widget("one", spec={"a": {"b": 1}}, labels={"l": "1"}, finalizers=["ctl.test/x"], status={"s": 1})
    answer = await apply(api, space.widgets("one"), one)
    assert answer.code == 201
    assert "status" not in answer.body
    assert entries(answer.body) == {
        ("one", "Apply", ""): {
            "f:metadata": {"f:finalizers": {'v:"ctl.test/x"': {}}, "f:labels": {"f:l": {}}},
            "f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}},
        }
    }
    await asyncio.sleep(1.1)
    again = await apply(api, space.widgets("one"), one)
    assert (again.code, again.body) == (200, answer.body)
    await api.merge(space.widgets("one"), {"metadata": {"finalizers": None}})


async def test_a_body_in_yaml(api: Api, space: Space) -> None:
    text = yaml.safe_dump(space.widget("one", spec={"a": [1, "x"]})).encode()
    assert (await applied(api, space.widgets("one"), text))["spec"] == {"a": [1, "x"]}
    answer = await apply(api, space.widgets("one"), b"a: [")
    assert answer.refused(400, "BadRequest")["message"].startswith("error encoding patch: yaml: ")
    answer = await apply(api, space.widgets("one"), b"[]")
    assert "cannot unmarshal array into Go value" in answer.refused(400, "BadRequest")["message"]


async def test_fields_that_are_no_longer_applied_go(api: Api, space: Space) -> None:
    await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1, "b": {"c": 1}}, labels={"x": "y"}))
    found = await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1}))
    assert found["spec"] == {"a": 1}
    assert "labels" not in found["metadata"]
    found = await applied(api, space.widgets("one"), space.widget("one"))
    assert "spec" not in found
    assert "managedFields" not in found["metadata"]


async def test_what_others_own_stays(api: Api, space: Space) -> None:
    await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1, "b": 1}))
    both = await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1}), "two")
    assert set(entries(both)) == {("one", "Apply", ""), ("two", "Apply", "")}
    found = await applied(api, space.widgets("one"), space.widget("one", spec={}))
    assert found["spec"] == {"a": 1}
    assert entries(found) == {
        ("one", "Apply", ""): {"f:spec": {}},
        ("two", "Apply", ""): {"f:spec": {".": {}, "f:a": {}}},
    }


async def test_a_conflict_names_the_managers_and_fields(api: Api, space: Space) -> None:
    path = space.widgets("one")
    await api.create(space.widgets(), space.widget("one", spec={"m": {"x": 1}}), fieldManager="maker")
    await applied(api, path, space.widget("one", spec={"a": 1}))
    status = (await apply(api, path, space.widget("one", spec={"a": 2}), "two")).refused(409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.a"}
    assert status["details"] == {"causes": [cause]}
    answer = await apply(api, path, space.widget("one", spec={"a": 2, "m": {"x": 2}}), "two")
    status = answer.refused(409, "Conflict")
    named = f'"maker" using {space.group}/v1'
    assert status["message"] == (
        f'Apply failed with 2 conflicts: conflicts with {named}:\n- .spec.m.x\nconflicts with "one":\n- .spec.a'
    )
    assert sorted(cause["field"] for cause in status["details"]["causes"]) == [".spec.a", ".spec.m.x"]


async def test_force_takes_the_fields(api: Api, space: Space) -> None:
    path = space.widgets("one")
    await applied(api, path, space.widget("one", spec={"a": 1, "b": 1}))
    found = await applied(api, path, space.widget("one", spec={"a": 2}), "two", force="true")
    assert found["spec"] == {"a": 2, "b": 1}
    assert entries(found)["one", "Apply", ""] == {"f:spec": {".": {}, "f:b": {}}}
    # The first one wants it back.
    assert (await apply(api, path, space.widget("one", spec={"a": 1, "b": 1}))).code == 409


async def test_a_plain_write_takes_fields_without_asking(api: Api, space: Space) -> None:
    await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1}))
    found = await api.merge(space.widgets("one"), {"spec": {"a": 2}}, fieldManager="two")
    assert entries(found) == {("one", "Apply", ""): {"f:spec": {}}, ("two", "Update", ""): {"f:spec": {"f:a": {}}}}
    assert (await apply(api, space.widgets("one"), space.widget("one", spec={"a": 1}))).code == 409


async def test_what_apply_asks_for(api: Api, space: Space) -> None:
    path, one = space.widgets("one"), space.widget("one")
    status = (await api.call("PATCH", path, one, kind=APPLY)).refused(422, "Invalid")
    assert (
        status["message"]
        == 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )
    await applied(api, path, one)
    for fields in ([], [{}]):
        bad = {**one, "metadata": {"name": "one", "managedFields": fields}}
        assert (await apply(api, path, bad)).refused(400, "BadRequest")[
            "message"
        ] == "metadata.managedFields must be nil"
    status = (await apply(api, path, space.widget("two"))).refused(400, "BadRequest")
    assert status["message"] == "the name of the object (two) does not match the name on the URL (one)"
    status = (await apply(api, path, {**one, "kind": "Wodget"})).refused(400, "BadRequest")
    assert status["message"] == f"invalid object type: {space.group}/v1, Kind=Wodget"
    status = (await apply(api, path, one, "a" * 129)).refused(422, "Invalid")
    assert "fieldManager: Too long: may not be more than 128 bytes" in status["message"]
    status = (await api.call("PATCH", path, {}, kind=MERGE, fieldManager="a\n")).refused(422, "Invalid")
    assert "invalid character U+000A (at position 1)" in status["message"]
    status = (await api.call("PATCH", path, {}, kind=MERGE, force="true")).refused(422, "Invalid")
    assert "force: Forbidden: may not be specified for non-apply patch" in status["message"]


async def test_preconditions_of_apply(api: Api, space: Space) -> None:
    path = space.widgets("one")
    made = await applied(api, path, space.widget("one", spec={"a": 1}))
    meta = {"name": "one", "resourceVersion": made["metadata"]["resourceVersion"], "uid": made["metadata"]["uid"]}
    changed = await applied(api, path, {**space.widget("one", spec={"a": 2}), "metadata": meta})
    assert changed["spec"] == {"a": 2}
    (await apply(api, path, {**space.widget("one", spec={"a": 3}), "metadata": meta})).refused(409, "Conflict")
    other = {"name": "two", "uid": "abc"}
    status = (await apply(api, space.widgets("two"), {**space.widget("two"), "metadata": other})).refused(
        409, "Conflict"
    )
    assert "uid mismatch: the provided object specified uid abc, and no existing object was found" in status["message"]


async def test_a_dry_run_of_apply(api: Api, space: Space) -> None:
    answer = await apply(api, space.widgets("one"), space.widget("one", spec={"a": 1}), dryRun="All")
    assert (answer.code, answer.body["spec"]) == (201, {"a": 1})
    assert (await api.call("GET", space.widgets("one"))).code == 404
    made = await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1}))
    shown = await applied(api, space.widgets("one"), space.widget("one", spec={"a": 2}), dryRun="All")
    assert shown["spec"] == {"a": 2}
    assert await api.get(space.widgets("one")) == made


async def test_apply_of_the_status(api: Api, space: Space) -> None:
    (await apply(api, space.widgets("one", "status"), space.widget("one", status={"s": 1}))).refused(404, "NotFound")
    await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1}))
    wanted = space.widget("one", spec={"a": 2}, status={"s": 1}, labels={"l": "1"})
    found = await applied(api, space.widgets("one", "status"), wanted)
    assert (found["spec"], found["status"]) == ({"a": 1}, {"s": 1})
    assert "labels" not in found["metadata"]
    assert entries(found) == {
        ("one", "Apply", ""): {"f:spec": {".": {}, "f:a": {}}},
        ("one", "Apply", "status"): {"f:status": {".": {}, "f:s": {}}},
    }
    found = await applied(api, space.widgets("one", "status"), space.widget("one", status={}))
    # What a map loses with its last field is a null, on the real server too.
    assert found["status"] is None


async def test_a_reset_of_managed_fields(api: Api, space: Space) -> None:
    path = space.widgets("one")
    made = await applied(api, path, space.widget("one", spec={"a": 1}, labels={"l": "1"}))
    kept = await api.merge(path, {"metadata": {"managedFields": []}})
    assert kept == made
    bare = await api.merge(path, {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in bare["metadata"]
    assert "managedFields" not in (await api.merge(path, {"spec": {"b": 1}}))["metadata"]
    found = await applied(api, path, space.widget("one", spec={"c": 1}))
    assert entries(found) == {
        ("one", "Apply", ""): {"f:spec": {".": {}, "f:c": {}}},
        ("before-first-apply", "Update", ""): {
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
            "f:spec": {".": {}, "f:a": {}, "f:b": {}},
        },
    }


async def test_managed_fields_can_be_written(api: Api, space: Space) -> None:
    made = await applied(api, space.widgets("one"), space.widget("one", spec={"a": 1}))
    (entry,) = made["metadata"]["managedFields"]
    operations = [{"op": "replace", "path": "/metadata/managedFields", "value": [{**entry, "manager": "two"}]}]
    found = (await api.call("PATCH", space.widgets("one"), operations, kind=JSON)).body
    assert list(entries(found)) == [("two", "Apply", "")]


async def test_only_the_last_ten_updaters_are_told_apart(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", spec={"a0": 1}), fieldManager="m00")
    for number in range(1, 13):
        found = await api.merge(space.widgets("one"), {"spec": {f"a{number}": 1}}, fieldManager=f"m{number:02}")
    names = [manager for manager, _, _ in entries(found)]
    assert len(names) == 10
    assert "ancient-changes" in names
    assert {"m12", "m11", "m10"} <= set(names)


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
    port = {".": {}, "f:containerPort": {}, "f:protocol": {}}
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
