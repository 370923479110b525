#!/usr/bin/env python3
"""Prints the versions of everything that the package and its extras for production need, as this environment has them.

.venv/bin/python .ci/constraints.py > constraints.txt      # `make constraints`
"""

import importlib.metadata
import sys
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "ctl-toolkit"
EXTRAS = ("client", "uvloop", "webhooks")
BUILD = ("setuptools",)
HEAD = """\
# The versions that the image is built with; `make constraints` writes them as the environment of the tests has them.
#
#   pip install -c constraints.txt 'ctl-toolkit[uvloop]'
"""


def needed(name: str, extras: tuple[str, ...]) -> Iterator[Requirement]:
    """What one package requires here, with these extras."""
    for text in importlib.metadata.requires(name) or []:
        found = Requirement(text)
        if found.marker is None or any(found.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield found


def closure() -> dict[str, str]:
    """The version of each package that is needed, whoever needs it."""
    found: dict[str, str] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [Requirement(f"{PACKAGE}[{','.join(EXTRAS)}]"), *map(Requirement, BUILD)]
    while waiting:
        one = waiting.pop()
        name, extras = canonicalize_name(one.name), tuple(sorted(one.extras))
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[name] = importlib.metadata.version(one.name)
        waiting += needed(one.name, extras)
    del found[canonicalize_name(PACKAGE)]
    return found


def main() -> None:
    """Print the file."""
    sys.stdout.write(HEAD)
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in sorted(closure().items()))


if __name__ == "__main__":
    main()
