"""One word, one thing: a public class name stands once in the package (the sandbox has names of its own)."""

import ast
from collections import defaultdict

from .source import MODULES

KNOWN_TWICE: set[str] = {
    "Answer",
    "Request",
    "Store",
}
"""Names that still stand twice. Nothing is added here."""


def test_public_class_names_stand_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        if module.name.startswith("sandbox"):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    twice = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in KNOWN_TWICE} == {}
