import json
from collections import UserDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.patches import PatchError, json_diff, json_patch, merge_diff, merge_patch, pointer

KEYS = st.sampled_from(["a", "b", "~", "a/b", "0", "1", ""])
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "b", ""])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
BODIES = st.dictionaries(KEYS, VALUES, max_size=4)


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def without_nulls(value: Any) -> Any:
    return {k: without_nulls(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


# The table of RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_cases_of_the_standard(original: Any, patch: Any, result: Any) -> None:
    before = text(original)
    assert merge_patch(original, patch) == result
    assert text(original) == before


@given(BODIES, BODIES)
def test_a_merge_diff_leads_from_old_to_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = merge_diff(old, new)
    assert text(without_nulls(merge_patch(old, patch))) == text(without_nulls(new))
    assert merge_diff(new, new) == {}


@given(VALUES, VALUES)
def test_a_json_diff_leads_from_old_to_new(old: Any, new: Any) -> None:
    before = text([old, new])
    operations = json_diff(old, new)
    assert text(json_patch(old, operations)) == text(new)
    assert text([old, new]) == before
    assert (operations == []) is (text(old) == text(new))


@given(BODIES, BODIES)
def test_results_share_nothing_with_the_arguments(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = text([old, new])
    for result in (
        merge_patch(old, new),
        merge_diff(old, new),
        json_diff(old, new),
        json_patch(old, json_diff(old, new)),
    ):
        spoil(result)
    assert text([old, new]) == before


def spoil(value: Any) -> None:
    if isinstance(value, (dict, list)):
        for item in list(value.values() if isinstance(value, dict) else value):
            spoil(item)
        value.clear()


def test_any_mapping_will_do() -> None:
    assert merge_patch(UserDict(a=UserDict(b=1)), UserDict(a=UserDict(c=2))) == {"a": {"b": 1, "c": 2}}
    assert json_diff(UserDict(a=(1,)), {"a": [1]}) == []


def test_truth_is_not_one() -> None:
    assert merge_diff({"a": 1}, {"a": True}) == {"a": True}
    assert json_diff([1], [True]) == [{"op": "replace", "path": "/0", "value": True}]


def test_a_removed_item_is_one_operation() -> None:
    assert json_diff({"f": ["a", "b", "c"]}, {"f": ["a", "c"]}) == [{"op": "remove", "path": "/f/1"}]


def test_pointers_are_escaped() -> None:
    assert pointer(["metadata", "annotations", "a.b/c~d", 0]) == "/metadata/annotations/a.b~1c~0d/0"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/b"},
        {"op": "replace", "path": "/b/c", "value": 2},
        {"op": "add", "path": "/l/9", "value": 2},
        {"op": "add", "path": "nonsense", "value": 2},
        {"op": "nonsense", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_what_does_not_fit_is_refused_as_a_whole(operation: dict[str, Any]) -> None:
    document = {"a": 1, "l": [1]}
    with pytest.raises(PatchError, match="does not fit"):
        json_patch(document, [{"op": "add", "path": "/x", "value": 1}, operation])
    assert document == {"a": 1, "l": [1]}
