import asyncio
import logging
from typing import Any

import pytest

from ctl.handlers.causes.causes import Activity, ActivityCause, current_cause
from ctl.handlers.declaration.specs import ActivitySpec, HandlerId
from ctl.handlers.execution.attempts import Call, attempt
from ctl.handlers.execution.progression import Progress
from ctl.handlers.settings import OperatorSettings
from ctl.runtime import clock


def _call(fn: Any) -> Call:
    cause = ActivityCause(logger=logging.getLogger("some"), memo=None, activity=Activity.PROBE, settings=None)
    return Call(ActivitySpec(id=HandlerId("id"), fn=fn, activity=Activity.PROBE), cause, Progress(clock.now()))


@pytest.mark.parametrize("error", [None, ValueError("no")], ids=["returns", "raises"])
async def test_the_current_cause_is_known_while_its_handler_runs_and_that_of_the_outer_one_is_back_afterwards(
    error: Exception | None,
) -> None:
    seen = list[Any]()

    async def inner(**_: Any) -> None:
        seen.append(current_cause.get())
        if error is not None:
            raise error

    async def outer(**_: Any) -> None:
        await attempt(inside, OperatorSettings())
        seen.append(current_cause.get())

    inside, outside = _call(inner), _call(outer)
    await attempt(outside, OperatorSettings(), after=outer)
    assert seen == [inside.cause, outside.cause] * 2
    assert current_cause.get(None) is None


async def test_a_function_in_a_thread_that_runs_out_of_items_has_failed() -> None:
    """StopIteration is what next() raises; no future can hold it, so the handler would never have ended."""

    def search(**_: Any) -> Any:
        return next(name for name in ("a", "b") if name == "c")

    async with asyncio.timeout(60):
        outcome = await attempt(_call(search), OperatorSettings())
    assert not outcome.final
    assert isinstance(outcome.exception, RuntimeError)
    assert isinstance(outcome.exception.__cause__, StopIteration)


class Panic(BaseException):
    """As extensions have them that are written in other languages."""


async def panic(**_: Any) -> None:
    raise Panic("at the disco")


def panic_in_a_thread(**_: Any) -> None:
    raise Panic("at the disco")


@pytest.mark.parametrize("fn", [panic, panic_in_a_thread])
async def test_an_error_that_is_no_exception_is_one_of_the_handler(fn: Any) -> None:
    outcome = await attempt(_call(fn), OperatorSettings())
    assert (outcome.final, outcome.delay) == (False, 60)
    assert str(outcome.exception) == "Panic: at the disco"
    assert outcome.exception is not None
    assert isinstance(outcome.exception.__cause__, Panic)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
async def test_what_ends_the_process_is_no_outcome(error: type[BaseException]) -> None:
    async def leave(**_: Any) -> None:
        raise error

    coro = attempt(_call(leave), OperatorSettings())
    with pytest.raises(error):
        coro.send(None)
