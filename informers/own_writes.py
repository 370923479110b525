"""Own writes are seen by readers before the watch has told of them, and its deltas say which of them are their echoes.

The answer of a write stands for its object until the watch, or a list, has come to the answer's version. Versions of one resource are
comparable integers since Kubernetes 1.35 (KEP-5504). Where they are not decimal no answer is shown: readers see what the watch has told.

The watch is often faster than the answer. Whether a delta is the echo of an own write is known only when the answer is there, so the
deltas of that one object are held back until then, but no longer than `PATIENCE`: others have a right to know what becomes of the
object, however long the request takes. An echo that is not held any more is news.
"""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from ..client.objects import Object, version_order
from ..client.resources import Key
from .deltas import DELETED, UPDATED, Delta, collapse
from .indexers import Indexer, IndexFunction, Name
from .watch_cache import Order, WatchCache

HELD = 64
"""How many deltas of one object are held before updates are joined."""
PATIENCE = 1.0
"""Seconds that a delta is held at the most."""
BOOKMARKS = 2
"""After how many bookmarks a deletion that the watch does not tell of is given up."""


class Answer(msgspec.Struct, gc=False):
    """What the server has answered to a write."""

    object: Object
    hidden: bool
    """The write took the object out of the informer's selection."""
    order: Order | None
    lists: int
    """How many lists had been requested before it came."""


class Deletion(msgspec.Struct, gc=False):
    """An object that an own write has deleted for good."""

    name: Name
    lists: int
    bookmarks: int = 0
    """How many came since."""


class OwnWrites:
    """The own writes to the objects of one cache, from their requests to their echoes."""

    def __init__(self, cache: WatchCache, limit: int) -> None:
        self._cache = cache
        self._limit = limit
        self.answers: OrderedDict[Name, Answer] = OrderedDict()
        """The newest of each object, until the watch or a list has come to it."""
        self.deletions: OrderedDict[str, Deletion] = OrderedDict()
        """By uid."""
        self.indexers: dict[str, Indexer] = {}
        """Those of the cache, over the answers."""
        # The versions whose deltas are to come: the author, and how many lists had been requested before the answer.
        self._echoes: OrderedDict[str, tuple[str | None, int]] = OrderedDict()
        # How many writes to each object are on their way, its deltas meanwhile, and when they are told at the latest, in this order.
        self._flying: dict[Name, int] = {}
        self._held: dict[Name, list[Delta]] = {}
        self._due: dict[Name, float] = {}
        self._bookmarks = cache.bookmarks

    # What readers see.

    def see(self, name: Name) -> Object | None:
        """The object as readers see it: the newest that the watch has told of, or that a write was answered with."""
        answer = self.answers.get(name)
        if answer is None or not self._is_ahead(answer):
            found = self._cache.objects.get(name)
        else:
            found = None if answer.hidden else answer.object
        return None if found is not None and self.deletions and found.uid in self.deletions else found

    def _is_ahead(self, answer: Answer) -> bool:
        return answer.order is not None and self._cache.order is not None and answer.order > self._cache.order

    def names(self) -> set[Name]:
        """The objects of which readers may see another state than the cache has."""
        return {*self.answers, *(deletion.name for deletion in self.deletions.values())}

    def __bool__(self) -> bool:
        return bool(self.answers or self.deletions)

    def __len__(self) -> int:
        return sum(map(self._is_ahead, self.answers.values())) + len(self.deletions)

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Find answers by this, too."""
        indexer = self.indexers[index] = Indexer(function)
        indexer.add((name, answer.object) for name, answer in self.answers.items())

    # Writes.

    def begin(self, name: Name) -> None:
        """A write to this object is on its way: from now on its deltas are held back."""
        self._flying[name] = self._flying.get(name, 0) + 1

    def end(self, name: Name) -> list[Delta]:
        """A write is over, however it ended; gives the deltas that nothing holds back any more."""
        self._flying[name] -= 1
        if self._flying[name]:
            return []
        del self._flying[name]
        return self._release(name)

    def answered(self, obj: Object, author: str | None, *, echo: bool, hidden: bool) -> bool:
        """Take in the answer of a write, or what was read; tells whether readers see it, or something newer. See `Informer.add_own_write`."""
        name, order, cache = (obj.namespace, obj.name), version_order(obj.resource_version), self._cache
        held = self._held.get(name)
        if echo and held:
            version = obj.resource_version
            self._held[name] = [
                _marked(delta, author) if delta.object.resource_version == version else delta for delta in held
            ]
        if order is None or cache.order is None:
            # Should a list lack it, readers are to be told that it is gone.
            if not (hidden or name in cache.objects or cache.is_buried(obj.uid)):
                self._keep(name, Answer(obj, hidden, order, cache.requested))
            return False
        if order <= cache.order:
            return True
        if echo:
            self._echoes[obj.resource_version] = author, cache.requested
            if len(self._echoes) > self._limit:
                self._echoes.popitem(last=False)
        present = self.answers.get(name)
        if present is None or present.order is None or present.order < order:
            self._keep(name, Answer(obj, hidden, order, cache.requested))
        return True

    def deleted(self, key: Key, uid: str) -> None:
        """Hide an object that a write has deleted for good, until the watch has told of that."""
        if not self._cache.is_buried(uid):
            self.deletions[uid] = Deletion((key[0], key[1]), self._cache.requested)
            if len(self.deletions) > self._limit:
                self.deletions.popitem(last=False)

    def _keep(self, name: Name, answer: Answer) -> None:
        self._drop(name)
        self.answers[name] = answer
        for indexer in self.indexers.values():
            indexer.update(name, None, answer.object)
        if len(self.answers) > self._limit:
            self._drop(next(iter(self.answers)))

    def _drop(self, name: Name) -> None:
        answer = self.answers.pop(name, None)
        if answer is not None:
            for indexer in self.indexers.values():
                indexer.update(name, answer.object, None)

    # What the watch tells.

    def follow(self, deltas: list[Delta], now: float) -> list[Delta]:
        """Take in what the watch has told; gives the deltas that are not held back, echoes marked."""
        bookmarks, self._bookmarks = self._cache.bookmarks - self._bookmarks, self._cache.bookmarks
        if bookmarks:
            self._bookmarked(bookmarks)
        if not (self._flying or self._echoes or self.answers or self.deletions):
            return deltas
        echoes, free = self._echoes, []
        for delta in deltas:
            obj = delta.object
            name = (obj.namespace, obj.name)
            answer = self.answers.get(name)
            if answer is not None and not self._is_ahead(answer):
                self._drop(name)
            if delta.kind is DELETED:
                self.deletions.pop(obj.uid, None)
            told = delta
            if obj.resource_version in echoes:
                author, _ = echoes.pop(obj.resource_version)
                told = _marked(delta, author)
            if name in self._flying:
                self._hold(name, told, now)
            else:
                free.append(told)
        return free

    def _bookmarked(self, bookmarks: int) -> None:
        for name, answer in list(self.answers.items()):
            if answer.order is not None and not self._is_ahead(answer):
                self._drop(name)
        for uid, deletion in list(self.deletions.items()):
            deletion.bookmarks += bookmarks
            if deletion.bookmarks >= BOOKMARKS:
                del self.deletions[uid]

    def relisted(self, number: int, *, consistent: bool, rewound: bool, gone: Iterable[Delta]) -> list[Delta]:
        """Take in that the list of this number has taken the cache's place; gives the deletions that only own writes let know of.

        A consistent list is newer than what was answered before its request. `rewound`: the server may have gone back in time.
        `gone`: the deltas of the list. What an own write has made, readers may have seen, and neither watch nor list tells of, is gone.
        """
        cache, told = (
            self._cache,
            {(delta.object.namespace, delta.object.name) for delta in gone if delta.kind is DELETED},
        )
        missed = []
        for name, answer in list(self.answers.items()):
            is_older = consistent and answer.lists < number
            is_told = name in cache.objects or name in told
            if is_older or (answer.order is None and is_told) or not (answer.order is None or self._is_ahead(answer)):
                if not (is_told or answer.hidden or answer.object.uid in self.deletions):
                    missed.append(answer.object)
                self._drop(name)
        for uid, deletion in list(self.deletions.items()):
            if rewound or (consistent and deletion.lists < number):
                del self.deletions[uid]
        for version, (_, lists) in list(self._echoes.items()):
            # No watch brings it any more; what bears its version after a restore of the server is another write.
            if consistent and lists < number:
                del self._echoes[version]
        return [cache.missed(obj, cache.resource_version, told=False) for obj in missed]

    # What is held back.

    def _hold(self, name: Name, delta: Delta, now: float) -> None:
        held = self._held.setdefault(name, [])
        self._due.setdefault(name, now + PATIENCE)
        held.append(delta)
        if len(held) > HELD:
            self._held[name] = collapse(held)

    @property
    def next_due(self) -> float | None:
        """When something has been held long enough; None: nothing is held."""
        return next(iter(self._due.values()), None)

    def overdue(self, now: float) -> list[Delta]:
        """Give the deltas that have been held long enough, though their writes are still on their way."""
        ripe = [name for name, due in self._due.items() if due <= now]
        return [delta for name in ripe for delta in self._release(name)]

    def flush(self) -> list[Delta]:
        """Give all that is held back: a newer state is about to be shown."""
        return [delta for name in list(self._held) for delta in self._release(name)]

    def _release(self, name: Name) -> list[Delta]:
        self._due.pop(name, None)
        return self._held.pop(name, [])


def _marked(delta: Delta, author: str | None) -> Delta:
    """A delta as the echo of a write: to all, or its author's. A new object is news to everyone."""
    if delta.kind is not UPDATED:
        return delta
    return msgspec.structs.replace(delta, echo=author is None, author=author)
