"""Values are compared, merged and cut by their shape: what changed, which fields a configuration names."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .fieldsets import LEAF, SELF, Tree, is_member, node, shown
from .shapes import ANY, SCALAR, Shape

Parts = dict[str, tuple[Shape, Any]]
Changes = tuple[Tree | None, Tree | None]
_SAME: Final[Changes] = (None, None)
# Times that are not set are written as null: the same as if they were missing.
_TIMES: Final = ("T", "U")
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {"s": str, "i": (int, float), "d": (int, float), "t": bool}
_EXPECTED: Final = {"s": "string", "i": "numeric (int or float)", "d": "numeric (int or float)", "t": "boolean"}
_GO: Final[dict[type, str]] = {
    str: "string",
    int: "int64",
    bool: "bool",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


class Undeclared(Exception):
    """A configuration does not fit its shape; the message has the path and the finding, as the server words it."""


def element(shape: Shape, item: Any) -> str:
    """The path element of an item of a list that is merged. Raises `Undeclared` for an item without its key."""
    if not shape.keys:
        return "v:" + msgspec.json.encode(item).decode()
    if not isinstance(item, Mapping):
        raise Undeclared("associative list with keys may not have non-map elements")
    found = {}
    for key in shape.keys:
        value = item.get(key)
        if value is None:
            value = shape.item.inner(key).default
        if value is not None:
            found[key] = value
    if not found:
        names = " ".join(f'"{key}"' for key in shape.keys)
        words = "associative list with keys has an element that omits all key fields"
        raise Undeclared(f"{words} [{names}] (and doesn't have default values for any key fields)")
    return "k:" + msgspec.json.encode(found, order="sorted").decode()


def parts(shape: Shape, value: Any) -> Parts | None:
    """What a value consists of by path element; None where it is one whole (a scalar, atomic or empty)."""
    if isinstance(value, dict):
        if shape.form == "any":
            return {f"f:{key}": (ANY, inner) for key, inner in value.items()} or None
        if shape.form != "map" or shape.atomic:
            return None
        found = {f"f:{key}": (shape.inner(key), inner) for key, inner in value.items()}
        for key in shape.zeros:
            if key not in value:
                found[f"f:{key}"] = (shape.fields[key], shape.fields[key].zero)
        return found or None
    if isinstance(value, list) and value and shape.form == "list" and not shape.atomic:
        return _items(shape, value)
    return None


def _items(shape: Shape, value: list[Any]) -> Parts:
    found: Parts = {}
    for item in value:
        key = element(shape, item)
        # Items that occur twice cannot be told apart: they are compared as one whole.
        found[key] = (SCALAR, (found[key][1], item)) if key in found else (shape.item, item)
    return found


def tree_of(shape: Shape, value: Any) -> Tree:
    """The members that appear with a value: itself and all inside."""
    if not isinstance(value, dict | list):
        return LEAF
    inner = parts(shape, value)
    if inner is None:
        return LEAF
    return {SELF: LEAF, **{key: tree_of(*part) for key, part in inner.items()}}


def compare(shape: Shape, old: Any, new: Any) -> Changes:
    """What is new or changed from one value to another, and what is gone."""
    if old is new or (old == new and not _blurred(old, new)):
        return _SAME
    if isinstance(old, dict) and isinstance(new, dict):
        if shape.form == "any" or (shape.form == "map" and not shape.atomic):
            return _compare_maps(shape, old, new)
        return (LEAF, None)
    before, after = parts(shape, old), parts(shape, new)
    if before is None and after is None:
        return (LEAF, None)
    # An empty or missing whole of the same type has no parts that could change: it does not count itself.
    typed = shape.form != "any"
    whole = (before is None and not _hollow(old, new, typed=typed)) or (
        after is None and not _hollow(new, old, typed=typed)
    )
    return _compare_parts(before or {}, after or {}, whole=whole)


def _blurred(old: Any, new: Any) -> bool:
    """Whether equal values may differ, since Python takes True for 1."""
    return isinstance(old, bool) is not isinstance(new, bool)


def _hollow(value: Any, other: Any, *, typed: bool) -> bool:
    if value is None:
        return typed
    return not value and type(value) is type(other)


def _compare_maps(shape: Shape, old: dict[str, Any], new: dict[str, Any]) -> Changes:
    touched: Tree = {}
    gone: Tree = {}
    for key, value in new.items():
        if key in old:
            before = old[key]
        elif key in shape.zeros:
            before = shape.fields[key].zero
        elif value is None and shape.inner(key).letter in _TIMES:
            continue
        else:
            touched[f"f:{key}"] = tree_of(shape.inner(key), value)
            continue
        if before == value and not _blurred(before, value):
            continue
        added, removed = compare(shape.inner(key), before, value)
        if added is not None:
            touched[f"f:{key}"] = added
        if removed is not None:
            gone[f"f:{key}"] = removed
    for key, value in old.items():
        if key not in new:
            if key in shape.zeros:
                added, removed = compare(shape.fields[key], value, shape.fields[key].zero)
                if added is not None:
                    touched[f"f:{key}"] = added
            else:
                removed = tree_of(shape.inner(key), value)
            if removed is not None:
                gone[f"f:{key}"] = removed
    return (touched or None, gone or None)


def _compare_parts(before: Parts, after: Parts, *, whole: bool) -> Changes:
    touched: Tree = {}
    gone: Tree = {}
    for key, (shape, value) in after.items():
        if key not in before:
            touched[key] = tree_of(shape, value)
            continue
        added, removed = compare(shape, before[key][1], value)
        if added is not None:
            touched[key] = added
        if removed is not None:
            gone[key] = removed
    for key, part in before.items():
        if key not in after:
            gone[key] = tree_of(*part)
    return (node(touched, member=whole), gone or None)


def fields_of(shape: Shape, value: Any, path: str = "", *, strict: bool = True) -> Tree | None:
    """The fields that a configuration names: what its applier will own. Raises `Undeclared` when strict."""
    if isinstance(value, dict) and (shape.form == "any" or (shape.form == "map" and not shape.atomic)):
        return _named(shape, value, path, strict=strict)
    if isinstance(value, list) and shape.form == "list" and not shape.atomic:
        return _listed(shape, value, path, strict=strict)
    if strict:
        _check_form(shape, value, path)
    return LEAF


def _check_form(shape: Shape, value: Any, path: str) -> None:
    if value is None or shape.form == "any":
        return
    if shape.form in ("map", "list"):
        if not isinstance(value, dict if shape.form == "map" else list):
            raise Undeclared(f"{path}: expected {shape.form}, got &{{{value}}}")
    elif isinstance(value, dict | list) or not isinstance(value, _TYPES.get(shape.letter, object)):
        expected = _EXPECTED.get(shape.letter, "scalar")
        shown_type = _GO.get(type(value), "float64")
        found = f"&value.valueUnstructured{{Value:{value}}}" if shape.letter == "s" else shown_type
        raise Undeclared(f"{path}: expected {expected}, got {found}")


def _named(shape: Shape, value: dict[str, Any], path: str, *, strict: bool) -> Tree | None:
    found: Tree = {}
    for key, inner in value.items():
        declared = key in shape.fields
        if strict and not declared and shape.form == "map" and shape.element is None:
            raise Undeclared(f"{path}.{key}: field not declared in schema")
        tree = fields_of(shape.inner(key), inner, f"{path}.{key}", strict=strict)
        if inner is None or inner == {}:
            tree = LEAF
        elif not declared:
            tree = {SELF: LEAF, **tree} if tree else LEAF
        if tree is not None:
            found[f"f:{key}"] = tree
    return found or None


def _listed(shape: Shape, value: list[Any], path: str, *, strict: bool) -> Tree | None:
    found: Tree = {}
    for index, item in enumerate(value):
        try:
            key = element(shape, item)
        except Undeclared as error:
            raise Undeclared(f"{path}: element {index}: {error}") from None
        if strict and key in found:
            raise Undeclared(f"{path}: duplicate entries for key {shown((key,))}")
        tree = fields_of(shape.item, item, f"{path}{shown((key,))}", strict=strict)
        found[key] = {SELF: LEAF, **tree} if tree else LEAF
    return found or None


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """The live value with a configuration laid over it; neither is changed."""
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic and shape.form in ("any", "map"):
        found = dict(live)
        for key, value in config.items():
            found[key] = merge(shape.inner(key), live[key], value) if key in live else value
        return found
    if isinstance(live, list) and isinstance(config, list) and shape.form == "list" and not shape.atomic:
        return _merge_items(shape, live, config)
    return config


def _merge_items(shape: Shape, live: list[Any], config: list[Any]) -> list[Any]:
    """Items in the order of the configuration; those that it does not name keep their places between."""
    wanted = {element(shape, item): item for item in config}
    old = [(element(shape, item), item) for item in live]
    known = dict(reversed(old))
    found: list[Any] = []
    done: set[str] = set()
    order = list(wanted)
    shared = [key for key in order if key in known]
    place = 0
    while place < len(old) or order:
        if place < len(old):
            key, item = old[place]
            if key not in wanted:
                found.append(item)
            if key not in wanted or key in done or key != next(each for each in shared if each not in done):
                # What the configuration names in another order waits for its turn there.
                place += 1
                continue
        key = order.pop(0)
        done.add(key)
        found.append(merge(shape.item, known[key], wanted[key]) if key in known else wanted[key])
    return found


def cut(shape: Shape, value: Any, tree: Tree) -> Any:
    """The value without the members of a tree. A map or list that loses its last part becomes null."""
    if isinstance(value, dict) and (shape.form == "any" or (shape.form == "map" and not shape.atomic)):
        kept: dict[str, Any] = {}
        for key, inner in value.items():
            child = tree.get(f"f:{key}")
            if child is None:
                kept[key] = inner
            elif not is_member(child):
                kept[key] = cut(shape.inner(key), inner, child)
        return kept or None
    if isinstance(value, list) and shape.form == "list" and not shape.atomic:
        items: list[Any] = []
        for item in value:
            child = tree.get(element(shape, item))
            if child is None:
                items.append(item)
            elif not is_member(child):
                items.append(cut(shape.item, item, child))
        return items or None
    return value


def with_named(shape: Shape, tree: Tree | None) -> Tree | None:
    """The tree with all declared fields on the way to its members as members, too."""
    if tree is None:
        return None
    found: Tree = {}
    for key, child in tree.items():
        if key == SELF:
            found[key] = child
            continue
        name = key.removeprefix("f:")
        inner = shape.inner(name) if key.startswith("f:") else shape.item
        below = with_named(inner, child)
        declared = key.startswith("f:") and name in shape.fields
        found[key] = {SELF: LEAF, **below} if declared and below and SELF not in below else below
    return found
