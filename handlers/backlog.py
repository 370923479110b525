"""Hold the raw events of one object until its worker takes them, in order and bounded.

Raw event handlers are promised each event of the wire. When a backlog overflows, consecutive MODIFIED events of one
object collapse into the last of them; ADDED, DELETED and listed objects stay.
"""

from collections import deque

from ..informers.deltas import Delta

LIMIT = 256


class Backlog:
    """The waiting events of one key. `collapsed` counts the events that were dropped in favour of a later one."""

    __slots__ = ("_deltas", "collapsed")

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
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
                self.collapsed += 1
                return False
        self._deltas.append(delta)
        return True

    def take(self) -> Delta | None:
        """Give the oldest event, or None when there is none."""
        return self._deltas.popleft() if self._deltas else None


def _is_modified(delta: Delta) -> bool:
    return delta.wire_type == "MODIFIED"
