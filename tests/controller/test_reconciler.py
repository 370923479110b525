import functools
from typing import Any

import pytest

from ctl.controller.kernel.reconciler import ADDED, Attempt, Result, Trigger, as_function
from ctl.controller.kernel.worker import REMEMBERED_ERRORS, KeyNotes, LastError

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


def test_the_first_trigger_stays_and_events_come_before_repetitions() -> None:
    notes: KeyNotes[str] = KeyNotes()
    first, second, repetition = Trigger("first"), Trigger("second"), Trigger("requeue_after")
    notes.repeat("key", repetition)
    notes.request("key", first)
    notes.request("key", second)
    assert notes.trigger("key") is first
    delayed = [True, True, False]
    assert [notes.take("key", is_delayed=is_delayed) for is_delayed in delayed] == [first, repetition, ADDED]
    assert notes.trigger("key") is None


def test_an_attempt_that_something_else_requested_as_well_is_the_repetition_too() -> None:
    notes: KeyNotes[str] = KeyNotes()
    first = Trigger("first")
    notes.repeat("key", Trigger("retry"))
    notes.request("key", first)
    assert notes.take("key", is_delayed=False) is first
    assert len(notes) == 0


def test_nothing_is_kept_for_a_key_at_rest() -> None:
    notes: KeyNotes[str] = KeyNotes()
    notes.request("key", Trigger("first"))
    notes.failed("key", LastError("ValueError()", 1.0), is_terminal=False)
    assert len(notes) == 2
    assert notes.error("key") == LastError("ValueError()", 1.0)
    notes.take("key", is_delayed=False)
    notes.succeeded("key")
    assert len(notes) == 0


def test_of_keys_that_are_not_retried_the_last_errors_are_remembered() -> None:
    notes: KeyNotes[int] = KeyNotes()
    for key in range(REMEMBERED_ERRORS + 1):
        notes.failed(key, LastError(f"{key}", 1.0), is_terminal=True)
    assert len(notes) == REMEMBERED_ERRORS
    assert notes.error(0) is None
    assert notes.error(REMEMBERED_ERRORS) == LastError(f"{REMEMBERED_ERRORS}", 1.0)
    notes.succeeded(REMEMBERED_ERRORS)
    assert notes.error(REMEMBERED_ERRORS) is None
