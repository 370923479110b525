"""A create handler runs once for each object, whatever others do to the object's annotations; and nobody fights with them."""

import asyncio
import json
from typing import Any

import pytest

import ctl

from .world import KEX, LAST, Calls, P, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

DIGEST = f"{P}/last-handled-digest"
UID = f"{P}/last-handled-uid"


@pytest.fixture(autouse=True)
def handlers(world: World, calls: Calls) -> None:
    """A handler of each reason."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(uid: str, **kwargs: Any) -> None:
        calls(f"create {uid}", kwargs)

    @ctl.on.update(KEX.plural, id="update")
    async def update(name: str, **kwargs: Any) -> None:
        calls(f"update {name}", kwargs)

    @ctl.on.resume(KEX.plural, id="resume")
    async def resume(name: str, **kwargs: Any) -> None:
        calls(f"resume {name}", kwargs)


async def _strip(world: World, name: str) -> None:
    stripped = dict.fromkeys(world.annotations(name))
    await world.patch({"metadata": {"annotations": stripped}}, name)


async def test_annotations_are_stripped_a_thousand_times(world: World, calls: Calls) -> None:
    names = [f"o{number}" for number in range(10)]
    async with world.running():
        for name in names:
            await world.create(name)
            await world.handled(name)
        for _ in range(100):
            await asyncio.gather(*(_strip(world, name) for name in names))
            await asyncio.sleep(1)
        await rest(3600)
        assert len(calls) == 10
        # Once for each creation; then at once, after 1 minute, after 2 more.
        assert len(world.writes()) <= 10 * 4
        assert all(LAST in world.annotations(name) for name in names)
    async with world.running():
        await rest(5)
    assert sorted(calls.names)[10:] == [f"resume {name}" for name in names]


async def test_somebody_who_strips_at_once_is_met_by_a_write_an_hour(world: World, calls: Calls) -> None:
    async def fight() -> None:
        while True:
            await asyncio.sleep(10)
            if world.annotations():
                await _strip(world, "one")

    async with world.running():
        await world.create()
        await world.handled()
        fighter = asyncio.create_task(fight())
        await asyncio.sleep(1000)
        early = len(world.writes())
        await asyncio.sleep(5 * 3600)
        fighter.cancel()
        await asyncio.gather(fighter, return_exceptions=True)
    assert early <= 7
    assert len(world.writes()) <= early + 8
    assert len(calls) == 1


async def test_changes_are_told_while_annotations_are_stripped(world: World, calls: Calls) -> None:
    async with world.running():
        await world.create()
        await world.handled()
        for number in range(5):
            await _strip(world, "one")
            await rest()
            await world.patch({"spec": {"field": number}})
            await world.handled()
        # In one write, as a PUT of a manifest does it: then what was is not known any more.
        await world.patch({"spec": {"field": "last"}, "metadata": {"annotations": {LAST: None}}})
        await world.handled()
    assert calls.names[1:] == ["update one"] * 6
    assert [given["new"]["spec"]["field"] for given in calls.of("update one")] == [0, 1, 2, 3, 4, "last"]
    assert calls.of("update one")[-1]["old"] == {}


async def test_objects_made_with_the_annotations_of_another_are_new(world: World, calls: Calls) -> None:
    async with world.running():
        await world.create("source")
        await world.handled("source")
        copied = world.annotations("source")
        progress = {f"{P}/create": json.dumps({"started": "2020-01-01T00:00:00+00:00", "success": True})}
        for number in range(500):
            spec = {"field": "value"} if number % 2 else {"field": "mine"}
            await world.create(f"o{number}", spec, annotations={**copied, **(progress if number % 3 else {})})
        for number in range(500):
            await world.handled(f"o{number}")
        await rest(5)
    assert len(calls) == 501
    assert len(set(calls.names)) == 501
    assert all(given["old"] is None for _, given in calls.made)
    assert len(world.writes()) == 501


async def test_annotations_that_are_copied_over_those_of_a_handled_object_say_nothing(
    world: World, calls: Calls
) -> None:
    async with world.running():
        await world.create("source", {"field": "source"})
        await world.create("target", {"field": "target"})
        await world.handled("source")
        await world.handled("target")
        for _ in range(500):
            await world.patch({"metadata": {"annotations": world.annotations("source")}}, "target")
            await asyncio.sleep(1)
        await rest(3600)
        assert len(calls) == 2
        assert len(world.writes()) <= 2 + 6
        assert world.last("target")["spec"] == {"field": "target"}


async def test_a_copy_that_is_retried_is_nobody_elses_after_a_crash(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="slow")
    async def slow(name: str, retry: int, **kwargs: Any) -> None:
        calls(f"slow {name}", kwargs)
        if name == "copy" and not retry:
            raise ctl.TemporaryError("not yet", delay=10)

    async with world.running() as running:
        await world.create("source")
        await world.handled("source")
        await world.create("copy", annotations=world.annotations("source"))
        await world.until(lambda: calls.count("slow copy") == 1)
        await rest()
        assert LAST not in world.annotations("copy")
        await world.crash(running)
    async with world.running():
        await world.handled("copy")
    assert calls.count("slow copy") == 2
    assert len([name for name in calls.names if name.startswith("create")]) == 2


async def test_a_finalizer_comes_before_the_creation_of_a_copy_too(world: World, calls: Calls) -> None:
    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(name: str, **kwargs: Any) -> None:
        calls(f"delete {name}", kwargs)

    async with world.running():
        await world.create("source")
        await world.handled("source")
        await world.create("copy", annotations=world.annotations("source"))
        await world.handled("copy")
        await world.delete("copy")
        await world.gone("copy")
    assert len(calls) == 3
    assert calls.names[-1] == "delete copy"


async def test_the_diff_base_of_another_operator_is_believed(world: World, calls: Calls) -> None:
    async with world.running():
        await world.create()
        await world.handled()
        # Kopf has handled the change, beside us.
        last = '{"spec":{"field":"other"}}'
        await world.patch({"spec": {"field": "other"}, "metadata": {"annotations": {LAST: last}}})
        await rest(2)
        assert len(calls) == 1
        await world.patch({"spec": {"field": "value"}})
        await world.until(lambda: calls.count("update one") == 1)
        await world.handled()
    assert calls.of("update one")[0]["old"]["spec"] == {"field": "other"}


async def test_who_comes_into_sight_by_a_selector_is_no_newborn(world: World, calls: Calls) -> None:
    @ctl.on.startup()
    async def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.watching.label_selectors[KEX.plural] = "shown=yes"

    last = '{"metadata":{"labels":{"shown":"yes"}},"spec":{"field":"value"}}'
    await world.create(annotations={LAST: last})
    async with world.running():
        await world.patch({"metadata": {"labels": {"shown": "yes"}}})
        await rest(5)
    assert not calls
    assert not world.writes()


async def test_a_digest_of_another_uid_is_no_digest(world: World, calls: Calls) -> None:
    spec = {"big": "x" * 300_000}
    async with world.running():
        await world.create("source", spec)
        await world.until(lambda: DIGEST in world.annotations("source"))
    await world.create("copy", spec, annotations=world.annotations("source"))
    async with world.running():
        await world.until(lambda: len(calls) == 3)
        await rest()
    assert sorted(name.split()[0] for name in calls.names) == ["create", "create", "resume"]


async def test_copies_made_while_nobody_watched_are_new_where_the_uid_is_kept(world: World, calls: Calls) -> None:
    marking, names = quick(), [f"o{number}" for number in range(20)]
    marking.persistence.uid_annotation = True
    await world.create("kopfs", annotations={LAST: '{"spec":{"field":"value"}}'})
    async with world.running(settings=marking):
        await world.create("source")
        await world.until(lambda: UID in world.annotations("source"))
        await world.patch({"spec": {"field": "changed"}}, "source")
        await world.until(lambda: calls.count("update source") == 1)
        await rest()
    copied = world.annotations("source")
    assert set(copied) == {LAST, UID}
    assert json.loads(copied[LAST]) == {"spec": {"field": "changed"}}
    assert copied[UID] == world.get("source")["metadata"]["uid"]
    written, called = len(world.writes()), len(calls)
    assert written == 2
    for name in names:
        spec = {"field": "changed" if len(name) > 2 else "mine"}
        record = {f"{P}/create": json.dumps({"started": "2020-01-01T00:00:00+00:00", "success": True})}
        await world.create(name, spec, annotations={**copied, **(record if len(name) > 2 else {})})
    # Whether the setting is on now plays no part: what an object says of another is no news about it.
    again = quick()
    again.persistence.uid_annotation = True
    for settings in (quick(), again):
        async with world.running(settings=settings):
            await rest(60)
    told = calls.names[called:]
    assert sorted(name for name in told if name.startswith("create")) == sorted(
        f"create {world.get(name)['metadata']['uid']}" for name in names
    )
    assert not [name for name in told if name.startswith("update")]
    assert len(world.writes()) == written + len(names)
    assert all(set(world.annotations(name)) == {LAST} for name in names)
    assert set(world.annotations("kopfs")) == {LAST}


async def test_where_the_uid_is_kept_annotations_copied_over_a_handled_object_make_it_new_after_a_restart(
    world: World, calls: Calls
) -> None:
    """Which of the two it is, a copy or a handled object with the annotations of another, nobody can tell who was not there."""

    def marking() -> ctl.OperatorSettings:
        settings = quick()
        settings.persistence.uid_annotation = True
        return settings

    async with world.running(settings=marking()):
        for name in ("source", "handled"):
            await world.create(name)
            await world.until(lambda name=name: UID in world.annotations(name))  # type: ignore[misc]
        # The process that handled it knows better, and puts its own back.
        await world.patch({"metadata": {"annotations": world.annotations("source")}}, "handled")
        uid = world.get("handled")["metadata"]["uid"]
        await world.until(lambda: world.annotations("handled")[UID] == uid)
        assert sorted(name.split()[0] for name in calls.names) == ["create", "create"]
    await world.patch({"metadata": {"annotations": world.annotations("source")}}, "handled")
    before = len(calls)
    async with world.running(settings=marking()):
        await world.until(lambda: world.annotations("handled")[UID] == uid)
        await rest(60)
    assert sorted(name.split()[0] for name in calls.names[before:]) == ["create", "resume"]


async def test_without_the_annotation_copies_made_while_nobody_watched_count_as_handled(
    world: World, calls: Calls
) -> None:
    async with world.running():
        await world.create("source")
        await world.handled("source")
    await world.create("copy", annotations=world.annotations("source"))
    async with world.running():
        await rest(60)
    assert sorted(calls.names[1:]) == ["resume copy", "resume source"]
    assert len(world.writes()) == 1
