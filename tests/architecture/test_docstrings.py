"""What is public says what it promises."""

import ast
from collections.abc import Iterator

import pytest

from .source import MODULES, Module

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_module_begins_with_one_sentence(module: Module) -> None:
    docstring = ast.get_docstring(module.tree)
    assert docstring, "A module's first line says what it is for, in one sentence."
    assert docstring.split("\n\n")[0].rstrip().endswith((".", ":", "?")), "The first paragraph is a sentence."


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_public_name_has_a_docstring(module: Module) -> None:
    silent = [name for name, node in _public(module.tree, "") if not ast.get_docstring(node)]
    assert silent == []


def _public(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, _Definition]]:
    for node in parent.body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        if _is_overload_or_setter(node):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(node, f"{prefix}{node.name}.")


def _is_overload_or_setter(node: _Definition) -> bool:
    """Their other half has the docstring."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"overload", "setter", "deleter", "override"})
