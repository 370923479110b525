from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.controller.api import conditions
from ctl.controller.api.conditions import Condition, find, is_true, merged, timeless, without

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
READY = Condition("Ready", True, "AllThere", "3 of 3")


def test_a_new_condition_is_complete() -> None:
    assert merged(None, [READY], now=NOW, generation=7) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllThere",
            "message": "3 of 3",
            "observedGeneration": 7,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    ]


def test_the_time_moves_when_the_status_flips_and_only_then() -> None:
    first = merged([], [READY], now=NOW, generation=1)
    told = merged(first, [Condition("Ready", True, "StillThere")], now=LATER, generation=2)
    assert (told[0]["lastTransitionTime"], told[0]["reason"], told[0]["message"]) == (
        conditions.stamp(NOW),
        "StillThere",
        "",
    )
    assert told[0]["observedGeneration"] == 2
    flipped = merged(told, [Condition("Ready", None, "Lost")], now=LATER)
    assert (flipped[0]["status"], flipped[0]["lastTransitionTime"]) == ("Unknown", conditions.stamp(LATER))
    assert flipped[0]["observedGeneration"] == 2


def test_what_others_say_stays_where_and_as_it_is() -> None:
    foreign = {"type": "Theirs", "status": "True", "lastHeartbeatTime": "x", "extra": [1]}
    known: list[dict[str, Any]] = [
        foreign,
        {"type": "Ready", "status": "False", "reason": "R", "message": "", "lastTransitionTime": "t", "probe": 1},
    ]
    found = merged(known, [Condition("New", False), READY], now=NOW)
    assert [entry["type"] for entry in found] == ["Theirs", "Ready", "New"]
    assert found[0] == foreign
    assert found[1]["probe"] == 1
    assert known[1]["status"] == "False"


def test_the_time_is_in_utc_to_the_second() -> None:
    assert (
        conditions.stamp(datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-02T03:04:05Z"
    )


def test_a_condition_needs_a_type_and_has_a_reason() -> None:
    assert Condition("Ready", False).reason == "Ready"
    with pytest.raises(ValueError, match="needs a type"):
        Condition("", True)


def test_looking_at_conditions() -> None:
    body: dict[str, Any] = {
        "metadata": {"generation": 2},
        "status": {"conditions": merged([], [READY], now=NOW, generation=2)},
    }
    assert is_true(body, "Ready")
    assert not is_true({**body, "metadata": {"generation": 3}}, "Ready"), "it was said about an older spec"
    assert find(body, "Other") is None
    assert not is_true({}, "Ready")
    assert without(body["status"]["conditions"], "Ready") == []


_statuses = st.sampled_from([True, False, None])
_wishes = st.lists(st.builds(Condition, st.sampled_from("ABC"), _statuses, st.sampled_from(["R", "S"])), max_size=4)


@given(st.lists(_wishes, max_size=6))
def test_saying_the_same_again_changes_nothing(history: list[list[Condition]]) -> None:
    known: list[dict[str, Any]] = []
    for number, wanted in enumerate(history):
        now = NOW + timedelta(minutes=number)
        before = known
        known = merged(before, wanted, now=now, generation=number)
        assert merged(known, wanted, now=LATER, generation=number) == known or len({w.type for w in wanted}) < len(
            wanted
        )
        types = [entry["type"] for entry in known]
        assert len(types) == len(set(types))
        assert types[: len(before)] == [entry["type"] for entry in before]
        for old, new in zip(before, known, strict=False):
            if old["status"] == new["status"] and len({w.type for w in wanted}) == len(wanted):
                assert old["lastTransitionTime"] == new["lastTransitionTime"]
    assert timeless(known) == [{k: v for k, v in entry.items() if k != "lastTransitionTime"} for entry in known]
