"""Small enough to hold: limits on functions and parameters. A file holds one idea, whatever its length."""

import ast
from collections.abc import Iterator

import pytest

from .source import MODULES, Module

FUNCTION_LINES = 60
PARAMETERS = 6

GIVEN_SIGNATURES = {
    "client.rest": {"create", "delete", "patch", "replace", "request"},
    "handlers.kopf.connections": {"__init__"},
    "handlers.execution.subhandlers": {"execute"},
    "handlers.loggers": {"configure"},
    "handlers.running.operator": {"operator", "run", "spawn_tasks"},
    "handlers.storage.progress": {"__init__"},
}
"""Functions whose parameters are given from outside: the API's verbs, and what unmodified operators call."""


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_functions_have_at_most_60_lines(module: Module) -> None:
    long = [
        f"{function.name}: {_lines(function)} lines"
        for function in _functions(module)
        if _lines(function) > FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_functions_have_at_most_6_parameters(module: Module) -> None:
    """Values that travel together are a frozen dataclass."""
    allowed = GIVEN_SIGNATURES.get(module.name, set())
    wide = [
        f"{function.name}: {_parameters(function)} parameters"
        for function in _functions(module)
        if _parameters(function) > PARAMETERS and function.name not in allowed
    ]
    assert wide == []


def _functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without `self` and `cls`, and without the catch-alls."""
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(argument.arg not in {"self", "cls"} for argument in named)
