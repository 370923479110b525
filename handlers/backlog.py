"""Hold the raw events of one object until its worker takes them, in order and bounded.

Raw event handlers are promised each event of the wire. When a backlog overflows, consecutive MODIFIED events of one
object collapse into the last of them; ADDED, DELETED and listed objects stay.
"""

from collections import deque

from ..informers.deltas import Delta

LIMIT = 256


class Backlog:
    """The waiting events of one key. `collapsed` counts the events that were dropped in favour of a later one.

    Events can be looked at before they are taken; `ahead` is how many of the oldest have been.
    """

    __slots__ = ("_deltas", "ahead", "collapsed")

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
        self.ahead = 0
        self.collapsed = 0

    def __len__(self) -> int:
        return len(self._deltas)

    def add(self, delta: Delta) -> bool:
        """Take an event; False when an earlier one was dropped for it."""
        full = len(self._deltas) >= LIMIT
        if full and _is_modified(delta) and _is_modified(self._deltas[-1]):
            last = self._deltas[-1]
            if last.object.uid == delta.object.uid:
                self._deltas[-1] = delta
                self.ahead = min(self.ahead, len(self._deltas) - 1)
                self.collapsed += 1
                return False
        self._deltas.append(delta)
        return True

    def take(self) -> Delta:
        """Give the oldest event. Raises IndexError when there is none."""
        self.ahead = max(0, self.ahead - 1)
        return self._deltas.popleft()

    def first(self) -> Delta | None:
        """The oldest event, which stays; None when there is none."""
        return self._deltas[0] if self._deltas else None

    def drain(self) -> tuple[list[Delta], list[Delta]]:
        """Empty it: gives the events that were looked at, and those that were not."""
        deltas, ahead = list(self._deltas), self.ahead
        self._deltas.clear()
        self.ahead = 0
        return deltas[:ahead], deltas[ahead:]

    def look_ahead(self) -> Delta | None:
        """Give the oldest event that was not looked at yet, and leave it where it is; None when there is none."""
        if self.ahead == len(self._deltas):
            return None
        self.ahead += 1
        return self._deltas[self.ahead - 1]


def _is_modified(delta: Delta) -> bool:
    return delta.wire_type == "MODIFIED"
