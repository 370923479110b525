from typing import Any

import pytest

from ctl.handlers.causes.patch import Patch
from ctl.handlers.storage.baseline import ANNOTATIONS_LIMIT, OBJECT_LIMIT, Room, withdraw


def _annotated(**annotations: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


@pytest.mark.parametrize("letter", ["x", "ä", "€"])
def test_all_annotations_together_count_in_bytes_with_their_names(letter: str) -> None:
    foreign = letter * 100
    left = ANNOTATIONS_LIMIT - len("foreign") - len(foreign.encode()) - len("own")
    body, room = _annotated(foreign=foreign), Room(0)
    assert room.has(body, {}, _annotated(own="x" * left))
    assert not room.has(body, {}, _annotated(own="x" * (left + 1)))


def test_what_the_patch_removes_makes_room_and_what_it_adds_takes_it() -> None:
    body, room = _annotated(big="x" * 200_000), Room(0)
    own = _annotated(own="y" * 100_000)
    assert not room.has(body, {}, own)
    assert room.has(body, _annotated(big=None), own)
    assert not room.has({}, _annotated(big="x" * 200_000), own)


def test_what_is_replaced_is_not_counted_twice() -> None:
    assert Room(0).has(_annotated(own="x" * 200_000), {}, _annotated(own="y" * 200_000))


def test_an_object_stays_below_what_etcd_takes() -> None:
    assert Room(OBJECT_LIMIT - 2000).has({}, {}, _annotated(own="x" * 1000))
    assert not Room(OBJECT_LIMIT - 2000).has({}, {}, _annotated(own="x" * 2000))
    # Quotes are escaped where JSON is kept inside of JSON.
    assert not Room(OBJECT_LIMIT - 2000).has({}, {}, _annotated(own='"' * 1000))
    assert not Room(OBJECT_LIMIT - 2000).has({}, {}, {"status": {"kopf": {"last": "x" * 2000}}})
    assert Room(OBJECT_LIMIT + 2000).has({}, {}, _annotated(gone=None)) is False


def test_a_limit_of_one_annotation_concerns_ours_only() -> None:
    room = Room(0, largest=1000)
    assert room.has(_annotated(foreign="x" * 2000), {}, _annotated(own="x" * 1000))
    assert not room.has({}, {}, _annotated(own="x" * 1001))


def test_withdrawing_removes_from_the_object_and_from_the_patch() -> None:
    remembered = {"metadata": {"annotations": {"a": "1", "b": "2"}}, "status": {"kopf": {"last": "3"}}}
    patch = Patch({"metadata": {"annotations": {"b": "2", "mine": "x"}}})
    withdraw(remembered, {"metadata": {"annotations": {"a": "0"}}, "status": {"kopf": {"last": "0"}}}, patch)
    assert patch == {"metadata": {"annotations": {"a": None, "mine": "x"}}, "status": {"kopf": {"last": None}}}
