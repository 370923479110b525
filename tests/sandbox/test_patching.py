"""Patches as the real server applies them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.sandbox.patching import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, apply, merge
from ctl.sandbox.status import Refused
from ctl.sandbox.strategic import strategic_merge

VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def diff(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    found = {key: diff(old.get(key), value) for key, value in new.items() if key not in old or old[key] != value}
    return found | {key: None for key in old if key not in new}


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_made_of_a_difference_leads_to_the_new_object(old: Any, new: Any) -> None:
    before = json.dumps(old, sort_keys=True)
    assert merge(old, diff(old, new)) == new
    assert json.dumps(old, sort_keys=True) == before


def patched(target: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    return apply(target, json.dumps(operations).encode(), JSON_PATCH, custom=True)


def test_json_patches() -> None:
    assert patched({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}]) == {"a": [1, 2]}
    assert patched({"a/b": {"c~d": 1}}, [{"op": "remove", "path": "/a~1b/c~0d"}]) == {"a/b": {}}
    assert patched({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}]) == {"b": 1}


def test_json_patches_read_missing_members_as_the_server_does() -> None:
    assert patched({}, [{"op": "test", "path": "/a", "value": None}]) == {}
    assert patched({}, [{"op": "replace", "path": "/a", "value": 1}]) == {"a": 1}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/b", "value": 1},
        {"op": "remove", "path": "/b"},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "frobnicate", "path": "/a"},
    ],
)
def test_json_patches_that_cannot_be_applied_are_invalid(operation: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        patched({"a": 1}, [operation])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


@pytest.mark.parametrize(("kind", "custom"), [("text/plain", False), (STRATEGIC_PATCH, True)])
def test_patch_types_that_a_kind_does_not_take(kind: str, custom: bool) -> None:
    with pytest.raises(Refused) as caught:
        apply({}, b"{}", kind, custom=custom)
    assert caught.value.code == 415


def test_broken_patches_are_bad_requests() -> None:
    for kind, patch in ((MERGE_PATCH, b'{"a'), (MERGE_PATCH, b"[]"), (JSON_PATCH, b"{}")):
        with pytest.raises(Refused) as caught:
            apply({}, patch, kind, custom=True)
        assert caught.value.code == 400


def test_strategic_merge_of_containers_by_name() -> None:
    old = {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}
    patch = {"containers": [{"name": "b", "image": "z"}, {"name": "c"}]}
    assert strategic_merge(old, patch)["containers"] == [
        {"name": "a", "image": "x"},
        {"name": "b", "image": "z"},
        {"name": "c"},
    ]


def test_strategic_merge_directives() -> None:
    old = {"env": [{"name": "a", "value": "1"}, {"name": "b"}], "metadata": {"finalizers": ["x/a", "x/b"]}}
    gone = strategic_merge(old, {"env": [{"name": "a", "$patch": "delete"}]})
    assert gone["env"] == [{"name": "b"}]
    replaced = strategic_merge(old, {"env": [{"name": "z"}, {"$patch": "replace"}]})
    assert replaced["env"] == [{"name": "z"}]
    ordered = strategic_merge(
        old, {"$setElementOrder/env": [{"name": "b"}, {"name": "a"}], "env": [{"name": "b", "value": "2"}]}
    )
    assert ordered["env"] == [{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]
    fewer = strategic_merge(old, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}})
    assert fewer["metadata"]["finalizers"] == ["x/b"]
    more = strategic_merge(old, {"metadata": {"finalizers": ["x/c"]}})
    assert more["metadata"]["finalizers"] == ["x/a", "x/b", "x/c"]
    kept = strategic_merge(
        {"strategy": {"type": "a", "rolling": {}}}, {"strategy": {"$retainKeys": ["type"], "type": "b"}}
    )
    assert kept == {"strategy": {"type": "b"}}
