"""Raw events: each of the wire once and in order, with patches of their handlers."""

import asyncio
from typing import Any

import pytest

import ctl

from .world import KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time


async def test_each_event_comes_once_and_in_order(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(name: str, type: str | None, **_: Any) -> None:
        calls(name, {"type": type})

    await world.create("old")
    async with world.running():
        await rest()
        await world.create("new")
        for number in range(20):
            await world.patch({"spec": {"n": number}}, "new")
        await world.delete("new")
        await rest()
    assert [call["type"] for call in calls.of("old")] == [None]
    assert [call["type"] for call in calls.of("new")] == ["ADDED", *["MODIFIED"] * 20, "DELETED"]
    assert world.writes() == []


async def test_a_handler_that_is_declared_while_the_operator_runs_hears_of_what_follows(
    world: World, calls: Calls
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        @ctl.on.event(KEX.plural, id="event")
        async def event(name: str, type: str | None, **_: Any) -> None:
            calls(name, {"type": type})

    async with world.running():
        await world.create()
        await world.handled()
        await rest()
        before = len(calls)
        await world.patch({"spec": {"field": "b"}})
        await rest()
        await world.delete()
        await rest()
    assert [call["type"] for call in calls.of("one")[before:]] == ["MODIFIED", "MODIFIED", "DELETED"]


async def test_the_arguments_of_an_event_handler(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="event", param=1)
    def event(**kwargs: Any) -> None:
        calls("event", kwargs)

    async with world.running():
        await world.create()
        await world.until(lambda: len(calls))
    (given,) = calls.of("event")
    assert set(given) == {
        *("resource", "patch", "body", "spec", "meta", "status", "uid", "name", "namespace", "labels", "annotations"),
        *("memo", "logger", "param", "retry", "started", "runtime", "event", "type"),
    }
    assert given["type"] == given["event"]["type"] == "ADDED"
    assert given["event"]["object"]["metadata"]["name"] == "one"


async def test_own_writes_are_events_too(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(type: str | None, status: Any, **_: Any) -> None:
        calls("event", {"type": type, "status": dict(status)})

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> int:
        return 1

    async with world.running():
        await world.create()
        await world.handled()
    assert [call["type"] for call in calls.of("event")] == ["ADDED", "MODIFIED", "MODIFIED"]
    assert calls.of("event")[-1]["status"] == {"create": 1}


async def test_events_and_changes_of_one_object_never_run_beside_each_other(world: World) -> None:
    busy: list[str] = []

    async def work(what: str) -> None:
        assert busy == []
        busy.append(what)
        await asyncio.sleep(0.3)
        busy.remove(what)

    @ctl.on.event(KEX.plural, id="event")
    async def event(**_: Any) -> None:
        await work("event")

    @ctl.on.create(KEX.plural, id="changed")
    @ctl.on.update(KEX.plural, id="changed")
    async def changed(**_: Any) -> None:
        await work("change")

    async with world.running():
        await world.create()
        for number in range(3):
            await world.patch({"spec": {"n": number}})
            await asyncio.sleep(0.4)
        await world.handled()


async def test_patches_and_results_of_event_handlers_are_written(world: World) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(patch: ctl.Patch, status: Any, **_: Any) -> str:
        patch.status["seen"] = True
        patch.metadata.labels["l"] = "x"
        return "result"

    async with world.running():
        await world.create()
        await world.until(lambda: world.get().get("status"))
        # Its own write is an event, whose handler writes the same again, which changes nothing.
        await rest(5)
        assert world.get()["status"] == {"seen": True, "event": "result"}
        assert world.get()["metadata"]["labels"] == {"l": "x"}
        assert len(world.writes()) < 10
        await world.delete()
        await world.gone()
    assert all(request.code == 200 for request in world.writes())


async def test_patches_of_events_go_with_the_rounds_write(world: World) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(patch: ctl.Patch, type: str | None, **_: Any) -> None:
        if type == "ADDED":
            patch.metadata.labels["l"] = "x"

    @ctl.on.create(KEX.plural, id="create")
    async def create(labels: Any, **_: Any) -> None:
        assert labels == {"l": "x"}

    async with world.running():
        await world.create()
        await world.handled()
    first, *_ = world.bodies()
    assert first["metadata"]["labels"] == {"l": "x"}


async def test_an_error_of_an_event_handler_changes_nothing_for_others(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="bad")
    async def bad(**_: Any) -> None:
        calls("bad", {})
        raise ctl.TemporaryError("never again", delay=0)

    @ctl.on.event(KEX.plural, id="good")
    async def good(**_: Any) -> None:
        calls("good", {})

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("create", {})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["bad", "good", "create", "bad", "good"]


async def test_a_patch_for_a_deleted_object_does_not_reach_its_namesake(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(patch: ctl.Patch, uid: str, type: str | None, **_: Any) -> None:
        calls(str(type), {"uid": uid})
        patch.spec["by"] = uid
        if len(calls) == 1:
            await world.delete()
            await world.create()
            await asyncio.sleep(1)

    async with world.running():
        old = (await world.create())["metadata"]["uid"]
        await world.until(lambda: world.get()["spec"].get("by"))
        await rest()
        new = world.get()["metadata"]["uid"]
    assert calls.names[:3] == ["ADDED", "DELETED", "ADDED"]
    assert [call["uid"] for _, call in calls.made[:3]] == [old, old, new]
    assert world.get()["spec"]["by"] == new
    assert not any(old in str(request.json()) for request in world.writes())


async def test_a_deletion_that_the_watch_missed_is_told(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(name: str, type: str | None, **_: Any) -> None:
        calls(name, {"type": type})

    async with world.running():
        await world.create("gone")
        await world.create("stays")
        await rest()
        world.sandbox.faults.stall_watches()
        await world.delete("gone")
        world.sandbox.compact()
        world.sandbox.faults.reset_watches()
        await world.until(lambda: calls.count("gone") == 2, seconds=200)
    assert [call["type"] for call in calls.of("gone")] == ["ADDED", "DELETED"]
    assert calls.of("stays")[0] == {"type": "ADDED"}


async def test_event_filters(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="labelled", labels={"mine": "yes"})
    async def labelled(type: str | None, **_: Any) -> None:
        calls("labelled", {"type": type})

    @ctl.on.event(KEX.plural, id="field", field="spec.n", value=3)
    async def field(**_: Any) -> None:
        calls("field", {})

    async with world.running():
        await world.create()
        await world.patch({"metadata": {"labels": {"mine": "yes"}}, "spec": {"n": 3}})
        await world.patch({"metadata": {"labels": {"mine": "no"}}})
        await rest()
    assert calls.names == ["labelled", "field", "field"]


async def test_memories_do_not_outlive_their_objects(world: World) -> None:
    memos: list[Any] = []

    @ctl.on.event(KEX.plural, id="event")
    async def event(memo: Any, **_: Any) -> None:
        memos.append(memo)

    async with world.running():
        await world.create()
        await rest()
        await world.delete()
        await world.gone()
        await world.create()
        await rest()
    assert memos[0] is memos[1]
    assert memos[2] is not memos[0]
