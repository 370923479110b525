"""Merge patches and JSON patches."""

import asyncio
from typing import Any

import pytest
from conformance.api import JSON, MERGE, Api, version
from conformance.spaces import Space, configmap

OTHER_UID = "00000000-0000-0000-0000-000000000001"


# What the spec was, what the patch says of it, what it is then.
MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}),
    ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    ({"a": 1}, {"absent": None}, {"a": 1}),
    ({"a": {"x": 1, "y": 2}}, {"a": {"x": None, "z": 3}}, {"a": {"y": 2, "z": 3}}),
    ({"a": [1, 2, 3]}, {"a": [4]}, {"a": [4]}),
    ({"a": {"x": 1}}, {"a": [1]}, {"a": [1]}),
    ({"a": 1}, {"a": {"x": {"y": None, "z": 1}}}, {"a": {"x": {"z": 1}}}),
    ({}, {"a": {"x": None}}, {"a": {}}),
    ({"a": "text"}, {"a": ""}, {"a": ""}),
    ({"a": True}, {"a": False}, {"a": False}),
    ({"a": {"x": 1}}, {"a": {}}, {"a": {"x": 1}}),
    # The RFC would keep a null inside a list.
    ({"a": 1}, {"b": [{"c": None}]}, {"a": 1, "b": [{}]}),
    ({"a": 1}, {"b": [1, None]}, {"a": 1, "b": [1, None]}),
    ({"a": {"x": None}, "b": [{"c": None}]}, {"d": 1}, {"a": {"x": None}, "b": [{"c": None}], "d": 1}),
]


async def test_a_merge_patch_follows_rfc_7396(api: Api, space: Space) -> None:
    for number, (before, patch, after) in enumerate(MERGES):
        await api.create(space.widgets(), space.widget(f"w{number}", spec=before))
        patched = await api.merge(space.widgets(f"w{number}"), {"spec": patch})
        assert patched["spec"] == after, (before, patch)
        assert await api.get(space.widgets(f"w{number}")) == patched


async def test_null_deletes_whole_stanzas(api: Api, space: Space) -> None:
    await api.create(
        space.widgets(), space.widget("one", spec={"a": 1}, labels={"l": "1"}, annotations={"a": "1", "b": "2"})
    )
    patched = await api.merge(
        space.widgets("one"),
        {"spec": None, "metadata": {"labels": None, "annotations": {"a": None}}},
    )
    assert "spec" not in patched
    assert "labels" not in patched["metadata"]
    assert patched["metadata"]["annotations"] == {"b": "2"}


async def test_the_last_annotation_takes_the_stanza_with_it(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", annotations={"a": "1"}, finalizers=["ctl.test/keep"]))
    patched = await api.merge(space.widgets("one"), {"metadata": {"annotations": {"a": None}, "finalizers": []}})
    assert "annotations" not in patched["metadata"]
    assert "finalizers" not in patched["metadata"]


async def test_a_merge_patch_with_the_current_version_is_applied(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"a": 1}}
    patched = await api.merge(space.widgets("one"), patch)
    assert patched["spec"] == {"a": 1}


@pytest.mark.parametrize("subresource", [(), ("status",)])
async def test_a_merge_patch_with_an_older_version_is_a_conflict(
    api: Api, space: Space, subresource: tuple[str, ...]
) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    await api.merge(space.widgets("one"), {"spec": {"a": 1}})
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "status": {"a": 2}, "spec": {"a": 2}}
    status = (await api.call("PATCH", space.widgets("one", *subresource), patch, kind=MERGE)).refused(409, "Conflict")
    assert "the object has been modified" in status["message"]


async def test_a_merge_patch_with_its_uid_is_applied(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    patch = {"metadata": {"uid": made["metadata"]["uid"]}, "spec": {"a": 1}}
    assert (await api.merge(space.widgets("one"), patch))["spec"] == {"a": 1}


async def test_a_merge_patch_with_another_uid_is_refused(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    patch = {"metadata": {"uid": OTHER_UID}, "spec": {"a": 1}}
    status = (await api.call("PATCH", space.widgets("one"), patch, kind=MERGE)).refused(422, "Invalid")
    assert status["message"] == (
        f'Widget.{space.group} "one" is invalid: metadata.uid: Invalid value: "{OTHER_UID}": field is immutable'
    )
    # The cause comes twice, since the server validates the metadata twice.
    causes = status["details"].pop("causes")
    assert status["details"] == {"name": "one", "group": space.group, "kind": "Widget"}
    cause = {
        "reason": "FieldValueInvalid",
        "message": f'Invalid value: "{OTHER_UID}": field is immutable',
        "field": "metadata.uid",
    }
    assert [one for one in causes if one != cause] == []
    assert await api.get(space.widgets("one")) == made


async def test_a_status_patch_ignores_the_uid(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    patch = {"metadata": {"uid": OTHER_UID}, "status": {"a": 1}}
    patched = await api.merge(space.widgets("one", "status"), patch)
    assert patched["status"] == {"a": 1}
    assert patched["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_merge_patch_with_another_uid_is_refused_for_builtins(api: Api, space: Space) -> None:
    await api.create(space.core("configmaps"), configmap("one"))
    patch = {"metadata": {"uid": OTHER_UID}, "data": {"x": "1"}}
    (await api.call("PATCH", space.core("configmaps", "one"), patch, kind=MERGE)).refused(422, "Invalid")


async def test_a_merge_patch_does_not_rename(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    answer = await api.call("PATCH", space.widgets("one"), {"metadata": {"name": "two"}}, kind=MERGE)
    status = answer.refused(400, "BadRequest")
    assert status["message"] == "the name of the object (two) does not match the name on the URL (one)"


# What is done to the spec {"a": [1, 2]}, and what it is then.
OPERATIONS: list[tuple[list[Any], Any]] = [
    ([{"op": "add", "path": "/spec/b", "value": 2}], {"a": [1, 2], "b": 2}),
    ([{"op": "replace", "path": "/spec/a", "value": "x"}], {"a": "x"}),
    ([{"op": "remove", "path": "/spec/a"}], {}),
    ([{"op": "add", "path": "/spec/a/-", "value": 3}], {"a": [1, 2, 3]}),
    ([{"op": "add", "path": "/spec/a/0", "value": 0}], {"a": [0, 1, 2]}),
    ([{"op": "remove", "path": "/spec/a/0"}], {"a": [2]}),
    ([{"op": "move", "from": "/spec/a", "path": "/spec/c"}], {"c": [1, 2]}),
    ([{"op": "copy", "from": "/spec/a", "path": "/spec/c"}], {"a": [1, 2], "c": [1, 2]}),
    ([{"op": "test", "path": "/spec/a", "value": [1, 2]}, {"op": "remove", "path": "/spec/a/1"}], {"a": [1]}),
    ([{"op": "add", "path": "/spec/x~1y~0z", "value": 1}], {"a": [1, 2], "x/y~z": 1}),
]


async def test_a_json_patch_follows_rfc_6902(api: Api, space: Space) -> None:
    for number, (operations, after) in enumerate(OPERATIONS):
        await api.create(space.widgets(), space.widget(f"w{number}", spec={"a": [1, 2]}))
        answer = await api.call("PATCH", space.widgets(f"w{number}"), operations, kind=JSON)
        assert answer.code == 200, answer
        assert answer.body["spec"] == after, operations


async def test_a_json_patch_whose_test_fails_changes_nothing(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
    operations = [
        {"op": "add", "path": "/spec/b", "value": 2},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "0"},
    ]
    status = (await api.call("PATCH", space.widgets("one"), operations, kind=JSON)).refused(422, "Invalid")
    assert status["message"] == "the server rejected our request due to an error in our request"
    assert status["details"] == {}
    assert await api.get(space.widgets("one")) == made


async def test_a_json_patch_of_what_is_not_there_is_refused(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", spec={"a": []}))
    for operation in (
        {"op": "remove", "path": "/spec/absent"},
        {"op": "add", "path": "/absent/deep", "value": 1},
        {"op": "test", "path": "/spec/absent", "value": 1},
        {"op": "add", "path": "/spec/a/7", "value": 1},
    ):
        (await api.call("PATCH", space.widgets("one"), [operation], kind=JSON)).refused(422, "Invalid")


async def test_a_json_patch_replaces_what_is_not_there(api: Api, space: Space) -> None:
    # RFC 6902 asks that the target exists; the server does not.
    await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
    answer = await api.call(
        "PATCH", space.widgets("one"), [{"op": "replace", "path": "/spec/b", "value": 2}], kind=JSON
    )
    assert answer.code == 200
    assert answer.body["spec"] == {"a": 1, "b": 2}


@pytest.mark.parametrize("kind", [MERGE, JSON])
async def test_a_patch_that_is_no_json_is_refused(api: Api, space: Space, kind: str) -> None:
    await api.create(space.widgets(), space.widget("one"))
    (await api.call("PATCH", space.widgets("one"), b"{not json", kind=kind)).refused(400, "BadRequest")


async def test_a_json_patch_that_is_no_list_is_refused(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    (await api.call("PATCH", space.widgets("one"), {"spec": {}}, kind=JSON)).refused(400, "BadRequest")


async def test_a_json_patch_of_the_status_changes_the_status(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    operations = [{"op": "add", "path": "/status", "value": {"a": 1}}]
    answer = await api.call("PATCH", space.widgets("one", "status"), operations, kind=JSON)
    assert answer.code == 200
    assert answer.body["status"] == {"a": 1}


async def test_concurrent_merge_patches_of_different_fields_all_land(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    patched = await asyncio.gather(*(api.merge(space.widgets("one"), {"spec": {f"f{i}": i}}) for i in range(5)))
    assert (await api.get(space.widgets("one")))["spec"] == {f"f{i}": i for i in range(5)}
    assert len({version(one) for one in patched} | {version(made)}) == 6
