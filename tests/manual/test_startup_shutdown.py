"""The pages on startup and shutdown: what runs before anything else, and after everything."""

import asyncio
import signal
from typing import Any

import pytest

import ctl
from ctl.handlers.execution.activities import ActivityError

from ..handlers.world import KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def cleaned(calls: Calls) -> Calls:
    """A cleanup handler that notes its call, and what runs then."""

    @ctl.on.cleanup()
    async def cleanup(logger: Any, **_: Any) -> None:
        await asyncio.sleep(5)
        calls("cleanup", {})

    return calls


async def test_nothing_is_asked_of_the_server_before_all_startup_handlers_have_succeeded(
    world: World, calls: Calls
) -> None:
    @ctl.on.startup()
    async def slow(**_: Any) -> None:
        await asyncio.sleep(60)
        calls("slow", {})

    @ctl.on.startup(backoff=30)
    def failing(retry: int, **_: Any) -> None:
        calls("failing", {})
        if retry < 3:
            raise OSError("not yet")

    @ctl.on.event(KEX.plural)
    def event(**_: Any) -> None:
        calls("event", {})

    await world.create()
    world.sandbox.log.clear()
    running = world.start()
    await world.until(lambda: calls.count("failing") == 3, seconds=300)
    assert not world.sandbox.log
    await world.until(lambda: calls.count("event") == 1, seconds=300)
    assert (calls.count("slow"), calls.count("failing")) == (1, 4)
    assert calls.names[-2:] == ["failing", "event"]
    await running.stop()


async def test_a_startup_that_fails_for_good_is_the_end_without_a_request(world: World, cleaned: Calls) -> None:
    @ctl.on.startup()
    def startup(**_: Any) -> None:
        raise ctl.PermanentError("never")

    with pytest.raises(ActivityError):
        await world.start().ended()
    assert not [request for request in world.sandbox.log if request.user_agent.startswith("ctl/")]


@pytest.mark.parametrize("way", ["flag", "cancellation", "signal"])
async def test_cleanup_handlers_run_however_the_operator_is_ended(world: World, cleaned: Calls, way: str) -> None:
    running = world.start()
    await running.ready.wait()
    if way == "flag":
        running.stop_flag.set()
        await running.ended()
    elif way == "cancellation":
        running.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running.task
    else:
        signal.raise_signal(signal.SIGTERM)
        await running.ended()
    assert cleaned.names == ["cleanup"]


async def test_cleanup_handlers_run_when_the_operator_fails(world: World, cleaned: Calls) -> None:
    @ctl.on.login()
    def login(**_: Any) -> None:
        raise ctl.PermanentError("no way in")

    with pytest.raises(ctl.LoginError):
        await world.start(access=None).ended()
    assert cleaned.names == ["cleanup"]


async def test_cleanup_comes_after_everything_and_has_no_limit_of_its_own(world: World, calls: Calls) -> None:
    @ctl.daemon(KEX.plural)
    async def daemon(stopped: ctl.AsyncDaemonStopperChecker, **_: Any) -> None:
        calls("daemon begins", {})
        await stopped.wait()
        calls("daemon ends", {})

    @ctl.on.update(KEX.plural)
    async def update(**_: Any) -> None:
        await asyncio.sleep(1)
        calls("updated", {})

    @ctl.on.cleanup(backoff=100)
    async def cleanup(retry: int, **_: Any) -> None:
        calls("cleanup", {})
        if retry < 5:
            raise ctl.TemporaryError("not yet", delay=100)

    running = world.start()
    await running.ready.wait()
    await world.create()
    await world.handled()
    await world.patch({"spec": {"field": "other"}})
    await rest()
    await running.stop()
    assert set(calls.names[: calls.names.index("cleanup")]) == {"daemon begins", "daemon ends", "updated"}
    assert calls.names[-6:] == ["cleanup"] * 6


async def test_cleanup_can_be_limited(world: World, calls: Calls) -> None:
    @ctl.on.cleanup(retries=2, backoff=10)
    async def cleanup(**_: Any) -> None:
        calls("cleanup", {})
        raise OSError("never")

    running = world.start()
    await running.ready.wait()
    running.stop_flag.set()
    with pytest.raises(ActivityError):
        await running.ended()
    assert calls.names == ["cleanup", "cleanup"]
