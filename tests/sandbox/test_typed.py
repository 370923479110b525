"""Values by their shape: what changed, what a configuration names, how it is merged."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.sandbox import typed
from ctl.sandbox.shapes import ANY, builtin_shape, of_schema

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text("ab", max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_leaves=8,
)
MAPS = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)
ITEMS = of_schema(
    {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
    }
)
KEYS = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@given(MAPS)
def test_nothing_differs_from_itself(value: dict[str, Any]) -> None:
    assert typed.compare(ANY, value, value) == (None, None)


@given(MAPS, MAPS)
def test_what_is_applied_is_there_and_the_rest_stays(live: dict[str, Any], config: dict[str, Any]) -> None:
    merged = typed.merge(ANY, live, config)
    # Applying again changes nothing.
    assert typed.merge(ANY, merged, config) == merged
    assert {key: value for key, value in merged.items() if key not in config} == {
        key: value for key, value in live.items() if key not in config
    }


@given(MAPS, MAPS)
def test_the_changes_cover_all_that_differs(old: dict[str, Any], new: dict[str, Any]) -> None:
    touched, gone = typed.compare(ANY, old, new)
    assert (touched is None and gone is None) is (repr(sorted(old.items())) == repr(sorted(new.items())) or old == new)


@given(KEYS, KEYS)
def test_items_of_a_configuration_keep_its_order(live: list[str], config: list[str]) -> None:
    merged = typed.merge(ITEMS, [{"k": key, "v": 1} for key in live], [{"k": key} for key in config])
    found = [item["k"] for item in merged]
    assert sorted(found) == sorted({*live, *config})
    assert [key for key in found if key in config] == config
    assert [key for key in found if key not in config] == [key for key in live if key not in config]


@pytest.mark.parametrize(
    ("old", "new", "touched"), [(1, 2, {}), (True, True, None), (None, {"a": 1}, {".": {}, "f:a": {}})]
)
def test_types_count(old: Any, new: Any, touched: Any) -> None:
    assert typed.compare(ANY, {"x": old}, {"x": new})[0] == (None if touched is None else {"f:x": touched})


def test_true_is_not_one() -> None:
    assert typed.compare(ANY, 1, True) == ({}, None)


def test_a_built_in_kind_has_its_zero_values() -> None:
    pod = {"spec": {"containers": [{"name": "c"}], "nodeSelector": {"a": "b"}}}
    touched, _ = typed.compare(builtin_shape("v1", "Pod"), {}, pod)
    # The list is always there; resources are a value of each container; an atomic map is one field.
    container: dict[str, Any] = {".": {}, "f:name": {}, "f:resources": {}}
    assert touched == {"f:spec": {"f:containers": {'k:{"name":"c"}': container}, "f:nodeSelector": {}}}
