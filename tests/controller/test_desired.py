from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctl.client.objects import Object
from ctl.client.patches import is_same, merge_patch
from ctl.controller.api.desired import Remembered, changed, guarded, joins_lists, lost, missing

REF = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}
OTHER = {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2"}


def test_what_is_not_wanted_is_left_alone() -> None:
    current = {
        "metadata": {"name": "a", "labels": {"theirs": "x"}},
        "data": {"k": "1", "theirs": "y"},
        "status": {"s": 1},
    }
    assert missing(current, {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "data": {"k": "1"}}) == {}
    assert missing(current, {"data": {"k": "2"}, "metadata": {"labels": {"ours": "z"}}}) == {
        "data": {"k": "2"},
        "metadata": {"labels": {"ours": "z"}},
    }
    assert missing(current, {"data": {"k": None}}) == {"data": {"k": None}}
    assert missing(current, {"data": {"absent": None}}) == {}


def test_lists_of_several_writers_are_joined() -> None:
    current = {"metadata": {"ownerReferences": [OTHER], "finalizers": ["theirs"]}}
    patch = missing(current, {"metadata": {"ownerReferences": [REF], "finalizers": ["ours"]}})
    assert patch == {"metadata": {"ownerReferences": [OTHER, REF], "finalizers": ["theirs", "ours"]}}
    assert joins_lists(patch)
    assert missing(merge_patch(current, patch), {"metadata": {"ownerReferences": [REF], "finalizers": ["ours"]}}) == {}
    corrected = missing(
        {"metadata": {"ownerReferences": [OTHER, REF]}},
        {"metadata": {"ownerReferences": [{**REF, "controller": True}]}},
    )
    assert corrected == {"metadata": {"ownerReferences": [OTHER, {**REF, "controller": True}]}}


def test_what_the_server_decides_is_no_wish() -> None:
    body = {"metadata": {"uid": "x", "resourceVersion": "1", "generation": 1}, "spec": {}}
    assert missing(body, {"metadata": {"uid": "y", "resourceVersion": "2", "managedFields": []}}) == {}
    assert changed(body, {"metadata": {}, "spec": {"a": 1}}) == {"spec": {"a": 1}}


def test_a_patch_is_for_one_object_and_maybe_one_version() -> None:
    obj = Object(b"{}", "ns", "a", "u", "7")
    assert guarded({"spec": {}}, obj, versioned=False) == {"spec": {}, "metadata": {"uid": "u"}}
    assert guarded({"metadata": {"labels": {}}}, obj, versioned=True)["metadata"] == {
        "labels": {},
        "uid": "u",
        "resourceVersion": "7",
    }


def test_what_the_server_drops_is_found() -> None:
    patch = {"status": {"a": 1, "b": {"c": 2}, "list": [{"x": 1, "y": 2}]}, "gone": None}
    assert lost({"status": {"a": 5, "b": {}, "list": [{"x": 1}]}}, patch) == ["status.b.c", "status.list[].y"]
    assert lost(patch, patch) == []


def test_what_the_server_says_in_its_own_words_is_remembered_until_somebody_else_changes_it() -> None:
    known, wish = Remembered(), {"spec": {"cpu": "1000m"}}
    answer = {"spec": {"cpu": "1"}, "status": {}}
    assert not known.knows("place", wish, answer)
    known.note("place", wish, answer)
    assert known.knows("place", wish, {**answer, "status": {"changed": True}})
    assert not known.knows("place", {"spec": {"cpu": "2000m"}}, answer), "another wish"
    assert not known.knows("place", wish, {"spec": {"cpu": "3"}}), "somebody has changed it"
    known.note("place", {}, answer)
    assert not known.knows("place", wish, answer)


def test_only_so_many_are_remembered() -> None:
    known = Remembered(limit=2)
    for place in "abc":
        known.note(place, {"x": 1}, {})
    assert [known.knows(place, {"x": 1}, {}) for place in "abc"] == [False, True, True]


_json: Any = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_bodies: Any = st.dictionaries(st.sampled_from("abc"), _json, max_size=3)


@given(_bodies, _bodies)
def test_after_the_patch_nothing_is_missing(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    start = merge_patch({}, current)
    after = merge_patch(start, missing(start, wanted))
    assert missing(after, wanted) == {}
    assert is_same(merge_patch(after, wanted), after) or any(value == [None] or value for value in wanted.values())
