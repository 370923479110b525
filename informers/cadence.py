"""How long a watch may be silent is learned from the rhythm of its bookmarks.

API servers send a bookmark about every 60 s to each watch that asks for them, whether anything happens or not.
"""

MARGIN = 5.0
"""Seconds on top of the rhythm: bookmarks are jittered, and networks are late."""
LENIENCE = 1.25
REMEMBERED = 4


class Cadence:
    """The rhythm of one server's bookmarks for one resource, over any number of watches.

    Times are in seconds, of any clock that does not go back.
    """

    __slots__ = ("_gaps", "_last", "_speaks", "_will_speak", "cap")

    def __init__(self, cap: float = 90.0) -> None:
        self.cap = cap
        self._last: float | None = None
        self._gaps: list[float] = []
        # Whether a watch that says nothing is a deaf one here; and whether the one after the next is.
        self._speaks = False
        self._will_speak = False

    @property
    def is_known(self) -> bool:
        """Whether two bookmarks of one watch were seen: silence is abnormal here."""
        return bool(self._gaps)

    @property
    def limit(self) -> float:
        """How many seconds of silence are a stall. The cap until a rhythm is known, and never more."""
        if not self._gaps:
            return self.cap
        return min(self.cap, max(self._gaps) * LENIENCE + MARGIN)

    @property
    def speaks(self) -> bool:
        """Whether this server sends bookmarks: it was seen to."""
        return self._will_speak

    def stalled(self) -> None:
        """A watch was silent for longer than the limit: what was taken for a rhythm may have been a burst, so more is waited next time."""
        self._gaps = [min(2 * gap + MARGIN, self.cap) for gap in self._gaps]

    def opened(self) -> bool:
        """A watch began: its bookmarks have no relation to those of the one before.

        Tells whether that is a sign of life. Where bookmarks have come it is none: whoever can open streams and lets nothing through
        opens one after the other. After a streamed list the first is one yet: API servers may send that stream no further
        bookmark until something has changed, and send them to all others.
        """
        self._last = None
        is_life = not self._speaks
        self._speaks = self._will_speak
        return is_life

    def streamed(self) -> None:
        """The bookmark that ends a streamed list came: this server knows bookmarks."""
        self._will_speak = True

    def bookmark(self, now: float) -> None:
        """A bookmark came."""
        self._speaks = self._will_speak = True
        if self._last is not None:
            self._gaps = [*self._gaps[-(REMEMBERED - 1) :], now - self._last]
        self._last = now
