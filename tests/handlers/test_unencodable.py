"""What handlers put into their patch that JSON cannot represent: the handler fails, the object and its other handlers do not suffer."""

import datetime as dt
import logging
from typing import Any

import pytest

import ctl

from .world import KEX, Calls, World, messages, rest

pytestmark = pytest.mark.virtual_time

FOUND = "The patch has a Opaque at status.value, which JSON cannot represent."


class Opaque:
    """Nothing for JSON."""


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return messages([record for record in caplog.records if record.levelno >= logging.WARNING])


async def test_the_handler_fails_and_is_tried_again(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="bad", backoff=5)
    async def bad(patch: ctl.Patch, retry: int, **_: Any) -> str:
        calls("bad", {})
        patch.status["good"] = "yes"
        patch.status["value"] = "at last" if retry else Opaque()
        return "done"

    @ctl.on.create(KEX.plural, id="other")
    async def other(status: ctl.Status, **_: Any) -> None:
        calls("other", {"status": dict(status)})

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("bad"))
        # What it has done besides is there, but no result: it has not succeeded.
        assert world.get()["status"] == {"good": "yes"}
        found = await world.handled()
    assert found["status"] == {"good": "yes", "value": "at last", "bad": "done"}
    assert calls.names == ["bad", "other", "bad"]
    assert calls.of("other") == [{"status": {"good": "yes"}}]
    (text,) = complaints(caplog)
    assert text.startswith(f"Handler 'bad' failed with an exception and will try again in 5 seconds: {FOUND}")


@pytest.mark.parametrize("errors", [ctl.ErrorsMode.PERMANENT, ctl.ErrorsMode.IGNORED])
async def test_the_usual_error_modes_apply(
    world: World, calls: Calls, errors: ctl.ErrorsMode, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="bad", errors=errors)
    def bad(patch: ctl.Patch, **_: Any) -> str:
        calls("bad", {})
        patch.status["good"] = "yes"
        patch.status["value"] = Opaque()
        patch.spec["more"] = [Opaque()]
        return "done"

    async with world.running():
        await world.create()
        found = await world.handled()
    assert found["status"] == {"good": "yes"}
    assert calls.names == ["bad"]
    other, text = complaints(caplog)[:2]
    assert other.startswith("Handler 'bad' left what cannot be written. The patch has a Opaque at spec.more.0,")
    assert FOUND in text


async def test_a_handler_that_fails_by_itself_fails_for_its_own_reason(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="bad")
    async def bad(patch: ctl.Patch, retry: int, **_: Any) -> None:
        calls("bad", {})
        if not retry:
            patch.status.update(good="yes", value=Opaque())
            raise ctl.TemporaryError("not yet", delay=3)

    async with world.running():
        await world.create()
        found = await world.handled()
    assert found["status"] == {"good": "yes"}
    assert calls.names == ["bad", "bad"]
    first, second = complaints(caplog)
    assert first.startswith(f"Handler 'bad' left what cannot be written. {FOUND}")
    assert second == "Handler 'bad' failed temporarily: not yet"


async def test_sub_handlers_too(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        calls("parent", {})

        @ctl.subhandler(id="child", backoff=2)
        async def child(patch: ctl.Patch, retry: int, **_: Any) -> None:
            calls("child", {})
            patch.status["value"] = retry or Opaque()

    async with world.running():
        await world.create()
        found = await world.handled()
    assert found["status"] == {"value": 1}
    assert calls.names == ["parent", "child", "parent", "child"]


async def test_event_handlers_are_not_called_again_and_the_rest_is_written(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(patch: ctl.Patch, status: ctl.Status, **_: Any) -> None:
        calls("event", {})
        if not status:
            patch.status.update(good="yes", value=Opaque())

    async with world.running():
        await world.create()
        await rest(5)
        assert world.get()["status"] == {"good": "yes"}
    assert calls.names == ["event", "event"]
    (text,) = complaints(caplog)
    assert text.startswith(f"Handler 'event' failed with an exception and will ignore it: {FOUND}")


@pytest.mark.parametrize("kind", ["daemon", "timer"])
async def test_daemons_and_timers_are_called_again(world: World, calls: Calls, kind: str) -> None:
    async def work(patch: ctl.Patch, retry: int, **_: Any) -> None:
        calls("work", {})
        patch.status["good"] = "yes"
        patch.status["value"] = retry or Opaque()

    if kind == "daemon":
        ctl.daemon(KEX.plural, id="work", backoff=3)(work)
    else:
        ctl.timer(KEX.plural, id="work", backoff=3, interval=1000)(work)
    async with world.running():
        await world.create()
        await world.until(lambda: world.get().get("status") == {"good": "yes"})
        await world.until(lambda: world.get()["status"] == {"good": "yes", "value": 1})
        await rest(100)
    assert calls.names == ["work", "work"]


async def test_a_function_of_the_patch_is_dropped_as_one_that_raises(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="functions")
    async def functions(patch: ctl.Patch, **_: Any) -> None:
        calls("functions", {})
        patch.fns.append(lambda body: body["spec"].update(value=Opaque()))
        patch.fns.append(lambda body: body["spec"].update(good=(1, 2)))

    async with world.running():
        await world.create()
        await world.until(lambda: world.get()["spec"].get("good"))
        found = await world.handled()
    assert found["spec"] == {"field": "value", "good": [1, 2]}
    assert calls.names == ["functions"]
    assert all(text.startswith("A function in patch.fns failed and is dropped") for text in complaints(caplog))
    assert complaints(caplog)


async def test_what_has_a_form_is_written_in_it_and_nothing_is_inconsistent(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    when = dt.datetime(2030, 1, 2, tzinfo=dt.UTC)

    @ctl.on.create(KEX.plural, id="fine")
    async def fine(patch: ctl.Patch, **_: Any) -> dict[str, Any]:
        patch.status.update(when=when, numbers={1}, pair=(1, 2), keys={1: {2: "two"}})
        return {"when": when, "numbers": {1}}

    async with world.running():
        await world.create()
        found = await world.handled()
    text = "2030-01-02T00:00:00Z"
    assert found["status"] == {
        "when": text,
        "numbers": [1],
        "pair": [1, 2],
        "keys": {"1": {"2": "two"}},
        "fine": {"when": text, "numbers": [1]},
    }
    assert complaints(caplog) == []
