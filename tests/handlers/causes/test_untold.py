"""What a change does not tell of is told besides, and nothing else is."""

from typing import Any

import pytest

from ctl.handlers.causes.untold import hidden, others


def _state(**spec: Any) -> Any:
    return {"spec": spec}


def test_others_are_those_that_are_not_known() -> None:
    seen = {"1": _state(a=1), "2": _state(a=2), "3": _state(a=3)}
    assert list(others(seen, _state(a=1), _state(a=3))) == ["2"]
    assert others({}, _state(a=1)) == {}


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (_state(a=3), True),  # the change of `a` tells who saw another one
        (_state(a=2), True),  # it is how it is now
        (_state(a=1), True),  # it is the base
        (_state(a=2, b=1), False),  # that `b` is gone, the change does not tell
        (_state(a=1, b=1), False),
    ],
)
def test_a_change_hides_what_it_does_not_touch(state: Any, told: bool) -> None:
    assert hidden({"x": state}, _state(a=1), _state(a=2)) == ({} if told else {"x": state})


def test_a_change_of_a_whole_stanza_tells_of_what_is_in_it() -> None:
    assert hidden({"x": _state(a=3, b=1)}, {}, _state(a=2)) == {}
