"""The rule of the cycle does, step by step, what a plain interpreter of the documentation does, and keeps what the guide promises.

Random histories of one object: changes, also while handlers run; failures, retries, refused writes, lost answers, crashes before and
after writes, handlers that come and go. The interpreter knows nothing of digests, records' formats or the rule's code.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctl.handlers.causes.causes import Reason
from ctl.handlers.cycle.rule import Cycle, CyclePhase, Ending, Records, reason_of
from ctl.handlers.execution.outcomes import Outcome
from ctl.handlers.execution.progression import Progress, Progression
from ctl.handlers.storage.baseline import ObjectState

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "1"))
"""How often a thousand histories are lived."""
HISTORIES = 1000
STEPS = 40

State = tuple[tuple[str, int], ...]
"""The fields of an object, in order."""


@dataclass(frozen=True)
class Handler:
    """A declared handler; `below` are its sub-handlers, which take part whenever it does."""

    id: str
    reasons: frozenset[str]
    field: str | None = None
    below: tuple[str, ...] = ()

    def is_for(self, reason: str, old: State | None, new: State) -> bool:
        """Whether it is for a change, resumptions aside. Nothing is known of a base that was lost: all fields have changed."""
        if reason not in self.reasons or self.field is None:
            return reason in self.reasons
        now = dict(new).get(self.field)
        return old is None or dict(old).get(self.field) != now if reason == "update" else now is not None

    def is_same(self, one: State, other: State) -> bool:
        """Whether two states are one for it."""
        return one == other if self.field is None else dict(one).get(self.field) == dict(other).get(self.field)

    def is_selected(self, reason: str, old: State | None, new: State, *, initial: bool) -> bool:
        """Whether it takes part in the cycle of the cause."""
        resumes = initial and "resume" in self.reasons and (self.field is None or self.field in dict(new))
        return self.is_for(reason, old, new) or resumes


@dataclass(frozen=True)
class Lost:
    """A base of which the digest alone is known, so that the process can say only whether the object is as it was there."""

    state: State


@dataclass(frozen=True)
class Record:
    """What the interpreter remembers of a handler: for which reason it was called, and what it saw when it finished last."""

    reason: str
    finished: bool = False
    saw: tuple[State, ...] = ()
    after: int = 0


@dataclass
class Interpreter:
    """The documentation, word by word. What is on the object, and what is in the process: a crash takes the latter."""

    base: State | Lost | None = None
    on_object: dict[str, Record] = field(default_factory=dict)
    in_memory: dict[str, Record] = field(default_factory=dict)
    known: list[State] = field(default_factory=list)
    initial: bool = False
    # Those of the attempt.
    reason: str = "noop"
    records: dict[str, Record] = field(default_factory=dict)
    old: State | None = None
    is_void: bool = False

    def crash(self) -> None:
        self.in_memory, self.known, self.initial = {}, [], True

    def look(self, now: State, handlers: Sequence[Handler]) -> list[Handler]:
        """Why handlers are called, and which take part."""
        base = self.base.state if isinstance(self.base, Lost) else self.base
        if base is None:
            self.reason, self.initial = "create", False
        elif base == now:
            self.reason = "resume" if self.initial else "noop"
        else:
            self.reason = "update"
        self.old = None if isinstance(self.base, Lost) and base != now else base
        declared = {one for known in handlers for one in (known.id, *known.below)}
        self.records = {one: known for one, known in {**self.on_object, **self.in_memory}.items() if one in declared}
        taking = [one for one in handlers if one.is_selected(self.reason, self.old, now, initial=self.initial)]
        if self.reason != "noop" and now not in self.known and any(now in one.saw for one in self.records.values()):
            self.known.append(now)
        for one in taking:
            told_again = any(self._is_told_again(known, now, one) for known in (one.id, *one.below))
            for known in (one.id, *one.below):
                record = self.records.get(known)
                if self._is_told_again(known, now, one) or (known == one.id and (told_again or record is None)):
                    self.records[known] = Record(self.reason, saw=() if record is None else record.saw)
            self.records[one.id] = replace(self.records[one.id], reason=self.reason)
        # A change was taken back of which some know: they are told first, and resumptions are a part of that.
        self.is_void = self.reason == "resume" and bool(self.owed(now) or self.lost(now))
        return [] if self.is_void else taking

    def _is_told_again(self, known: str, now: State, one: Handler) -> bool:
        """Nobody knows any more what it saw, so no later change can tell it; or it saw the base, and this change is for it."""
        record = self.records.get(known)
        if self.reason != "update" or record is None or not record.finished:
            return False
        nobody_knows = any(saw not in (*self.known, self.old, now) for saw in record.saw)
        return nobody_knows or (one.is_for("update", self.old, now) and self.old in record.saw)

    def is_due(self, known: str, time: int) -> bool:
        record = self.records.get(known, Record(self.reason))
        return not record.finished and record.after <= time

    def ended(self, known: str, told: State, found: State, again: int | None) -> None:
        """A handler has ended: it is to be called again at a time, or has finished."""
        if again is not None:
            saw = self.records[known].saw if known in self.records else ()
            self.records[known] = Record(self.reason, saw=saw, after=again)
            return
        self.records[known] = Record(self.reason, True, tuple(dict.fromkeys([told, found])))
        self.known += [state for state in dict.fromkeys([told, found]) if state not in self.known]

    def is_over(self, taking: Sequence[Handler]) -> bool:
        return all(self.records[one.id].finished for one in taking)

    def kept(self) -> dict[str, Record]:
        """The records of an unfinished cycle: those made for another reason are not kept."""
        return {one: known for one, known in self.records.items() if known.reason == self.reason}

    def owed(self, now: State) -> list[State]:
        """The states that some handler has still to be told away from, as far as the process knows them, the first first."""
        stands = self.states_seen()
        changed = None if self.old is None else _names(self.old, now)
        found = []
        for state in self.known:
            is_told = state not in stands and (changed is None or _names(state, now) <= changed)
            if state != now and not (self.reason == "update" and state == self.old) and not is_told:
                found.append(state)
        return found

    def lost(self, now: State) -> list[State]:
        """Those that it does not know."""
        own = (*self.known, now, self.old) if self.reason == "update" else (*self.known, now)
        return [state for state in self.states_seen() if state not in own]

    def states_seen(self) -> list[State]:
        return [state for record in self.records.values() for state in record.saw]


def _names(one: State, other: State) -> set[str]:
    """The fields in which two states differ."""
    return {name for name, _ in {*one} ^ {*other}}


def essence(state: State) -> dict[str, Any]:
    return {"spec": dict(state)}


def moment(time: int) -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)


@dataclass
class Ruled:
    """The same by the rule: the object has digests and records, the process what the rule gives it."""

    base: dict[str, Any] | bytes | None = None
    on_object: dict[str, Progress] = field(default_factory=dict)
    records: dict[str, Progress] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)
    initial: bool = False

    def crash(self) -> None:
        self.records, self.shown, self.initial = {}, {}, True

    def look(self, now: State, handlers: Sequence[Handler], time: int) -> tuple[Cycle, list[Handler]]:
        told = ObjectState(essence(now))
        known = self.base
        base = ({} if known.hex() != told.digest else told.essence) if isinstance(known, bytes) else known
        changed = base != told.essence
        reason = reason_of(is_ending=False, is_held=True, base=base, is_changed=changed, is_initial=self.initial)
        self.initial &= reason is not Reason.CREATE
        old = tuple(sorted(base["spec"].items())) if base else None
        word = reason.value if reason is not Reason.NOOP else "noop"
        taking = [one for one in handlers if one.is_selected(word, old, now, initial=self.initial)]

        def fetch(one: str) -> Progress | None:
            stored, remembered = self.on_object.get(one), self.records.get(one)
            if stored is None or (remembered is not None and remembered.newer_than(stored)):
                return remembered
            return stored

        owned, selected = [one.id for one in handlers], [one.id for one in taking]
        cycle = Cycle(Progression.load(reason, owned, selected, fetch, moment(time)), base, told, dict(self.shown))
        cycle.begin({one.id for one in taking if one.is_for(word, old, now)}, moment(time))
        return cycle, [one for one in taking if one.id in cycle.progression.active]


@dataclass
class History:
    """One object's life, lived by both."""

    chance: random.Random
    handlers: list[Handler]
    now: State = (("a", 0), ("b", 0))
    time: int = 0
    plain: Interpreter = field(default_factory=Interpreter)
    ruled: Ruled = field(default_factory=Ruled)
    last: dict[str, State] = field(default_factory=dict)
    """What each handler was told last when it finished."""
    excused: set[str] = field(default_factory=set)
    """Handlers of which nobody knows what they saw: a crash came before it was written, or after the base moved for others."""
    calls: int = 0
    calm: bool = False

    def change(self) -> None:
        state = dict(self.now)
        name, value = self.chance.choice("ab"), self.chance.randrange(4)
        if value == 3 and len(state) > 1:
            state.pop(name, None)
        else:
            state[name] = value % 3
        self.now = tuple(sorted(state.items()))

    def crash(self) -> None:
        base = self.plain.base.state if isinstance(self.plain.base, Lost) else self.plain.base
        for one in self.handlers:
            for known in (one.id, *one.below):
                record = self.plain.on_object.get(known)
                on_object = [state for state in (base, *(record.saw if record else ())) if state is not None]
                if known in self.last and not any(one.is_same(self.last[known], state) for state in on_object):
                    self.excused.add(known)
        self.plain.crash()
        self.ruled.crash()
        if self.chance.random() < 0.3:
            # The next version of the operator has other handlers.
            self.excused |= self._ids()
            self.handlers = declared(self.chance)

    def _ids(self) -> set[str]:
        return {one for known in self.handlers for one in (known.id, *known.below)}

    def attempt(self) -> bool:
        """Handle the object once; false when there was nothing to do."""
        self.time += 1
        told, before = self.now, (self.ruled.base, self.calls)
        taking = self.plain.look(told, self.handlers)
        cycle, same = self.ruled.look(told, self.handlers, self.time)
        assert cycle.reason.value == (self.plain.reason if self.plain.reason != "noop" else Reason.NOOP.value)
        assert taking == same
        found = told
        for one in taking:
            self._attempt_one(one, cycle, told, found)
            if not self.calm and self.chance.random() < 0.1:
                self.change()
                # A checkpoint, or a read, may show it to the next one.
                found = self.now if self.chance.random() < 0.5 else found
        if not self.calm and self.chance.random() < 0.05:
            self.change()
        if not self.calm and self.chance.random() < 0.05:
            self.crash()
        else:
            self._conclude(cycle, taking, told)
        return before != (self.ruled.base, self.calls) or bool(self.ruled.shown)

    def _attempt_one(self, one: Handler, cycle: Cycle, told: State, found: State) -> None:
        assert self._is_due(one.id, cycle) == self.plain.is_due(one.id, self.time), one
        if not self.plain.is_due(one.id, self.time):
            return
        luck: int | None = self._luck()
        if one.below:
            progression = cycle.progression
            progression.activate(one.below, moment(self.time))
            progression.adopt(one.id, one.below)
            for known in one.below:
                assert self._is_due(known, cycle) == self.plain.is_due(known, self.time), known
                if self.plain.is_due(known, self.time):
                    self._end(known, cycle, told, found, self._luck())
                else:
                    self.plain.records[known] = replace(self.plain.records[known], reason=self.plain.reason)
            luck = None if all(progression.records[known].finished for known in one.below) else 0
        self._end(one.id, cycle, told, found, luck, one.below)

    def _is_due(self, known: str, cycle: Cycle) -> bool:
        return cycle.progression.records[known].due(moment(self.time))

    def _luck(self) -> int | None:
        """How long until the handler is to be called again; None: it finishes."""
        return None if self.calm or self.chance.random() < 0.6 else self.chance.choice([0, 2000, 5000])

    def _end(
        self, known: str, cycle: Cycle, told: State, found: State, delay: int | None, below: Sequence[str] = ()
    ) -> None:
        self.calls += 1
        again = None if delay is None else self.time + delay
        error = ValueError("no") if delay is not None or self.chance.random() < 0.2 else None
        outcome = Outcome(delay is None, None if delay is None else delay / 1000, None, error, below)
        seen = cycle.see(ObjectState(essence(found))) if delay is None else None
        cycle.progression.conclude(known, outcome, moment(self.time), seen)
        self.plain.ended(known, told, found, again)
        if delay is None:
            self.last[known] = told
            self.excused.discard(known)

    def _conclude(self, cycle: Cycle, taking: Sequence[Handler], told: State) -> None:
        plain, ruled = self.plain, self.ruled
        now = told if plain.reason == "noop" else self.now
        ending = cycle.end(ObjectState(essence(now)))
        fate = "written" if self.calm else self.chance.choices(["written", "refused", "lost"], [8, 1, 1])[0]
        ruled.records, ruled.shown = cycle.progression.current, cycle.shown
        plain.in_memory = plain.kept()
        assert (ending.phase is CyclePhase.OVER) is plain.is_over(taking)
        if ending.phase is CyclePhase.PENDING:
            assert (ending.records, ending.base) == (Records.WRITTEN, None)
            if fate != "refused":
                ruled.on_object = {**self._undeclared(ruled.on_object), **cycle.progression.current}
                plain.on_object = {**self._undeclared(plain.on_object), **plain.kept()}
            return
        assert ending.records is Records.REMOVED
        base, owed = self._base(ending, told, now), self._owed(told, now)
        assert list(ending.shown) == [ObjectState(essence(state)).digest for state in owed]
        if fate != "refused":
            plain.base = base
            ruled.base = ending.base.essence if isinstance(ending.base, ObjectState) else ending.base or ruled.base
            plain.on_object, ruled.on_object = self._undeclared(plain.on_object), self._undeclared(ruled.on_object)
        if fate == "written":
            plain.in_memory, plain.known = {}, owed
            ruled.records, ruled.shown = {}, dict(ending.shown)
            if plain.reason != "noop" and not plain.is_void:
                plain.initial = ruled.initial = False

    def _undeclared(self, records: dict[str, Any]) -> dict[str, Any]:
        """The records of handlers that this operator does not have, which stay as they are."""
        return {one: known for one, known in records.items() if one not in self._ids()}

    def _base(self, ending: Ending, told: State, now: State) -> State | Lost | None:
        """What the interpreter makes the base, if the rule does likewise."""
        plain, given = self.plain, ending.base
        if lost := plain.lost(now):
            assert isinstance(given, bytes)
            return Lost(next(state for state in lost if ObjectState(essence(state)).digest == given.hex()))
        if owed := plain.owed(now):
            assert isinstance(given, ObjectState)
            assert given.essence == essence(owed[0])
            return owed[0]
        if plain.reason == "noop":
            assert given is None
            return plain.base
        assert isinstance(given, ObjectState)
        assert given.essence == essence(told)
        return told

    def _owed(self, told: State, now: State) -> list[State]:
        """Note what is to be told later: away from what is owed, from what all were told, and, should the object go back, from what is now."""
        plain = self.plain
        owed, lost = plain.owed(now), plain.lost(now)
        somebody_saw = plain.states_seen()
        if not owed and not lost and (plain.reason == "noop" or not somebody_saw):
            return []
        added = [now, told] if now in somebody_saw else [told]
        plain.known += [state for state in dict.fromkeys(added) if state not in plain.known]
        base = None if lost else owed[0] if owed else told
        present = [state for state in (now, told) if state in plain.known and state != base]
        return list(dict.fromkeys([*owed[0 if lost else 1 :], *present]))

    def live(self) -> None:
        for _ in range(STEPS):
            match self.chance.randrange(12):
                case 0 | 1 | 2:
                    self.change()
                case 3:
                    self.crash()
                case 4:
                    self.time += self.chance.choice([1000, 3000, 6000])
                case _:
                    self.attempt()
        self.calm = True
        for _ in range(30):
            self.time += 10_000
            if not self.attempt():
                return
        raise AssertionError("it does not come to rest")


def declared(chance: random.Random) -> list[Handler]:
    """Handlers of every kind; which, differs."""
    everything = frozenset({"create", "update", "resume"})
    kinds = [
        Handler("every", everything),
        Handler("other", everything),
        Handler("update", frozenset({"update"})),
        Handler("create", frozenset({"create"})),
        Handler("resume", frozenset({"resume"})),
        Handler("field-a", frozenset({"create", "update"}), "a"),
        Handler("field-b", frozenset({"update"}), "b"),
        Handler("parent", everything, None, ("parent/x", "parent/y")),
    ]
    return chance.sample(kinds, chance.randrange(1, len(kinds) + 1))


@pytest.mark.parametrize(
    ("is_ending", "is_held", "base", "is_changed", "is_initial", "reason"),
    [
        (True, True, {}, True, False, Reason.DELETE),
        (True, True, None, False, True, Reason.DELETE),
        (True, False, {}, True, False, Reason.FREE),
        (True, False, None, False, True, Reason.FREE),
        (False, True, None, False, True, Reason.CREATE),
        (False, False, None, True, False, Reason.CREATE),
        (False, True, {}, True, True, Reason.UPDATE),
        (False, True, {}, False, True, Reason.RESUME),
        (False, True, {}, False, False, Reason.NOOP),
    ],
)
def test_reasons(
    is_ending: bool, is_held: bool, base: dict[str, Any] | None, is_changed: bool, is_initial: bool, reason: Reason
) -> None:
    found = reason_of(is_ending=is_ending, is_held=is_held, base=base, is_changed=is_changed, is_initial=is_initial)
    assert found is reason


def test_a_waiting_handler_is_told_of_a_state_to_which_the_object_returns_while_the_cycle_ends() -> None:
    """One handler has seen a change and one waits; a cycle without the latter ends while the object takes the change again."""
    base, told, now = (ObjectState(essence(state)) for state in ((("a", 2), ("b", 2)), (("a", 2),), (("a", 0),)))
    records = {
        "sees": Progress(moment(0), purpose=Reason.UPDATE, success=True, seen=now.digest),
        "waits": Progress(moment(0), purpose=Reason.UPDATE, delayed=moment(9)),
    }
    progression = Progression.load(Reason.UPDATE, records, ["sees"], records.get, moment(1))
    cycle = Cycle(progression, base.essence, told, {now.digest: now.essence})
    assert cycle.begin({"sees"}, moment(1))
    ending = cycle.end(ObjectState(now.essence))
    assert ending.base is told
    assert list(ending.shown) == [now.digest]


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_rule_does_what_the_documentation_says(seed: int) -> None:
    for number in range(HISTORIES):
        chance = random.Random(seed * HISTORIES + number)
        history = History(chance, declared(chance))
        try:
            history.live()
            for handler in history.handlers:
                told = history.last.get(handler.id)
                if told is not None and handler.id not in history.excused and "update" in handler.reasons:
                    assert handler.is_same(told, history.now), handler
            assert not history.ruled.on_object.keys() & {one.id for one in history.handlers}
            base, state = history.ruled.base, ObjectState(essence(history.now))
            assert base == (bytes.fromhex(state.digest) if isinstance(base, bytes) else state.essence)
        except AssertionError as exc:
            exc.add_note(f"history {seed * HISTORIES + number}")
            raise
