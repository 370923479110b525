import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.declaration.namespaces import NamespacePattern, exact_namespaces, match_namespace, match_namespaces

NAMES = ["ns", "ns-1", "ns-12", "a", "b", "a-x", "a-1", "b-x", "c", "NS"]


# What Kopf 1.45.2 serves of the same namespaces.
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ns", "ns"),
        ("NS", "NS"),
        ("*", "ns ns-1 ns-12 a b a-x a-1 b-x c NS"),
        ("!*", ""),
        ("", ""),
        ("ns-*", "ns-1 ns-12"),
        ("ns-?", "ns-1"),
        ("[ab]", "a b"),
        ("!ns-1", "ns ns-12 a b a-x a-1 b-x c NS"),
        ("ns-*,!ns-1", "ns-12"),
        ("ns-*, !ns-1 ", "ns-12"),
        ("ns-*,!ns-1,ns-1", "ns-1 ns-12"),
        ("ns-*,!ns-1?,ns-12", "ns-1 ns-12"),
        ("*,!*-x,a-x", "ns ns-1 ns-12 a b a-x a-1 c NS"),
        ("a,b", "a"),
        ("a,", "a"),
        (",a", ""),
        ("a*,b", "a a-x a-1"),
        ("a,!a,a", "a"),
        ("!a,!b", "ns ns-1 ns-12 a-x a-1 b-x c NS"),
        ("!a,b", "ns ns-1 ns-12 b a-x a-1 b-x c NS"),
        ("!a-*,a-1", "ns ns-1 ns-12 a b a-1 b-x c NS"),
    ],
)
def test_globs(pattern: str, expected: str) -> None:
    assert [name for name in NAMES if match_namespace(name, pattern)] == expected.split()


def test_a_space_after_the_exclamation_mark_is_no_part_of_the_name() -> None:
    assert [name for name in NAMES if match_namespace(name, "ns-*,! ns-1")] == ["ns-12"]


def test_regular_expressions_match_whole_names() -> None:
    assert [name for name in NAMES if match_namespace(name, re.compile("a.*"))] == ["a", "a-x", "a-1"]
    assert [name for name in NAMES if match_namespace(name, re.compile("n"))] == []


def test_several_patterns_are_alternatives() -> None:
    assert [name for name in NAMES if match_namespaces(name, ["a", re.compile("b.*")])] == ["a", "b", "b-x"]
    assert not match_namespaces("a", [])


def test_names_among_the_patterns() -> None:
    patterns: list[NamespacePattern] = ["a", "b-*", "c,d", "!e", "f?", "[gh]", re.compile("i"), "a"]
    assert exact_namespaces(patterns) == {"a"}


names = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
globs = st.lists(
    st.tuples(st.sampled_from(["", "!"]), st.sampled_from(["*", "a*", "?", "a", "b?"])), min_size=1, max_size=4
)


@given(name=names, parts=globs)
def test_an_exclusion_at_the_end_always_wins(name: str, parts: list[tuple[str, str]]) -> None:
    pattern = ",".join("".join(part) for part in parts)
    assert not match_namespace(name, f"{pattern},!{name}")


@given(name=names, parts=globs)
def test_an_inclusion_at_the_end_never_removes(name: str, parts: list[tuple[str, str]]) -> None:
    pattern = ",".join("".join(part) for part in parts)
    assert match_namespace(name, f"{pattern},*") >= match_namespace(name, pattern)
