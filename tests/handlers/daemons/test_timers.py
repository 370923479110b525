"""Timers of whole operators: called when they are due, beside everything but themselves, for as long as they are wanted."""

import asyncio
import logging
from typing import Any

import pytest

import ctl
from ctl.controller.api.writes import TRIES
from ctl.handlers.daemons.stoppers import DaemonStoppingReason as Why
from ctl.sandbox import Match

from ..world import FINALIZER, KEX, Calls, World, messages, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

STATUS = Match(method="PATCH", path="/status$")


class Times:
    """When calls were made, in seconds since the first one."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self) -> int:
        """Note a call; gives how many there are."""
        self.at.append(asyncio.get_running_loop().time())
        return len(self.at)

    def since(self, start: float) -> list[float]:
        """The times, counted from a moment, in tenths of seconds."""
        return [round(time - start, 1) for time in self.at]

    @property
    def relative(self) -> list[float]:
        """The times, counted from the first."""
        return self.since(self.at[0]) if self.at else []


@pytest.fixture
def times() -> Times:
    return Times()


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_new_object_s_timer_is_called_at_once_and_then_at_each_interval(
    world: World, calls: Calls, times: Times
) -> None:
    @ctl.on.timer(KEX.plural, interval=10)
    async def tick(stopped: Any, **kwargs: Any) -> None:
        times()
        calls("tick", {"stopped": bool(stopped), **kwargs})

    async with world.running():
        start = now()
        await world.create()
        await rest(35)
        assert world.get()["metadata"]["finalizers"] == [FINALIZER]
        assert len(world.writes()) == 1
        await world.delete()
        await world.gone()
        await rest(30)
    assert times.since(start)[0] < 0.2
    assert times.relative == pytest.approx([0, 10, 20, 30], abs=0.15)
    assert {kwargs["retry"] for kwargs in calls.of("tick")} == {0}
    assert len({kwargs["started"] for kwargs in calls.of("tick")}) == 4
    assert calls.of("tick")[0].keys() >= {
        "body",
        "spec",
        "status",
        "patch",
        "memo",
        "logger",
        "runtime",
        "param",
        "name",
    }


async def test_the_interval_counts_from_the_end_of_a_call(world: World, times: Times) -> None:
    @ctl.on.timer(KEX.plural, interval=10)
    async def tick(**_: Any) -> None:
        times()
        await asyncio.sleep(3)

    async with world.running():
        await world.create()
        await rest(45)
    assert times.relative == pytest.approx([0, 13, 26, 39], abs=0.15)


@pytest.mark.parametrize("interval", [0.3, 1.001, 2.503, 5.001, 7.704])
async def test_no_rhythm_is_slower_by_more_than_a_hundredth(world: World, times: Times, interval: float) -> None:
    @ctl.on.timer(KEX.plural, interval=interval)
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        await world.create()
        await rest(110 * interval)
    assert interval - 1e-6 <= (times.at[99] - times.at[0]) / 99 <= 1.01 * interval


async def test_a_sharp_interval_counts_from_the_beginning(world: World, times: Times) -> None:
    @ctl.on.timer(KEX.plural, interval=10, sharp=True)
    async def tick(**_: Any) -> None:
        number = times()
        await asyncio.sleep(12 if number == 2 else 3)

    async with world.running():
        await world.create()
        await rest(55)
    assert times.relative == pytest.approx([0, 10, 30, 40, 50], abs=0.15)


@pytest.mark.parametrize("delay", [5, lambda spec, **_: spec["wait"]])
async def test_the_first_call_is_delayed(world: World, times: Times, delay: Any) -> None:
    @ctl.on.timer(KEX.plural, interval=10, initial_delay=delay)
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        start = now()
        await world.create(spec={"wait": 5})
        await rest(26)
    assert times.since(start) == pytest.approx([5, 15, 25], abs=0.2)


async def test_sync_timers_run_in_the_pool(world: World, calls: Calls) -> None:
    @ctl.on.timer(KEX.plural, id="t", interval=10)
    def tick(stopped: Any, retry: int, **_: Any) -> int:
        calls("tick", {"waited": bool(stopped.wait(0))})
        return 1

    async with world.running():
        await world.create()
        await rest(25)
        assert world.get()["status"] == {"t": 1}
    assert calls.of("tick") == [{"waited": False}] * 3


async def test_the_delay_of_an_error_goes_before_the_interval(world: World, calls: Calls, times: Times) -> None:
    @ctl.on.timer(KEX.plural, interval=10, backoff=5)
    async def tick(retry: int, **_: Any) -> None:
        times()
        calls("tick", {"retry": retry})
        if retry == 2:
            raise ctl.TemporaryError("later", delay=2)
        if retry < 4:
            raise ValueError("boo")

    async with world.running():
        await world.create()
        await rest(30)
    assert times.relative == pytest.approx([0, 5, 10, 12, 17, 27], abs=0.15)
    assert [kwargs["retry"] for kwargs in calls.of("tick")] == [0, 1, 2, 3, 4, 0]


async def test_a_permanent_error_does_not_end_a_timer(world: World, calls: Calls, times: Times) -> None:
    """As Kopf does, though its manual says otherwise: an operator would miss the calls after the object was mended."""

    @ctl.on.timer(KEX.plural, interval=10)
    async def tick(retry: int, **_: Any) -> None:
        calls("tick", {"retry": retry})
        times()
        raise ctl.PermanentError("no")

    async with world.running():
        await world.create()
        await rest(25)
        assert world.get()["metadata"]["finalizers"] == [FINALIZER]
    assert times.relative == pytest.approx([0, 10, 20], abs=0.15)
    assert [kwargs["retry"] for kwargs in calls.of("tick")] == [0, 0, 0]


async def test_retries_that_are_used_up_begin_anew_at_the_next_interval(
    world: World, calls: Calls, times: Times
) -> None:
    @ctl.on.timer(KEX.plural, interval=10, retries=2, backoff=1)
    async def tick(retry: int, **_: Any) -> None:
        calls("tick", {"retry": retry})
        times()
        raise ValueError("no")

    async with world.running():
        await world.create()
        await rest(13)
    assert times.relative == pytest.approx([0, 1, 11, 12], abs=0.15)
    assert [kwargs["retry"] for kwargs in calls.of("tick")] == [0, 1, 0, 1]


async def test_with_neither_interval_nor_idle_it_is_called_once(
    world: World, times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.timer(KEX.plural, id="t", backoff=3)
    async def once(retry: int, **_: Any) -> None:
        times()
        if retry < 1:
            raise ValueError("boo")

    caplog.set_level(logging.DEBUG)
    async with world.running():
        await world.create()
        await rest(5)
        await world.patch({"spec": {"field": "other"}})
        await rest(60)
        assert not world.get()["metadata"].get("finalizers")
    assert times.relative == pytest.approx([0, 3], abs=0.15)
    assert "Timer 't' has exited on its own and will not be retried or restarted." in messages(caplog.records)


async def test_results_and_patches_are_written_after_each_call(world: World, calls: Calls) -> None:
    @ctl.on.timer(KEX.plural, id="t", interval=10)
    async def tick(patch: Any, status: Any, **_: Any) -> dict[str, int]:
        number = calls("tick", {"status": dict(status)})
        patch.status["number"] = number
        if number == 2:
            raise ctl.PermanentError("the patch is written all the same")
        return {"result": number}

    async with world.running():
        await world.create()
        await rest(25)
        assert world.get()["status"] == {"number": 3, "t": {"result": 3}}
        assert calls.of("tick")[1]["status"] == {"number": 1, "t": {"result": 1}}
        assert calls.of("tick")[2]["status"] == {"number": 2, "t": {"result": 1}}
    assert len([request for request in world.writes() if request.path.endswith("/status")]) == 3


async def test_fns_that_meet_a_conflict_go_with_the_next_call(world: World, calls: Calls) -> None:
    def add(body: Any) -> None:
        body.setdefault("status", {}).setdefault("list", []).append(1)

    @ctl.on.timer(KEX.plural, interval=10)
    async def tick(patch: Any, **_: Any) -> None:
        calls("tick", {"left": bool(patch)})
        if len(calls) == 1:
            patch.fns.append(add)

    async with world.running():
        world.outrun(STATUS, times=TRIES)
        await world.create()
        await rest(15)
        assert world.get()["status"] == {"list": [1]}
    assert calls.of("tick") == [{"left": False}, {"left": True}]


async def test_a_write_that_fails_is_made_again(world: World, calls: Calls) -> None:
    @ctl.on.timer(KEX.plural, id="t", interval=100)
    async def tick(**_: Any) -> int:
        return calls("tick", {})

    async with world.running():
        world.sandbox.faults.answer(503, match=STATUS, times=3)
        await world.create()
        await rest(10)
        assert world.get()["status"] == {"t": 1}
    assert len(calls) == 1


async def test_what_the_server_refuses_for_good_is_dropped_and_the_timer_goes_on(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.timer(KEX.plural, id="t", interval=10)
    async def tick(**_: Any) -> int:
        return calls("tick", {})

    async with world.running():
        world.sandbox.faults.answer(422, match=STATUS, times=1)
        await world.create()
        await rest(15)
        assert world.get()["status"] == {"t": 2}
    assert any("left a patch that could not be written and is dropped" in text for text in messages(caplog.records))


# Idleness.


async def test_an_idle_timer_waits_until_the_object_stands_still(world: World, times: Times) -> None:
    @ctl.on.timer(KEX.plural, idle=10, interval=4)
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        start = now()
        await world.create()
        await rest(5)
        await world.patch({"spec": {"field": "a"}})
        await rest(5)
        await world.patch({"spec": {"field": "b"}})
        await rest(20)
        await world.patch({"spec": {"field": "c"}})
        await rest(15)
    # The object stands still from second 10 on, and again from second 30 on.
    assert times.since(start) == pytest.approx([20, 24, 28, 40, 44], abs=0.4)


async def test_an_idle_timer_without_an_interval_is_called_once_for_each_change(world: World, times: Times) -> None:
    @ctl.on.timer(KEX.plural, idle=10)
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        start = now()
        await world.create()
        await rest(50)
        await world.patch({"spec": {"field": "a"}})
        await rest(50)
    assert times.since(start) == pytest.approx([10, 60.3], abs=0.5)


async def test_where_changes_are_handled_only_the_essence_counts(world: World, times: Times) -> None:
    @ctl.on.timer(KEX.plural, id="t", idle=10, interval=4)
    async def tick(**_: Any) -> int:
        return times()

    @ctl.on.create(KEX.plural)
    async def create(**_: Any) -> None: ...

    async with world.running():
        start = now()
        await world.create()
        await rest(8)
        await world.patch({"status": {"x": 1}}, subresource="status")
        await rest(12)
    assert times.since(start) == pytest.approx([10, 14, 18], abs=0.5)


async def test_where_no_changes_are_handled_each_version_counts(world: World, times: Times) -> None:
    """As Kopf does and its manual warns: a result in the status puts the next call off."""

    @ctl.on.timer(KEX.plural, id="t", idle=10, interval=4)
    async def tick(**_: Any) -> int:
        return times()

    async with world.running():
        start = now()
        await world.create()
        await rest(8)
        await world.patch({"status": {"x": 1}}, subresource="status")
        await rest(25)
    assert times.since(start) == pytest.approx([18.3, 28.3], abs=0.6)


# Filters.


async def test_filters_start_and_stop_it(world: World, times: Times) -> None:
    @ctl.on.timer(KEX.plural, interval=10, labels={"on": "yes"})
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        start = now()
        await world.create()
        await rest(20)
        await world.patch({"metadata": {"labels": {"on": "yes"}}})
        await rest(15)
        assert world.get()["metadata"]["finalizers"] == [FINALIZER]
        await world.patch({"metadata": {"labels": {"on": None}}})
        await rest(30)
        assert not world.get()["metadata"].get("finalizers")
    assert times.since(start) == pytest.approx([20.3, 30.3], abs=0.4)


async def test_when_is_asked_at_each_tick_without_any_change(world: World, times: Times) -> None:
    switch = {"on": True}

    @ctl.on.timer(KEX.plural, interval=10, when=lambda **_: switch["on"])
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        await world.create()
        await rest(15)
        switch["on"] = False
        await rest(10)
        assert not world.get()["metadata"].get("finalizers")
        await rest(20)
        switch["on"] = True
        await rest(20)
        assert world.get()["metadata"]["finalizers"] == [FINALIZER]
    assert times.relative == pytest.approx([0, 10, 50, 60], abs=0.3)


async def test_an_object_that_does_not_match_yet_is_called_when_it_does(world: World, times: Times) -> None:
    switch = {"on": False}

    @ctl.on.timer(KEX.plural, interval=10, annotations={"x": lambda value, **_: switch["on"]})
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        start = now()
        await world.create()
        await rest(14)
        assert world.writes() == []
        switch["on"] = True
        await rest(20)
        await world.delete()
        await world.gone()
        await rest(20)
    assert times.since(start) == pytest.approx([20, 30], abs=0.4)


async def test_a_filter_that_fails_at_a_tick_skips_it(
    world: World, times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    switch = {"broken": False}

    def when(**_: Any) -> bool:
        if switch["broken"]:
            raise ValueError("boo")
        return True

    @ctl.on.timer(KEX.plural, id="t", interval=10, when=when)
    async def tick(**_: Any) -> None:
        times()

    async with world.running():
        await world.create()
        await rest(5)
        switch["broken"] = True
        await rest(20)
        assert times.relative == pytest.approx([0], abs=0.15)
        switch["broken"] = False
        await rest(60)
    assert len(times.at) > 3
    assert "Timer 't' is not called now, since its filters failed: ValueError('boo')" in messages(caplog.records)


# Beside others.


async def test_a_timer_runs_beside_handlers_and_others_but_never_beside_itself(world: World, calls: Calls) -> None:
    running: dict[str, int] = {"slow": 0, "quick": 0}
    most: dict[str, int] = {"slow": 0, "quick": 0}

    async def run(name: str, seconds: float) -> None:
        running[name] += 1
        most[name] = max(most[name], running[name])
        await asyncio.sleep(seconds)
        running[name] -= 1
        calls(name, {"at": now()})

    @ctl.on.timer(KEX.plural, interval=5, sharp=True)
    async def slow(**_: Any) -> None:
        await run("slow", 12)

    @ctl.on.timer(KEX.plural, interval=1)
    async def quick(**_: Any) -> None:
        await run("quick", 0)

    @ctl.on.create(KEX.plural)
    async def create(**_: Any) -> None:
        await asyncio.sleep(30)
        calls("create", {})

    async with world.running():
        await world.create()
        await rest(40)
    assert most == {"slow": 1, "quick": 1}
    assert calls.count("slow") == 3
    assert calls.names.index("create") > 25
    assert calls.count("quick") >= 39


async def test_deletion_waits_for_a_call_and_asks_it_to_end(world: World, calls: Calls) -> None:
    @ctl.on.timer(KEX.plural, interval=5)
    async def slow(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        await stopped.wait()
        calls("asked", {"reason": stopped.reason})
        await asyncio.sleep(10)
        calls("end", {})

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("begin"))
        await rest()
        await world.delete()
        await rest(5)
        assert world.find() is not None
        await world.gone()
        await rest(30)
    assert calls.names == ["begin", "asked", "end"]
    assert calls.of("asked") == [{"reason": Why.RESOURCE_DELETED}]


async def test_at_the_operator_s_end_a_call_is_asked_and_given_five_seconds(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.timer(KEX.plural, id="t", interval=5)
    async def slow(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        await stopped.wait()
        await asyncio.sleep(0)
        calls("end", {"reason": stopped.reason})

    async with world.running() as running:
        await world.create()
        await world.until(lambda: calls.count("begin"))
        await running.stop()
    assert calls.of("end") == [{"reason": Why.OPERATOR_EXITING}]


async def test_objects_that_were_there_are_spread_over_the_period(world: World, calls: Calls) -> None:
    @ctl.on.timer(KEX.plural, interval=60)
    async def tick(name: str, **_: Any) -> None:
        calls("tick", {"name": name, "at": now()})

    for number in range(60):
        await world.create(f"x{number}")
    async with world.running():
        start = now()
        await rest(2)
        await world.create("new")
        await rest(60)
        first = {kwargs["name"]: kwargs["at"] - start for kwargs in reversed(calls.of("tick"))}
        assert len(first) == 61
        assert first.pop("new") == pytest.approx(2, abs=0.5)
        for minute_quarter in range(4):
            inside = [at for at in first.values() if minute_quarter * 15 <= at < (minute_quarter + 1) * 15]
            assert 13 <= len(inside) <= 17
        assert min(first.values()) < 0.5


async def test_nothing_is_left_of_objects_that_went_away_unseen(world: World, calls: Calls) -> None:
    @ctl.on.timer(KEX.plural, interval=10)
    async def tick(name: str, **_: Any) -> None:
        calls("tick", {"name": name})

    async with world.running():
        for number in range(10):
            await world.create(f"x{number}")
        await world.until(lambda: len(calls) == 10)
        await rest()
        for stream in list(world.sandbox.faults.streams):
            stream.stall(True)
        for number in range(10):
            await world.patch({"metadata": {"finalizers": None}}, f"x{number}")
            await world.delete(f"x{number}")
            assert world.find(f"x{number}") is None
        world.sandbox.compact()
        for stream in list(world.sandbox.faults.streams):
            stream.cut()
        await rest(30)
        before = len(calls)
        await rest(30)
        assert len(calls) == before


async def test_an_operator_with_many_timers_that_rest_stops_at_once_and_writes_nothing_for_it(
    world: World, calls: Calls
) -> None:
    @ctl.on.timer(KEX.plural, interval=60)
    async def tick(name: str, **_: Any) -> None:
        calls("tick", {"name": name})

    running = world.start()
    await running.ready.wait()
    for number in range(100):
        await world.create(f"x{number}")
    await world.until(lambda: len(calls) == 100)
    await rest()
    written, began = len(world.writes()), now()
    await running.stop()
    assert now() - began < 0.1
    assert (len(world.writes()), len(calls)) == (written, 100)
