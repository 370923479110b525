import asyncio
import contextlib
import contextvars

import pytest

from ctl.controller.program.manager import Hooks, Manager, Stage, StopError

pytestmark = pytest.mark.virtual_time


class Part:
    """A component that notes what it is told; its start and stop take their time, or fail."""

    def __init__(self, name: str, told: list[str], *, slow: float = 0.0, fail: str = "") -> None:
        self.name = name
        self._told = told
        self._slow = slow
        self._fail = fail

    async def start(self) -> None:
        if self._fail == "start":
            raise ValueError(f"{self.name} cannot start")
        self._told.append(f"+{self.name}")

    async def stop(self, grace: float) -> None:
        self._told.append(f"-{self.name} {grace:g}")
        await asyncio.sleep(self._slow)
        if self._fail == "stop":
            raise ValueError(f"{self.name} cannot stop")


async def test_the_order_is_that_of_the_stages_and_back() -> None:
    told: list[str] = []
    manager = Manager()
    for name, stage in (
        ("user", Stage.OTHERS),
        ("controller", Stage.CONTROLLERS),
        ("lease", Stage.ELECTION),
        ("http", Stage.HTTP),
    ):
        manager.add(Part(name, told), stage)
    manager.add(Part("second", told), Stage.CONTROLLERS)
    async with manager:
        assert [component.name for component in manager.order()] == ["http", "lease", "controller", "second", "user"]
        with pytest.raises(RuntimeError, match="too late"):
            manager.add(Part("late", told))
    assert told == [
        "+http",
        "+lease",
        "+controller",
        "+second",
        "+user",
        "-user 30",
        "-second 30",
        "-controller 30",
        "-lease 30",
        "-http 30",
    ]


async def test_the_grace_is_for_all_together() -> None:
    told: list[str] = []
    manager = Manager(grace=30)
    for name, slow in (("a", 0.0), ("b", 12.0), ("c", 100.0), ("d", 10.0)):
        manager.add(Part(name, told, slow=slow))
    await manager.start()
    began = asyncio.get_running_loop().time()
    await manager.stop()
    assert [line for line in told if line.startswith("-")] == ["-d 30", "-c 20", "-b 1", "-a 1"]
    assert asyncio.get_running_loop().time() - began == pytest.approx(10 + 21 + 2, abs=0.1)


async def test_a_start_that_fails_stops_what_had_started() -> None:
    told: list[str] = []
    manager = Manager()
    for part in (Part("a", told), Part("b", told, fail="start"), Part("c", told)):
        manager.add(part)
    with pytest.raises(ValueError, match="b cannot start"):
        await manager.start()
    assert told == ["+a", "-a 30"]


async def test_a_stop_that_fails_does_not_keep_the_others_running() -> None:
    told: list[str] = []
    manager = Manager()
    for part in (Part("a", told), Part("b", told, fail="stop"), Part("c", told)):
        manager.add(part)
    await manager.start()
    with pytest.raises(StopError) as caught:
        await manager.stop()
    assert [str(error) for error in caught.value.exceptions] == ["b cannot stop"]
    assert told[3:] == ["-c 30", "-b 30", "-a 30"]


async def test_run_ends_with_the_event() -> None:
    told: list[str] = []
    manager, stop = Manager(), asyncio.Event()
    manager.add(Part("a", told))
    asyncio.get_running_loop().call_later(100, stop.set)
    await manager.run(stop)
    assert told == ["+a", "-a 30"]


async def test_a_start_that_takes_long_is_given_up_when_the_event_comes_first() -> None:
    told: list[str] = []

    class Slow(Part):
        async def start(self) -> None:
            await asyncio.sleep(1000)
            told.append("started")

    manager, stop = Manager(), asyncio.Event()
    manager.add(Part("a", told))
    manager.add(Slow("slow", told))
    asyncio.get_running_loop().call_later(10, stop.set)
    began = asyncio.get_running_loop().time()
    await manager.run(stop)
    assert asyncio.get_running_loop().time() - began == pytest.approx(10)
    assert told == ["+a", "-a 30"]


async def test_a_start_that_fails_while_it_is_given_up_is_told() -> None:
    class Stubborn(Part):
        async def start(self) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                raise OSError("not even that")

    manager, stop = Manager(), asyncio.Event()
    manager.add(Stubborn("stubborn", []))
    asyncio.get_running_loop().call_later(10, stop.set)
    with pytest.raises(OSError, match="not even that"):
        await manager.run(stop)


async def test_run_ends_with_a_failure_and_raises_it() -> None:
    told: list[str] = []
    manager = Manager()
    manager.add(Part("a", told))
    broken, later = OSError("broken"), OSError("later")

    def fail() -> None:
        manager.fail("a", broken)
        manager.fail("a", later)

    asyncio.get_running_loop().call_later(100, fail)
    with pytest.raises(OSError, match="broken"):
        await manager.run()
    assert told == ["+a", "-a 30"]


async def test_a_cancelled_run_stops_everything_and_touches_no_other_task() -> None:
    told: list[str] = []
    manager = Manager()
    for name in ("a", "b"):
        manager.add(Part(name, told, slow=3))
    neighbour = asyncio.create_task(asyncio.sleep(1000, "neighbour"))
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["+a", "+b", "-b 30", "-a 27"]
    assert await neighbour == "neighbour"


async def test_a_second_cancellation_hurries_but_leaves_nothing_out() -> None:
    told: list[str] = []
    manager = Manager()
    for name in ("a", "b"):
        manager.add(Part(name, told, slow=20))
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert told == ["+a", "+b", "-b 30", "-a 0"]
    assert asyncio.get_running_loop().time() - began < 5


async def test_a_manager_that_has_stopped_takes_components_and_starts_again() -> None:
    told: list[str] = []
    manager = Manager()
    manager.add(Part("a", told))
    async with manager:
        pass
    manager.add(Part("b", told), Stage.HTTP)
    async with manager:
        pass
    assert told == ["+a", "-a 30", "+b", "+a", "-a 30", "-b 30"]


async def test_a_manager_is_a_component() -> None:
    told: list[str] = []
    inner, outer = Manager("inner"), Manager("outer")
    inner.add(Part("a", told))
    outer.add(inner)
    async with outer:
        assert told == ["+a"]
    assert told == ["+a", "-a 30"]


async def test_controllers_stop_at_once_and_others_one_by_one() -> None:
    told: list[str] = []
    manager = Manager(grace=30)
    for name, stage in (
        ("lease", Stage.ELECTION),
        ("first", Stage.CONTROLLERS),
        ("second", Stage.CONTROLLERS),
        ("user", Stage.OTHERS),
    ):
        manager.add(Part(name, told, slow=10), stage)
    await manager.start()
    began = asyncio.get_running_loop().time()
    await manager.stop()
    assert told[4:] == ["-user 30", "-second 20", "-first 20", "-lease 10"]
    assert asyncio.get_running_loop().time() - began == pytest.approx(30, abs=0.1)


async def test_a_component_adds_others_in_its_start() -> None:
    told: list[str] = []
    manager = Manager()

    class Builder(Part):
        async def start(self) -> None:
            await super().start()
            manager.add(Part("sibling", told), Stage.STARTUP)
            manager.add(Part("controller", told), Stage.CONTROLLERS)
            with pytest.raises(RuntimeError, match="http comes too late"):
                manager.add(Part("http", told), Stage.HTTP)

    manager.add(Part("user", told))
    manager.add(Builder("builder", told), Stage.STARTUP)
    async with manager:
        assert told == ["+builder", "+sibling", "+controller", "+user"]
    assert told[4:] == ["-user 30", "-controller 30", "-sibling 30", "-builder 30"]


async def test_what_a_component_sets_in_the_context_is_seen_by_later_starts_and_by_stops_and_nowhere_else() -> None:
    variable, stop, seen = contextvars.ContextVar("variable", default=0), asyncio.Event(), list[int]()

    async def begin() -> None:
        variable.set(1)

    async def look(*_: object) -> None:
        seen.append(variable.get())

    manager = Manager()
    manager.add(Hooks("one", begin, look))
    manager.add(Hooks("two", look, look))
    asyncio.get_running_loop().call_later(1, stop.set)
    await manager.run(stop)
    assert seen == [1, 1, 1]
    assert variable.get() == 0


async def test_a_failure_matters_more_than_those_of_the_stop(caplog: pytest.LogCaptureFixture) -> None:
    manager = Manager()
    manager.add(Part("a", [], fail="stop"))
    asyncio.get_running_loop().call_later(1, manager.fail, "b", OSError("broken"))
    with pytest.raises(OSError, match="broken"):
        await manager.run()
    assert "a cannot stop" in caplog.text


async def test_a_stop_that_fails_after_a_start_was_given_up_is_told() -> None:
    class Slow(Part):
        async def start(self) -> None:
            await asyncio.sleep(1000)

    manager, stop = Manager(), asyncio.Event()
    manager.add(Part("a", [], fail="stop"))
    manager.add(Slow("slow", []))
    asyncio.get_running_loop().call_later(10, stop.set)
    with pytest.raises(StopError):
        await manager.run(stop)


async def test_without_patience_components_are_waited_for() -> None:
    manager = Manager(grace=1, patience=None)
    manager.add(Part("a", [], slow=100))
    await manager.start()
    began = asyncio.get_running_loop().time()
    await manager.stop()
    assert asyncio.get_running_loop().time() - began == pytest.approx(100)
