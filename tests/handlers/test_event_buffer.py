"""Raw events wait in order, can be looked at before they are taken, and collapse when there are too many."""

import pytest

from ctl.client.objects import Object
from ctl.handlers.indexing.event_buffer import LIMIT, EventBuffer
from ctl.informers.deltas import Delta, DeltaKind


def delta(version: int, wire_type: str | None = "MODIFIED", uid: str = "u") -> Delta:
    raw = f'{{"metadata": {{"name": "n", "namespace": "ns", "uid": "{uid}", "resourceVersion": "{version}"}}}}'
    kind = DeltaKind.DELETED if wire_type == "DELETED" else DeltaKind.UPDATED
    return Delta(kind, Object.from_raw(raw.encode()), None, False, wire_type)


def versions(backlog: EventBuffer) -> list[str]:
    """Take everything."""
    return [backlog.take().object.resource_version for _ in range(len(backlog))]


def test_events_are_taken_in_order() -> None:
    backlog = EventBuffer()
    for version in range(5):
        assert backlog.add(delta(version))
    assert versions(backlog) == ["0", "1", "2", "3", "4"]
    with pytest.raises(IndexError):
        backlog.take()


def test_what_was_looked_at_is_known_when_it_is_taken() -> None:
    backlog = EventBuffer()
    first, second, third = (delta(version) for version in range(3))
    backlog.add(first)
    assert backlog.look_ahead() is first
    assert backlog.look_ahead() is None
    backlog.add(second)
    assert backlog.look_ahead() is second
    backlog.add(third)
    seen = []
    while len(backlog):
        was_seen = backlog.ahead > 0
        seen.append((backlog.take(), was_seen))
    assert seen == [(first, True), (second, True), (third, False)]
    assert backlog.ahead == 0


def test_too_many_modifications_collapse_into_the_last() -> None:
    backlog = EventBuffer()
    for version in range(LIMIT + 10):
        backlog.add(delta(version))
    assert (len(backlog), backlog.collapsed) == (LIMIT, 10)
    assert versions(backlog)[-1] == str(LIMIT + 9)


def test_what_takes_the_place_of_an_event_is_to_be_looked_at() -> None:
    backlog = EventBuffer()
    for version in range(LIMIT):
        backlog.add(delta(version))
        backlog.look_ahead()
    newest = delta(LIMIT)
    assert not backlog.add(newest)
    assert backlog.look_ahead() is newest


def test_additions_deletions_and_other_objects_stay() -> None:
    backlog = EventBuffer()
    for version in range(LIMIT):
        backlog.add(delta(version))
    assert backlog.add(delta(1000, "DELETED"))
    assert backlog.add(delta(1001, "ADDED", uid="v"))
    assert backlog.add(delta(1002, uid="v"))
    assert not backlog.add(delta(1003, uid="v"))
    assert len(backlog) == LIMIT + 3
