"""Rules on imports that the contracts of `make layers` cannot express, and those contracts' completeness."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .source import MODULES, Module, setup_cfg

IMPURE = frozenset(setup_cfg()["importlinter:contract:purity"]["forbidden_modules"].split())
PURE = frozenset(
    name.removeprefix("ctl.") for name in setup_cfg()["importlinter:contract:purity"]["source_modules"].split()
)

READERS_AND_WRITERS = {
    "cli.alias": "changes the import system",
    "cli.aliasing": "installs packages",
    "cli.distribution": "writes a wheel",
    "cli.failures": "writes to the terminal",
    "cli.loading": "imports the user's code",
    "client.config.loading": "reads kubeconfig files and the mounted account",
    "client.config.tls": "reads certificates",
    "handlers.kopf.client_libraries": "changes what libraries are set up with",
    "handlers.kopf.logins": "reads kubeconfig files",
    "runtime.imports": "changes the import system",
    "runtime.logs": "writes logs",
}
"""Modules that touch the world through something other than the forbidden imports."""

TAKES_TIME = re.compile(
    r"\b(datetime\.(now|utcnow|today)|date\.today|uuid[14]|open|print|input|getenv)\(|\bos\.environ\b"
)


def test_no_module_imports_the_package_by_its_name() -> None:
    """Relative imports work from a checkout, from a wheel, and under any name of the package."""
    absolute = [
        f"{module}:{node.lineno}"
        for module in MODULES
        for node, name in _imports(module)
        if name.partition(".")[0] == "ctl"
    ]
    assert absolute == []


@pytest.mark.parametrize("module", [module for module in MODULES if module.name in PURE], ids=str)
def test_pure_modules_take_no_time_chance_or_input(module: Module) -> None:
    code = ast.unparse(_without_docstrings(module.tree))
    assert [found.group() for found in TAKES_TIME.finditer(code)] == []
    assert not [node for node in ast.walk(module.tree) if isinstance(node, (ast.AsyncFunctionDef, ast.Await))]


def test_every_module_that_could_be_pure_is_held_to_it() -> None:
    """The list of setup.cfg is the list of pure modules: no loop, no clock, no chance, no I/O, nor imports of such."""
    could_be = {module.name for module in MODULES if not module.is_package and module.name and _looks_pure(module)}
    root = {module.name for module in MODULES if "." not in module.name}
    assert sorted(could_be - PURE - root - READERS_AND_WRITERS.keys()) == [], "add to the purity contract in setup.cfg"


@pytest.mark.parametrize("package", ["ctl", "ctl.workqueue", "ctl.client.objects", "ctl.runtime"])
def test_a_package_loads_neither_http_nor_a_client_library(package: str) -> None:
    heavy = {"aiohttp", "kubernetes", "kubernetes_asyncio", "click", "cryptography"}
    code = f"import sys, {package}; print(*sorted({heavy!r} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == []


def _looks_pure(module: Module) -> bool:
    seen: set[str] = set()
    waiting = [module]
    by_name = {other.name: other for other in MODULES}
    while waiting:
        part = waiting.pop()
        if part.name in seen:
            continue
        seen.add(part.name)
        if any(isinstance(node, (ast.AsyncFunctionDef, ast.Await)) for node in ast.walk(part.tree)):
            return False
        for _, name in _imports(part):
            if name.partition(".")[0] in IMPURE or name in READERS_AND_WRITERS:
                return False
            if (inner := by_name.get(name)) is not None and not inner.is_package:
                waiting.append(inner)
    return True


def _imports(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """What a module imports: names relative to the package for its own, full names for others."""
    own = module.name.split(".") if module.name else []
    base = own if module.is_package else own[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node, node.module or ""
        elif isinstance(node, ast.ImportFrom):
            source = base[: len(base) - node.level + 1] + (node.module.split(".") if node.module else [])
            yield node, ".".join(source)
            yield from ((node, ".".join([*source, alias.name])) for alias in node.names)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    class Strip(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
            return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node

    copy = ast.parse(ast.unparse(tree))
    Strip().visit(copy)
    return copy
