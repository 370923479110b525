"""Paths of fields: keys of nested mappings; lists are not entered."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from .views import Body

FieldPath: TypeAlias = tuple[str, ...]
"""The keys of nested mappings that lead to a value; the empty path is the whole object."""

FieldSpec: TypeAlias = str | tuple[str, ...] | list[str] | None
"""A field as users write it: keys joined by dots, or a list or tuple of keys (then keys may contain dots)."""


def parse_field(spec: FieldSpec) -> FieldPath:
    """The path of a field as users write it; None is the whole object. Raises ValueError for anything else."""
    if spec is None:
        return ()
    if isinstance(spec, str):
        return tuple(spec.split("."))
    # Users may give anything, whatever the annotation says.
    if isinstance(spec, (list, tuple)) and all(isinstance(key, str) for key in spec):  # type: ignore[redundant-expr]
        return tuple(spec)
    raise ValueError(
        f"Field must be either a str, or a list/tuple. Got {spec!r}. Write it as 'spec.field' or ('spec', 'field')."
    )


def resolve(value: Any, path: FieldPath, default: Any = None) -> Any:
    """The value at a path, or the default when a key is absent or a value on the way is no mapping."""
    # Dicts first: isinstance(..., Mapping) is slow, and so are look-ups in views.
    if type(value) is Body:
        value = value._data
    for key in path:
        if not isinstance(value, (dict, Mapping)) or key not in value:
            return default
        value = value[key]
    return value


def ensure(target: dict[str, Any], path: FieldPath, value: Any) -> None:
    """Set the value at a path; mappings on the way are made where there are none, also in place of other values.

    Raises ValueError for the empty path.
    """
    if not path:
        raise ValueError("A value cannot be set at the empty path: that is the whole object.")
    for key in path[:-1]:
        inner = target.get(key)
        if not isinstance(inner, dict):
            inner = target[key] = {}
        target = inner
    target[path[-1]] = value


def remove(target: dict[str, Any], path: FieldPath) -> None:
    """Delete the value at a path, and the mappings on the way that are empty then."""
    if len(path) == 1:
        target.pop(path[0], None)
    elif path:
        inner = target.get(path[0])
        if isinstance(inner, dict):
            remove(inner, path[1:])
            if not inner:
                del target[path[0]]
