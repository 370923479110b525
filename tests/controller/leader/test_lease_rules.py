"""The rules of leadership, and the promise that they are for: never two who may act, and no write of one who may no more."""

import heapq
import itertools
import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctl.controller.leader.lease_rules import Candidate, LeaseRules, Record
from ctl.runtime.clock import Instant

WALL = datetime(2031, 5, 6, tzinfo=UTC)
RULES = LeaseRules()


def _at(seconds: float) -> Instant:
    return Instant(seconds, WALL + timedelta(seconds=seconds))


def _leader(name: str = "a", at: float = 0.0) -> Candidate:
    candidate = Candidate(name, RULES)
    candidate.observe(None, at)
    candidate.sending(candidate.proposal(_at(at).wall), _at(at))
    candidate.confirmed()
    return candidate


def test_a_lease_that_does_not_exist_or_has_no_holder_is_vacant() -> None:
    candidate = Candidate("a", RULES)
    assert candidate.vacant_in(0.0) == 0
    candidate.observe(Record("", 1.0, WALL, WALL, 3), 10.0)
    assert candidate.vacant_in(10.0) == 0
    assert candidate.proposal(WALL).transitions == 4


def test_a_holder_is_given_its_whole_duration_from_each_change_of_the_record() -> None:
    candidate = Candidate("a", RULES)
    record = Record("b", 15.0, WALL, WALL, 1)
    candidate.observe(record, 100.0)
    candidate.observe(record, 110.0)
    assert candidate.vacant_in(110.0) == 5
    candidate.observe(Record("b", 15.0, WALL, WALL + timedelta(seconds=2), 1), 114.0)
    assert candidate.vacant_in(114.0) == 15
    assert candidate.vacant_in(129.0) == 0


def test_the_duration_is_the_holders_not_ours() -> None:
    candidate = Candidate("a", RULES)
    candidate.observe(Record("b", 60.0, WALL, WALL, 1), 0.0)
    assert candidate.vacant_in(0.0) == 60
    candidate.observe(Record("c", 0.0, WALL, WALL + timedelta(seconds=1), 1), 0.0)
    assert candidate.vacant_in(0.0) == 15


def test_the_holder_acts_until_its_renew_deadline_counted_from_before_the_sending() -> None:
    candidate = Candidate("a", RULES)
    assert not candidate.holds(_at(0))
    candidate.sending(candidate.proposal(WALL), _at(5))
    assert not candidate.holds(_at(6))
    candidate.confirmed()
    assert candidate.holds(_at(14.9))
    assert candidate.left(_at(8)) == 7
    assert not candidate.holds(_at(15))


def test_a_machine_that_slept_knows_by_its_wall_clock_that_its_time_is_over() -> None:
    candidate = _leader()
    assert not candidate.holds(Instant(1.0, WALL + timedelta(seconds=3600)))


def test_a_wall_clock_that_is_set_forward_does_not_end_the_lease_of_another() -> None:
    candidate = Candidate("a", RULES)
    candidate.observe(Record("b", 15.0, WALL, WALL, 1), 0.0)
    assert candidate.vacant_in(1.0) == 14  # nothing but the monotonic clock is asked


def test_a_renewal_keeps_the_time_of_acquisition_and_the_count() -> None:
    candidate = _leader()
    renewal = candidate.proposal(WALL + timedelta(seconds=2))
    assert (renewal.acquired, renewal.renewed, renewal.transitions) == (WALL, WALL + timedelta(seconds=2), 0)


def test_a_lease_in_the_hands_of_another_is_lost_at_once() -> None:
    candidate = _leader()
    candidate.observe(Record("b", 15.0, WALL, WALL, 1), 3.0)
    assert not candidate.holds(_at(3))
    assert candidate.release(WALL) is None


def test_a_lease_that_was_deleted_is_lost_at_once() -> None:
    candidate = _leader()
    candidate.observe(None, 3.0)
    assert not candidate.holds(_at(3))


def test_a_lost_answer_is_found_out_by_reading() -> None:
    candidate = Candidate("a", RULES)
    proposal = candidate.proposal(WALL)
    candidate.sending(proposal, _at(1))
    candidate.observe(proposal, 4.0)
    assert candidate.left(_at(4)) == 7


def test_an_old_record_of_ours_confirms_no_renewal() -> None:
    candidate = _leader()
    before = candidate.record
    candidate.sending(candidate.proposal(WALL + timedelta(seconds=5)), _at(5))
    candidate.observe(before, 6.0)
    assert candidate.left(_at(6)) == 4


def test_release_is_for_the_holder_and_lets_others_in_at_once() -> None:
    candidate = _leader()
    released = candidate.release(WALL)
    assert released is not None
    other = Candidate("b", RULES)
    other.observe(released, 0.0)
    assert other.vacant_in(0.0) == 0
    assert released.spec()["leaseDurationSeconds"] == 1


def test_a_record_survives_the_wire() -> None:
    record = Record("a", 15.0, WALL, WALL + timedelta(microseconds=7), 3)
    assert record.spec()["renewTime"] == "2031-05-06T00:00:00.000007Z"
    assert Record.from_spec(record.spec()) == record
    assert Record.from_spec(None) == Record()
    assert Record.from_spec({"renewTime": "yesterday", "acquireTime": None, "holderIdentity": None}) == Record()


@pytest.mark.parametrize("wrong", [{"duration": 10.0}, {"renew_deadline": 2.0}, {"retry_period": 0.0}])
def test_rules_that_allow_two_holders_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="A lease needs"):
        LeaseRules(**wrong)


FLIGHT = 0.15
"""How long a write may be on its way after it was sent: less than what is left between the renew deadline of the slowest clock and the
duration of the fastest one (5 s where clocks run alike). A client breaks the connection off at the deadline."""


class World:
    """A store with compare-and-swap, a network that delays and loses, and machines whose clocks differ in rate and pause.

    Real time runs in a heap of events. `history` holds who was allowed to act, as each machine believed, at each event.
    """

    def __init__(self, seed: int, rules: LeaseRules) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.record: Record | None = None
        self.version = 0
        self.terms = 0
        self.applied = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self.machines = [Machine(self, f"m{number}", rules) for number in range(3)]

    def later(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._count), action))

    def delay(self) -> float:
        """Mostly short, sometimes longer than a lease."""
        return (
            self.chance.choice([0.01, 0.05, 0.5, 1.0, 3.0])
            * self.chance.random()
            * (20 if self.chance.random() < 0.05 else 1)
        )

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] < until:
            self.now, _, action = heapq.heappop(self._events)
            self.check()
            action()
            self.check()

    def check(self) -> None:
        acting = [machine.candidate.identity for machine in self.machines if machine.acts()]
        assert len(acting) <= 1, f"{acting} act at {self.now}"

    def apply(self, author: "Machine") -> None:
        """A write of an object arrives."""
        self.applied += 1
        acting = [machine.candidate.identity for machine in self.machines if machine.acts() and machine is not author]
        assert not acting, f"a write of {author.candidate.identity} arrives at {self.now} while {acting} act"


class Machine:
    """A process that takes part; its driver does what the real one does, request by request."""

    def __init__(self, world: World, name: str, rules: LeaseRules) -> None:
        self.world = world
        self.candidate = Candidate(name, rules)
        # Rates differ by less than duration / renew deadline in all.
        self.rate = world.chance.uniform(0.82, 1.21)
        self.offset = world.chance.uniform(0, 1e6)
        self.epoch = timedelta(seconds=world.chance.uniform(-1e6, 1e6))
        self.slept = 0.0
        self.leading = False
        world.later(world.chance.uniform(0, 3), self.turn)
        world.later(world.chance.uniform(0, 3), self.act)

    def monotonic(self) -> float:
        return self.offset + (self.world.now - self.slept) * self.rate

    def instant(self) -> Instant:
        # The wall clock goes on while the machine sleeps.
        return Instant(self.monotonic(), WALL + self.epoch + timedelta(seconds=self.world.now * self.rate))

    def acts(self) -> bool:
        return self.candidate.holds(self.instant())

    def act(self) -> None:
        """Write an object, where the fence lets it: the look at the clock and the sending are one."""
        if self.acts():
            self.world.later(self.world.chance.uniform(0, FLIGHT), lambda: self.world.apply(self))
        self.world.later(self.world.chance.expovariate(0.2), self.act)

    def turn(self) -> None:
        chance = self.world.chance
        if self.acts() and not self.leading:
            self.world.terms += 1
        self.leading = self.acts()
        if chance.random() < 0.03:  # the machine sleeps, its monotonic clock with it
            nap = chance.uniform(1, 60)
            self.slept += nap
            self.world.later(nap, self.turn)
        elif chance.random() < 0.02:
            # Somebody sets its wall clock forward. (One that sleeps and is set back is beyond help.)
            self.epoch += timedelta(seconds=chance.uniform(0, 3600))
            self.again()
        elif chance.random() < 0.03 and self.acts():
            self.write(self.candidate.release(self.instant().wall))
        else:
            self.read()

    def again(self) -> None:
        rules = self.candidate.rules
        self.world.later(rules.retry_period * (1 + self.world.chance.random() * rules.jitter) / self.rate, self.turn)

    def read(self) -> None:
        def arrive() -> None:
            seen = (self.world.record, self.world.version)
            self.world.later(self.world.delay(), lambda: answered(*seen))

        def answered(record: Record | None, version: int) -> None:
            self.candidate.observe(record, self.monotonic())
            if self.acts() or not self.candidate.vacant_in(self.monotonic()):
                self.write(self.candidate.proposal(self.instant().wall), version)
            else:
                self.again()

        self.world.later(self.world.delay(), arrive)

    def write(self, record: Record | None, version: int | None = None) -> None:
        if record is None:
            return self.again()
        if not record.holder:
            self.candidate.lose()
        self.candidate.sending(record, self.instant())
        expected = self.world.version if version is None else version
        lost = self.world.chance.random() < 0.2

        def arrive() -> None:
            stored = self.world.version == expected and self.world.chance.random() > 0.1
            if stored:
                self.world.record, self.world.version = record, self.world.version + 1
            if lost:
                self.again()
            else:
                self.world.later(self.world.delay(), lambda: answered(stored))

        def answered(stored: bool) -> None:
            if stored:
                self.candidate.confirmed()
            self.again()

        self.world.later(self.world.delay(), arrive)
        return None


SEEDS = int(os.environ.get("SOAK_SEEDS", "300"))
"""How many worlds are tried; `make soak` tries 10,000."""


def simulate(seeds: range) -> int:
    """Run the worlds of these seeds; gives how many terms there were. Raises AssertionError when two may act."""
    terms = 0
    for seed in seeds:
        world = World(seed, RULES)
        try:
            world.run(until=600)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
        terms += world.terms
        assert world.applied > 20
    return terms


def test_a_lease_that_somebody_deletes_is_not_vacant_to_those_who_knew_its_holder() -> None:
    candidate = Candidate("a", RULES)
    candidate.observe(Record("b", 15.0, WALL, WALL, 1), 0.0)
    candidate.observe(None, 10.0)
    assert candidate.vacant_in(10.0) == 15, "b may have renewed it just before"
    candidate.observe(None, 20.0)
    assert candidate.vacant_in(20.0) == 5
    candidate.observe(Record("b", 15.0, WALL, WALL, 0), 21.0)
    assert candidate.vacant_in(21.0) == 15
    candidate.observe(Record("", 1.0, WALL, WALL, 0), 22.0)
    candidate.observe(None, 23.0)
    assert candidate.vacant_in(23.0) == 0, "it was given back before"


def test_what_is_edited_by_hand_takes_no_time_from_who_held_the_lease() -> None:
    held = Record("b", 15.0, WALL, WALL, 1)
    edits = {
        "no holder": replace(held, holder=""),
        "a short time": replace(held, duration=1.0),
        "an endless time": replace(held, duration=2e9),
        "no spec": Record(),
        "us": replace(held, holder="a"),
        "us, at no time": replace(held, holder="a", renewed=None),
    }
    for what, edited in edits.items():
        candidate = Candidate("a", RULES)
        candidate.observe(held, 0.0)
        candidate.observe(edited, 10.0)
        assert candidate.vacant_in(10.0) == 15, what
        assert candidate.acting_until == 20, what
    candidate.observe(None, 11.0)
    candidate.observe(Record(), 12.0)
    assert candidate.vacant_in(12.0) == 15, "deleted, and made anew without a holder"
    candidate.observe(Record("", 1.0, WALL, WALL + timedelta(seconds=1), 1), 13.0)
    assert candidate.vacant_in(13.0) == 0, "released"


def test_who_is_named_by_hand_is_waited_for_as_well() -> None:
    leader = _leader("a")
    assert leader.record is not None
    leader.observe(replace(leader.record, holder="x"), 1.0)
    assert (leader.holds(_at(1)), leader.vacant_in(1.0)) == (False, 15)


def test_fields_that_nobody_can_read_have_their_defaults() -> None:
    odd: list[object] = ["fifteen", [1], {}, -5, 0, None, 10**400, float("nan"), float("inf")]
    for value in odd:
        found = Record.from_spec({"holderIdentity": "b", "leaseDurationSeconds": value, "leaseTransitions": value})
        assert found == Record("b"), value
    for text in ("soon", "0001-01-01T00:00:00+14:00", 5):
        assert Record.from_spec({"renewTime": text, "acquireTime": text}) == Record(), text
    shapeless: list[Any] = [[], "x", 5]
    for spec in shapeless:
        assert Record.from_spec(spec) == Record(), spec


def test_until_when_a_predecessor_may_have_acted() -> None:
    candidate = Candidate("a", RULES)
    found = [candidate.acting_until]
    for record, at in ((Record("b", 15.0, WALL, WALL, 1), 5.0), (None, 7.0), (Record("", 1.0, WALL, WALL, 1), 8.0)):
        candidate.observe(record, at)
        found.append(candidate.acting_until)
    assert found == [None, 15, 17, None]
    assert _leader("a", 3.0).acting_until == 13, "an earlier life of ours counts"


def test_never_two_may_act_whatever_is_delayed_lost_or_asleep() -> None:
    assert simulate(range(SEEDS)) > SEEDS
