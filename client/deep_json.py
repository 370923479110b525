"""JSON that the decoder refuses is read all the same: objects nested too deeply, and text with lone surrogates.

API servers accept objects of 10,000 levels; the decoder gives up at about 1,000. One such object must not hide all others of its kind, so
its identity and metadata are read from a copy without the deep parts. The object keeps them: only decoding its body fails.

Servers in Go store U+FFFD in the place of a lone surrogate; we do the same for servers that do not.

All of this takes time in proportion to the length of the JSON, whatever its strings contain.
"""

import re
from functools import lru_cache

LEVELS = 200
"""How many levels the copy has: half of the stack that the decoder shares may be in use already."""
# A string without an end (this is no JSON then) reaches to the end of the data: otherwise each quote would be tried as its beginning.
_tokens = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[{]+|[\]}]+', re.DOTALL).finditer
_has_surrogates = re.compile(rb"\\u[dD][89a-fA-F]").search
_escapes = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_marks = re.compile(rb"cut(\d{1,8}):").findall


@lru_cache(maxsize=2)
def outline(raw: bytes) -> bytes:
    """The copy of one object that `shallow` makes; made once for each version."""
    return shallow(raw)[0]


def shallow(data: bytes) -> tuple[bytes, "DeepParts"]:
    """Returns a copy in which strings stand for all parts deeper than `LEVELS`, and these parts. Broken JSON stays broken."""
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
    """The data with U+FFFD in the place of lone surrogates."""
    if _has_surrogates(data) is None:
        return data
    return _escapes.sub(lambda found: found[0] if found[1] is None else rb"\ufffd", data)


class DeepParts:
    """The parts that were cut out of some JSON."""

    def __init__(self, data: bytes) -> None:
        # The first number that no mark in the data has: it is short, however many marks there are.
        taken = set(map(int, _marks(data)))
        self._mark = b"cut%d:" % next(number for number in range(len(taken) + 1) if number not in taken)
        self._parts: list[bytes] = []

    def put(self, part: bytes) -> bytes:
        """Keep a part; returns the string that stands for it."""
        self._parts.append(part)
        return b'"%b%d"' % (self._mark, len(self._parts) - 1)

    def restore(self, raw: bytes) -> bytes:
        """A piece of the copy with its deep parts."""
        if self._mark not in raw:
            return raw
        return re.sub(rb'"%b(\d+)"' % self._mark, lambda found: self._parts[int(found[1])], raw)
