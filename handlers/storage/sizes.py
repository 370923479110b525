"""What is remembered on an object must fit there: the server refuses annotations, and objects, that are too large.

The limits are those of kube-apiserver (annotations) and of etcd's default configuration (objects). Sizes are bytes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..causes.fields import FieldPath, ensure, remove, resolve
from ..causes.patch import Patch
from .naming import annotations_of

ANNOTATIONS_LIMIT = 256 * 1024
"""All annotations of an object together, names and values."""
OBJECT_LIMIT = 1536 * 1024 - 64 * 1024
"""A whole object, with some room left for what the server itself notes in it."""
SMALLEST_LIMIT = 512
"""The smallest limit for one annotation under which at least a digest and a short record can be kept."""

_ABSENT = object()


class Room(msgspec.Struct):
    """How much may be remembered on one object: `size` is that of the object now, `largest` limits each annotation."""

    size: int
    largest: int | None = None

    def has(self, body: Mapping[str, Any], patch: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
        """Whether an object takes a patch and what is to be remembered besides, `more`, without growing too large."""
        present = annotations_of(body)
        wanted = annotations_of(more)
        taken = 0
        for name, text in {**present, **annotations_of(patch), **wanted}.items():
            if text is not None:
                taken += _size(name) + _size(text)
        if taken > ANNOTATIONS_LIMIT:
            return False
        if self.largest is not None and any(text and _size(text) > self.largest for text in wanted.values()):
            return False
        grown = _leaves_size(more)
        for name in wanted:
            grown -= _stored_size(present.get(name))
        return self.size + grown <= OBJECT_LIMIT


def withdraw(remembered: Mapping[str, Any], body: Mapping[str, Any], patch: Patch) -> None:
    """Let a patch not set what `remembered` (another patch) would set, and delete it where the object has it."""
    for path in _leaves(remembered):
        if resolve(body, path, _ABSENT) is not _ABSENT:
            ensure(patch, path, None)
        elif resolve(patch, path, _ABSENT) is not _ABSENT:
            remove(patch, path)


def _leaves(patch: Mapping[str, Any], path: FieldPath = ()) -> list[FieldPath]:
    found: list[FieldPath] = []
    for key, value in patch.items():
        found += _leaves(value, (*path, key)) if isinstance(value, (dict, Mapping)) else [(*path, key)]
    return found


def _leaves_size(patch: Mapping[str, Any]) -> int:
    size = 0
    for key, value in patch.items():
        size += len(key) + (_leaves_size(value) if isinstance(value, (dict, Mapping)) else _stored_size(value))
    return size


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _stored_size(value: Any) -> int:
    """As etcd has it: JSON in a string of JSON."""
    return _size(value) + value.count('"') + value.count("\\") if isinstance(value, str) else 8
