"""The facade's three lists say the same, and every name in them is there."""

import ast
import importlib

import pytest

import ctl
from ctl._exports import EXPORTS, MODULES, PENDING

from .source import MODULES as SOURCES

FACADE = next(module for module in SOURCES if module.name == "")
EAGER = {"__version__"}


def test_all_equals_the_table() -> None:
    assert sorted(ctl.__all__) == sorted({*EXPORTS, *MODULES, *EAGER})


def test_what_type_checkers_see_equals_the_table() -> None:
    seen: dict[str, str] = {}
    for node in FACADE.tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                assert statement.level == 1
                for alias in statement.names:
                    module = statement.module or ""
                    seen[alias.asname or alias.name] = module
    expected = dict(EXPORTS)
    expected |= {name: module.rpartition(".")[0] for name, module in MODULES.items()}
    # The module can be called; to checkers, which know no such modules, it is the function.
    expected["controller"] = "controller.building.builder"
    assert seen == expected


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_each_name_is_what_its_module_has(name: str) -> None:
    assert getattr(ctl, name) is getattr(importlib.import_module(f"ctl.{EXPORTS[name]}"), name)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_each_module_is_that_module(name: str) -> None:
    assert getattr(ctl, name) is importlib.import_module(f"ctl.{MODULES[name]}")


def test_a_name_is_either_there_or_pending() -> None:
    assert not PENDING.keys() & {*EXPORTS, *MODULES}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ctl.nonsense  # type: ignore[attr-defined]


def test_a_pending_name_says_when_it_comes() -> None:
    with pytest.raises(AttributeError, match="it comes with 0"):
        getattr(ctl, min(PENDING))


def test_dir_lists_what_is_there() -> None:
    assert {*ctl.__all__} <= {*dir(ctl)}
