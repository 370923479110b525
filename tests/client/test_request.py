"""Bodies are made of what people have in their hands."""

import datetime as dt
import enum
import types
from collections import UserDict
from typing import Any

import pytest

from ctl.client.wire.request import encode


class Text(str):  # noqa: SLOT000 - as it is found
    """As libraries for templates and YAML have them."""


class Number(int):
    """The same for numbers."""


class Fraction(float):
    """And these."""


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Text("some text"), b'"some text"'),
        ([Text("a"), Number(1), Fraction(0.5), Level.HIGH, True, None], b'["a",1,0.5,3,true,null]'),
        ({Text("key"): {Number(1): Text("x")}}, b'{"key":{"1":"x"}}'),
        (types.MappingProxyType({"a": UserDict({"b": 1})}), b'{"a":{"b":1}}'),
        (range(3), b"[0,1,2]"),
        ({dt.date(2030, 1, 2)}, b'["2030-01-02"]'),
    ],
    ids=str,
)
def test_subclasses_are_what_they_are(value: Any, expected: bytes) -> None:
    assert encode({"value": value}) == b'{"value":' + expected + b"}"


@pytest.mark.parametrize("value", [1j, {(1, 2): 3}, {None: 1}, {frozenset({1}): 1}, {True: 1}, [type]], ids=str)
def test_anything_else_is_refused_with_what_it_is(value: Any) -> None:
    with pytest.raises(TypeError, match="A body for the API must"):
        encode({"value": value})
