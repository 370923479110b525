"""One word, one thing: a public class name stands once in the package (the sandbox has names of its own)."""

import ast
from collections import defaultdict

from .source import MODULES


def test_public_class_names_stand_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        if module.name.startswith("sandbox"):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
