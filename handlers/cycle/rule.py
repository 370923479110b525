"""The cycle of change handlers, as one rule: which handlers are due, and what is remembered when they have ended.

The base of an object is the state (essence) that its handlers handled last; the diff-base on the object holds it. A cycle tells handlers
of a change from the base to the state that is there now, for one reason:

    ====================================  ======  ===========================================
    the object                            reason  handlers
    ====================================  ======  ===========================================
    under deletion, with our finalizer    DELETE  those of deletions
    under deletion, without it            FREE    none
    without a base                        CREATE  those of creations
    differs from its base                 UPDATE  those of updates
    as its base, not seen before          RESUME  those of resumptions
    as its base                           NOOP    none
    ====================================  ======  ===========================================

Each handler has a record while the cycle lasts. It is due when it is not finished and its delay is over. A finished handler is not called
again in the cycle, even if the object changes meanwhile; its record has the digests of the states that it saw. There are two exceptions
(`begin`). In an update, a finished handler begins anew if the change would not be told to it otherwise: it saw the base, or a state that
nobody knows any more. A resumption calls no handler if some handler saw another state: the base moves, and handlers are called for the
change that follows. The cycle is over when every handler is finished. `STEPS` says what is written then, and before:

    ======================  ===========================  ==============  =====================
    reason                  handlers                     records         base
    ======================  ===========================  ==============  =====================
    CREATE, UPDATE, RESUME  some are left                written         stays
    CREATE, UPDATE, RESUME  all are finished             removed         moves
    NOOP                    none                         removed         moves, if anywhere
    DELETE                  some are left                written         stays
    DELETE                  finished; daemons still run  written         stays
    DELETE                  all are finished             go with object  stays
    FREE                    none                         removed         stays
    ======================  ===========================  ==============  =====================

The base moves to the first state that a handler saw and has not been told away from; if there is none, to the state that the cycle told. A
handler has been told away from a state by a cycle that it finished later, and by a change that touches every field in which the state
differs from what is there now. So the next cycle tells all handlers what some of them have missed, and no state that nobody saw becomes
the base. Of a state that a handler of another process saw only the digest is known. It comes before all others: as a base it differs from
any state in everything (`old` is empty), so that the next cycle tells all handlers everything.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec

from ..causes.causes import Reason
from ..causes.diffs import diff
from ..causes.views import BodyEssence
from ..execution.progression import Progression
from ..storage.baseline import ObjectState


def reason_of(
    *, is_ending: bool, is_held: bool, base: BodyEssence | None, is_changed: bool, is_initial: bool
) -> Reason:
    """Why handlers are called: the first table above. `is_held`: our finalizer keeps the object; `is_initial`: not seen before."""
    if is_ending:
        return Reason.DELETE if is_held else Reason.FREE
    if base is None:
        return Reason.CREATE
    if is_changed:
        return Reason.UPDATE
    return Reason.RESUME if is_initial else Reason.NOOP


class Records(Enum):
    """What becomes of the records of the handlers."""

    WRITTEN = "written"
    REMOVED = "removed"
    LEFT = "left as they are: they go with the object"


class CyclePhase(Enum):
    """How far a cycle is."""

    PENDING = "some handlers are not finished"
    HELD = "all handlers are finished, and daemons keep the object"
    OVER = "all handlers are finished"


class Step(msgspec.Struct, frozen=True):
    """What is written in a phase of a cycle."""

    records: Records
    moves_base: bool = False


_PENDING: Final = Step(Records.WRITTEN)
_OVER: Final = Step(Records.REMOVED, moves_base=True)
_CHANGE: Final = {CyclePhase.PENDING: _PENDING, CyclePhase.HELD: _OVER, CyclePhase.OVER: _OVER}

STEPS: Final[Mapping[Reason, Mapping[CyclePhase, Step]]] = {
    Reason.CREATE: _CHANGE,
    Reason.UPDATE: _CHANGE,
    Reason.RESUME: _CHANGE,
    Reason.NOOP: {CyclePhase.HELD: _OVER, CyclePhase.OVER: _OVER},
    Reason.DELETE: {CyclePhase.PENDING: _PENDING, CyclePhase.HELD: _PENDING, CyclePhase.OVER: Step(Records.LEFT)},
}
"""The second table above: what is written for which reason, and when. (For FREE there is no cycle.)"""


class Ending(msgspec.Struct, frozen=True):
    """What is remembered at the end of an attempt.

    `base`: the new base, or the digest of one that is not known any more; None: it stays. `shown`: the states that handlers saw and that
    later cycles are to tell them away from.
    """

    phase: CyclePhase
    records: Records
    base: ObjectState | bytes | None
    shown: Mapping[str, BodyEssence]


QUIET_ENDING: Final = Ending(CyclePhase.OVER, Records.REMOVED, None, {})
"""That of a quiet attempt of which no record is left and of which nobody saw another state."""


@dataclass(slots=True)
class Cycle:
    """One cycle, in one attempt of an object.

    `base`: the state that was handled last; None: there is none, empty: it is not known. `told`: the state that the cycle tells. `shown`:
    by their digests, the states that this process knows of which handlers saw and may not have been told away from, the first first.
    """

    progression: Progression
    base: BodyEssence | None
    told: ObjectState
    shown: dict[str, BodyEssence] = field(default_factory=dict)
    is_void: bool = False
    """Whether no handler is called."""

    @property
    def reason(self) -> Reason:
        """Why there is the cycle."""
        return self.progression.purpose

    def begin(self, of_changes: Collection[str], now: datetime) -> bool:
        """Let the finished handlers begin anew that this change is to be told to again; `of_changes` are those of updates.

        False: the cycle is void. A resumption would supersede the records of a change that was taken back, and what handlers saw of
        it would be forgotten: the base moves first, and resumptions are a part of the change.
        """
        seen, progression, told = self.progression.seen, self.progression, self.told
        if seen and told.digest in seen:
            self.shown.setdefault(told.digest, told.essence)
        if self.reason is Reason.RESUME and (seen or self.shown) and {*seen, *self.shown} - {told.digest}:
            self.is_void = True
            progression.active.clear()
            return False
        if not seen or self.reason is not Reason.UPDATE:
            return True
        base, lost = self._base_digest, self._lost(self.told, seen)
        resumed = progression.below(one for one in progression.active if one not in of_changes)

        def is_behind(one: str) -> bool:
            saw = progression.records[one].saw
            return bool(saw & lost) or (base in saw and one not in resumed)

        # A handler that this change is not for is told by the next one, for which its record stays as it is.
        finished = (one for one in progression.below(progression.active) if one in progression.records)
        again = {one for one in finished if progression.records[one].finished and is_behind(one)}
        progression.reopen(again, now)
        return True

    def see(self, found: ObjectState) -> str:
        """Note what a handler saw that has finished, and give it as records have it: what it was told, and what it found in the body.

        After a checkpoint these may be two. What came while the handler ran, it did not see.
        """
        told = self.told.digest
        self.shown.setdefault(told, self.told.essence)
        if found is self.told or found.digest == told:
            return told
        self.shown.setdefault(found.digest, found.essence)
        return f"{told} {found.digest}"

    def phase(self, *, held: bool = False) -> CyclePhase:
        """How far the cycle is; `held`: daemons keep the object."""
        if not self.progression.done:
            return CyclePhase.PENDING
        return CyclePhase.HELD if held else CyclePhase.OVER

    def end(self, now: ObjectState, *, held: bool = False) -> Ending:
        """What is remembered, with the object as it is `now`."""
        phase = self.phase(held=held)
        step = STEPS[self.reason][phase]
        if not step.moves_base:
            return Ending(phase, step.records, None, {})
        seen = self.progression.seen
        left = self._left(now, seen) if self.shown else {}
        base: ObjectState | bytes
        if lost := self._lost(now, seen):
            # From a state that is not known everything is a change: it tells what the others would.
            base = bytes.fromhex(min(lost))
        elif left:
            first = next(iter(left))
            base = ObjectState(left.pop(first), first)
        elif self.reason is Reason.NOOP:
            return Ending(phase, step.records, None, {})
        elif not seen or now is self.told:
            return Ending(phase, step.records, self.told, {})
        else:
            base = self.told
        if now.digest in seen:
            self.shown.setdefault(now.digest, now.essence)
        return Ending(phase, step.records, base, {**left, **self._present(now, base)})

    def _present(self, now: ObjectState, base: ObjectState | bytes) -> dict[str, BodyEssence]:
        """The states that a move of the base to another one would hide: handlers for which the cycle had nothing stand at what it told.

        Handlers that saw what is there now are to be told of the way back if the object takes it before the next cycle.
        """
        self.shown.setdefault(self.told.digest, self.told.essence)
        moved = base.digest if isinstance(base, ObjectState) else ""
        return {one: self.shown[one] for one in (now.digest, self.told.digest) if one in self.shown and one != moved}

    def _left(self, now: ObjectState, seen: AbstractSet[str]) -> dict[str, BodyEssence]:
        """The known states that some handler has not been told away from, the first first."""
        left = {one: state for one, state in self.shown.items() if one != now.digest}
        if left and self.reason is Reason.UPDATE:
            left.pop(self._base_digest, None)
        if left.keys() <= seen:
            return left
        told = [item.field for item in diff(self.base or {}, now.essence)]

        def is_told(state: BodyEssence) -> bool:
            paths = (item.field for item in diff(state, now.essence))
            return all(any(path[: len(known)] == known for known in told) for path in paths)

        return {one: state for one, state in left.items() if one in seen or not is_told(state)}

    def _lost(self, now: ObjectState, seen: AbstractSet[str]) -> AbstractSet[str]:
        """The digests of states that a handler saw and that nobody knows any more, but for the present one."""
        lost = seen - self.shown.keys()
        if lost:
            lost = lost - {now.digest}
            if self.reason is Reason.UPDATE:
                lost = lost - {self._base_digest}
        return lost

    @property
    def _base_digest(self) -> str:
        return "" if self.base is None else ObjectState(self.base).digest
