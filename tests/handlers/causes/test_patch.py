import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.patches import json_patch, merge_patch
from ctl.handlers.causes.patch import Patch, compose, lay_over
from ctl.handlers.causes.views import Body

KEYS = st.sampled_from(["a", "b", "c/~d"])
SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
STANZAS = st.dictionaries(
    st.sampled_from(["spec", "status", "metadata", "data"]), st.dictionaries(KEYS, VALUES, max_size=3)
)


def test_stanzas_come_into_being_when_something_is_set() -> None:
    patch = Patch()
    assert (dict(patch.status), dict(patch.meta.labels), list(patch.spec)) == ({}, {}, [])
    assert patch == {}
    patch.status["x"] = 1
    patch.metadata.labels["l"] = "1"
    patch.meta.annotations["a"] = None
    patch.spec.setdefault("deep", {})["y"] = 2
    assert patch == {
        "status": {"x": 1},
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": None}},
        "spec": {"deep": {"y": 2}},
    }
    assert (patch.status["x"], patch.status.get("z"), len(patch.status)) == (1, None, 1)
    assert patch.status == {"x": 1}


def test_each_view_is_one_object() -> None:
    patch = Patch()
    assert patch.meta is patch.metadata
    assert patch.spec is patch.spec
    kept = patch.metadata
    assert kept is patch.meta is patch.metadata
    assert patch.status is patch.status
    assert patch.meta.labels is patch.metadata.labels
    assert patch.meta.annotations is patch.metadata.annotations
    assert patch == {}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda patch: pickle.loads(pickle.dumps(patch))])
def test_views_of_a_copy_are_its_own(copied: Any) -> None:
    patch = Patch({"spec": {"a": 1}})
    assert patch.spec["a"] == 1
    assert not patch.status
    other = copied(patch)
    other.status["x"] = 1
    assert "status" not in patch
    assert other.status is not patch.status
    assert other == {"spec": {"a": 1}, "status": {"x": 1}}


def test_keys_of_stanzas_can_be_deleted() -> None:
    patch = Patch({"status": {"x": 1, "y": 2}})
    del patch.status["x"]
    assert patch.status.pop("y") == 2
    with pytest.raises(KeyError):
        del patch.spec["x"]
    assert patch == {"status": {}}


def test_it_is_true_when_there_is_something_to_do() -> None:
    def fn(body: dict[str, Any]) -> None:
        body["x"] = 1

    assert not Patch()
    assert Patch({"x": 1})
    patch = Patch(fns=[fn])
    assert patch
    assert len(patch) == 0
    patch["x"] = 1
    patch.clear()
    assert not patch
    assert patch.fns == []


def test_it_shows_what_it_holds() -> None:
    assert repr(Patch()) == "Patch()"
    assert repr(Patch({"x": 1})) == "Patch({'x': 1})"
    assert repr(Patch(fns=[len])) == "Patch(fns=[<built-in function len>])"  # type: ignore[list-item]
    assert json.dumps(Patch({"x": 1})) == '{"x": 1}'


def test_it_is_copied_and_pickled() -> None:
    patch = Patch({"spec": {"x": [1]}}, body={"spec": {}}, fns=[])
    for made in (copy.copy(patch), copy.deepcopy(patch), pickle.loads(pickle.dumps(patch))):
        assert isinstance(made, Patch)
        assert made == patch
        assert made.as_json_patch() == [{"op": "add", "path": "/spec/x", "value": [1]}]


def test_one_made_of_another_has_its_functions_first() -> None:
    def first(body: dict[str, Any]) -> None:
        body["said"] = ["first"]

    def second(body: dict[str, Any]) -> None:
        body["said"].append("second")

    made = Patch(Patch({"spec": {"x": 1}}, fns=[first]), body={}, fns=[second])
    assert json_patch({}, made.as_json_patch()) == {"spec": {"x": 1}, "said": ["first", "second"]}


def test_one_made_of_another_leaves_that_as_it_was() -> None:
    other = Patch(fns=[lambda _: None])
    Patch(other).fns.clear()
    assert len(other.fns) == 1


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({}, []),
        ({"spec": {"x": 2}}, [{"op": "replace", "path": "/spec/x", "value": 2}]),
        ({"spec": {"x": 1}}, []),
        ({"spec": {"x": None}}, [{"op": "remove", "path": "/spec/x"}]),
        ({"spec": {"gone": None}}, []),
        ({"spec": {"y": {"z": 1}}}, [{"op": "add", "path": "/spec/y", "value": {"z": 1}}]),
        ({"status": {"a": 1}}, [{"op": "add", "path": "/status", "value": {"a": 1}}]),
        ({"metadata": {"labels": {"a/b~c": "1"}}}, [{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "1"}]),
        ({"spec": {"x": True}}, [{"op": "replace", "path": "/spec/x", "value": True}]),
        ({"spec": {"x": {"a": None, "b": 1}}}, [{"op": "replace", "path": "/spec/x", "value": {"b": 1}}]),
        ({"status": {}, "spec": {}, "metadata": {"annotations": {}}}, []),
        ({"spec": {"empty": {}}}, [{"op": "add", "path": "/spec/empty", "value": {}}]),
        ({"spec": None}, [{"op": "remove", "path": "/spec"}]),
    ],
)
def test_json_patches(patch: dict[str, Any], expected: list[Any]) -> None:
    raw = {"metadata": {"name": "n", "labels": {"l": "1"}}, "spec": {"x": 1, "list": [1, 2]}}
    assert Patch(patch, body=raw).as_json_patch() == expected
    assert Patch(patch).as_json_patch(Body(raw)) == expected
    assert Patch(patch, body={"other": 1}).as_json_patch(raw) == expected
    assert raw == {"metadata": {"name": "n", "labels": {"l": "1"}}, "spec": {"x": 1, "list": [1, 2]}}


def test_functions_are_applied_after_the_merge_in_order() -> None:
    def double(body: dict[str, Any]) -> None:
        body["spec"]["x"] *= 2

    def move(body: dict[str, Any]) -> None:
        body.setdefault("status", {})["moved"] = body["spec"].pop("list")

    raw = {"spec": {"x": 1, "list": [1, 2]}}
    ops = Patch({"spec": {"x": 10}}, body=raw, fns=[double, move]).as_json_patch()
    assert json_patch(raw, ops) == {"spec": {"x": 20}, "status": {"moved": [1, 2]}}
    assert {op["op"] for op in ops} <= {"add", "remove", "replace"}
    assert raw == {"spec": {"x": 1, "list": [1, 2]}}


def test_a_json_patch_needs_the_object() -> None:
    assert Patch().as_json_patch() == []
    with pytest.raises(ValueError, match="Cannot build a JSON-patch without the original body as a reference"):
        Patch({"x": 1}).as_json_patch()


@given(STANZAS, STANZAS)
def test_a_json_patch_does_what_the_merge_patch_does(raw: dict[str, Any], patch: dict[str, Any]) -> None:
    expected = lay_over(raw, patch)
    assert json_patch(raw, Patch(patch).as_json_patch(raw)) == expected
    if all(stanza != {} for stanza in patch.values()):
        assert expected == merge_patch(raw, patch)


@given(STANZAS, STANZAS, STANZAS)
def test_laying_over_a_patch_composed_of_two_sets_what_the_later_sets(
    raw: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    gathered, later = Patch(first), Patch(second)
    before = copy.deepcopy(second)
    compose(gathered, later)
    assert later == before
    # Merge patches do not compose when a mapping replaces something else; all that does not is exact.
    if not _replaces(first, second):
        assert lay_over(raw, gathered) == lay_over(lay_over(raw, first), second)


def _replaces(first: Any, second: Any) -> bool:
    if not isinstance(second, dict):
        return False
    if not isinstance(first, dict):
        return True
    return second == {} or any(_replaces(first[key], second[key]) for key in first.keys() & second.keys())


def test_composing_shares_nothing_and_keeps_the_functions_in_order() -> None:
    def one(body: dict[str, Any]) -> None: ...

    def two(body: dict[str, Any]) -> None: ...

    target, later = Patch({"status": {"x": {"y": 1}}}, fns=[one]), Patch({"status": {"x": {"z": [1]}}}, fns=[two])
    compose(target, later)
    later["status"]["x"]["z"].append(2)
    assert target == {"status": {"x": {"y": 1, "z": [1]}}}
    assert target.fns == [one, two]
