"""JSON that the decoder does not take is read all the same: what is nested too deeply, and text with half a character in it.

API servers take objects of 10,000 levels; the decoder gives up at about 1,000. One object like that must not hide all others of
its kind, so what only identifies objects is read from a copy in which the depths are cut out. The object keeps them: whoever decodes
its body meets the limit, and nobody else.

Surrogates that are no pair are no text. Servers in Go store U+FFFD in their place; what others tell is read so.

All of it takes time in proportion to the length of the JSON, whatever is in its strings.
"""

import re
from functools import lru_cache

LEVELS = 200
"""How many levels are left: the stack that the decoder shares may be used up to a half already."""
# A string without an end, as in what is no JSON, reaches to the end of the data: else each quote in it would be tried as a beginning.
_tokens = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[{]+|[\]}]+', re.DOTALL).finditer
_has_surrogates = re.compile(rb"\\u[dD][89a-fA-F]").search
_escapes = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_marks = re.compile(rb"cut(\d{1,8}):").findall


@lru_cache(maxsize=2)
def outline(raw: bytes) -> bytes:
    """The copy of one object that `shallow` makes: once for all who look at that version."""
    return shallow(raw)[0]


def shallow(data: bytes) -> tuple[bytes, "DeepParts"]:
    """A copy in which all that is below `LEVELS` is a string, and what it was. What is no JSON stays none."""
    depths = DeepParts(data)
    kept: list[bytes] = []
    level = cut = end = 0
    for token in _tokens(data):
        start, stop = token.span()
        if data[start] in b"[{":
            if level <= LEVELS < level + stop - start:
                cut = start + LEVELS - level
            level += stop - start
        elif data[start] in b"]}":
            if level > LEVELS >= level - (stop - start):
                stopped, end = end, start + level - LEVELS
                kept += data[stopped:cut], depths.put(data[cut:end])
            level -= stop - start
    return b"".join([*kept, data[end:]]), depths


def mended(data: bytes) -> bytes:
    """The same with U+FFFD in the place of lone surrogates."""
    if _has_surrogates(data) is None:
        return data
    return _escapes.sub(lambda found: found[0] if found[1] is None else rb"\ufffd", data)


class DeepParts:
    """What was cut out of some JSON."""

    def __init__(self, data: bytes) -> None:
        # The first number that the data has nowhere in such a place. It is short, however many of them the data has.
        taken = set(map(int, _marks(data)))
        self._mark = b"cut%d:" % next(number for number in range(len(taken) + 1) if number not in taken)
        self._parts: list[bytes] = []

    def put(self, part: bytes) -> bytes:
        """Keep a part; gives what stands in its place."""
        self._parts.append(part)
        return b'"%b%d"' % (self._mark, len(self._parts) - 1)

    def restore(self, raw: bytes) -> bytes:
        """Some of the JSON as it was."""
        if self._mark not in raw:
            return raw
        return re.sub(rb'"%b(\d+)"' % self._mark, lambda found: self._parts[int(found[1])], raw)
