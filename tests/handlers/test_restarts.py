"""What a finished handler saw outlives the process: a change between its end and a crash is told to it afterwards."""

import asyncio
import json
import os
from typing import Any

import pytest

import ctl
from ctl.sandbox import LoggedRequest

from .world import KEX, LAST, Calls, P, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")


def _declare(calls: Calls) -> None:
    """One that ends at once, and one that needs its time."""

    @ctl.on.create(KEX.plural, id="quick")
    @ctl.on.update(KEX.plural, id="quick")
    async def fast(reason: str, **kwargs: Any) -> None:
        calls(f"quick {reason}", kwargs)

    @ctl.on.create(KEX.plural, id="slow")
    @ctl.on.update(KEX.plural, id="slow")
    async def slow(reason: str, retry: int, **kwargs: Any) -> None:
        if not retry:
            raise ctl.TemporaryError("not yet", delay=100)
        calls(f"slow {reason}", kwargs)


async def _crash_in_a_cycle(world: World, calls: Calls, reason: str) -> None:
    async with world.running() as running:
        await world.create(spec={"field": 1})
        if reason == "update":
            await world.handled(seconds=300)
            await world.patch({"spec": {"field": 2}})
        await world.until(lambda: calls.count(f"quick {reason}") == 1)
        await rest()
        await world.crash(running)


async def test_a_change_before_a_creation_is_handled_while_the_process_was_down(world: World, calls: Calls) -> None:
    """The creation goes on with those that are left; then all are told of a change since a state that nobody knows any more."""
    assert await _changed_meanwhile(world, calls, "create") == [
        ("slow create", 3, None),
        ("quick update", 3, {}),
        ("slow update", 3, {}),
    ]
    assert calls.count("quick create") == 1


async def test_a_change_upon_a_change_while_the_process_was_down(world: World, calls: Calls) -> None:
    """All are told of one change, from what was handled last: those that are left, and those that have finished with another state."""
    assert await _changed_meanwhile(world, calls, "update") == [("quick update", 3, 1), ("slow update", 3, 1)]


async def test_sub_handlers_that_saw_another_state_begin_anew_with_their_parents(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural, id="parent")
    async def parent(spec: Any, **_: Any) -> None:
        calls("parent", {})

        @ctl.subhandler(id="quick")
        async def fast(**_: Any) -> None:
            calls(f"quick {spec['field']}", {})

        @ctl.subhandler(id="slow")
        async def slow(retry: int, **_: Any) -> None:
            if not retry:
                raise ctl.TemporaryError("not yet", delay=100)
            calls(f"slow {spec['field']}", {})

    async with world.running() as running:
        await world.create(spec={"field": 1})
        await world.handled()
        await world.patch({"spec": {"field": 2}})
        await world.until(lambda: calls.count("quick 2") == 1)
        await rest()
        await world.crash(running)
    await world.patch({"spec": {"field": 3}})
    async with world.running():
        await world.handled(seconds=600)
        await rest(300)
    assert calls.names == ["parent", "quick 2", "parent", "quick 3", "parent", "slow 3"]
    assert world.is_clean()


async def test_sub_handlers_of_a_handler_that_was_at_work_are_found_again(world: World, calls: Calls) -> None:
    """Killed after the checkpoint, before the parent ended: what its sub-handlers did was written, and is not done again."""

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        @ctl.subhandler(id="child")
        async def child(**_: Any) -> None:
            @ctl.subhandler(id="deep")
            async def deep(**_: Any) -> None:
                calls("deep", {})

            await ctl.execute()
            calls("child", {})
            await asyncio.sleep(0 if calls.count("child") > 1 else 20)

        @ctl.subhandler(id="slow")
        async def slow(**_: Any) -> None:
            await asyncio.sleep(20)
            calls("slow", {})

    for number in range(3):
        async with world.running() as running:
            if not number:
                await world.create()
            await asyncio.sleep(2)
            await world.crash(running)
    async with world.running():
        await world.handled()
    assert calls.names == ["deep", *["child"] * 2, "slow"]


async def test_what_came_between_a_checkpoint_and_a_crash_is_told_to_all(world: World, calls: Calls) -> None:
    """The later handlers of the round find the change in the body, but they were not told of it."""
    told = {"field": 2}

    @ctl.on.update(KEX.plural, id="slow")
    async def slow(new: Any, **_: Any) -> None:
        calls("slow", new["spec"])
        if new["spec"] == told:
            await world.patch({"spec": {"field": 3}})
            await asyncio.sleep(2)

    @ctl.on.update(KEX.plural, id="early")
    async def early(new: Any, **_: Any) -> None:
        calls("early", new["spec"])
        if new["spec"] == told:
            await asyncio.sleep(2)

    @ctl.on.update(KEX.plural, id="later")
    async def later(new: Any, spec: Any, **_: Any) -> None:
        calls("later", new["spec"])
        assert dict(spec) == {"field": 3}

    @ctl.on.update(KEX.plural, id="last")
    async def last(new: Any, **_: Any) -> None:
        calls("last", new["spec"])
        if new["spec"] == told:
            raise ctl.TemporaryError("not yet", delay=100)

    async with world.running() as running:
        await world.create(spec={"field": 1})
        await world.handled()
        await world.patch({"spec": told})
        await world.until(lambda: world.record("last"))
        await rest()
        await world.crash(running)
    before = len(calls)
    async with world.running():
        await world.handled(seconds=600)
        await rest(300)
    assert calls.made[before:] == [(name, {"field": 3}) for name in ("slow", "early", "later", "last")]


async def test_a_change_during_a_round_is_not_lost_with_the_process_that_ends_the_round(
    world: World, calls: Calls
) -> None:
    """One write ends the round, and the next process knows from it that something is left to be told."""
    ended: list[LoggedRequest] = []

    @ctl.on.create(KEX.plural, id="early")
    async def early(**kwargs: Any) -> None:
        await world.patch({"spec": {"field": 2}})

    @ctl.on.create(KEX.plural, id="slow")
    async def slow(**_: Any) -> None:
        await asyncio.sleep(2)

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, **_: Any) -> None:
        calls("update", {"old": old["spec"]["field"], "new": new["spec"]["field"]})

    def later(request: LoggedRequest) -> bool:
        ended.append(request)
        return len(set(map(id, ended))) > 2

    async with world.running() as running:
        world.sandbox.faults.refuse(match=world.own_patches(when=later), times=None)
        await world.create(spec={"field": 1})
        await world.until(lambda: LAST in world.annotations())
        await world.crash(running)
    world.sandbox.faults.rules.clear()
    async with world.running():
        await world.handled()
    assert calls.made == [("update", {"old": 1, "new": 2})] * len(calls)
    assert calls.made


async def test_functions_are_not_lost_with_a_process_that_dies_before_it_applies_them(
    world: World, calls: Calls
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **kwargs: Any) -> None:
        calls("create", kwargs)
        patch.metadata.labels["l"] = "x"
        patch.fns.append(lambda body: body["metadata"]["labels"].update(of=body["metadata"]["labels"]["l"]))

    def is_function(request: LoggedRequest) -> bool:
        return request.content_type == "application/json-patch+json"

    async with world.running() as running:
        rule = world.sandbox.faults.delay(30, match=world.own_patches(when=is_function), times=1)
        await world.create()
        await world.until(lambda: rule.hits)
        await world.crash(running)
    assert LAST not in world.annotations()
    async with world.running():
        await world.handled()
    assert world.get()["metadata"]["labels"] == {"l": "x", "of": "x"}
    assert calls.count("create") == 2


async def test_a_stored_deletion_is_not_handled_again_before_the_release(world: World, calls: Calls) -> None:
    """Killed when all is done and the finalizer is still there: the records are there too."""

    @ctl.on.delete(KEX.plural, id="done")
    async def done(**kwargs: Any) -> None:
        calls("done", kwargs)

    @ctl.on.delete(KEX.plural, id="later")
    async def later(retry: int, **kwargs: Any) -> None:
        if not retry:
            raise ctl.TemporaryError("not yet", delay=5)
        calls("later", kwargs)

    async with world.running() as running:
        await world.create()
        await world.until(lambda: world.get()["metadata"].get("finalizers"))
        await world.delete()
        await world.until(lambda: world.record("done"))
        rule = world.sandbox.faults.refuse(match=world.own_patches(when=_releases), times=None)
        await world.until(lambda: rule.hits)
        await world.crash(running)
        world.sandbox.faults.rules.remove(rule)
    async with world.running():
        await world.gone()
    assert calls.count("done") == 1


def _releases(request: LoggedRequest) -> bool:
    return request.content_type == "application/json-patch+json"


async def _changed_meanwhile(world: World, calls: Calls, reason: str) -> list[tuple[str, Any, Any]]:
    _declare(calls)
    await _crash_in_a_cycle(world, calls, reason)
    await world.patch({"spec": {"field": 3}})
    before = len(calls)
    async with world.running():
        await world.handled(seconds=600)
        await rest(300)
    assert world.is_clean()
    return [
        (name, given["new"]["spec"]["field"], given["old"] and given["old"]["spec"]["field"])
        for name, given in calls.made[before:]
    ]


async def test_a_way_back_while_the_process_was_down(world: World, calls: Calls) -> None:
    _declare(calls)
    await _crash_in_a_cycle(world, calls, "update")
    await world.patch({"spec": {"field": 1}})
    before = len(calls)
    async with world.running():
        await rest(300)
    told = [(name, given["new"]["spec"]["field"]) for name, given in calls.made[before:]]
    assert told == [("quick update", 1), ("slow update", 1)]
    assert world.is_clean()


async def test_the_last_second_before_a_crash_was_never_there_when_it_is_taken_back(world: World, calls: Calls) -> None:
    """What a handler saw is known to the object with the write after it; of a state that is gone by then nobody is told the end."""

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, **_: Any) -> None:
        calls("update", {"old": old["spec"]["field"], "new": new["spec"]["field"]})

    async with world.running() as running:
        await world.create(spec={"field": 1})
        await world.handled()
        unwritten = world.sandbox.faults.refuse(match=world.own_patches(), times=None)
        await world.patch({"spec": {"field": 2}})
        await world.until(lambda: unwritten.hits)
        await world.crash(running)
        world.sandbox.faults.rules.remove(unwritten)
    assert (calls.made[0], set(world.annotations())) == (("update", {"old": 1, "new": 2}), {LAST})
    await world.patch({"spec": {"field": 1}})
    before = len(calls)
    async with world.running():
        await rest(300)
        assert calls.made[before:] == []
        await world.patch({"spec": {"field": 3}})
        await world.handled()
    assert calls.made[before:] == [("update", {"old": 1, "new": 3})]


@pytest.mark.parametrize("reason", ["create", "update"])
async def test_without_a_change_nothing_is_told_twice(world: World, calls: Calls, reason: str) -> None:
    _declare(calls)
    await _crash_in_a_cycle(world, calls, reason)
    before = len(calls)
    async with world.running():
        await rest(300)
    assert calls.names[before:] == [f"slow {reason}"]
    assert world.is_clean()


async def test_records_have_a_digest_beside_what_kopf_knows(world: World, calls: Calls) -> None:
    _declare(calls)
    await _crash_in_a_cycle(world, calls, "create")
    record = json.loads(world.annotations()[f"{P}/quick"])
    assert len(bytes.fromhex(record.pop("seen"))) == 16
    assert list(record) == ["started", "stopped", "purpose", "retries", "success", "failure"]
    assert "seen" not in json.loads(world.annotations()[f"{P}/slow"])
    assert LAST not in world.annotations()


async def test_unchanged_objects_cost_nothing_at_a_restart(world: World, calls: Calls) -> None:
    """Half of them were handled by Kopf."""
    objects = 10_000 if os.environ.get("SOAK_ROUNDS") else 500

    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    @ctl.on.field(KEX.plural, field="spec.field")
    async def handle(**kwargs: Any) -> None:
        calls("handle", kwargs)

    kopfs = '{"metadata": {"labels": {"a": "b"}}, "spec": {"field": "value"}}'
    for number in range(objects):
        annotations = {LAST: kopfs} if number % 2 else {}
        world.sandbox.create(
            {
                "apiVersion": KEX.api_version,
                "kind": KEX.kind,
                "metadata": {
                    "name": f"o{number}",
                    "namespace": "default",
                    "labels": {"a": "b"},
                    "annotations": annotations,
                },
                "spec": {"field": "value"},
            }
        )
    async with world.running():
        await world.until(lambda: len(world.writes()) == objects // 2)
        await rest(5)
        assert all(LAST in world.annotations(f"o{number}") for number in range(objects))
    assert len(world.writes()) == objects // 2
    made = len(calls)
    assert made == objects  # each of the others by both of its handlers
    async with world.running(settings=quick()):
        await rest(30)
    assert len(world.writes()) == objects // 2
    assert len(calls) == made


@pytest.mark.parametrize("number", range(14))
@pytest.mark.parametrize("lost", [False, True])
async def test_a_process_killed_between_any_two_writes(world: World, calls: Calls, number: int, lost: bool) -> None:
    """Finalizer, status, functions and commit of a checkpoint, of the round, of an update, of the deletion, release: killed after each.

    With `lost` the process is killed before it has the answer of the write.
    """

    @ctl.on.create(KEX.plural, id="one")
    async def one(patch: ctl.Patch, **kwargs: Any) -> str:
        calls("one", kwargs)
        patch.spec["merged"] = 1
        patch.fns.append(lambda body: body["spec"].update(function=body["spec"]["merged"]))
        patch.fns.append(lambda body: body.setdefault("status", {}).update(function=True))
        return "result"

    @ctl.on.create(KEX.plural, id="two")
    async def two(**kwargs: Any) -> str:
        await asyncio.sleep(2)
        calls("two", kwargs)
        return "result"

    @ctl.on.update(KEX.plural, id="update")
    async def update(spec: Any, **kwargs: Any) -> None:
        calls(f"update {spec['field']}", kwargs)

    @ctl.on.delete(KEX.plural, id="gone")
    async def gone(**kwargs: Any) -> str:
        calls("gone", kwargs)
        return "bye"

    async def live() -> None:
        await world.create()
        await world.until(lambda: calls.count("two") >= 1)
        await rest(5)
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: calls.count("update other") >= 1)
        await rest(5)
        assert world.get()["spec"] == {"field": "other", "merged": 1, "function": 1}
        assert world.get()["status"]["function"]
        await world.delete()
        await world.gone()

    life = asyncio.create_task(live())
    with world.cut_after(number, lost=lost) as killed:
        async with world.running() as running:
            ended = asyncio.create_task(killed.wait())
            await asyncio.wait({ended, life}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            await world.crash(running)
    async with world.running():
        await life
    # All were called; none was called again but those of the round whose outcomes were not written yet.
    assert set(calls.names) >= {"one", "two", "update other", "gone"}
    again = {name for name in calls.names if calls.count(name) > 1}
    assert len(again) <= 1 or again == {"one", "two"}
    assert max(calls.count(name) for name in calls.names) <= 2
    assert world.find() is None


async def test_a_way_back_of_a_field_with_another_change_while_the_process_was_down(world: World, calls: Calls) -> None:
    """The change to what is now says nothing of the field; its handler is told all the same, and nobody twice of the same change."""
    ready: list[bool] = []

    @ctl.on.field(KEX.plural, id="field", field="spec.x")
    async def field(old: Any, new: Any, **_: Any) -> None:
        calls("field", {"old": old, "new": new})

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, **_: Any) -> None:
        calls("update", {"old": old.get("spec"), "new": new["spec"]})

    @ctl.on.update(KEX.plural, id="late")
    async def late(**_: Any) -> None:
        if not ready:
            raise ctl.TemporaryError("not yet", delay=5)

    async with world.running() as running:
        await world.create(spec={"x": 1, "y": 1})
        await world.handled()
        await world.patch({"spec": {"x": 2}})
        await world.until(lambda: calls.count("update"))
        await rest(3)
        await world.crash(running)
    ready.append(True)
    await world.patch({"spec": {"x": 1, "y": 2}})
    async with world.running():
        await world.handled()
        await rest(60)
    assert calls.of("field") == [{"old": None, "new": 1}, {"old": 1, "new": 2}, {"old": None, "new": 1}]
    before, after = {"x": 1, "y": 1}, {"x": 1, "y": 2}
    assert calls.of("update") == [
        {"old": before, "new": {"x": 2, "y": 1}},
        {"old": before, "new": after},
        {"old": None, "new": after},
    ]
    assert world.is_clean()
