"""The barrier holds handlers back until the indices hold everything that was there at the start.

It is closed from the operator's start until each indexed resource has told what it has, and each of these objects has been indexed
once; then it is open for good. While it is closed, an object's attempt indexes the object and ends: no attempt waits, so that any
limit of attempts at a time will do.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Barrier(Generic[K]):
    """Knows what is to be indexed before handlers run, and which keys ask to be woken then. Sources are any hashable names."""

    def __init__(self, wake: Callable[[K], None], *, needed: bool) -> None:
        """`wake` is called for each key that is held, when the barrier opens. One that is not needed is open."""
        self._wake = wake
        self.is_open = not needed
        self._is_complete = self._is_abandoned = False
        self._sources: set[Hashable] = set()
        self._unindexed: set[K] = set()
        self._held: dict[K, None] = {}

    @property
    def awaited(self) -> frozenset[Hashable]:
        """The sources that have not told yet what they have."""
        return frozenset(self._sources)

    @property
    def unindexed(self) -> int:
        """How many objects are known that were not indexed yet."""
        return len(self._unindexed)

    # What there is to be indexed.

    def expect(self, source: Hashable) -> None:
        """Wait for a source's first list; one that comes when the barrier is open is not waited for."""
        if not self.is_open:
            self._sources.add(source)

    def told(self, source: Hashable) -> None:
        """The source has told everything that it has, or is not to be waited for any more."""
        self._sources.discard(source)
        self._look()

    def complete(self) -> None:
        """No other sources are to be waited for."""
        self._is_complete = True
        self._look()

    def found(self, key: K) -> None:
        """An object was there at the start."""
        if not self.is_open:
            self._unindexed.add(key)

    # What comes of it.

    def indexed(self, key: K) -> None:
        """The object has been indexed, or could not be."""
        self._unindexed.discard(key)
        self._look()

    def hold(self, key: K) -> None:
        """Wake this key when the barrier opens."""
        self._held[key] = None

    def abandon(self) -> None:
        """The operator stops: a barrier that is closed stays so, whatever ceases to be served."""
        self._is_abandoned = True

    def let_go(self) -> None:
        """Nothing may be attempted any more: every key is asked for again when it may, and comes back to be held."""
        self._held.clear()

    def drop(self, is_gone: Callable[[K], bool]) -> None:
        """These keys are not served any more."""
        for key in filter(is_gone, [*self._unindexed, *self._held]):
            self._unindexed.discard(key)
            self._held.pop(key, None)
        self._look()

    def _look(self) -> None:
        if self.is_open or self._is_abandoned or not self._is_complete or self._sources or self._unindexed:
            return
        self.is_open = True
        held, self._held = self._held, {}
        for key in held:
            self._wake(key)
