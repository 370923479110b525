"""The algebra of field sets, held to that of plain sets of paths."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctl.sandbox import fieldsets
from ctl.sandbox.fieldsets import Tree

Paths = frozenset[tuple[str, ...]]
KEYS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
PATHS: st.SearchStrategy[Paths] = st.frozensets(st.lists(KEYS, min_size=1, max_size=3).map(tuple), max_size=6)


def tree(paths: Paths) -> Tree | None:
    """The tree of a set of paths, built one by one."""
    found: Tree | None = None
    for path in paths:
        one: Tree = {}
        for key in reversed(path):
            one = {key: one}
        found = fieldsets.union(found, one)
    return found


def paths(found: Tree | None) -> Paths:
    return frozenset(fieldsets.members(found)) if found is not None else frozenset()


@given(PATHS)
def test_a_tree_has_the_members_that_were_put_in(some: Paths) -> None:
    assert paths(tree(some)) == some


@given(PATHS, PATHS)
def test_the_operations_are_those_of_sets(left: Paths, right: Paths) -> None:
    first, second = tree(left), tree(right)
    before: Any = (repr(first), repr(second))
    assert paths(fieldsets.union(first, second)) == left | right
    assert paths(fieldsets.difference(first, second)) == left - right
    assert paths(fieldsets.intersection(first, second)) == left & right
    # Nothing is changed in place.
    assert (repr(first), repr(second)) == before


@given(PATHS)
def test_nothing_left_is_none(some: Paths) -> None:
    assert fieldsets.difference(tree(some), tree(some)) is None
    assert fieldsets.intersection(tree(some), None) is None
    assert fieldsets.union(None, None) is None


def test_paths_are_shown_as_the_server_writes_them() -> None:
    path = ("f:spec", 'k:{"port":80,"protocol":"TCP"}', "f:name", 'v:"x"')
    assert fieldsets.shown(path) == '.spec[port=80,protocol="TCP"].name[="x"]'
