import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.selectors import FieldRequirement, FieldSelector, LabelSelector, SelectorError, join


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("! a", {}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b,c)", {}, False),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c),x=y", {"a": "d", "x": "y"}, True),
        ("example.com/a.b-c_d=1", {"example.com/a.b-c_d": "1"}, True),
        ("n>5", {"n": "6"}, True),
        ("n<5", {"n": "x"}, False),
        ("n<5", {}, False),
        ("in=x", {"in": "x"}, True),
    ],
)
def test_labels(text: str, labels: dict[str, str], expected: bool) -> None:
    selector = LabelSelector.parse(text)
    assert selector.matches(labels) is expected
    assert LabelSelector.parse(str(selector)) == selector


def test_no_labels_at_all() -> None:
    assert LabelSelector.parse("!a").matches(None)


@pytest.mark.parametrize("text", ["a=b=c", "a in b", "a in (b", "=b", "a=b,,c", "a b", "a in (b/c)", "-a", "a>x"])
def test_broken_label_selectors_are_named(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    assert repr(text) in str(caught.value)


def test_selectors_of_objects() -> None:
    spec: dict[str, Any] = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "Exists"},
            {"key": "g", "operator": "DoesNotExist"},
            {"key": "h", "operator": "NotIn", "values": ["i"]},
        ],
    }
    assert str(LabelSelector.from_spec(spec)) == "a=b,c in (d,e),f,!g,h!=i"
    assert LabelSelector.from_spec({}).matches({"any": "thing"})


@pytest.mark.parametrize(
    "item",
    [
        {"key": "a", "operator": "Is"},
        {"operator": "In"},
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        1,
    ],
)
def test_broken_expressions_are_named(item: Any) -> None:
    with pytest.raises(SelectorError, match="label expression"):
        LabelSelector.from_spec({"matchExpressions": [item]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metadata.name=x", True),
        ("metadata.name==y", False),
        ("metadata.name!=y,status.phase=Running", True),
        ("spec.nodeName=", True),
        ("spec.unschedulable=false", True),
        ("spec.weird=a\\,b\\=c\\\\", True),
    ],
)
def test_fields(text: str, expected: bool) -> None:
    body = {
        "metadata": {"name": "x"},
        "status": {"phase": "Running"},
        "spec": {"unschedulable": False, "weird": "a,b=c\\"},
    }
    selector = FieldSelector.parse(text)
    assert selector.matches(body) is expected
    assert FieldSelector.parse(str(selector)) == selector


@pytest.mark.parametrize("text", ["a", "=b", "a=b=c", "a=b\\x"])
def test_broken_field_selectors_are_named(text: str) -> None:
    with pytest.raises(SelectorError, match="field selector"):
        FieldSelector.parse(text)


@given(st.text(string.printable))
def test_any_value_survives_rendering(value: str) -> None:
    selector = FieldSelector((FieldRequirement("a.b", value),))
    assert FieldSelector.parse(str(selector)) == selector


def test_joining() -> None:
    both = join([LabelSelector.parse("a"), LabelSelector.parse("b=c")])
    assert str(both) == "a,b=c"
