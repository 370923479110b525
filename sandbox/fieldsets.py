"""A field set is a tree of path elements in the form of FieldsV1, with the algebra of sets.

The keys of a tree are `f:NAME` (a field), `k:{...}` (an item of a list of maps), `v:...` (an item of a set) and
`.`: the node itself is a member. A node without keys is a member, too. No tree is ever changed: results share parts.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

Tree = dict[str, Any]
SELF: Final = "."
LEAF: Final[Tree] = {}


def is_member(node: Mapping[str, Any]) -> bool:
    """Whether a node of a tree is in the set itself."""
    return not node or SELF in node


def node(children: Tree, *, member: bool) -> Tree | None:
    """A node with these children (none of them `.`); None when nothing is in it."""
    if not member:
        return children or None
    return {SELF: LEAF, **children} if children else LEAF


def _children(tree: Tree) -> Iterator[tuple[str, Tree]]:
    return ((key, child) for key, child in tree.items() if key != SELF)


def union(left: Tree | None, right: Tree | None) -> Tree | None:
    """All members of both; None for nothing."""
    if left is None or right is None or left is right:
        return right if left is None else left
    children = {key: child for key, child in left.items() if key != SELF}
    for key, child in _children(right):
        merged = union(children.get(key), child)
        assert merged is not None
        children[key] = merged
    return node(children, member=is_member(left) or is_member(right))


def difference(left: Tree | None, right: Tree | None) -> Tree | None:
    """The members of the left that are not in the right; None for nothing."""
    if left is None or right is None:
        return left
    children: Tree = {}
    for key, child in left.items():
        if key == SELF:
            continue
        other = right.get(key)
        kept = child if other is None else difference(child, other)
        if kept is not None:
            children[key] = kept
    return node(children, member=(not left or SELF in left) and not is_member(right))


def intersection(left: Tree | None, right: Tree | None) -> Tree | None:
    """The members of both; None for nothing."""
    if left is None or right is None:
        return None
    children: Tree = {}
    for key, child in _children(left):
        if key in right and (kept := intersection(child, right[key])) is not None:
            children[key] = kept
    return node(children, member=is_member(left) and is_member(right))


def members(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each member."""
    if path and is_member(tree):
        yield path
    for key, child in _children(tree):
        yield from members(child, (*path, key))


def shown(path: tuple[str, ...]) -> str:
    """A path as the server writes it: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(_shown(element) for element in path)


def _shown(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "v":
        return f"[={text}]"
    if kind == "k":
        inner = text.removeprefix("{").removesuffix("}")
        return "[" + _pairs(inner) + "]"
    return f"[{text}]"


def _pairs(text: str) -> str:
    """The pairs of a key as `name=value`, the values as JSON."""
    found = msgspec.json.decode(f"{{{text}}}".encode())
    return ",".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in sorted(found.items()))
