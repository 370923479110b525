"""When the barrier opens, and who is woken then."""

from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.indexing.barrier import IndexBarrier


def barrier(*, needed: bool = True) -> tuple[IndexBarrier[str], list[str]]:
    woken: list[str] = []
    return IndexBarrier(woken.append, needed=needed), woken


def opened(found: IndexBarrier[str]) -> bool:
    return found.is_open


def test_one_that_is_not_needed_is_open() -> None:
    found, _ = barrier(needed=False)
    assert opened(found)


def test_it_opens_when_all_sources_have_told_and_all_is_indexed() -> None:
    found, woken = barrier()
    found.expect("pods")
    found.expect("nodes")
    found.found("a")
    found.told("pods")
    found.complete()
    found.indexed("a")
    found.hold("a")
    assert not opened(found)
    assert found.awaited == {"nodes"}
    found.found("b")
    found.told("nodes")
    assert not opened(found)
    assert found.unindexed == 1
    found.indexed("b")
    assert opened(found)
    assert woken == ["a"]


def test_it_does_not_open_before_all_sources_are_known() -> None:
    found, _ = barrier()
    found.expect("pods")
    found.told("pods")
    assert not opened(found)
    found.complete()
    assert opened(found)


def test_it_stays_open() -> None:
    found, _ = barrier()
    found.complete()
    found.expect("late")
    found.found("z")
    assert opened(found)


def test_what_is_dropped_is_neither_awaited_nor_woken() -> None:
    found, woken = barrier()
    found.expect("pods")
    for key in ("a1", "a2", "b1"):
        found.found(key)
    found.indexed("a1")
    found.hold("a1")
    found.indexed("b1")
    found.hold("b1")
    found.complete()
    found.told("pods")
    assert not opened(found)
    found.drop(lambda key: key.startswith("a"))
    assert opened(found)
    assert woken == ["b1"]


@given(st.permutations(["complete", "told", "a", "b", "c"]))
def test_the_order_does_not_matter(order: list[str]) -> None:
    found, woken = barrier()
    found.expect("pods")
    for key in "abc":
        found.found(key)
    for step in order:
        assert not opened(found)
        if step == "complete":
            found.complete()
        elif step == "told":
            found.told("pods")
        else:
            found.indexed(step)
            if not found.is_open:
                found.hold(step)
    assert opened(found)
    assert set(woken) == {step for step in order[:-1] if step in "abc"}


def test_it_never_opens_when_it_was_abandoned_whatever_is_told_then() -> None:
    found, woken = barrier()
    found.expect("pods")
    found.complete()
    found.hold("a")
    found.abandon()
    found.told("pods")
    found.drop(lambda key: False)
    assert not opened(found)
    assert woken == []


def test_what_was_held_when_nothing_may_be_attempted_any_more_is_not_woken() -> None:
    """It would be attempted by a copy that has not caught up; each stored object is asked for when that has."""
    found, woken = barrier()
    found.expect("pods")
    found.complete()
    found.hold("a")
    found.let_go()
    found.hold("b")
    found.told("pods")
    assert opened(found)
    assert woken == ["b"]
