"""What each handler saw of its object decides what it is still to be told: nothing is lost, and nothing is told of what nobody saw."""

import asyncio
import json
from typing import Any

import pytest

import ctl
from ctl.sandbox import LoggedRequest

from .world import KEX, LAST, Calls, World, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")


def _bases(world: World) -> list[Any]:
    """The specs of the diff-bases that were written, in order."""
    found = [(body.get("metadata", {}).get("annotations") or {}).get(LAST) for body in world.bodies()]
    return [json.loads(text)["spec"] for text in found if text]


async def test_no_state_that_nobody_was_told_of_becomes_the_base(world: World, calls: Calls) -> None:
    """A checkpoint finds a change; the slow handler that began before has not seen it, and the object must not look so."""

    @ctl.on.create(KEX.plural, id="early")
    async def early(**_: Any) -> None:
        calls("early", {})

    @ctl.on.create(KEX.plural, id="slow")
    async def slow(**_: Any) -> None:
        await asyncio.sleep(0.5)
        await world.patch({"spec": {"field": 2}})
        await asyncio.sleep(2)

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, **_: Any) -> None:
        calls("update", {"old": old["spec"]["field"], "new": new["spec"]["field"]})

    async with world.running():
        await world.create(spec={"field": 1})
        await world.until(lambda: calls.count("update"))
        await world.handled()
    assert calls.made == [("early", {}), ("update", {"old": 1, "new": 2})]
    assert _bases(world) == [{"field": 1}, {"field": 2}]
    # A checkpoint with the outcome of the first handler, the ends of the two rounds.
    assert len(world.writes()) == 3


async def test_what_came_while_a_handler_ran_is_told_to_it_by_the_next_process(world: World, calls: Calls) -> None:
    """Its record is written after a checkpoint whose answer had the change already; it was called before."""

    @ctl.on.update(KEX.plural, id="early")
    async def early(spec: Any, **_: Any) -> None:
        calls("early", dict(spec))

    @ctl.on.update(KEX.plural, id="slow")
    async def slow(spec: Any, **_: Any) -> None:
        calls("slow", dict(spec))
        if spec["field"] == 2:
            await asyncio.sleep(0.5)
            await world.patch({"spec": {"field": 3}})
            await asyncio.sleep(1)

    @ctl.on.update(KEX.plural, id="last")
    async def last(spec: Any, **_: Any) -> None:
        calls("last", dict(spec))
        if len(calls) <= 3:
            raise ctl.TemporaryError("not yet", delay=100)

    async with world.running() as running:
        await world.create(spec={"field": 1})
        await world.handled()
        await world.patch({"spec": {"field": 2}})
        await world.until(lambda: (world.record("slow") or {}).get("success"))
        await rest(2)
        await world.crash(running)
    assert calls.made == [("early", {"field": 2}), ("slow", {"field": 2}), ("last", {"field": 3})]
    async with world.running():
        await world.handled(seconds=300)
    assert dict(calls.made[3:]) == {name: {"field": 3} for name in ("early", "slow", "last")}


@pytest.mark.parametrize(("pause", "told"), [(0.5, False), (1.5, True)])
async def test_a_change_is_taken_back_where_the_process_was_killed(
    world: World, calls: Calls, pause: float, told: bool
) -> None:
    """Until the checkpoint, a second after its end, nobody but the process knows what a handler saw. Later it is known."""

    @ctl.on.update(KEX.plural, id="early")
    async def early(spec: Any, **_: Any) -> None:
        calls("early", dict(spec))

    @ctl.on.update(KEX.plural, id="slow")
    async def slow(spec: Any, **_: Any) -> None:
        await asyncio.sleep(10)

    async with world.running() as running:
        await world.create(spec={"field": 1})
        await world.handled()
        await world.patch({"spec": {"field": 2}})
        await world.until(lambda: calls.count("early"))
        await rest(pause)
        await world.crash(running)
    await world.patch({"spec": {"field": 1}})
    async with world.running():
        await rest(60)
        assert calls.made[1:] == [("early", {"field": 1})] * told
        await world.patch({"spec": {"field": 3}})
        await world.until(lambda: calls.made[-1] == ("early", {"field": 3}))
        await world.handled()


async def test_a_state_in_between_that_one_handler_saw_is_taken_back_for_it(world: World, calls: Calls) -> None:
    """The change from the first state to the last does not show what the handler of a field saw in between."""

    @ctl.on.create(KEX.plural, id="early")
    async def early(**_: Any) -> None:
        calls("early", {})

    @ctl.on.field(KEX.plural, id="field", field="spec.a")
    async def field(new: Any, retry: int, **_: Any) -> None:
        if not calls.count("field") and not retry:
            raise ctl.TemporaryError("not yet", delay=10)
        calls("field", {"new": new})

    @ctl.on.create(KEX.plural, id="last")
    async def last(retry: int, **_: Any) -> None:
        if not retry:
            raise ctl.TemporaryError("not yet", delay=20)

    async with world.running():
        await world.create(spec={"a": 1, "b": 1})
        await rest(5)
        await world.patch({"spec": {"a": 2}})
        await world.until(lambda: calls.count("field") == 1)
        await rest(2)
        await world.patch({"spec": {"a": 1, "b": 2}})
        await rest(60)
    assert calls.made == [("early", {}), ("field", {"new": 2}), ("field", {"new": 1})]
    assert world.is_clean()
    assert _bases(world)[-1] == {"a": 1, "b": 2}


async def test_own_changes_between_checkpoints_are_one_change(world: World, calls: Calls) -> None:
    """What handlers saw of each other's changes in between is part of what the one update tells."""

    def declare(name: str) -> None:
        @ctl.on.create(KEX.plural, id=name)
        async def create(patch: ctl.Patch, **_: Any) -> None:
            patch.spec[name] = True
            await asyncio.sleep(2)

    for name in "abc":
        declare(name)

    @ctl.on.update(KEX.plural, id="update")
    async def update(diff: Any, **_: Any) -> None:
        calls("update", {"fields": sorted(item.field[-1] for item in diff)})

    async with world.running():
        await world.create(spec={"field": 1})
        await world.until(lambda: calls.count("update"))
        await rest(10)
    assert calls.made == [("update", {"fields": ["a", "b", "c"]})]
    assert len(_bases(world)) == 2


async def test_an_object_is_released_once(world: World) -> None:
    """The answer to the release has the version that was there before; the copy has the finalizer until the watch tells."""

    @ctl.daemon(KEX.plural, cancellation_timeout=1)
    async def daemon(**_: Any) -> None:
        ends = asyncio.get_running_loop().time() + 20
        while (left := ends - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue

    def silence(request: LoggedRequest) -> bool:
        if b"remove" in request.body:
            world.sandbox.faults.stall_watches()
        return False

    async with world.running():
        await world.create()
        await rest()
        before = len(world.writes())
        world.sandbox.faults.refuse(match=world.own_patches(when=silence), times=None)
        await world.delete()
        with pytest.warns(ResourceWarning, match="did not exit in time"):
            await world.gone()
        await rest(30)
        assert [request.code for request in world.writes()[before:]] == [200]
        world.sandbox.faults.rules.clear()
        world.sandbox.faults.resume_watches()
        await rest()


async def test_the_way_back_before_anybody_was_told_of_the_way_there(world: World) -> None:
    """The object goes back to the base of the change of which the handlers are about to be told; one of them saw more."""
    saw: dict[str, Any] = {}
    failing = {"a": [2, 4], "b": [3]}
    calls = {"a": 0, "b": 0}

    def declare(handler_id: str) -> None:
        @ctl.on.create(KEX.plural, id=handler_id)
        @ctl.on.update(KEX.plural, id=handler_id)
        async def handler(spec: Any, **_: Any) -> None:
            calls[handler_id] += 1
            if calls[handler_id] in failing[handler_id]:
                raise ctl.TemporaryError("not now", delay=2)
            saw[handler_id] = spec["field"]

    for handler_id in ("a", "b"):
        declare(handler_id)
    async with world.running():
        await world.create(spec={"field": 0})
        await world.handled()
        await world.patch({"spec": {"field": 1}})
        await rest(1)
        assert saw == {"a": 0, "b": 1}
        await world.patch({"spec": {"field": 2}})
        await world.until(
            lambda: calls == {"a": 4, "b": 3}
        )  # a has seen 2 meanwhile; both are told of 1 -> 2, and fail
        assert saw == {"a": 2, "b": 1}
        await world.patch({"spec": {"field": 1}})
        await world.until(lambda: saw == {"a": 1, "b": 1})
        await world.handled()


async def test_a_change_during_a_resumption_is_told_once(world: World, calls: Calls) -> None:
    """What has resumed an object and is for its changes, too, is told of the change with the others, not after them."""

    def told(id: str, old: Any, new: Any, reason: str) -> None:
        calls(id, {"reason": reason, "old": old["spec"]["field"], "new": new["spec"]["field"]})

    @ctl.on.resume(KEX.plural, id="both")
    @ctl.on.update(KEX.plural, id="both")
    async def both(old: Any, new: Any, reason: str, **_: Any) -> None:
        told("both", old, new, reason)

        @ctl.subhandler(id="below")
        async def below(**_: Any) -> None:
            told("below", old, new, reason)

    @ctl.on.resume(KEX.plural, id="resume")
    async def resume(old: Any, new: Any, reason: str, **_: Any) -> None:
        told("resume", old, new, reason)

        @ctl.subhandler(id="under")
        async def under(**_: Any) -> None:
            told("under", old, new, reason)

    @ctl.on.resume(KEX.plural, id="late")
    async def late(old: Any, new: Any, reason: str, retry: int, **_: Any) -> None:
        told("late", old, new, reason)
        if retry < 2:
            raise ctl.TemporaryError("not yet", delay=10)

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, reason: str, **_: Any) -> None:
        told("update", old, new, reason)

    async with world.running():
        await world.create(spec={"field": 1})
        await world.handled()
    async with world.running():
        await world.until(lambda: calls.count("late") == 1)
        await rest()
        await world.patch({"spec": {"field": 2}})
        await world.until(lambda: calls.count("late") == 3)
        await world.handled()
    resumed = {"reason": "resume", "old": 1, "new": 1}
    changed = {"reason": "update", "old": 1, "new": 2}
    names = ["both", "below", "resume", "under", "late"]
    assert [made for made in calls.made if made[1] == resumed] == [(name, resumed) for name in names]
    updated = [name for name, given in calls.made if given == changed]
    assert sorted(updated) == ["below", "both", "late", "late", "update"]
    assert len(calls) == len(names) + len(updated)
    assert _bases(world) == [{"field": 1}, {"field": 2}]


async def test_what_is_taken_back_and_comes_again_before_the_base_has_moved_is_told_to_who_has_not_seen_it(
    world: World,
) -> None:
    """One handler has seen it, so it becomes the base of the way back; another one was to be tried again, and would never be."""
    seen: dict[str, Any] = {}

    @ctl.on.create(KEX.plural, id="quick")
    @ctl.on.update(KEX.plural, id="quick")
    async def quick(spec: Any, **_: Any) -> None:
        seen["quick"] = spec["field"]

    @ctl.on.create(KEX.plural, id="unlucky")
    @ctl.on.update(KEX.plural, id="unlucky")
    async def unlucky(spec: Any, **_: Any) -> None:
        if spec["field"] == 2 and "failed" not in seen:
            seen["failed"] = True
            raise ctl.TemporaryError("not yet", delay=20)
        seen["unlucky"] = spec["field"]

    async with world.running():
        await world.create(spec={"field": 1})
        await world.handled()
        await world.patch({"spec": {"field": 2}})
        await world.until(lambda: world.record("quick"))
        rule = world.sandbox.faults.delay(5, match=world.own_patches(), times=1)
        await world.patch({"spec": {"field": 1}})
        await world.until(lambda: rule.hits == 1)
        await world.patch({"spec": {"field": 2}})
        await rest(60)
        await world.handled()
    assert seen == {"quick": 2, "failed": True, "unlucky": 2}
    assert _bases(world)[-1] == {"field": 2}
