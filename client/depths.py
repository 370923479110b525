"""JSON that is nested deeper than decoders go is read without its depths.

API servers take objects of 10,000 levels; the decoder gives up at about 1,000. One object like that must not hide all others of
its kind, so what only identifies objects is read from a copy in which the depths are cut out. The object keeps them: whoever decodes
its body meets the limit, and nobody else.
"""

import re

import msgspec

from .objects import Object

LEVELS = 200
"""How many levels are left: the stack that the decoder shares may be used up to a half already."""
_tokens = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL).finditer


def shallow(data: bytes) -> tuple[bytes, "Depths"]:
    """A copy in which all that is below `LEVELS` is a string, and what it was. What is no JSON stays none."""
    depths = Depths(data)
    kept: list[bytes] = []
    level = cut = end = 0
    for token in _tokens(data):
        if token[0] in {b"[", b"{"}:
            level += 1
            if level == LEVELS + 1:
                cut = token.start()
        elif token[0] in {b"]", b"}"}:
            level -= 1
            if level == LEVELS:
                kept += data[end:cut], depths.put(data[cut : token.end()])
                end = token.end()
    return b"".join([*kept, data[end:]]), depths


class Depths:
    """What was cut out of some JSON."""

    def __init__(self, data: bytes) -> None:
        mark = b"cut"
        while mark in data:
            mark += b"t"
        self._mark = mark
        self._parts: list[bytes] = []

    def put(self, part: bytes) -> bytes:
        """Keep a part; gives what stands in its place."""
        self._parts.append(part)
        return b'"%b%d"' % (self._mark, len(self._parts) - 1)

    def restore(self, obj: Object) -> Object:
        """The object as it was."""
        raw = re.sub(rb'"%b(\d+)"' % self._mark, lambda found: self._parts[int(found[1])], obj.raw)
        return msgspec.structs.replace(obj, raw=raw)
