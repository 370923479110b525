"""The index barrier holds handlers back until the indices hold every object that was there at the start.

It is closed from the operator's start until each indexed resource was listed, and each listed object was indexed once; then
it is open for good. While it is closed, an object's attempt indexes the object and ends: no attempt waits, so that any limit
of concurrent attempts will do.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class IndexBarrier(Generic[K]):
    """What is to be indexed before handlers run, and which keys wait for that. Sources are any hashable names."""

    def __init__(self, wake: Callable[[K], None], *, needed: bool) -> None:
        """`wake` is called for each held key when the barrier opens. A barrier that is not needed is open."""
        self._wake = wake
        self.is_open = not needed
        self._is_complete = self._is_abandoned = False
        self._sources: set[Hashable] = set()
        self._unindexed: set[K] = set()
        self._held: dict[K, None] = {}

    @property
    def awaited(self) -> frozenset[Hashable]:
        """The sources that were not listed yet."""
        return frozenset(self._sources)

    @property
    def unindexed(self) -> int:
        """How many known objects were not indexed yet."""
        return len(self._unindexed)

    # What is to be indexed.

    def expect(self, source: Hashable) -> None:
        """Wait for a source's first list, unless the barrier is open already."""
        if not self.is_open:
            self._sources.add(source)

    def told(self, source: Hashable) -> None:
        """The source was listed, or is not waited for any more."""
        self._sources.discard(source)
        self._check()

    def complete(self) -> None:
        """No further source will be expected."""
        self._is_complete = True
        self._check()

    def found(self, key: K) -> None:
        """An object was there at the start."""
        if not self.is_open:
            self._unindexed.add(key)

    # Its progress.

    def indexed(self, key: K) -> None:
        """The object was indexed, or could not be."""
        self._unindexed.discard(key)
        self._check()

    def hold(self, key: K) -> None:
        """Wake this key when the barrier opens."""
        self._held[key] = None

    def abandon(self) -> None:
        """The operator stops: a closed barrier stays closed."""
        self._is_abandoned = True

    def let_go(self) -> None:
        """Forget the held keys: the gate is closed; when it opens, every key is attempted, and held again."""
        self._held.clear()

    def drop(self, is_gone: Callable[[K], bool]) -> None:
        """Forget keys that are not served any more."""
        for key in filter(is_gone, [*self._unindexed, *self._held]):
            self._unindexed.discard(key)
            self._held.pop(key, None)
        self._check()

    def _check(self) -> None:
        if self.is_open or self._is_abandoned or not self._is_complete or self._sources or self._unindexed:
            return
        self.is_open = True
        held, self._held = self._held, {}
        for key in held:
            self._wake(key)
