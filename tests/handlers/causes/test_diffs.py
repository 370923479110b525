import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.patches import merge_patch
from ctl.handlers.causes.diffs import Diff, DiffItem, DiffOperation, diff, reduce, unfulfilled
from ctl.handlers.causes.fields import ensure, parse_field, remove, resolve

KEYS = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3))
BODIES = st.dictionaries(KEYS, VALUES, max_size=3)


def test_added_removed_changed() -> None:
    found = diff({"a": 1, "b": 1}, {"c": 2, "b": 2})
    assert found == (("add", ("c",), None, 2), ("remove", ("a",), 1, None), ("change", ("b",), 1, 2))
    assert found == list(found)
    assert found != ()
    assert found[0].op is DiffOperation.ADD
    assert found[1:] == tuple(found)[1:]


def test_it_reads_as_plain_data() -> None:
    found = diff({"a": 1}, {"a": 2})
    assert repr(found) == str(found) == "(('change', ('a',), 1, 2),)"
    assert hash(found) == hash(Diff([("change", ("a",), 1, 2)]))
    assert pickle.loads(pickle.dumps(found)) == found
    assert str(DiffOperation.ADD) == "add"
    with pytest.raises(TypeError):
        found[0] = None  # type: ignore[index]


def test_items_are_compared_with_lists_as_with_tuples() -> None:
    found = diff({"a": 1}, {"a": 2})
    for same in (["change", ("a",), 1, 2], ("change", ("a",), 1, 2), found[0]):
        assert found[0] == same
        assert same == found[0]
        assert (found[0] != same) is False
        assert found == [same]
    for other in (["change", ("b",), 1, 2], ("change", ("a",), 1), "change", None):
        assert found[0] != other
        assert (found[0] == other) is False
    assert ["change", ("a",), 1, 2] in found
    assert {found[0]} == {("change", ("a",), 1, 2)}


def test_none_is_absence() -> None:
    assert not diff({}, {"a": None})
    assert not diff({"a": {"b": None}}, {"a": {}})
    assert diff(None, {}) == (("add", (), None, {}),)
    assert diff({"a": {}}, {}) == (("remove", ("a",), {}, None),)


def test_lists_and_mixed_values_are_compared_as_a_whole() -> None:
    assert diff({"a": [1, {"b": 1}]}, {"a": [1, {"b": 2}]}) == (("change", ("a",), [1, {"b": 1}], [1, {"b": 2}]),)
    assert diff({"a": {"b": 1}}, {"a": 5}) == (("change", ("a",), {"b": 1}, 5),)


def test_reducing_looks_above_and_below_the_field() -> None:
    found = diff({"a": {"b": 1, "c": {"d": 1}}, "x": 1}, {"a": {"b": 2, "c": {"d": 2}}, "x": 2})
    assert reduce(found, ()) is found
    assert set(reduce(found, ("a",))) == {("change", ("b",), 1, 2), ("change", ("c", "d"), 1, 2)}
    assert reduce(found, ("a", "c", "d")) == (("change", (), 1, 2),)
    assert reduce(diff({}, {"a": {"b": 1}}), ("a", "b")) == (("add", (), None, 1),)
    assert not reduce(found, ("a", "c", "d", "e"))


@given(BODIES)
def test_nothing_differs_from_itself(body: dict[str, Any]) -> None:
    assert not diff(body, body)
    assert not diff(body, {**body, "absent": None})


@given(BODIES, BODIES)
def test_there_and_back_mirror_each_other(one: dict[str, Any], two: dict[str, Any]) -> None:
    mirror = {DiffOperation.ADD: DiffOperation.REMOVE, DiffOperation.REMOVE: DiffOperation.ADD}
    back = [DiffItem(mirror.get(item.op, item.op), item.field, item.new, item.old) for item in diff(two, one)]
    assert sorted(map(repr, diff(one, two))) == sorted(map(repr, back))


@given(BODIES, BODIES, st.lists(KEYS, max_size=3))
def test_a_reduced_diff_is_the_diff_of_the_field(one: dict[str, Any], two: dict[str, Any], keys: list[str]) -> None:
    path = tuple(keys)
    expected = diff(resolve(one, path), resolve(two, path))
    assert sorted(map(repr, reduce(diff(one, two), path))) == sorted(map(repr, expected))


@pytest.mark.parametrize(
    ("spec", "path"),
    [(None, ()), ("a", ("a",)), ("a.b", ("a", "b")), (["a.b", "c"], ("a.b", "c")), (("a",), ("a",)), ([], ())],
)
def test_fields_as_users_write_them(spec: Any, path: tuple[str, ...]) -> None:
    assert parse_field(spec) == path


@pytest.mark.parametrize("spec", [5, {"a"}, [1], b"a"])
def test_fields_that_are_none(spec: Any) -> None:
    with pytest.raises(ValueError, match="Write it as"):
        parse_field(spec)


def test_setting_and_removing_at_a_path() -> None:
    target: dict[str, Any] = {"a": {"b": 1}, "s": 1}
    ensure(target, ("a", "c", "d"), 2)
    ensure(target, ("s", "t"), 3)
    assert target == {"a": {"b": 1, "c": {"d": 2}}, "s": {"t": 3}}
    remove(target, ("a", "c", "d"))
    remove(target, ("s", "t", "deeper"))
    remove(target, ("s", "t"))
    remove(target, ("x", "y"))
    remove(target, ())
    assert target == {"a": {"b": 1}}
    with pytest.raises(ValueError, match="empty path"):
        ensure(target, (), 1)


class TestUnfulfilled:
    def test_what_is_there_as_asked_for_is_nothing(self) -> None:
        patch = {"status": {"a": 1, "b": {"c": [1, None]}, "gone": None}, "spec": {}, "empty": {"x": None}}
        assert not unfulfilled(patch, {"status": {"a": 1, "b": {"c": [1, None], "more": 2}, "else": 3}})

    def test_what_was_pruned_changed_or_kept(self) -> None:
        patch = {"status": {"pruned": {"deep": 1}, "changed": "1000m", "kept": None}}
        assert unfulfilled(patch, {"status": {"changed": "1", "kept": "x"}}) == (
            ("remove", ("status", "pruned"), {"deep": 1}, None),
            ("change", ("status", "changed"), "1000m", "1"),
            ("add", ("status", "kept"), None, "x"),
        )

    def test_a_mapping_that_is_missing_is_told_as_a_whole_unless_it_says_what_is_to_be_absent(self) -> None:
        missing, absent = {"a": {"b": {"c": 1}, "d": None}}, {"a": {"b": {"c": None}, "d": None}}
        assert unfulfilled({"status": missing}, {}) == (("remove", ("status",), missing, None),)
        assert not unfulfilled({"status": absent}, {})

    @given(st.dictionaries(st.text(max_size=2), st.integers() | st.none() | st.dictionaries(st.text(max_size=2), st.none() | st.integers())), st.dictionaries(st.text(max_size=2), st.integers() | st.dictionaries(st.text(max_size=2), st.integers())))  # fmt: skip
    def test_a_server_that_takes_everything_leaves_nothing(self, patch: Any, body: Any) -> None:
        assert not unfulfilled(patch, merge_patch(body, patch))
