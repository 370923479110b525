"""The page on handlers: causes, event-watching, resuming, fields, sub-handlers."""

import asyncio
import functools
from typing import Any

import pytest

import ctl

from ..handlers.world import FINALIZER, KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time


async def test_methods_of_an_instance_and_static_methods_are_handlers(world: World, calls: Calls) -> None:
    class Mine:
        def __init__(self, word: str) -> None:
            self.word = word

        def handle(self, name: str, **_: Any) -> None:
            calls(self.word, {"name": name})

        @staticmethod
        def static(name: str, **_: Any) -> None:
            calls("static", {"name": name})

    ctl.on.create(KEX.plural)(Mine("a").handle)
    ctl.on.create(KEX.plural, id="b")(Mine("b").handle)
    ctl.on.create(KEX.plural)(Mine.static)
    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["a", "b", "static"]


async def test_event_handlers_leave_no_trace_and_their_errors_are_logged(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.event(KEX.plural)
    def fn(event: ctl.RawEvent, **_: Any) -> None:
        calls(str(event["type"]), {})
        raise RuntimeError("of the handler")

    before = await world.create()
    async with world.running():
        await rest(70)
        assert world.get() == before
        await world.patch({"spec": {"field": "b"}})
        await rest(70)
        await world.delete()
        await rest(2)
    assert calls.names == ["None", "MODIFIED", "DELETED"]
    assert "of the handler" in caplog.text


async def test_the_status_and_the_rest_of_the_metadata_are_no_changes(world: World, calls: Calls) -> None:
    ctl.on.create(KEX.plural)(lambda **_: None)

    @ctl.on.update(KEX.plural)
    def update(diff: ctl.Diff, **_: Any) -> None:
        calls("update", {"fields": [item.field for item in diff]})

    async with world.running():
        await world.create(labels={"z": ""}, annotations={"z": ""})
        await world.handled()
        await world.patch({"status": {"phase": "on"}}, subresource="status")
        await world.patch({"metadata": {"finalizers": ["example.com/other"]}})
        await rest(3)
        assert calls.names == []
        await world.patch({"metadata": {"labels": {"a": "b"}}})
        await rest(2)
        await world.patch({"metadata": {"annotations": {"c": "d"}}})
        await rest(2)
    assert [kwargs["fields"] for kwargs in calls.of("update")] == [
        [("metadata", "labels", "a")],
        [("metadata", "annotations", "c")],
    ]


async def test_changes_of_the_status_are_seen_by_who_asks_for_them(world: World, calls: Calls) -> None:
    ctl.on.create(KEX.plural)(lambda **_: None)

    @ctl.on.update(KEX.plural, field="status")
    def fn(old: Any, new: Any, **_: Any) -> None:
        calls("fn", {"old": old, "new": new})

    async with world.running():
        await world.create()
        await rest(2)
        for number in (1, 2):
            await world.patch({"status": {"number": number}}, subresource="status")
            await rest(2)
    assert calls.of("fn")[-1] == {"old": {"number": 1}, "new": {"number": 2}}
    assert len(calls) == 2


@pytest.mark.parametrize(("options", "blocks"), [({}, True), ({"optional": True}, False)])
async def test_deletion_waits_for_handlers_that_are_not_optional(
    world: World, calls: Calls, options: Any, blocks: bool
) -> None:
    @ctl.on.delete(KEX.plural, **options)
    def fn(**_: Any) -> None:
        calls("fn", {})

    async with world.running():
        await world.create()
        await rest(2)
        assert world.get()["metadata"].get("finalizers", []) == [FINALIZER] * blocks
    await world.delete()
    assert (world.find() is not None) == blocks
    async with world.running():
        await world.gone()
    assert calls.names == ["fn"] * blocks


async def test_a_creating_and_resuming_function_is_called_once_in_a_life_of_the_operator(
    world: World, calls: Calls
) -> None:
    @ctl.on.resume(KEX.plural)
    @ctl.on.create(KEX.plural)
    def fn(name: str, reason: str, **_: Any) -> None:
        calls(f"{name} {reason}", {})

    await world.create("new")
    async with world.running():
        await world.handled("new")
        await world.create("newer")
        await world.handled("newer")
        await world.patch({"spec": {"field": "b"}}, "new")
        await rest(2)
    assert calls.names == ["new create", "newer create"]
    async with world.running():
        await rest(2)
        await world.patch({"spec": {"field": "c"}}, "new")
        await rest(2)
    assert sorted(calls.names[2:]) == ["new resume", "newer resume"]


async def test_resume_handlers_are_retried_and_mixed_into_an_update_in_their_order(world: World, calls: Calls) -> None:
    ctl.on.create(KEX.plural, id="create")(lambda **_: None)
    async with world.running():
        await world.create()
        await world.handled()
    await world.patch({"spec": {"field": "b"}})

    @ctl.on.update(KEX.plural)
    def first(**_: Any) -> None:
        calls("first", {})

    @ctl.on.resume(KEX.plural)
    def second(retry: int, **_: Any) -> None:
        calls("second", {})
        if not retry:
            raise ctl.TemporaryError("once more", delay=5)

    @ctl.on.update(KEX.plural)
    def third(**_: Any) -> None:
        calls("third", {})

    async with world.running():
        await world.handled()
        await rest(10)
    assert calls.names == ["first", "second", "third", "second"]


@pytest.mark.parametrize(("options", "expected"), [({}, ["delete"]), ({"deleted": True}, ["delete", "resume"])])
async def test_objects_that_are_deleted_are_resumed_only_on_demand(
    world: World, calls: Calls, options: Any, expected: list[str]
) -> None:
    ctl.on.delete(KEX.plural, id="delete")(lambda **_: calls("delete", {}) and None)
    async with world.running():
        await world.create()
        await rest(2)
    await world.delete()
    ctl.on.resume(KEX.plural, id="resume", **options)(lambda **_: calls("resume", {}) and None)
    async with world.running():
        await world.gone()
    assert sorted(calls.names) == expected


async def test_tasks_that_handlers_start_are_theirs(world: World, calls: Calls) -> None:
    tasks: dict[str, asyncio.Task[None]] = {}

    async def work(name: str) -> None:
        while True:
            calls(name, {})
            await asyncio.sleep(10)

    @ctl.on.delete(KEX.plural)
    async def stop(name: str, **_: Any) -> None:
        tasks.pop(name).cancel()

    @ctl.on.resume(KEX.plural)
    @ctl.on.create(KEX.plural)
    async def start(name: str, **_: Any) -> None:
        if name not in tasks:
            tasks[name] = asyncio.create_task(work(name))

    async with world.running():
        await world.create()
        await rest(35)
        assert len(calls) == 4
        await world.delete()
        await world.gone()
        await rest(35)
    assert len(calls) == 4
    assert tasks == {}


async def test_field_handlers_tell_the_values_of_their_field(world: World, calls: Calls) -> None:
    @ctl.on.field(KEX.plural, field="spec.some")
    def fn(old: Any, new: Any, **_: Any) -> None:
        calls("fn", {"old": old, "new": new})

    async with world.running():
        await world.create(spec={"some": 1, "other": 1})
        await world.handled()
        await world.patch({"spec": {"other": 2}})
        await rest(2)
        await world.patch({"spec": {"some": 2}})
        await rest(2)
        await world.patch({"spec": {"some": None}})
        await rest(2)
    assert [(kwargs["old"], kwargs["new"]) for kwargs in calls.of("fn")] == [(None, 1), (1, 2), (2, None)]


def declare_imperative(note: Any) -> None:
    """Sub-handlers by `execute`."""

    def handle(item: str, *, retry: int, **_: Any) -> str:
        return str(note(item, retry))

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(spec: ctl.Spec, **_: Any) -> None:
        await ctl.execute(fns={item: functools.partial(handle, item) for item in spec["items"]})


def declare_by_decorators(note: Any) -> None:
    """Sub-handlers by the decorator."""

    @ctl.on.create(KEX.plural, id="parent")
    def parent(spec: ctl.Spec, **_: Any) -> None:
        for item in spec["items"]:

            @ctl.subhandler(id=item)
            def handle(retry: int, item: str = item, **_: Any) -> str:
                return str(note(item, retry))


def declare_by_register(note: Any) -> None:
    """Sub-handlers by `register`, of lambdas."""

    @ctl.on.create(KEX.plural, id="parent")
    def parent(spec: ctl.Spec, **_: Any) -> None:
        for item in spec["items"]:
            ctl.register(lambda retry, item=item, **_: note(item, retry), id=item)


@pytest.mark.parametrize("declare", [declare_imperative, declare_by_decorators, declare_by_register])
async def test_all_ways_to_sub_handlers_are_equivalent(world: World, calls: Calls, declare: Any) -> None:
    def note(item: str, retry: int) -> str:
        calls(item, {"record": world.record("parent")})
        if item == "b" and not retry:
            raise ctl.TemporaryError("not yet", delay=10)
        return f"result of {item}"

    declare(note)
    async with world.running():
        await world.create(spec={"items": ["a", "b", "c"]})
        await world.until(lambda: calls.count("c"))
        await rest(2)
        assert calls.names == ["a", "b", "c"]
        assert world.record("parent.a")["success"]
        assert not world.record("parent.b")["success"]
        assert not world.record("parent")["success"]
        found = await world.handled()
    assert calls.names == ["a", "b", "c", "b"]
    assert found["status"]["parent/a"] == "result of a"
    assert found["status"]["parent/b"] == "result of b"


async def test_execute_returns_when_all_have_succeeded(world: World, calls: Calls) -> None:
    """The example of the page on idempotence: 7 entries, 3 and 7 attempts, one exit."""

    async def part(word: str, wanted: int, *, retry: int, **_: Any) -> None:
        calls(word, {})
        if retry < wanted:
            raise ctl.TemporaryError("not ready yet", delay=10)

    @ctl.on.create(KEX.plural)
    async def create(**_: Any) -> None:
        calls("entering", {})
        await ctl.execute(fns={"a": functools.partial(part, "a", 2), "b": functools.partial(part, "b", 6)})
        calls("leaving", {})

    async with world.running():
        await world.create()
        await world.handled(seconds=200)
    assert calls.count("a") == 3
    assert calls.count("b") == 7
    assert calls.count("entering") == 7
    assert calls.count("leaving") == 1
