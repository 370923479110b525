from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ctl.workqueue.schedule import Due, Schedule


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.schedule: Schedule[str] = Schedule()
        self.times: dict[str, tuple[float, int, int]] = {}
        self.count = 0

    @rule(key=st.sampled_from("abcdefgh"), time=st.integers(0, 20), priority=st.sampled_from([-100, 0, 5]))
    def add(self, key: str, time: int, priority: int) -> None:
        known = self.times.get(key)
        sooner = known is None or time < known[0]
        assert self.schedule.add(key, float(time), priority) is sooner
        highest = priority if known is None else max(priority, known[1])
        if known is None or sooner:
            self.count += 1
            self.times[key] = (float(time), highest, self.count)
        else:
            self.times[key] = (known[0], highest, known[2])

    @rule(key=st.sampled_from("abcdefgh"))
    def discard(self, key: str) -> None:
        assert self.schedule.discard(key) is (self.times.pop(key, None) is not None)

    @rule(now=st.integers(0, 20))
    def take_due(self, now: int) -> None:
        due = sorted(
            (time, number, key, priority) for key, (time, priority, number) in self.times.items() if time <= now
        )
        assert self.schedule.take_due(float(now)) == [Due(key, priority) for _, _, key, priority in due]
        for _, _, key, _ in due:
            del self.times[key]

    @invariant()
    def agree(self) -> None:
        assert len(self.schedule) == len(self.times)
        assert self.schedule.next_time() == min((time for time, _, _ in self.times.values()), default=None)
        for key in "abcdefgh":
            assert self.schedule.time(key) == self.times.get(key, (None,))[0]
            assert (key in self.schedule) is (key in self.times)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


def test_a_key_that_is_moved_for_ever_does_not_fill_the_memory() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("fixed", 0.0)
    for number in range(10_000, 0, -1):
        schedule.add("moved", float(number))
    assert len(schedule._heap) < 100
    assert [due.key for due in schedule.take_due(1.0)] == ["fixed", "moved"]


def test_clearing_strikes_everything_out() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("a", 1.0)
    schedule.clear()
    assert schedule.next_time() is None
    assert schedule.take_due(10.0) == []
