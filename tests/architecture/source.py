"""What the tests of the code's shape look at: the files of the package."""

import ast
import configparser
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    path: Path
    name: str
    """Dotted and relative to the package; empty for the package itself."""

    def __str__(self) -> str:
        return self.name or "__init__"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def setup_cfg() -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


def packages() -> list[str]:
    """As setup.cfg lists them."""
    return setup_cfg()["options"]["packages"].split()


def folder(package: str) -> Path:
    return ROOT.joinpath(*package.split(".")[1:])


def modules() -> Iterator[Module]:
    for package in packages():
        prefix = package.split(".")[1:]
        for path in sorted(folder(package).glob("*.py")):
            yield Module(path, ".".join(prefix if path.name == "__init__.py" else [*prefix, path.stem]))


MODULES = list(modules())
