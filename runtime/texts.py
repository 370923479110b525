"""Texts of others are shown in part: long ones are cut, and URLs lose their logins.

Pure. For errors, logs, labels of metrics, pages and commands: whatever people read.
"""

import re

SHORT = 200
"""How many characters of a value a sentence shows."""

_PORT = r"\d{1,5}(?![^/?#\s'\"])"
_LOGIN = re.compile(
    # Behind `://`: all up to the last @ of the host's part; also with a slash in the password, unless a port stands there.
    r"(?<=://)(?:[^\s/?#'\"]{0,1024}@"
    rf"|[^\s/?#'\"@:\[]{{1,256}}:(?!{_PORT})[^\s'\"]{{0,1024}}@)"
    # USER:PASSWORD@HOST without a scheme, as a word of its own.
    r"|(?<![^\s'\"(])[^\s/?#'\":@(]{1,256}:[^\s/?#'\"@]{1,256}@"
)


def cut(text: str, limit: int = SHORT) -> str:
    """A text of up to `limit` characters as it is; of a longer one the beginning, and its length."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters in all)"


def cut_inside(text: str, head: int, tail: int) -> str:
    """The same, with `head` characters of the beginning and `tail` of the end; cut at the ends of lines where there are some."""
    if len(text) <= head + tail:
        return text
    first, last = text[:head], text[-tail:]
    first = first[: first.rfind("\n") + 1] or first
    last = last[last.find("\n") + 1 :] or last
    return f"{first}... ({len(text) - len(first) - len(last)} characters are left out) ...\n{last}"


def redacted(text: str) -> str:
    """A text without the logins in its URLs (`https://USER:PASSWORD@HOST` becomes `https://HOST`)."""
    return _LOGIN.sub("", text) if "@" in text else text
