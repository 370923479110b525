"""Scans an operator's source code, without running it: which settings it changes, whether it posts Events.

Pure: the text is an argument. The findings are hints; values that are computed at run time are not found.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

TOOLKITS: Final = frozenset({"ctl", "kopf"})
POSTING: Final = frozenset({"event", "info", "warn", "exception"})
CLIENTS: Final = frozenset({"kubernetes", "kubernetes_asyncio", "pykube", "lightkube", "kr8s", "ctl.client.rest"})
UNKNOWN: Final = object()
"""The value of a setting that is not written as a constant."""


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The findings."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """Name, such as `peering.name`, to value; UNKNOWN where it is not a constant."""
    posts: bool = False
    """Whether Events are posted."""
    names: frozenset[str] = frozenset()
    """All names in the code."""
    has_client: bool = False
    """Whether it talks to the server with clients of its own."""

    def touches(self, group: str) -> bool:
        """Whether any setting of a group is changed."""
        return any(name.split(".")[0] == group for name in self.settings)


def scan_code(sources: Iterable[str]) -> CodeFacts:
    """Scan the text of modules; text that cannot be parsed is skipped."""
    settings: dict[str, object] = {}
    names: set[str] = set()
    posts = has_client = False
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        aliases = _aliases(tree)
        for node in ast.walk(tree):
            names.update(_named(node))
            settings.update(_assigned(node))
            posts = posts or _posts(node, aliases)
            has_client = has_client or _is_client(node, aliases)
    posts = posts or any(name == "posting.loggers" and value is not False for name, value in settings.items())
    return CodeFacts(settings, posts, frozenset(names), has_client)


@dataclass(frozen=True, slots=True)
class _Aliases:
    modules: frozenset[str]
    """The names of the toolkit in a module."""
    functions: Mapping[str, str]
    """Name in the module to name in the toolkit, for what was imported from it."""


def _aliases(tree: ast.Module) -> _Aliases:
    modules: set[str] = set()
    functions: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name in TOOLKITS}
        elif isinstance(node, ast.ImportFrom) and node.module in TOOLKITS:
            functions |= {alias.asname or alias.name: alias.name for alias in node.names}
    return _Aliases(frozenset(modules), functions)


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.name


def _assigned(node: ast.AST) -> Iterator[tuple[str, object]]:
    """`settings.peering.name = "example"` and the like."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return
    value = node.value.value if isinstance(node.value, ast.Constant) and isinstance(node, ast.Assign) else UNKNOWN
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            name = _setting(part)
            if name is not None:
                yield name, UNKNOWN if isinstance(target, ast.Tuple) else value


def _setting(node: ast.AST) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            if node.attr == "settings":
                break
            parts.append(node.attr)
        node = node.value
    is_rooted = isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id == "settings")
    return ".".join(reversed(parts)) if is_rooted and len(parts) > 1 else None


def _posts(node: ast.AST, aliases: _Aliases) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return aliases.functions.get(called.id) in POSTING
    if not isinstance(called, ast.Attribute) or called.attr not in POSTING:
        return False
    if isinstance(called.value, ast.Name) and called.value.id in aliases.modules:
        return True
    # Reconcilers post through their context. Loggers take no reason, so these calls are no log calls.
    return any(keyword.arg == "reason" for keyword in node.keywords)


def _is_client(node: ast.AST, aliases: _Aliases) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in CLIENTS for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return module in CLIENTS or module.split(".")[0] in CLIENTS
    is_ours = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases.modules
    return is_ours and isinstance(node, ast.Attribute) and node.attr in {"Client", "load_access"}
