"""The raw events of one object wait here for the object's worker, in order and bounded.

Raw event handlers are promised each event of the wire. When a buffer is full, consecutive MODIFIED events of one object
collapse into the last of them; ADDED, DELETED and listed objects stay.
"""

import msgspec

from ...informers.deltas import Delta

LIMIT = 256


class EventBuffer(msgspec.Struct, eq=False):
    """The waiting events of one key. `collapsed` counts the events that were dropped in favour of a later one.

    Events can be looked at before they are taken; `ahead` is how many of the oldest have been.
    """

    ahead: int = 0
    collapsed: int = 0
    deltas: list[Delta] = msgspec.field(default_factory=list)
    """The waiting events, the oldest first. Not to be changed."""

    def __len__(self) -> int:
        return len(self.deltas)

    def add(self, delta: Delta) -> bool:
        """Add an event; False when an earlier one was dropped for it."""
        full = len(self.deltas) >= LIMIT
        if full and _is_modified(delta) and _is_modified(self.deltas[-1]):
            last = self.deltas[-1]
            if last.object.uid == delta.object.uid:
                self.deltas[-1] = delta
                self.ahead = min(self.ahead, len(self.deltas) - 1)
                self.collapsed += 1
                return False
        self.deltas.append(delta)
        return True

    def take(self) -> Delta:
        """Remove and return the oldest event. Raises IndexError when there is none."""
        delta = self.deltas.pop(0)
        if self.ahead:
            self.ahead -= 1
        return delta

    def first(self) -> Delta | None:
        """The oldest event, which stays; None when there is none."""
        return self.deltas[0] if self.deltas else None

    def drain(self) -> tuple[list[Delta], list[Delta]]:
        """Empty the buffer; returns the events that were looked at, and those that were not."""
        deltas, ahead = list(self.deltas), self.ahead
        self.deltas.clear()
        self.ahead = 0
        return deltas[:ahead], deltas[ahead:]

    def look_ahead(self) -> Delta | None:
        """The oldest event that was not looked at yet, which stays; None when there is none."""
        if self.ahead == len(self.deltas):
            return None
        self.ahead += 1
        return self.deltas[self.ahead - 1]


def _is_modified(delta: Delta) -> bool:
    return delta.wire_type == "MODIFIED"
