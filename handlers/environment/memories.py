"""Remember per object what the process knows beyond the object itself.

A memory belongs to a uid: a namesake that was created later starts with a new one. Nothing is remembered for objects that
no handler is for.
"""

import copy
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from weakref import ref

from ..causes.patch import Patch, compose
from ..causes.views import BodyEssence
from ..execution.progression import Progress
from ..storage.baseline import Known


class Memo(dict[str, Any]):
    """A dict whose keys are attributes too, those aside that are methods of dict.

    An object's memo starts as a shallow copy of the operator's memo. An absent attribute raises AttributeError, an absent
    key KeyError.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"The memo has no {name!r}; it has: {', '.join(map(repr, self)) or 'nothing'}."
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"The memo has no {name!r} to delete.") from None

    def __copy__(self) -> "Memo":
        return type(self)(self)


NOTHING: Mapping[str, Any] = MappingProxyType({})
"""No states, no records: one for all objects, since there is a memory for each of them."""


class Memory:
    """What is remembered of one object.

    `initial`: it was there before this process watched. `handled_once`: a cause of it was finished by this process.
    `known`: the state that was handled last, as far as the process knows.
    `seen`: what handlers that finished in the unfinished cycle saw, by the states' digests, the first first; `carried`:
    what handlers of earlier cycles saw that is no more, until a cycle that tells them is done. `progress`: records of the
    unfinished cycle, whether or not they reached the object. `unwritten`: what raw event handlers left, and what the last
    write failed to bring there.
    `leaving`: it was seen being deleted, which nothing takes back: a version of it that is not is an older one.
    `released`: our finalizer was taken off when the object was being deleted, and cannot come back; the copy may not show it.
    `observed`: in which term of the background (they are parted by pauses) its daemons and timers were looked at last.
    `settled`: the version of the object in which an attempt found nothing to do, and left nothing.
    `failures`: consecutive attempts that ended with an error of ours or of the server, `error` the last of these; `throttled_until`: loop time.
    """

    __slots__ = (
        "_aspects",
        "_version",
        "carried",
        "error",
        "failures",
        "handled_once",
        "initial",
        "known",
        "leaving",
        "observed",
        "progress",
        "released",
        "seen",
        "settled",
        "throttled_until",
        "unwritten",
    )

    def __init__(self, *, initial: bool, copied: bool = False) -> None:
        self.initial = initial
        self.known = Known(copied=copied)
        self.handled_once = False
        self.seen: Mapping[str, BodyEssence] = NOTHING
        self.carried: Mapping[str, BodyEssence] = NOTHING
        self.progress: Mapping[str, Progress] = NOTHING
        self.unwritten: Patch | None = None
        self.observed: int | None = None
        self.leaving = False
        self.released = False
        self.settled: str | None = None
        self.failures = 0
        self.error: str | None = None
        self.throttled_until: float | None = None
        # An object has one memory, but for what handlers of its second served version did and saw.
        self._version: str | None = None
        self._aspects: dict[str, Memory] | None = None

    def aspect(self, version: str) -> "Memory":
        """What is remembered of the object as one served version of its resource shows it; nearly always there is but one."""
        if self._version is None:
            self._version = version
        if self._version == version and self._aspects is None:
            return self
        if self._aspects is None:
            self._aspects = {}
        if self._version != version and version not in self._aspects:
            self._aspects[version] = Memory(initial=self.initial)
        found = self if self._version == version else self._aspects[version]
        if found.known.digest is None and not found.known.created:
            # What the handlers of one version were told as a creation is one for those of the others too.
            found.known.behind |= any(other.known.created for other in (self, *self._aspects.values()))
        return found

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is left to be done about the object, whatever it is like."""
        rests = self.unwritten is None and self.throttled_until is None and not self.failures
        return rests and not self.progress and self._aspects is None

    def in_work_beside(self, aspect: "Memory") -> frozenset[str]:
        """The handlers in the unfinished cycles of the other served versions, as one of them sees the object."""
        others = (self, *(self._aspects or {}).values())
        return frozenset(known for other in others if other is not aspect for known in other.progress)

    def unlearn(self) -> None:
        """Others may have handled the object meanwhile: what it says of that counts from now on, and not what we know."""
        self.settled = None
        for memory in (self, *(self._aspects or {}).values()):
            memory.known.unlearn()

    def renew(self) -> None:
        """Be as if the process had begun just now: somebody else has worked on the object meanwhile."""
        self.__init__(initial=True)  # type: ignore[misc]

    def pending(self) -> Patch:
        """What is to be written with the next write; to be added to."""
        if self.unwritten is None:
            self.unwritten = Patch()
        return self.unwritten

    def take_pending(self) -> Patch:
        """What is to be written with the next write, which is now the caller's to write."""
        patch, self.unwritten = self.pending(), None
        return patch

    def keep_pending(self, patch: Patch) -> None:
        """Leave a patch for the next write; what came meanwhile comes after it."""
        if self.unwritten is not None:
            compose(patch, self.unwritten)
        self.unwritten = patch or None


class Memories:
    """The memories of all objects, by uid, and their memos."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Memory] = {}
        self._memos: dict[str, Any] = {}
        self._revision: int | None = None

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_uid)

    def recall(self, uid: str, *, initial: bool = False, copied: bool = False) -> Memory:
        """The memory of an object; a new one is `initial` as said, an old one stays as it is.

        `copied`: what the object, seen for the first time, says of having been handled is about another one.
        """
        memory = self._by_uid.get(uid)
        if memory is None:
            memory = self._by_uid[uid] = Memory(initial=initial, copied=copied)
        return memory

    def find(self, uid: str) -> Memory | None:
        """The memory of an object, or None when there is none."""
        return self._by_uid.get(uid)

    def keep_settled(self, revision: int) -> None:
        """Believe what is settled as far as it was found so by the present handlers: those of this revision of the registry."""
        if revision != self._revision:
            self._revision = revision
            for memory in self._by_uid.values():
                memory.settled = None

    def renew(self) -> None:
        """Renew each of them."""
        for memory in self._by_uid.values():
            memory.renew()

    def unlearn(self) -> None:
        """Others may have handled objects meanwhile: what these say of it counts from now on, and not what we know."""
        for memory in self._by_uid.values():
            memory.unlearn()

    def forget(self, uid: str) -> None:
        """Drop what is known of an object that is gone; nothing happens when nothing is."""
        self._by_uid.pop(uid, None)
        self._memos.pop(uid, None)

    def memo(self, uid: str, operator_memo: Any) -> Any:
        """The object's memo: a shallow copy of the operator's, made at the first question."""
        memo = self._memos.get(uid)
        if memo is None:
            # The same for a memo of ours, and half of the price: one is made for each raw event.
            plain = type(operator_memo) is Memo
            memo = self._memos[uid] = Memo(operator_memo) if plain else copy.copy(operator_memo)
        return memo

    def rest(self, uid: str, operator_memo: Any) -> None:
        """The object is left alone for a while: a memo that is still as it was made, and that nobody holds, need not be kept."""
        memo = self._memos.get(uid)
        if type(memo) is Memo and memo == operator_memo:
            # Let go, it vanishes, unless somebody holds it.
            seen = ref(memo)
            del self._memos[uid], memo
            if (held := seen()) is not None:
                self._memos[uid] = held
