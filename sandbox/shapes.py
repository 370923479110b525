"""A `Shape` says how a value is merged: which fields are declared, which maps and lists are one whole.

Shapes are made of the structural schema of a CustomResourceDefinition, or of the table of built-in types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal

from .builtin_types import TYPES

Form = Literal["scalar", "map", "list", "any"]


@dataclass(slots=True, eq=False)
class Shape:
    """What is known of the values at one place.

    A `map` has declared `fields`, and an `element` for all other keys (None: there may be none). A `list` has
    the shape of its items as `element`; it is merged by `keys` (a list of maps), as a `unique` set, or it is
    `atomic`. `any` is what its value is: maps are merged, lists are atomic. `zero` is what Go holds where a
    built-in kind says nothing; `zeros` are the fields that have one. `default` is the default of a list's key.
    """

    form: Form = "scalar"
    atomic: bool = False
    fields: dict[str, "Shape"] = field(default_factory=dict)
    element: "Shape | None" = None
    keys: tuple[str, ...] = ()
    unique: bool = False
    zeros: tuple[str, ...] = ()
    zero: Any = None
    default: Any = None
    # What a scalar is, in the letters of the table of built-in types; empty where that is open.
    letter: str = ""

    def inner(self, key: str) -> "Shape":
        """The shape of a map's value."""
        return self.fields.get(key) or self.element or ANY

    @property
    def item(self) -> "Shape":
        """The shape of a list's items."""
        return self.element or ANY


ANY: Final = Shape("any")
SCALAR: Final = Shape("scalar")
_TEXTS: Final = Shape("map", element=SCALAR)


@cache
def _table() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in TYPES.split(";"):
        name, *fields = entry.split()
        found[name.rstrip("&")] = [name, *fields]
    return found


@cache
def _type(name: str) -> Shape:
    """The shape of a type of the table; a type that contains itself ends in the same shape."""
    head, *fields = _table()[name]
    shape = Shape("map", atomic=head.endswith("&"))
    # Known before its fields are looked at, since types may be recursive.
    _building[name] = shape
    for entry in fields:
        field_name, _, code = entry.partition(":")
        plain = code.rstrip("!~") if "=" not in code[1:] else code[: code.index("=", 1)].rstrip("!~")
        found = _coded(plain)
        if code.endswith(("!", "~")):
            shape.zeros = (*shape.zeros, field_name)
            zero = _ZEROS.get(plain, {}) if code.endswith("!") else None
            found = _with(found, zero=zero)
        if "=" in code[1:]:
            found = _with(found, default=code[code.index("=", 1) + 1 :])
        shape.fields[field_name] = found
    return shape


_building: Final[dict[str, Shape]] = {}
_ZEROS: Final[dict[str, Any]] = {"s": "", "i": 0, "d": 0, "t": False, "x": 0, "q": "0", "T": None, "U": None, "b": None}
_SCALARS: Final = {"string": "s", "integer": "i", "number": "d", "boolean": "t"}
_LETTERS: Final = {letter: Shape("scalar", letter=letter) for letter in "sbidtTUxq"}


def _with(shape: Shape, *, zero: Any = None, default: Any = None) -> Shape:
    """A copy that shares its fields."""
    return Shape(
        shape.form,
        shape.atomic,
        shape.fields,
        shape.element,
        shape.keys,
        shape.unique,
        shape.zeros,
        zero,
        default,
        shape.letter,
    )


def _coded(code: str) -> Shape:
    if code == "?":
        return ANY
    if code in _LETTERS:
        return _LETTERS[code]
    if code[0] in "*=":
        return Shape("list", atomic=code[0] == "*", element=_coded(code[1:]), unique=code[0] == "=")
    if code[0] in "%&":
        return Shape("map", atomic=code[0] == "&", element=_coded(code[1:]))
    if code[0] == "[":
        keys, _, item = code[1:].partition("]")
        return Shape("list", element=_coded(item), keys=tuple(keys.split(",")))
    return _building.get(code) or _type(code)


def meta_shape() -> Shape:
    """The shape of `metadata` of every kind."""
    return _coded("ObjectMeta")


@cache
def builtin_shape(group_version: str, kind: str) -> Shape:
    """The shape of a built-in kind; of one that the table does not know: anything."""
    renamed = _table().get(f"/{group_version}/{kind}")
    name = renamed[1] if renamed else kind
    if name not in _table():
        return Shape("map", fields={"metadata": meta_shape()}, element=ANY)
    found = _coded(name)
    found.fields = {"apiVersion": SCALAR, "kind": SCALAR, **found.fields}
    return found


def custom_shape(schema: Mapping[str, Any] | None) -> Shape:
    """The shape of a custom kind by its structural schema (None or an empty one: anything)."""
    shape = of_schema(schema or {"x-kubernetes-preserve-unknown-fields": True})
    if shape.form != "map":
        shape = Shape("map", element=ANY)
    shape.fields = {**shape.fields, "apiVersion": SCALAR, "kind": SCALAR, "metadata": meta_shape()}
    return shape


def of_schema(schema: Mapping[str, Any]) -> Shape:
    """The shape of one structural schema, without regard to what values it allows."""
    kind, default = schema.get("type"), schema.get("default")
    if schema.get("x-kubernetes-int-or-string"):
        return Shape("scalar", default=default)
    if kind == "array":
        merged = schema.get("x-kubernetes-list-type", "atomic")
        keys = tuple(schema.get("x-kubernetes-list-map-keys", ())) if merged == "map" else ()
        item = of_schema(schema["items"]) if isinstance(schema.get("items"), Mapping) else ANY
        return Shape(
            "list", atomic=merged == "atomic", element=item, keys=keys, unique=merged == "set", default=default
        )
    if kind == "object" or "properties" in schema:
        return _map(schema)
    if schema.get("x-kubernetes-preserve-unknown-fields") or not kind:
        return ANY
    return Shape("scalar", default=default, letter=_SCALARS.get(str(kind), ""))


def _map(schema: Mapping[str, Any]) -> Shape:
    fields = {name: of_schema(found) for name, found in (schema.get("properties") or {}).items()}
    more = schema.get("additionalProperties")
    element: Shape | None = None
    if isinstance(more, Mapping):
        element = of_schema(more)
    elif more is True or schema.get("x-kubernetes-preserve-unknown-fields"):
        element = ANY
    if schema.get("x-kubernetes-embedded-resource"):
        fields |= {"apiVersion": SCALAR, "kind": SCALAR, "metadata": fields.get("metadata", ANY)}
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    return Shape("map", atomic=atomic, fields=fields, element=element, default=schema.get("default"))
