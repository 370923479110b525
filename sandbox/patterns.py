"""Patterns of schemas are regular expressions of Go, matched in bounded time."""

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .status import Refused

if TYPE_CHECKING:
    import regex

SECONDS: Final = 1.0
"""How long the patterns of one request may take together. A real server needs no such bound: its engine never backtracks."""
REPEATS: Final = 1000
"""The highest count of a repetition."""

_CLASS: Final = r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
_TOKEN: Final = re.compile(
    rf"(?P<quoted>\\Q.*?(?:\\E|\Z))|(?P<escape>\\[pP]\{{\^?\w+\}}|\\x(?:\{{[0-9A-Fa-f]+\}}|[0-9A-Fa-f])|\\[pP]\w|\\.)|(?P<set>{_CLASS})|(?P<open>\((?:\?(?:P?<\w+>|[imsU]*(?:-[imsU]+)?[:)]|.?))?)"
    r"|(?P<repeat>(?:[*+?]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\})\??)|(?P<brace>\{)|(?P<end>\$)|.",
    re.DOTALL,
)
_KNOWN_OPEN: Final = re.compile(r"\((\?(P?<\w+>|[imsU]*(-[imsU]+)?[:)]))?", re.ASCII)
_KNOWN_ESCAPE: Final = re.compile(
    r"\\([\W_]|[aAbBdDfnrsStvwWz0]|[pP](\{\^?\w+\}|\w)|x(\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]))", re.ASCII
)
# What is written in another way here: the very end of the text, and space without the vertical tab.
_ESCAPES: Final = {r"\z": r"\Z", r"\s": r"[\t\n\f\r ]", r"\S": r"[^\t\n\f\r ]"}


class PatternError(Exception):
    """A pattern that Go's regular expressions do not take; the message is theirs."""


class Patience:
    """The time that is left for the patterns of one request, by a clock in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = SECONDS

    def finds(self, pattern: str, text: str, name: str) -> bool:
        """Whether a pattern is found in the text of a field. Raises a 500 when it takes too long to say."""
        begun = self._clock()
        try:
            return _compiled(pattern).search(text, timeout=max(self._left, 0.001)) is not None
        except TimeoutError:
            words = f"{name} could not be matched against '{pattern}' within {SECONDS:g} s, as the engine of the sandbox backtracks"
            raise Refused(500, "InternalError", f"Internal error occurred: {words}") from None
        finally:
            self._left -= self._clock() - begun


def check(pattern: str) -> None:
    """Raise a PatternError for what is no regular expression of Go."""
    _compiled(pattern)


@functools.lru_cache(maxsize=512)
def _compiled(pattern: str) -> "regex.Pattern[str]":
    import regex  # here, since it takes long: most servers meet no pattern

    try:
        # Only classes of Unicode look beyond ASCII; the engine has either for all of a pattern.
        width = regex.UNICODE if re.search(r"\\[pP]", pattern) else regex.ASCII
        return regex.compile(_translated(pattern), width | regex.VERSION0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise PatternError(f"error parsing regexp: {error}: `{pattern}`") from None


def _translated(pattern: str) -> str:
    """The pattern in the words of the engine, which knows more than Go's does."""
    multiline = re.search(r"\(\?[imsU]*m", pattern) is not None
    parts: list[str] = []
    repeated = False
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token["escape"] and not _KNOWN_ESCAPE.fullmatch(text):
            raise PatternError(f"error parsing regexp: invalid escape sequence: `{text}`")
        if token["open"] and not _KNOWN_OPEN.fullmatch(text):
            raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{text}`")
        if token["repeat"] and repeated:
            raise PatternError(f"error parsing regexp: invalid nested repetition operator: `{text}`")
        if max(int(token["least"] or 0), int(token["most"] or 0)) > REPEATS:
            raise PatternError(f"error parsing regexp: invalid repeat count: `{text}`")
        repeated = bool(token["repeat"])
        if token["quoted"]:
            text = re.escape(text.removeprefix(r"\Q").removesuffix(r"\E"))
        elif text.startswith(r"\x{"):
            text = rf"\U{int(text[3:-1], 16):08x}"
        elif token["escape"]:
            text = _ESCAPES.get(text, text)
        elif token["brace"]:
            text = r"\{"
        elif token["end"] and not multiline:
            text = r"\Z"
        parts.append(text)
    return "".join(parts)
