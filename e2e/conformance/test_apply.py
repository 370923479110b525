"""Server-side apply and the managed fields that every write keeps."""

import asyncio

import yaml
from conformance.api import APPLY, JSON, MERGE, Api, Body
from conformance.managed import applied, apply, entries
from conformance.spaces import Space


async def test_each_write_names_its_manager(api: Api, space: Space) -> None:
    one = space.widget("one", spec={"a": 1, "l": [1], "e": {}, "n": None, "m": {"x": 1}}, labels={"l": "1"})
    made = await api.create(space.widgets(), one, fieldManager="maker")
    (entry,) = made["metadata"]["managedFields"]
    assert set(entry) == {"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"}
    assert (entry["apiVersion"], entry["fieldsType"]) == (f"{space.group}/v1", "FieldsV1")
    spec: Body = {".": {}, "f:a": {}, "f:l": {}, "f:e": {}, "f:n": {}, "f:m": {".": {}, "f:x": {}}}
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
    empty: list[list[Body]] = [[], [{}]]
    for fields in empty:
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
