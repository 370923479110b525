"""How attempts are judged: the table of error modes, the look-ahead, and the sentences of the log."""

from datetime import timedelta
from fractions import Fraction
from typing import cast

import pytest

from ctl.handlers.causes.causes import Activity
from ctl.handlers.declaration.specs import ActivitySpec, ChangingSpec, HandlerId
from ctl.handlers.errors import (
    AdmissionError,
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from ctl.handlers.execution import outcomes
from ctl.handlers.execution.outcomes import AttemptsSoFar, UnfinishedSubhandlers


def spec(**options: object) -> ChangingSpec:
    return ChangingSpec(id=HandlerId("fn"), fn=print, selector=None, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "exc", "final", "failed", "delay", "text"),
    [
        ({}, TemporaryError("oops", delay=3), False, True, 3, "Handler 'fn' failed temporarily: oops"),
        ({}, TemporaryError("oops", delay=None), False, True, None, "Handler 'fn' failed temporarily: oops"),
        *(
            (
                {},
                TemporaryError("oops", delay=delay),
                False,
                True,
                60,
                f"Handler 'fn' failed temporarily: oops (delay={delay!r} is no number of seconds until a date: 60 are taken)",
            )
            for delay in cast("list[float]", ["5", timedelta(seconds=5), float("inf"), float("nan"), 1e15, 10**400])
        ),
        (
            {},
            TemporaryError("oops", delay=cast("float", Fraction(5, 2))),
            False,
            True,
            2.5,
            "Handler 'fn' failed temporarily: oops",
        ),
        ({}, PermanentError("no"), True, True, None, "Handler 'fn' failed permanently: no"),
        ({}, AdmissionError("no", 403), True, True, None, "Handler 'fn' failed permanently: no"),
        (
            {},
            ValueError("bug"),
            False,
            True,
            60,
            "Handler 'fn' failed with an exception and will try again in 60 seconds: bug",
        ),
        (
            {"backoff": 2.5},
            ValueError(),
            False,
            True,
            2.5,
            "Handler 'fn' failed with an exception and will try again in 2.5 seconds: ValueError()",
        ),
        (
            {"errors": ErrorsMode.IGNORED},
            ValueError("bug"),
            True,
            False,
            None,
            "Handler 'fn' failed with an exception and will ignore it: bug",
        ),
        (
            {"errors": ErrorsMode.PERMANENT},
            ValueError("bug"),
            True,
            True,
            None,
            "Handler 'fn' failed with an exception and will stop now: bug",
        ),
        (
            {},
            UnfinishedSubhandlers(7),
            False,
            True,
            7,
            "Handler 'fn' has unfinished sub-handlers. Will retry soon.",
        ),
    ],
)
def test_errors_are_judged_by_their_class_and_mode(
    options: dict[str, object], exc: Exception, final: bool, failed: bool, delay: float | None, text: str
) -> None:
    verdict = outcomes.fail(spec(**options), exc, AttemptsSoFar(retry=0, runtime=0.0))
    assert verdict.outcome.final is final
    assert (verdict.outcome.exception is not None) is failed
    assert verdict.outcome.delay == delay
    assert verdict.text == text


def test_a_retry_that_would_exceed_the_retries_fails_now() -> None:
    verdict = outcomes.fail(spec(retries=3), TemporaryError("oops", delay=1), AttemptsSoFar(retry=2, runtime=0.0))
    assert verdict.outcome.final
    assert isinstance(verdict.outcome.exception, HandlerRetriesError)
    assert verdict.text == "Handler 'fn' failed temporarily but will exceed 3 retries: oops"
    before = outcomes.fail(spec(retries=3), TemporaryError("oops", delay=1), AttemptsSoFar(retry=1, runtime=0.0))
    assert not before.outcome.final


def test_a_retry_that_would_come_after_the_timeout_fails_now() -> None:
    verdict = outcomes.fail(spec(timeout=10), ValueError("bug"), AttemptsSoFar(retry=0, runtime=1.0, default_backoff=9))
    assert isinstance(verdict.outcome.exception, HandlerTimeoutError)
    assert verdict.text == (
        "Handler 'fn' failed with an exception and will stop now "
        "(it would time out in 10 seconds on the next attempt): bug"
    )
    assert verdict.traceback
    before = outcomes.fail(spec(timeout=10), ValueError("bug"), AttemptsSoFar(retry=0, runtime=0.5, default_backoff=9))
    assert not before.outcome.final


def test_a_handler_whose_time_or_attempts_are_used_up_is_not_called() -> None:
    assert outcomes.refuse(spec(), AttemptsSoFar(retry=1000, runtime=1e9)) is None
    late = outcomes.refuse(spec(timeout=2), AttemptsSoFar(retry=0, runtime=2.0))
    assert late is not None
    assert late.text == "Handler 'fn' has timed out after 0:00:02."
    often = outcomes.refuse(spec(retries=2), AttemptsSoFar(retry=2, runtime=0.0))
    assert often is not None
    assert often.text == "Handler 'fn' has exceeded 2 retries."


def test_activities_are_named_as_such() -> None:
    activity = ActivitySpec(id=HandlerId("a"), fn=print, activity=Activity.STARTUP)
    assert outcomes.label(activity) == "Activity 'a'"
