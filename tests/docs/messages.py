"""What the package can say to its users, as it stands in the source.

A message is a text with `...` for each part that is known only when it is said: `The watch of %s recovered.` and
`f"The watch of {name} recovered."` are both `The watch of ... recovered.`.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("cli", "client", "controller", "handlers", "informers", "runtime", "workqueue")
LOUD = frozenset({"warning", "error", "exception", "critical"})
LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})
QUIET = frozenset({"DEBUG", "INFO"})
PLACEHOLDER = re.compile(r"%(?:\.\d+)?[sdrgf]")

ERRORS = frozenset(
    {
        "AccessError",
        "ActivityError",
        "AddressError",
        "AddressTaken",
        "ClickException",
        "CommandError",
        "HandlerSignatureError",
        "ImportError",
        "KeepsChanging",
        "LoadingError",
        "LoginError",
        "LostAnswer",
        "NotImplementedError",
        "NotLeading",
        "OwnershipError",
        "RequestError",
        "StillActing",
        "StoredStateError",
        "StreamBroken",
        "StreamStalled",
        "UnknownResource",
        "UsageError",
    }
)
"""Errors that end a command, refuse an operator's file, or are met in logs. Those that a caller's own code is told of (a wrong
argument of a function) say everything themselves."""


@dataclass(frozen=True)
class Message:
    text: str
    where: str
    loud: bool
    """A warning or an error; the others may be quoted, and need not be."""


def normalised(text: str) -> str:
    """One spelling for placeholders and spaces."""
    text = re.sub(r"\s+", " ", PLACEHOLDER.sub("...", text.replace("%%", "%")))
    return re.sub(r"\.{3,}", "...", text).strip()


def _text(node: ast.AST | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_text(node.left) or "...") + (_text(node.right) or "...")
    return None


def _name(function: ast.AST) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _levels(call: ast.Call) -> set[str]:
    values = [*call.args, *(word.value for word in call.keywords)]
    return {part.attr for value in values for part in ast.walk(value) if isinstance(part, ast.Attribute)} & (
        LEVELS | QUIET
    )


def _is_loud(call: ast.Call) -> bool:
    name = _name(call.func)
    if name in LOUD:
        return True
    if name == "warn":
        return True
    levels = _levels(call)
    if levels & LEVELS:
        return True
    # A level that is worked out: it may be a loud one.
    return name == "log" and not levels


def _said(function: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """The texts of one function or module, without those of functions inside."""
    named: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and (text := _text(node.value)):
            named.setdefault(node.targets[0].id, []).append(text)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            is_error = _name(node.func) in ERRORS
            is_log = _name(node.func) in LOUD | {"log", "warn", "info"} or bool(_levels(node))
            if not (is_error or is_log):
                continue
            for value in (*node.args, *(word.value for word in node.keywords if word.arg == "text")):
                texts = named.get(value.id, []) if isinstance(value, ast.Name) else [_text(value) or ""]
                for text in texts:
                    yield text, node.lineno, is_error or _is_loud(node)


def _own(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in ERRORS:
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
                    for value in call.args:
                        yield _text(value) or "", call.lineno, True


def messages() -> list[Message]:
    """All of them; each text once."""
    found: dict[str, Message] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
            texts = [*_own(tree)]
            for function in functions:
                texts += _said(function)
            for raw, line, loud in texts:
                text = normalised(raw)
                if len(text.replace("...", "").strip(" .:'(),")) < 6:
                    continue
                where = f"{path.relative_to(ROOT)}:{line}"
                if text not in found or (loud and not found[text].loud):
                    found[text] = Message(text, where, loud)
    return list(found.values())


def all_strings() -> str:
    """Every string of the package's code, one a line: for messages that are put together of several."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return "\n".join(normalised(text) for node in nodes if (text := _text(node)))
