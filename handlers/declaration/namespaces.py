"""Patterns of namespaces: which of those that there are, and will be, an operator serves.

A pattern is a comma-separated list of globs (`*`, `?`, `[...]`), `!` before a glob excludes, or a compiled regular expression
that must match the whole name. The first glob selects (a leading exclusion: everything else); the later ones exclude from that and include again.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TypeAlias

NamespacePattern: TypeAlias = str | re.Pattern[str]
"""Globs with commas, or a regular expression."""

_SPECIAL = frozenset("!*?,[")


def match_namespace(name: str, pattern: NamespacePattern) -> bool:
    """Tell whether a pattern matches a namespace.

    `ns-*,!ns-1` is all of `ns-*` but one; `ns-*,!ns-1*,ns-12` includes one of the excluded again. A later inclusion adds nothing that
    the first glob does not match: `a,b` is `a` alone. Use several patterns for alternatives.
    """
    if isinstance(pattern, re.Pattern):
        return pattern.fullmatch(name) is not None
    globs = [glob.strip() for glob in pattern.split(",")]
    if globs[0].startswith("!"):
        globs.insert(0, "*")
    first, *later = globs
    if not fnmatchcase(name, first):
        return False
    included = True
    for glob in later:
        if fnmatchcase(name, glob.removeprefix("!").strip()):
            included = not glob.startswith("!")
    return included


def match_namespaces(name: str, patterns: Iterable[NamespacePattern]) -> bool:
    """Tell whether any of the patterns matches a namespace."""
    return any(match_namespace(name, pattern) for pattern in patterns)


def exact_namespaces(patterns: Iterable[NamespacePattern]) -> frozenset[str]:
    """The patterns that are plain names: they can be served where namespaces may not be listed."""
    return frozenset(pattern for pattern in patterns if isinstance(pattern, str) and not _SPECIAL & set(pattern))
