"""What JSON cannot represent is taken out of a patch, and nothing besides."""

import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.wire.request import encode
from ctl.handlers.causes.patch import Patch, make_plain


class Text(str):  # noqa: SLOT000 - as it is found
    """As libraries for templates and YAML have them."""


class Number(int):
    """The same for numbers."""


class Fraction(float):
    """And these."""


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Opaque:
    """Nothing for JSON."""


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (dt.datetime(2030, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2030-01-02T03:04:05Z"),
        (dt.date(2030, 1, 2), "2030-01-02"),
        ({7}, [7]),
        ((1, (2, 3)), [1, [2, 3]]),
        (Text("text"), "text"),
        (Number(3), 3),
        (Fraction(0.5), 0.5),
        (Colour.RED, "red"),
        (Point(1, 2), {"x": 1, "y": 2}),
        (decimal.Decimal("1.5"), "1.5"),
        ({Number(1): {2: Text("x")}}, {"1": {"2": "x"}}),
        ([{"a": {Text("b"): None}}], [{"a": {"b": None}}]),
        (b"abc", "YWJj"),
        (10**30, 10**30),
    ],
    ids=str,
)
def test_what_has_a_form_takes_it(value: Any, plain: Any) -> None:
    patch = Patch({"status": {"value": value, "more": 1}})
    assert make_plain(patch) == []
    assert patch == {"status": {"value": plain, "more": 1}}
    assert json.loads(encode(patch)) == patch
    assert not any(
        isinstance(found, (Text, Number, Fraction)) for found in (*patch["status"].values(), *patch["status"])
    )


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        (Opaque(), "status.value", "a Opaque"),
        ({"a": {"b": Opaque()}}, "status.value.a.b", "a Opaque"),
        ([1, {"b": [2, Opaque()]}], "status.value.1.b.1", "a Opaque"),
        (math.nan, "status.value", "nan"),
        ([math.inf], "status.value.0", "inf"),
        ("\ud800", "status.value", "text that is not valid Unicode ('\\ud800')"),
        ({(1, 2): 3}, "status.value.(1, 2)", "the key (1, 2) (tuple)"),
        ({None: 3}, "status.value.None", "the key None (NoneType)"),
        ({Opaque}, "status.value", "a set"),
        (1j, "status.value", "a complex"),
    ],
    ids=["object", "deep", "in a list", "nan", "inf", "surrogate", "tuple", "none", "set of classes", "complex"],
)
def test_what_has_none_is_told_and_taken_out(value: Any, path: str, found: str) -> None:
    patch = Patch({"status": {"value": value, "more": 1}, "spec": {}}, fns=[lambda _: None])
    told = make_plain(patch)
    assert [(one.path, one.found) for one in told] == [(path, found)]
    assert path in str(told[0])
    assert patch["status"].pop("more") == 1
    assert json.loads(encode(patch)) == patch
    assert len(patch.fns) == 1
    assert "spec" in patch


def test_what_stands_beside_is_kept() -> None:
    patch = Patch({"status": {"a": {"bad": Opaque(), "good": 1}, "b": [1, Opaque()]}, "spec": Opaque()})
    assert [one.path for one in make_plain(patch)] == ["status.a.bad", "status.b.1", "spec"]
    assert patch == {"status": {"a": {"good": 1}}}


def test_what_contains_itself_has_no_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    ring: dict[str, Any] = {}
    ring["again"] = ring
    patch = Patch({"status": {"loop": loop, "ring": [ring], "more": 1}})
    assert len(make_plain(patch)) == 2
    assert patch == {"status": {"more": 1}}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values))
def test_what_is_json_stays_as_it_is(content: dict[str, Any]) -> None:
    patch = Patch(content)
    assert make_plain(patch) == []
    assert patch == content
