"""The history counts versions and remembers the changes of a bounded window, oldest first."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from .status import expired

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored(msgspec.Struct, frozen=True):
    """One object at one version: `body` is its JSON without apiVersion and kind.

    The version also stands inside the body. `fields` are the values that field selectors may ask for.
    """

    version: int
    name: str
    namespace: str
    uid: str
    body: bytes
    labels: dict[str, str]
    fields: dict[str, str]
    owners: tuple[str, ...] = ()

    @property
    def terminating(self) -> bool:
        """Whether it is marked for deletion (read off the bytes: a text cannot hold the pattern unescaped)."""
        return b'"deletionTimestamp":"' in self.body

    def decode(self) -> dict[str, Any]:
        """The body as fresh dicts and lists, free to be changed."""
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Change(msgspec.Struct, eq=False):
    """One write: the object after it (for a deletion: its last state under the deletion's version)."""

    version: int
    bucket: str
    key: str
    type: ChangeType
    object: Stored
    previous: Stored | None
    # Encoded watch lines, shared by all watchers that want the same form of the same event.
    lines: dict[tuple[Any, ...], bytes] = msgspec.field(default_factory=dict)


class History:
    """A counter and a window of changes.

    Versions increase by one with each write over all resources. Changes at or below `compacted` are
    forgotten: reading from there is an Expired answer. At least the `window` newest changes are kept.
    """

    def __init__(self, first: int, window: int) -> None:
        self.current = first
        self.compacted = first
        self._window = window
        # Invariant: ascending by version, all above `compacted` except for a tail of at most a quarter window.
        self._changes: list[Change] = []

    def record(self, make: Callable[[int], Change]) -> Change:
        """Take the next version, build the change with it and remember it."""
        # A maker that raises takes no version.
        change = make(self.current + 1)
        self.current += 1
        self._changes.append(change)
        surplus = len(self._changes) - self._window
        if surplus > 0:
            self.compacted = max(self.compacted, self._changes[surplus - 1].version)
            if surplus > self._window // 4:
                del self._changes[:surplus]
        return change

    def skip(self, count: int = 1) -> None:
        """Let versions pass, as writes of resources that nobody looks at would."""
        self.current += count

    def compact(self, version: int | None = None) -> None:
        """Forget all changes up to and including `version` (default: all there are)."""
        self.compacted = max(self.compacted, self.current if version is None else min(version, self.current))
        del self._changes[: bisect_right(self._changes, self.compacted, key=_version)]

    def since(self, version: int, bucket: str) -> list[Change]:
        """The changes of one bucket after `version`, oldest first. Raises 410 when some are forgotten."""
        if version < self.compacted:
            raise expired(f"too old resource version: {version} ({self.compacted})")
        start = bisect_right(self._changes, version, key=_version)
        return [change for change in self._changes[start:] if change.bucket == bucket]

    def back(self, version: int, bucket: str) -> Iterator[Change]:
        """The changes of one bucket after `version`, newest first, to undo them."""
        return reversed(self.since(version, bucket))


def _version(change: Change) -> int:
    return change.version
