"""The pages on daemons, timers, errors, results, restarts and never-again."""

import asyncio
from typing import Any

import pytest

import ctl

from ..handlers.world import FINALIZER, KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_results_stand_in_the_status_and_later_handlers_wait_for_them(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="job")
    def job(status: ctl.Status, **_: Any) -> dict[str, str]:
        calls("job", {})
        if not status.get("claim"):
            raise ctl.TemporaryError("there is no claim yet", delay=10)
        return {"uses": status["claim"]["name"]}

    @ctl.on.create(KEX.plural, id="claim")
    def claim(**_: Any) -> dict[str, str]:
        calls("claim", {})
        return {"name": "pvc"}

    @ctl.on.create(KEX.plural, id="number")
    def number(**_: Any) -> int:
        return 100

    async with world.running():
        await world.create()
        found = await world.handled()
    assert found["status"] == {"job": {"uses": "pvc"}, "claim": {"name": "pvc"}, "number": 100}
    assert calls.names == ["job", "claim", "job"]


async def test_a_handler_is_excluded_for_ever_by_an_annotation(world: World, calls: Calls) -> None:
    ctl.on.create(KEX.plural, id="keep-in-scope")(lambda **_: None)

    @ctl.on.update(KEX.plural, annotations={"update-never-again": ctl.ABSENT})
    def update(patch: ctl.Patch, **_: Any) -> None:
        calls("update", {})
        patch.metadata.annotations["update-never-again"] = "yes"
        raise ctl.PermanentError("never again")

    @ctl.daemon(KEX.plural, annotations={"monitor-never-again": ctl.ABSENT})
    async def monitor(patch: ctl.Patch, **_: Any) -> None:
        calls("monitor", {})
        patch.metadata.annotations["monitor-never-again"] = "yes"

    async with world.running():
        await world.create()
        await rest(5)
        await world.patch({"spec": {"field": "b"}})
        await rest(5)
        await world.patch({"spec": {"field": "c"}})
        await rest(5)
    async with world.running():
        await rest(5)
        await world.patch({"spec": {"field": "d"}})
        await rest(5)
    assert sorted(calls.names) == ["monitor", "update"]
    assert FINALIZER not in world.get()["metadata"].get("finalizers", [])


async def test_without_that_a_permanent_error_counts_for_one_change_only(world: World, calls: Calls) -> None:
    ctl.on.create(KEX.plural, id="keep-in-scope")(lambda **_: None)

    @ctl.on.update(KEX.plural)
    def update(**_: Any) -> None:
        calls("update", {})
        raise ctl.PermanentError("not this one")

    async with world.running():
        await world.create()
        await world.handled()
        for field in "bc":
            await world.patch({"spec": {"field": field}})
            await world.handled()
            await rest(100)
    assert calls.names == ["update", "update"]


async def test_a_daemon_restarts_itself_and_one_that_ends_waits_for_the_next_operator(
    world: World, calls: Calls
) -> None:
    @ctl.daemon(KEX.plural)
    async def restarting(**_: Any) -> None:
        calls("restarting", {"at": now()})
        await asyncio.sleep(10)
        raise ctl.TemporaryError("once more", delay=10)

    @ctl.daemon(KEX.plural)
    async def ending(**_: Any) -> dict[str, bool]:
        calls("ending", {})
        return {"finished": True}

    async with world.running():
        await world.create()
        await rest(45)
        await world.patch({"spec": {"field": "b"}})
        await rest(1)
        status = world.get()["status"]
    began = calls.of("restarting")[0]["at"]
    assert [round(kwargs["at"] - began) for kwargs in calls.of("restarting")] == [0, 20, 40]
    assert calls.count("ending") == 1
    assert {"finished": True} in status.values()
    async with world.running():
        await rest(1)
    assert calls.count("ending") == 2


async def test_the_error_example_of_daemons(world: World, calls: Calls) -> None:
    @ctl.daemon(KEX.plural, errors=ctl.ErrorsMode.TEMPORARY, backoff=2, retries=10)
    def monitor(retry: int, **_: Any) -> None:
        calls("monitor", {"retry": retry, "at": now_in_thread()})
        if retry < 3:
            raise ctl.TemporaryError("I am back soon", delay=1)
        if retry < 5:
            raise OSError("something")
        raise ctl.PermanentError("no more")

    loop = asyncio.get_running_loop()

    def now_in_thread() -> float:
        return loop.time()

    async with world.running():
        await world.create()
        await rest(100)
    made = calls.of("monitor")
    assert [kwargs["retry"] for kwargs in made] == [0, 1, 2, 3, 4, 5]
    assert [round(kwargs["at"] - made[0]["at"]) for kwargs in made] == [0, 1, 2, 3, 5, 7]


async def test_the_error_example_of_timers(world: World, calls: Calls) -> None:
    @ctl.timer(KEX.plural, errors=ctl.ErrorsMode.TEMPORARY, interval=10, backoff=5)
    async def tick(retry: int, **_: Any) -> None:
        calls("tick", {"retry": retry, "at": now()})
        if retry < 3:
            raise RuntimeError("not yet")

    async with world.running():
        await world.create()
        await rest(48)
    made = calls.of("tick")
    assert [kwargs["retry"] for kwargs in made] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [round(kwargs["at"] - made[0]["at"]) for kwargs in made] == [0, 5, 10, 15, 25, 30, 35, 40]


async def test_combined_timing(world: World, calls: Calls) -> None:
    @ctl.timer(KEX.plural, initial_delay=60, interval=10, idle=600)
    async def tick(**_: Any) -> None:
        calls("tick", {"at": now()})

    async with world.running():
        began = now()
        await world.create()
        await rest(625)
        assert [round(kwargs["at"] - began) for kwargs in calls.of("tick")] == [600, 610, 620]
        await world.patch({"spec": {"field": "b"}})
        changed = now()
        await rest(605)
    assert [round(kwargs["at"] - changed) for kwargs in calls.of("tick")[3:]] == [600]


async def test_retries_end_with_the_time_and_a_running_attempt_is_not_interrupted(world: World, calls: Calls) -> None:
    """The manual promises a TimeoutError in a running coroutine; Kopf looks at the time between attempts, and so does ctl."""

    @ctl.on.create(KEX.plural, timeout=10 * 60)
    async def retried(**_: Any) -> None:
        calls("retried", {})
        raise ctl.TemporaryError("later", delay=60)

    @ctl.on.create(KEX.plural, timeout=30)
    async def slow(retry: int, **_: Any) -> None:
        await asyncio.sleep(20)
        calls("slow", {"retry": retry})
        raise ctl.TemporaryError("later", delay=5)

    @ctl.on.create(KEX.plural, timeout=30)
    async def slower(**_: Any) -> None:
        await asyncio.sleep(100)
        calls("slower", {})

    async with world.running():
        began = now()
        await world.create()
        await world.handled(seconds=1000)
        assert 480 < now() - began < 700
    assert 8 <= calls.count("retried") <= 10
    assert [kwargs["retry"] for kwargs in calls.of("slow")] == [0]
    assert calls.count("slower") == 1


async def test_retries_and_backoffs_of_arbitrary_errors(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, retries=3)
    async def three(**_: Any) -> None:
        calls("three", {"at": now()})
        raise RuntimeError

    @ctl.on.create(KEX.plural, backoff=30, retries=2)
    async def quick(**_: Any) -> None:
        calls("quick", {"at": now()})
        raise RuntimeError

    @ctl.on.create(KEX.plural, errors=ctl.ErrorsMode.PERMANENT)
    async def once(**_: Any) -> None:
        calls("once", {"at": now()})
        raise RuntimeError

    async with world.running():
        await world.create()
        await world.handled(seconds=500)
        await rest(300)
    moments = {
        name: [round(kwargs["at"] - calls.of(name)[0]["at"]) for kwargs in calls.of(name)] for name in calls.names
    }
    assert moments == {"three": [0, 60, 120], "quick": [0, 30], "once": [0]}


async def test_all_changes_of_a_downtime_are_one(world: World, calls: Calls) -> None:
    ctl.on.create(KEX.plural, id="create")(lambda **_: None)

    @ctl.on.update(KEX.plural)
    def update(diff: ctl.Diff, **_: Any) -> None:
        calls("update", {"diff": tuple(diff)})

    async with world.running():
        await world.create()
        await world.handled()
    for field in "bcd":
        await world.patch({"spec": {"field": field}})
    async with world.running():
        await world.handled()
    assert calls.made == [("update", {"diff": (("change", ("spec", "field"), "value", "d"),)})]
