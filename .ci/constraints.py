#!/usr/bin/env python3
"""Writes the versions of everything that the package and its extras for production need, as this environment has them.

.venv/bin/python .ci/constraints.py      # `make constraints`
"""

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGE = "ctl-toolkit"
EXTRAS = ("client", "uvloop", "webhooks")
IMAGE_EXTRAS = ("uvloop", "webhooks")
BUILD = ("setuptools",)
CONSTRAINTS_HEAD = """\
# The versions that the tests ran with; `make constraints` writes them as the environment of the tests has them.
#
#   pip install -c constraints.txt 'ctl-toolkit[uvloop]'
"""
LOCK_HEAD = """\
# What {what} is made of, each file by its hash; `make constraints` writes it beside constraints.txt.
#
#   pip install --require-hashes -r {name}
"""


def needed(name: str, extras: tuple[str, ...]) -> Iterator[Requirement]:
    """What one package requires here, with these extras."""
    for text in importlib.metadata.requires(name) or []:
        found = Requirement(text)
        if found.marker is None or any(found.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield found


def closure(*wanted: str) -> dict[str, str]:
    """The version of each package that is needed, whoever needs it."""
    found: dict[str, str] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [*map(Requirement, wanted)]
    while waiting:
        one = waiting.pop()
        name, extras = canonicalize_name(one.name), tuple(sorted(one.extras))
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[name] = importlib.metadata.version(one.name)
        waiting += needed(one.name, extras)
    found.pop(canonicalize_name(PACKAGE), None)
    return dict(sorted(found.items()))


def locked(versions: dict[str, str]) -> str:
    """The versions with the hashes of all files of each, for whatever platform and Python."""
    uv = [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-config", "--no-deps", "--generate-hashes"]
    pins = "".join(f"{name}=={version}\n" for name, version in versions.items())
    options = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    command = [*uv, *options]
    return subprocess.run(command, input=pins, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603 (all of it is said here)


def main() -> None:
    """Write the files."""
    everything = closure(f"{PACKAGE}[{','.join(EXTRAS)}]", *BUILD)
    text = "".join(f"{name}=={version}\n" for name, version in everything.items())
    (ROOT / "constraints.txt").write_text(CONSTRAINTS_HEAD + text)
    image = closure(f"{PACKAGE}[{','.join(IMAGE_EXTRAS)}]")
    for name, what, versions in (
        ("requirements.lock", "the image", image),
        ("requirements-build.lock", "the builder of the wheel", closure(*BUILD)),
    ):
        (ROOT / name).write_text(LOCK_HEAD.format(what=what, name=name) + locked(versions))


if __name__ == "__main__":
    main()
