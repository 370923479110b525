"""Diffs: the differences between two states of an object, key by key.

None means the absence of a value, as for the API: `{}` and `{"a": None}` do not differ. Mappings are compared key by
key; lists and all other values as a whole, by Python's equality.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

from .fields import FieldPath, resolve


class DiffOperation(enum.StrEnum):
    """How a value has changed."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"

    def __repr__(self) -> str:
        return repr(self.value)


class DiffItem(NamedTuple):
    """One difference: its field, the old value and the new one. None: there was, or is, no value.

    Equal to a tuple or list of the same four.
    """

    operation: DiffOperation
    field: FieldPath
    old: Any
    new: Any

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (list, tuple)) else NotImplemented

    def __ne__(self, other: object) -> bool:
        # Without it, Python would use the tuple's.
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    @property
    def op(self) -> DiffOperation:
        """The operation, by its short name."""
        return self.operation


class Diff(Sequence[DiffItem]):
    """An immutable sequence of differences, equal to a list or tuple of the same items. Empty when nothing differs.

    At one level, additions come first, then removals, then changes, each in the order of the keys.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[DiffItem | tuple[DiffOperation | str, FieldPath, Any, Any]] = ()) -> None:
        """Take items, or plain tuples of an operation, a field, the old and the new value."""
        self._items = tuple(
            item if isinstance(item, DiffItem) else DiffItem(DiffOperation(item[0]), *item[1:]) for item in items
        )

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> DiffItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[DiffItem, ...]: ...
    def __getitem__(self, index: int | slice) -> DiffItem | tuple[DiffItem, ...]:
        return self._items[index]

    def __iter__(self) -> Iterator[DiffItem]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Diff):
            return self._items == other._items
        return self._items == tuple(other) if isinstance(other, (list, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return Diff, (self._items,)


EMPTY = Diff()


def diff(a: Any, b: Any, path: FieldPath = ()) -> Diff:
    """The differences from `a` to `b`; the fields of the items start with `path`."""
    if a is b or a == b:
        return EMPTY
    return Diff(_differences(a, b, path))


def unfulfilled(patch: Mapping[str, Any], found: Mapping[str, Any]) -> Diff:
    """The differences between the values of a merge patch and those of an object: from the patch to the object.

    A mapping that the object lacks is a difference only if the patch sets a value in it.
    """
    return Diff(_unfulfilled(patch, found, ()))


def reduce(d: Diff, path: FieldPath) -> Diff:
    """The differences at a field and in it; the fields of the items are relative to it."""
    return Diff(_reduced(d, path)) if path else d


def _unfulfilled(patch: Mapping[str, Any], found: Any, path: FieldPath) -> Iterator[DiffItem]:
    for key, wanted in patch.items():
        where = (*path, key)
        there = found.get(key) if isinstance(found, (dict, Mapping)) else None
        if isinstance(wanted, (dict, Mapping)):
            missing = _unfulfilled(wanted, there, where)
            if there is not None:
                yield from missing
            elif any(True for _ in missing):
                yield DiffItem(DiffOperation.REMOVE, where, wanted, None)
        else:
            yield from _differences(wanted, there, where)


def _differences(a: Any, b: Any, path: FieldPath) -> Iterator[DiffItem]:
    if a is b:
        return
    if a is None:
        yield DiffItem(DiffOperation.ADD, path, None, b)
    elif b is None:
        yield DiffItem(DiffOperation.REMOVE, path, a, None)
    elif isinstance(a, (dict, Mapping)) and isinstance(b, (dict, Mapping)):
        for key, value in b.items():
            if key not in a:
                yield from _differences(None, value, (*path, key))
        for key, value in a.items():
            if key not in b:
                yield from _differences(value, None, (*path, key))
        for key, value in a.items():
            if key in b:
                yield from _differences(value, b[key], (*path, key))
    elif a != b:
        yield DiffItem(DiffOperation.CHANGE, path, a, b)


def _reduced(items: Iterable[DiffItem], path: FieldPath) -> Iterator[DiffItem]:
    for item in items:
        if item.field[: len(path)] == path:
            yield DiffItem(item.operation, item.field[len(path) :], item.old, item.new)
        elif path[: len(item.field)] == item.field:
            rest = path[len(item.field) :]
            yield from _differences(resolve(item.old, rest), resolve(item.new, rest), ())
