"""Memories: what the process knows of an object beyond the object itself.

A memory belongs to a uid: a later object of the same name starts with a new one. Objects without handlers have none.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from weakref import ref

from ..causes.patch import Patch, compose
from ..causes.views import BodyEssence
from ..execution.progression import Progress
from ..storage.baseline import Known


class Memo(dict[str, Any]):
    """A dict whose keys are attributes too, except the names of dict's methods; handlers keep there what they like.

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
"""No states, no records: one mapping for all memories."""


@dataclass(slots=True, eq=False)
class Memory:
    """The memory of one object."""

    initial: bool
    """The object was there before this process watched."""
    known: Known = field(default_factory=Known)
    """The state that was handled last, as far as the process knows."""
    handled_once: bool = False
    """This process has finished a cause of it."""
    shown: Mapping[str, BodyEssence] = field(default_factory=lambda: NOTHING)
    """States that handlers saw and may not have been told away from, by their digests, in order."""
    progress: Mapping[str, Progress] = field(default_factory=lambda: NOTHING)
    """Records of the unfinished cycle, whether or not they were written."""
    unwritten: Patch | None = None
    """Patches of raw event handlers, and of a write that failed."""
    observed: int | None = None
    """The term of the background (pauses separate terms) in which its daemons and timers were observed last."""
    leaving: bool = False
    """It was seen marked for deletion, which is final: a version without the mark is an older one."""
    released: bool = False
    """Our finalizer was removed from an object under deletion, and cannot come back; the cache may still show it."""
    settled: str | None = None
    """The version in which an attempt found nothing to do, and left nothing to do."""
    failures: int = 0
    """Consecutive attempts that ended with an error of ours or of the server."""
    error: str | None = None
    """The last of these errors."""
    throttled_until: float | None = None
    """Loop time."""
    # Handlers of a second served version of the object have a memory of their own.
    _version: str | None = None
    _aspects: "dict[str, Memory] | None" = None

    def aspect(self, version: str) -> "Memory":
        """The memory of one served version of the object; nearly always there is only one."""
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
            # A creation that was handled in one version is a creation for the handlers of the others too.
            found.known.behind |= any(other.known.created for other in (self, *self._aspects.values()))
        return found

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is left to do for the object in any state of it."""
        rests = self.unwritten is None and self.throttled_until is None and not self.failures
        return rests and not self.progress and self._aspects is None

    def in_work_beside(self, aspect: "Memory") -> frozenset[str]:
        """The handlers in unfinished cycles of the other served versions."""
        others = (self, *(self._aspects or {}).values())
        return frozenset(known for other in others if other is not aspect for known in other.progress)

    def unlearn(self) -> None:
        """Trust the state on the object, not ours, from now on: others may have handled it meanwhile."""
        self.settled = None
        for memory in (self, *(self._aspects or {}).values()):
            memory.known.unlearn()

    def renew(self) -> None:
        """Forget everything, as at the start of the process: another one has worked on the object meanwhile."""
        self.__init__(initial=True)  # type: ignore[misc]

    def pending(self) -> Patch:
        """The patch of the next write, to be added to."""
        if self.unwritten is None:
            self.unwritten = Patch()
        return self.unwritten

    def take_pending(self) -> Patch:
        """Remove and return the patch of the next write."""
        patch, self.unwritten = self.pending(), None
        return patch

    def keep_pending(self, patch: Patch) -> None:
        """Leave a patch for the next write, before the changes that were added meanwhile."""
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
        """The memory of an object, made if there is none.

        `initial` and `copied` are for a new one; `copied`: the handlers' state on the object is that of another object.
        """
        memory = self._by_uid.get(uid)
        if memory is None:
            memory = self._by_uid[uid] = Memory(initial, Known(copied=copied))
        return memory

    def find(self, uid: str) -> Memory | None:
        """The memory of an object, or None when there is none."""
        return self._by_uid.get(uid)

    def keep_settled(self, revision: int) -> None:
        """Forget which versions are settled when the registry has another revision: they were settled for other handlers."""
        if revision != self._revision:
            self._revision = revision
            for memory in self._by_uid.values():
                memory.settled = None

    def renew(self) -> None:
        """Renew each of them."""
        for memory in self._by_uid.values():
            memory.renew()

    def unlearn(self) -> None:
        """Trust the state on the objects, not ours, from now on: others may have handled them meanwhile."""
        for memory in self._by_uid.values():
            memory.unlearn()

    def forget(self, uid: str) -> None:
        """Forget an object that is gone, if it is known."""
        self._by_uid.pop(uid, None)
        self._memos.pop(uid, None)

    def memo(self, uid: str, operator_memo: Any) -> Any:
        """The object's memo: a shallow copy of the operator's, made at the first call."""
        memo = self._memos.get(uid)
        if memo is None:
            # For our own class this is the same in half the time: one is made for each raw event.
            plain = type(operator_memo) is Memo
            memo = self._memos[uid] = Memo(operator_memo) if plain else copy.copy(operator_memo)
        return memo

    def rest(self, uid: str, operator_memo: Any) -> None:
        """Drop the memo of an object at rest, if it is unchanged and not referred to."""
        memo = self._memos.get(uid)
        if type(memo) is Memo and memo == operator_memo:
            # Without our reference it vanishes, unless there is another one.
            seen = ref(memo)
            del self._memos[uid], memo
            if (held := seen()) is not None:
                self._memos[uid] = held
