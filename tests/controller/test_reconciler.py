import functools
from typing import Any

import pytest

from ctl.controller.kernel.notes import REMEMBERED, Failure, Notes
from ctl.controller.kernel.reconciler import ADDED, Attempt, Reason, as_function
from ctl.controller.kernel.result import Result

ATTEMPT = Attempt("key", 1)


class WithMethod:
    async def reconcile(self, key: str, attempt: Attempt[str]) -> Result:
        return Result(requeue_after=attempt.number)


class Callable2:
    async def __call__(self, key: str, attempt: Attempt[str]) -> Result:
        return Result(requeue_after=attempt.number)


async def of_both(key: str, attempt: Attempt[str]) -> Result:
    return Result(requeue_after=attempt.number)


async def of_the_key(key: str) -> Result:
    return Result(requeue_after=1)


async def of_more(key: str, attempt: Attempt[str], more: int = 0) -> Result:
    return Result(requeue_after=1 + more)


@pytest.mark.parametrize(
    "reconciler",
    [WithMethod(), Callable2(), of_both, of_the_key, of_more, functools.partial(of_more, more=0)],
    ids=["method", "callable", "of both", "of the key", "of more", "partial"],
)
async def test_every_form_of_a_reconciler_is_taken(reconciler: Any) -> None:
    assert await as_function(reconciler)("key", ATTEMPT) == Result(requeue_after=1)


async def nothing() -> None: ...


async def too_much(a: str, b: str, c: str) -> None: ...


@pytest.mark.parametrize("wrong", [nothing, too_much, "text", None])
def test_what_is_no_reconciler_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(TypeError, match="A reconciler"):
        as_function(wrong)


def test_the_first_reason_stays_and_events_come_before_repeats() -> None:
    notes: Notes[str] = Notes()
    first, second, later = Reason("first"), Reason("second"), Reason("after")
    notes.wants_later("key", later)
    notes.wants("key", first)
    notes.wants("key", second)
    assert notes.reason("key") is first
    delayed = [True, True, False]
    assert [notes.take("key", is_delayed=is_delayed) for is_delayed in delayed] == [first, later, ADDED]
    assert notes.reason("key") is None


def test_an_attempt_that_something_else_asked_for_as_well_is_the_repetition_too() -> None:
    notes: Notes[str] = Notes()
    first = Reason("first")
    notes.wants_later("key", Reason("retry"))
    notes.wants("key", first)
    assert notes.take("key", is_delayed=False) is first
    assert len(notes) == 0


def test_nothing_is_kept_for_a_key_at_rest() -> None:
    notes: Notes[str] = Notes()
    notes.wants("key", Reason("first"))
    notes.failed("key", Failure("ValueError()", 1.0))
    assert len(notes) == 2
    assert notes.failure("key") == Failure("ValueError()", 1.0)
    notes.take("key", is_delayed=False)
    notes.recovered("key")
    assert len(notes) == 0


def test_of_keys_that_were_given_up_the_last_errors_are_remembered() -> None:
    notes: Notes[int] = Notes()
    for key in range(REMEMBERED + 1):
        notes.gave_up(key, Failure(f"{key}", 1.0))
    assert len(notes) == REMEMBERED
    assert notes.failure(0) is None
    assert notes.failure(REMEMBERED) == Failure(f"{REMEMBERED}", 1.0)
    notes.recovered(REMEMBERED)
    assert notes.failure(REMEMBERED) is None
