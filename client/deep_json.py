"""JSON that the decoder refuses is read all the same: objects nested too deeply, and text with lone surrogates.

API servers accept objects of 10,000 levels; the decoder gives up at about 1,000. One such object must not hide all others of its kind, so
its identity and metadata are read from a copy without the deep parts. The object keeps them: only decoding its body fails.

Servers in Go store U+FFFD in the place of a lone surrogate; we do the same for servers that do not.

All of this takes time in proportion to the length of the JSON, whatever its strings contain. Each page or event is read once for it: the
copies of its deep objects are kept for the transform and for the first readers of their metadata.
"""

import re

LEVELS = 200
"""How many levels the copy has: half of the stack that the decoder shares may be in use already."""
KEPT = LEVELS // 2
"""What is cut out begins below so many levels: the parts are long then, and few."""
REMEMBERED = 8 * 2**20
"""How many bytes of deep objects and their copies are kept."""
# A string without an end (this is no JSON then) reaches to the end of the data: otherwise each quote would be tried as its beginning.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)'
_LEAF = rb'[\[{](?:[^\[\]{}"]++|' + _STRING + rb")*+[\]}]"
# Brackets, and before them whatever has none or has nothing nested in it. (It ends at the end too: otherwise each byte after the last bracket
# would be tried as its beginning.)
_tokens = re.compile(
    rb'(?:[^\[\]{}"]++|' + _STRING + rb"|" + _LEAF + rb")*+(?:([\[{]++)|([\]}]++)|\Z)", re.DOTALL
).finditer
_has_surrogates = re.compile(rb"\\u[dD][89a-fA-F]").search
_escapes = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_marks = re.compile(rb"cut(\d{1,8}):").findall


def outline(raw: bytes) -> tuple[bytes, "DeepParts"]:
    """What `shallow` returns for one object; made once for each version."""
    known = _outlines.get(raw)
    if known is None:
        known = shallow(raw)
        _remember(raw, *known)
    return known


_outlines: dict[bytes, tuple[bytes, "DeepParts"]] = {}


def _remember(raw: bytes, flat: bytes, parts: "DeepParts") -> None:
    _outlines[raw] = flat, parts
    # A copy: other threads may read metadata at the same time.
    known = [(len(raw) + len(flat), raw) for raw, (flat, _) in list(_outlines.items())]
    total = sum(size for size, _ in known)
    for size, oldest in known[:-1]:
        if total <= REMEMBERED:
            break
        _outlines.pop(oldest, None)
        total -= size


def shallow(data: bytes) -> tuple[bytes, "DeepParts"]:
    """Returns a copy in which strings stand for the parts that are deeper than `LEVELS`, and these parts. Broken JSON stays broken."""
    parts = DeepParts(data)
    kept: list[bytes] = []
    level = cut = end = 0
    is_deep = False
    for token in _tokens(data):
        if token.lastindex is None:
            break
        is_opening = token.lastindex == 1
        start, stop = token.span(1 if is_opening else 2)
        if is_opening:
            if level <= KEPT < level + stop - start:
                cut = start + KEPT - level
            level += stop - start
            is_deep = is_deep or level > LEVELS
        else:
            if is_deep and level > KEPT >= level - (stop - start):
                stopped, end, is_deep = end, start + level - KEPT, False
                kept += data[stopped:cut], parts.put(data[cut:end])
            level -= stop - start
    return b"".join([*kept, data[end:]]), parts


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
        self._parts: dict[bytes, bytes] = {}

    def put(self, part: bytes) -> bytes:
        """Keep a part; returns the string that stands for it."""
        name = b'"%b%d"' % (self._mark, len(self._parts))
        self._parts[name] = part
        return name

    def restore(self, flat: bytes) -> bytes:
        """A piece of the copy, which is an object, with its deep parts; its outline is known then."""
        if self._mark not in flat:
            return flat
        own = DeepParts.__new__(DeepParts)
        own._mark, own._parts = self._mark, {}

        def part(found: re.Match[bytes]) -> bytes:
            own._parts[found[0]] = found_part = self._parts[found[0]]
            return found_part

        raw = re.sub(rb'"%b\d+"' % self._mark, part, flat)
        _remember(raw, flat, own)
        return raw
