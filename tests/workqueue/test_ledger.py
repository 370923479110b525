"""The ledger against a model that is too slow and too simple to be wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ctl.workqueue.ledger import Ageing, Ledger

KEYS = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from([-100, 0, 0, 10])


class Model(RuleBasedStateMachine):
    """Two lists: what waits as (key, priority, stood), what is in work with what is remembered for it."""

    def __init__(self) -> None:
        super().__init__()
        self.ageing = Ageing(after=5, every=3)
        self.ledger: Ledger[str] = Ledger(self.ageing)
        self.waiting: list[tuple[str, int, float]] = []
        self.work: dict[str, int | None] = {}
        self.now = 0.0
        self.turn = 0

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: int) -> None:
        if key in self.work:
            known = self.work[key]
            assert self.ledger.add(key, priority, self.now) is (known is None)
            self.work[key] = priority if known is None else max(known, priority)
            return
        index = next((i for i, item in enumerate(self.waiting) if item[0] == key), None)
        assert self.ledger.add(key, priority, self.now) is (index is None)
        if index is None:
            self.waiting.append((key, priority, self.now))
        elif priority > self.waiting[index][1]:
            del self.waiting[index]
            self.waiting.append((key, priority, self.now))

    @rule(passed=st.sampled_from([0.0, 1.0, 4.0, 10.0]))
    def wait(self, passed: float) -> None:
        self.now += passed

    def _expected(self) -> tuple[str, int, float]:
        top = max(self.waiting, key=lambda item: item[1])[1]
        self.turn += 1
        # Of those that stand equally long, the lower priority: it has the worse lot otherwise.
        oldest = min(self.waiting, key=lambda item: (item[2], item[1]))
        if len({item[1] for item in self.waiting}) == 1:
            self.turn = 0
        elif self.turn >= self.ageing.every and self.now - oldest[2] >= self.ageing.after:
            self.turn = 0
            return oldest
        return next(item for item in self.waiting if item[1] == top)

    @rule()
    def take(self) -> None:
        entry = self.ledger.take(self.now)
        if not self.waiting:
            assert entry is None
            return
        expected = self._expected()
        assert entry is not None
        assert (entry.key, entry.priority) == expected[:2]
        self.waiting.remove(expected)
        self.work[entry.key] = None

    @precondition(lambda self: self.work)
    @rule(choice=st.integers(0, 100))
    def done(self, choice: int) -> None:
        key = sorted(self.work)[choice % len(self.work)]
        assert self.ledger.done(key, self.now) is not None
        again = self.work.pop(key)
        if again is not None:
            self.waiting.append((key, again, self.now))

    @rule(key=KEYS)
    def done_of_what_is_not_in_work_changes_nothing(self, key: str) -> None:
        if key not in self.work:
            assert self.ledger.done(key, self.now) is None

    @rule(key=KEYS)
    def withdraw(self, key: str) -> None:
        found = self.ledger.withdraw(key)
        if self.work.get(key) is not None:
            assert found == self.work[key]
            self.work[key] = None
            return
        item = next((item for item in self.waiting if item[0] == key), None)
        assert found == (None if item is None else item[1])
        if item is not None:
            self.waiting.remove(item)

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.ledger) == len(self.waiting)
        assert set(self.ledger.in_work) == set(self.work)
        for key in "abcdef":
            remembered = self.work.get(key) is not None or any(item[0] == key for item in self.waiting)
            assert (key in self.ledger) is remembered
        depths: dict[int, int] = {}
        for _, priority, _ in self.waiting:
            depths[priority] = depths.get(priority, 0) + 1
        assert self.ledger.depths() == depths


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)

# Histories of a busy queue: (priority of a key that is added before the turn or None, seconds until the turn).
HISTORIES = st.lists(st.tuples(st.one_of(st.none(), PRIORITIES, st.integers(-5, 5)), st.floats(0, 3)), max_size=120)
AGEINGS = st.builds(Ageing, after=st.floats(0, 10), every=st.integers(2, 10))


@settings(deadline=None)
@given(AGEINGS, HISTORIES, st.integers(0, 20))
def test_no_key_waits_longer_than_the_bound_of_ageing(
    ageing: Ageing, history: list[tuple[int | None, float]], backlog: int
) -> None:
    """Whatever comes at whatever priority: after `after` seconds with n older keys, at most every * (n + 1) hand-outs."""
    ledger: Ledger[int] = Ledger(ageing)
    for number in range(backlog):
        ledger.add(-1 - number, -100, 0.0)
    stood = {-1 - number: 0.0 for number in range(backlog)}
    limits: dict[int, int] = {}

    def turn(now: float) -> None:
        for key in [key for key in stood if key not in limits and now - stood[key] >= ageing.after]:
            older = sum(1 for other, since in stood.items() if other != key and since <= stood[key])
            limits[key] = ageing.every * (older + 1)
        entry = ledger.take(now)
        if entry is None:
            return
        stood.pop(entry.key)
        for key in limits:
            limits[key] -= 1
        assert limits.pop(entry.key, 0) >= 0
        assert all(limit > 0 for limit in limits.values())

    now = 0.0
    for number, (priority, passed) in enumerate(history):
        now += passed
        if priority is not None:
            ledger.add(number, priority, now)
            stood[number] = now
        turn(now)


@settings(deadline=None)
@given(AGEINGS, st.integers(0, 200), st.lists(st.tuples(st.integers(1, 4), st.floats(0, 3)), min_size=1, max_size=30))
def test_a_backlog_takes_no_more_than_its_share_from_live_changes(
    ageing: Ageing, backlog: int, arrivals: list[tuple[int, float]]
) -> None:
    """A key with m keys before it at its level is handed out within (m + 1) * every / (every - 1) + 1, whatever stands below."""
    ledger: Ledger[int] = Ledger(ageing)
    for number in range(backlog):
        ledger.add(-1 - number, -100, 0.0)
    now, number = 100.0, 0
    limits: dict[int, float] = {}
    for burst, passed in arrivals:
        now += passed
        for _ in range(burst):
            before = len(limits)
            ledger.add(number, 0, now)
            limits[number] = (before + 1) * ageing.every / (ageing.every - 1) + 1
            number += 1
        for _ in range(2):
            entry = ledger.take(now)
            if entry is None:
                continue
            limits = {key: limit - 1 for key, limit in limits.items()}
            assert limits.pop(entry.key, 0.0) >= 0
            assert all(limit > 0 for limit in limits.values())


def test_a_start_up_backlog_is_worked_off_beside_a_stream_that_never_ends() -> None:
    ledger: Ledger[str] = Ledger(Ageing(after=5, every=8))
    for number in range(1000):
        ledger.add(f"old-{number}", -100, 0.0)
    live = old = 0
    for turn in range(8 * 1000 + 500):
        now = turn / 100
        ledger.add(f"live-{turn}", 0, now)  # one for each turn: the queue never gets to the end of its live keys
        entry = ledger.take(now)
        assert entry is not None
        if entry.key.startswith("old"):
            old += 1
        else:
            live += 1
            assert now - entry.added <= now / 7
    assert old == 1000


def test_within_a_level_it_is_first_come_first_served() -> None:
    ledger: Ledger[int] = Ledger()
    for number in range(100):
        ledger.add(number, 0, float(number))
    taken = [ledger.take(1000.0) for _ in range(100)]
    assert [entry.key for entry in taken if entry is not None] == list(range(100))


def test_a_key_that_rises_and_falls_out_for_ever_does_not_fill_the_memory() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.add("first", 0, 0.0)
    for number in range(10_000):
        ledger.add("restless", 0, float(number))
        ledger.withdraw("restless")
    assert len(ledger) == 1
    assert sum(len(level) for level in ledger._levels.values()) < 200


@pytest.mark.parametrize("wrong", [{"every": 1}, {"after": -1.0}])
def test_ageing_that_would_be_no_ageing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Ageing"):
        Ageing(**wrong)  # type: ignore[arg-type]
