"""What an attempt decodes of a large object is gone with it, and few large objects are decoded at once."""

import asyncio
import gc
import logging
from typing import Any

import pytest

import ctl

from .test_hostile import PLACEHOLDER, telling
from .world import KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time

MARKER = "of this there is one in each decoded copy"
JUST_LARGE = b'{"' + MARKER.encode() + b'":{"a":{"b":1}},"rest":"' + b"x" * 140_000 + b'"}'
LARGE = b'{"' + MARKER.encode() + b'":[' + b",".join([b'{"a":1}'] * 150_000) + b"]}"


def decoded() -> int:
    """How many decoded copies of marked objects live in this process."""
    gc.collect()
    return sum(type(found) is dict and MARKER in found for found in gc.get_objects())


async def waits_in_vain() -> None:
    """As operators do in their handlers: the timer is cancelled, and its context lives on in the loop until it is due."""
    async with asyncio.timeout(36_000):
        await asyncio.sleep(0.01)


def declare(calls: Calls, left_behind: list[asyncio.Task[None]]) -> None:
    async def left() -> None:
        await asyncio.sleep(36_000)

    @ctl.on.create(KEX.plural, id="create")
    async def create(name: str, spec: Any, body: Any, logger: Any, **_: Any) -> dict[str, Any]:
        calls("create", {"of": name})
        await waits_in_vain()
        left_behind.append(asyncio.create_task(left()))
        logger.info("It is large: %s", len(spec))
        return {"made": len(body)}

    @ctl.on.create(KEX.plural, id="fails", retries=3, backoff=1)
    async def fails(name: str, spec: Any, patch: ctl.Patch, **_: Any) -> None:
        await waits_in_vain()
        patch.fns.append(lambda body: body["metadata"].setdefault("labels", {}).update(a="b"))
        raise ValueError(f"{name} is refused")

    @ctl.on.update(KEX.plural, id="update")
    async def update(name: str, old: Any, new: Any, diff: Any, **_: Any) -> None:
        calls("update", {"of": name})

        @ctl.subhandler(id="sub")
        async def sub(spec: Any, **_: Any) -> None:
            await waits_in_vain()

        raise ctl.TemporaryError("not yet", delay=1) if calls.count("update") % 2 else ctl.PermanentError("never")

    @ctl.on.event(KEX.plural, id="event")
    async def event(name: str, event: Any, patch: ctl.Patch, **_: Any) -> None:
        calls("event", {"of": name})
        await waits_in_vain()

    @ctl.on.event(KEX.plural, id="another")
    async def another(name: str, spec: Any, **_: Any) -> None:
        raise ValueError(f"{name} is refused")

    @ctl.index(KEX.plural, id="things")
    async def things(name: str, spec: Any, **_: Any) -> Any:
        await waits_in_vain()
        return {name: True}

    @ctl.timer(KEX.plural, id="timer", interval=60)
    async def timer(name: str, spec: Any, **_: Any) -> None:
        calls("timer", {"of": name})
        await waits_in_vain()

    @ctl.on.create(KEX.plural, id="in a thread")
    def in_a_thread(spec: Any, **_: Any) -> None:
        assert MARKER in spec["what"]


async def test_nothing_that_was_decoded_outlives_the_attempts(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, "kopf.objects")  # pytest keeps the tracebacks of what is logged
    left_behind: list[asyncio.Task[None]] = []
    declare(calls, left_behind)
    async with telling(world, JUST_LARGE) as access:
        await world.create("early", spec={"what": PLACEHOLDER, "field": "value"})
        async with world.running(access=access):
            await world.create("late", spec={"what": PLACEHOLDER, "field": "value"})
            await world.until(lambda: calls.count("create") == 2)
            await asyncio.sleep(20)
            for name in ("early", "late"):
                await world.patch({"spec": {"field": "other"}}, name)
            await asyncio.sleep(20)
            rule = world.sandbox.faults.answer(422, "Invalid", "no", match=world.own_patches(), times=None)
            await world.patch({"spec": {"field": "third"}}, "late")
            await asyncio.sleep(5)
            world.sandbox.faults.rules.remove(rule)
            await asyncio.sleep(120)
            assert {"create", "update", "event", "timer"} <= set(calls.names)
            assert decoded() == 0, "though timers are cancelled, tasks left behind, and handlers have failed"
            assert not any(task.done() for task in left_behind)
    for task in left_behind:
        task.cancel()


async def test_a_daemon_holds_one_decoded_copy_and_none_when_it_has_ended(world: World, calls: Calls) -> None:
    @ctl.daemon(KEX.plural, id="daemon", cancellation_timeout=1)
    async def daemon(name: str, spec: Any, stopped: Any, patch: ctl.Patch, **_: Any) -> None:
        while not await stopped.wait(5):
            calls("daemon", {"size": len(spec["what"])})
            await waits_in_vain()

    async with telling(world, JUST_LARGE) as access, world.running(access=access):
        for name in ("one", "two"):
            await world.create(name, spec={"what": PLACEHOLDER, "field": "value"})
        await world.until(lambda: calls.count("daemon") >= 2, 20)
        for number in range(3):
            await world.patch({"spec": {"field": f"{number}"}})
        await asyncio.sleep(20)
        assert decoded() == 2
        await world.delete()
        await world.gone()
        await rest(5)
        assert decoded() == 1


@pytest.mark.parametrize("in_thread", [False, True])
async def test_daemons_of_many_large_objects_keep_few_of_them_decoded(
    world: World, calls: Calls, *, in_thread: bool
) -> None:
    """Though all see their objects as these are now. (Each is more than half of what is kept.)"""
    seen: dict[str, str] = {}

    def look(name: str, spec: Any) -> None:
        assert len(spec["what"][MARKER]) == 150_000
        seen[name] = spec["field"]

    async def daemon(name: str, spec: Any, stopped: Any, **_: Any) -> None:
        while not stopped:
            look(name, spec)
            await stopped.wait(1)

    def sync_daemon(name: str, spec: Any, stopped: Any, **_: Any) -> None:
        while not stopped:
            look(name, spec)
            stopped.wait(0.01)

    ctl.daemon(KEX.plural, id="daemon")(sync_daemon if in_thread else daemon)
    names = [f"large{number}" for number in range(4)]
    async with telling(world, LARGE) as access, world.running(access=access):
        for name in names:
            await world.create(name, spec={"what": PLACEHOLDER, "field": "first"})
        await world.until(lambda: seen == dict.fromkeys(names, "first"), 60)
        for name in names:
            await world.patch({"spec": {"field": "second"}}, name)
        await world.until(lambda: seen == dict.fromkeys(names, "second"), 60)
        await asyncio.sleep(5)
        assert decoded() <= 1


async def test_metadata_of_large_objects_are_decoded_alone(world: World, calls: Calls) -> None:
    @ctl.timer(KEX.plural, id="timer", interval=1, labels={"a": "b"}, when=lambda name, meta, **_: meta.name == name)
    @ctl.daemon(KEX.plural, id="daemon")
    async def daemon(name: str, uid: str, body: Any, meta: Any, logger: Any, **_: Any) -> None:
        calls("daemon", {"found": (name == body["metadata"]["name"] == meta.name, body.get("kind"), meta.uid == uid)})
        logger.info("It is called %s.", meta.labels["a"])
        await asyncio.sleep(0.1)
        calls("decoded", {"copies": decoded()})

    async with telling(world, LARGE) as access, world.running(access=access):
        await world.create("large", labels={"a": "b"}, spec={"what": PLACEHOLDER})
        await world.until(lambda: calls.count("decoded") > 3)
        await rest()
    assert {told["found"] for told in calls.of("daemon")} == {(True, "KopfExample", True)}
    assert calls.of("decoded")[-1]["copies"] == 0


@pytest.mark.parametrize("seconds", [0.2, 60])
async def test_few_large_objects_are_decoded_at_once(world: World, calls: Calls, seconds: float) -> None:
    """And nobody waits for ever for a handler that takes its time; small ones wait for nobody."""
    loop, running, most = asyncio.get_running_loop(), 0, 0
    held: list[float] = []

    @ctl.on.create(KEX.plural, id="create")
    async def create(name: str, spec: Any, **_: Any) -> None:
        nonlocal running, most
        calls("create", {"of": name, "at": loop.time()})
        if "what" in spec:
            running += 1
            most = max(most, running)
            await asyncio.sleep(seconds)
            running -= 1

    async with telling(world, LARGE) as access:
        for number in range(5):
            await world.create(f"large{number}", spec={"what": PLACEHOLDER})
        async with world.running(access=access):
            await world.until(lambda: calls.count("create"))
            began = loop.time()
            await world.create("small")
            await world.handled("small")
            held.append(loop.time() - began)
            await world.until(lambda: calls.count("create") == 6, 30)
            if seconds < 1:
                assert most == 1
                assert decoded() <= 5
            else:
                times = [told["at"] for told in calls.of("create") if told["of"] != "small"]
                assert max(times) - min(times) < 15, "the next one waits some seconds, whatever those before it do"
            await asyncio.sleep(seconds * 2)
    assert held[0] < 3
