"""What happens to a cycle when the object changes, is deleted, or is replaced while it is unfinished; resuming."""

import asyncio
import json
from typing import Any

import pytest

import ctl

from .world import FINALIZER, KEX, LAST, Calls, P, World, messages, rest

pytestmark = pytest.mark.virtual_time


async def test_a_change_in_the_middle_of_a_round_gets_a_round_of_its_own(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(spec: Any, **_: Any) -> None:
        calls("first", {"spec": dict(spec)})

    @ctl.on.create(KEX.plural, id="second")
    async def second(spec: Any, new: Any, **_: Any) -> None:
        calls("second", {"spec": dict(spec), "new": dict(new["spec"])})
        await world.patch({"spec": {"field": "changed"}})
        await rest()

    @ctl.on.create(KEX.plural, id="third")
    async def third(new: Any, **_: Any) -> None:
        calls("third", {"new": dict(new["spec"])})

    @ctl.on.update(KEX.plural, id="update")
    async def update(diff: Any, **_: Any) -> None:
        calls("update", {"diff": tuple(diff)})

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("update"))
        await world.handled()
    assert calls.made == [
        ("first", {"spec": {"field": "value"}}),
        ("second", {"spec": {"field": "value"}, "new": {"field": "value"}}),
        ("third", {"new": {"field": "value"}}),
        ("update", {"diff": (("change", ("spec", "field"), "value", "changed"),)}),
    ]
    assert [body["metadata"]["annotations"][LAST] for body in world.bodies()] == [
        '{"spec":{"field":"value"}}\n',
        '{"spec":{"field":"changed"}}\n',
    ]


async def test_the_diff_base_is_what_the_earliest_finished_handler_saw(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="early")
    async def early(spec: Any, **_: Any) -> None:
        calls("early", {"field": spec["field"]})

    @ctl.on.create(KEX.plural, id="late")
    async def late(spec: Any, retry: int, **_: Any) -> None:
        calls("late", {"field": spec["field"]})
        if not retry:
            raise ctl.TemporaryError("later", delay=10)

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, **_: Any) -> None:
        calls("update", {"old": old["spec"]["field"], "new": new["spec"]["field"]})

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("late") is not None)
        await world.patch({"spec": {"field": "changed"}})
        await asyncio.sleep(5)
        assert calls.count("late") == 1
        await world.handled()
    assert calls.made == [
        ("early", {"field": "value"}),
        ("late", {"field": "value"}),
        ("late", {"field": "changed"}),
        ("update", {"old": "value", "new": "changed"}),
    ]


async def test_a_failed_handler_has_seen_its_state_too(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="failing")
    async def failing(**_: Any) -> None:
        raise ctl.PermanentError("no")

    @ctl.on.create(KEX.plural, id="late")
    async def late(retry: int, **_: Any) -> None:
        if not retry:
            raise ctl.TemporaryError("later", delay=10)

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, **_: Any) -> None:
        calls("update", {"old": old["spec"]["field"], "new": new["spec"]["field"]})

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("late") is not None)
        await world.patch({"spec": {"field": "changed"}})
        await world.handled()
    assert calls.made == [("update", {"old": "value", "new": "changed"})]


async def test_a_change_that_is_taken_back_during_a_retry_ends_the_cycle(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural, id="update")
    async def update(spec: Any, **_: Any) -> None:
        calls("update", {"field": spec["field"]})
        raise ctl.TemporaryError("later", delay=10)

    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: world.record("update") is not None)
        await world.patch({"spec": {"field": "value"}})
        await world.handled()
        await asyncio.sleep(30)
    assert calls.made == [("update", {"field": "other"})]
    assert world.last() == {"spec": {"field": "value"}}


async def test_what_a_finished_handler_saw_of_a_change_taken_back_is_told_to_it(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural, id="done")
    async def done(old: Any, new: Any, **_: Any) -> None:
        calls("done", {"old": old["spec"]["field"], "new": new["spec"]["field"]})

    @ctl.on.update(KEX.plural, id="later")
    async def later(spec: Any, **_: Any) -> None:
        if spec["field"] == "other":
            raise ctl.TemporaryError("later", delay=10)

    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: world.record("later") is not None)
        await world.patch({"spec": {"field": "value"}})
        await world.until(lambda: len(calls) == 2)
        await world.handled()
    assert calls.made == [("done", {"old": "value", "new": "other"}), ("done", {"old": "other", "new": "value"})]


async def test_a_deletion_supersedes_a_waiting_creation(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)
        raise ctl.TemporaryError("later", delay=1000)

    @ctl.on.create(KEX.plural, id="fine")
    async def fine(**kwargs: Any) -> None:
        calls("fine", kwargs)

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**kwargs: Any) -> None:
        calls("delete", kwargs)

    with caplog.at_level("INFO", logger="kopf.objects"):
        async with world.running():
            await world.create()
            await world.until(lambda: world.record("create") is not None)
            before = len(world.writes())
            await world.delete()
            await world.gone()
    assert calls.names == ["create", "fine", "delete"]
    assert "Creation is superseded by deletion: 1 succeeded; 0 failed; 1 left to the moment." in messages(
        caplog.records
    )
    assert "Deletion is processed: 1 succeeded; 0 failed." in messages(caplog.records)
    # The records of the creation go with the object.
    [release] = world.bodies()[before:]
    assert release[1:] == [{"op": "remove", "path": "/metadata/finalizers"}]


async def test_a_deletion_mark_ends_the_round_before_the_next_handler(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(**kwargs: Any) -> None:
        calls("first", kwargs)
        await world.delete()
        await rest()

    @ctl.on.create(KEX.plural, id="second")
    async def second(**kwargs: Any) -> None:
        calls("second", kwargs)

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(body: Any, **kwargs: Any) -> None:
        assert body["metadata"]["deletionTimestamp"]
        calls("delete", kwargs)

    async with world.running():
        await world.create()
        await world.gone()
    assert calls.names == ["first", "delete"]


async def test_a_delete_handler_in_retry_keeps_the_object(world: World, calls: Calls) -> None:
    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(retry: int, **_: Any) -> None:
        calls("delete", {"retry": retry})
        if retry < 2:
            raise ctl.TemporaryError("not yet", delay=10)

    async with world.running():
        await world.create()
        await world.handled()
        await world.delete()
        await asyncio.sleep(15)
        assert world.record("delete")["retries"] == 2
        await world.gone()
    assert [call["retry"] for call in calls.of("delete")] == [0, 1, 2]


async def test_an_optional_delete_handler_puts_no_finalizer(world: World, calls: Calls) -> None:
    @ctl.on.delete(KEX.plural, id="delete", optional=True)
    async def delete(**kwargs: Any) -> None:
        calls("delete", kwargs)

    async with world.running():
        await world.create()
        await world.handled()
        assert "finalizers" not in world.get()["metadata"]
        await world.delete()
        await world.gone()
    assert calls.names == []


async def test_an_object_that_was_deleted_before_it_was_seen_gets_no_finalizer(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="handler")
    @ctl.on.delete(KEX.plural, id="handler")
    async def handler(**kwargs: Any) -> None:
        calls("handler", kwargs)

    await world.create(finalizers=["other.io/x"])
    await world.delete()
    async with world.running():
        await rest(5)
        assert (calls.names, world.writes()) == ([], [])
        await world.patch({"metadata": {"finalizers": None}})
        await world.gone()


async def test_no_record_lands_on_a_namesake(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(uid: str, **_: Any) -> None:
        calls("first", {"uid": uid})

    @ctl.on.create(KEX.plural, id="slow")
    async def slow(uid: str, patch: ctl.Patch, **_: Any) -> str:
        calls("slow", {"uid": uid})
        patch.spec["by"] = uid
        if len(calls) == 2:
            await world.delete()
            await world.create(spec={"field": "second"})
            await asyncio.sleep(10)
            assert json.dumps(calls.of("first")[0]["uid"]) not in json.dumps(world.get())
        return uid

    @ctl.on.create(KEX.plural, id="last")
    async def last(uid: str, **_: Any) -> None:
        calls("last", {"uid": uid})

    async with world.running():
        old = (await world.create())["metadata"]["uid"]
        await world.until(lambda: calls.count("last"))
        await rest()
        new = world.get()["metadata"]["uid"]
    assert calls.made == [
        ("first", {"uid": old}),
        ("slow", {"uid": old}),
        ("first", {"uid": new}),
        ("slow", {"uid": new}),
        ("last", {"uid": new}),
    ]
    assert world.get()["spec"] == {"field": "second", "by": new}
    assert world.get()["status"] == {"slow": new}
    assert world.last()["spec"]["field"] == "second"


async def test_a_write_meant_for_another_uid_is_refused_by_the_server(world: World, calls: Calls) -> None:
    """The watch is silent, so that only the server can know that the object is another one."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(uid: str, patch: ctl.Patch, **_: Any) -> None:
        calls("create", {"uid": uid})
        patch.spec["by"] = uid
        if len(calls) == 1:
            world.sandbox.faults.stall_watches()
            await world.delete()
            await world.create(spec={"field": "second"})
            await asyncio.sleep(0.5)

    async with world.running():
        old = (await world.create())["metadata"]["uid"]
        await world.until(world.writes)
        await rest()
        assert [request.code for request in world.writes()] == [422]
        assert world.get()["spec"] == {"field": "second"}
        world.sandbox.faults.resume_watches()
        await world.until(lambda: calls.count("create") == 2)
        await world.until(lambda: world.last() is not None)
    assert world.get()["spec"]["by"] == world.get()["metadata"]["uid"] != old


async def test_an_object_that_vanishes_under_its_handler_is_let_go(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.status["x"] = 1
        world.sandbox.faults.stall_watches()
        await world.delete()
        await asyncio.sleep(0.5)

    with caplog.at_level("DEBUG", logger="kopf.objects"):
        async with world.running():
            await world.create()
            await world.until(world.writes)
            world.sandbox.faults.resume_watches()
            await asyncio.sleep(60)
    assert calls.names == ["create"]
    assert [request.code for request in world.writes()] == [404]
    assert "Patching was skipped: the object does not exist anymore." in messages(caplog.records)
    assert "Deleted, really deleted, and we are notified." in messages(caplog.records)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_resume_handlers_run_once_for_what_was_there_before(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("create", {})

    @ctl.on.resume(KEX.plural, id="resume")
    async def resume(reason: str, **_: Any) -> None:
        calls("resume", {"reason": reason})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["create"]
    world.sandbox.log.clear()
    async with world.running():
        await world.until(lambda: calls.count("resume"))
        await rest()
        # There is nothing to write.
        assert world.writes() == []
        await world.patch({"metadata": {"labels": {"x": "y"}}})
        await rest(5)
        # Nor is anything told twice when the server's list is read again.
        world.sandbox.faults.fail_watches()
        await rest(60)
        await world.create("two")
        await world.handled("two")
    assert calls.names == ["create", "resume", "create"]
    assert calls.of("resume") == [{"reason": "resume"}]


async def test_resume_handlers_join_an_update_that_happened_meanwhile_but_no_creation(
    world: World, calls: Calls
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(name: str, **_: Any) -> None:
        calls("create", {"name": name})

    @ctl.on.resume(KEX.plural, id="resume")
    async def resume(reason: str, name: str, **_: Any) -> None:
        calls("resume", {"reason": reason, "name": name})

    @ctl.on.update(KEX.plural, id="update")
    async def update(name: str, **_: Any) -> None:
        calls("update", {"name": name})

    async with world.running():
        await world.create()
        await world.handled()
    await world.patch({"spec": {"field": "meanwhile"}})
    await world.create("two")
    async with world.running():
        await world.until(lambda: world.annotations("two"))
        await world.handled()
        await world.handled("two")
    assert sorted(calls.made, key=str) == [
        ("create", {"name": "one"}),
        ("create", {"name": "two"}),
        ("resume", {"reason": "update", "name": "one"}),
        ("update", {"name": "one"}),
    ]


@pytest.mark.parametrize("deleted", [True, False])
async def test_resume_handlers_see_a_deletion_only_when_they_ask(world: World, calls: Calls, deleted: bool) -> None:
    @ctl.on.resume(KEX.plural, id="resume", deleted=deleted)
    async def resume(reason: str, **_: Any) -> None:
        calls("resume", {"reason": reason})

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**_: Any) -> None:
        calls("delete", {})

    async with world.running():
        await world.create()
        await world.handled()
    await world.delete()
    async with world.running():
        await world.gone()
    assert calls.names == (["resume", "delete"] if deleted else ["delete"])


async def test_a_filtered_object_is_left_alone_until_it_matches(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create", labels={"mine": ctl.PRESENT})
    @ctl.on.delete(KEX.plural, id="delete", labels={"mine": ctl.PRESENT}, when=lambda spec, **_: spec["field"] != "no")
    async def handler(reason: str, **_: Any) -> None:
        calls(reason, {})

    async with world.running():
        await world.create()
        await rest()
        assert world.annotations() == {}
        assert "finalizers" not in world.get()["metadata"]
        await world.patch({"metadata": {"labels": {"mine": "yes"}}})
        await world.handled()
        assert world.get()["metadata"]["finalizers"] == [FINALIZER]
        # It stops to match: our finalizer must not hold it.
        await world.patch({"metadata": {"labels": {"mine": None}}})
        await world.until(lambda: "finalizers" not in world.get()["metadata"])
        written = len(world.writes())
        await world.patch({"spec": {"field": "other"}})
        await rest()
        assert len(world.writes()) == written
        await world.delete()
        await world.gone()
    assert calls.names == ["create"]


async def test_an_object_that_stops_matching_while_it_is_deleted_is_released(world: World, calls: Calls) -> None:
    @ctl.on.delete(KEX.plural, id="delete", labels={"mine": ctl.PRESENT})
    async def delete(**_: Any) -> None:
        calls("delete", {})
        raise ctl.TemporaryError("for ever", delay=5)

    async with world.running():
        await world.create(labels={"mine": "yes"})
        await world.handled()
        await world.delete()
        await world.until(lambda: calls.count("delete"))
        await world.patch({"metadata": {"labels": {"mine": None}}})
        await world.gone()


@pytest.mark.parametrize(
    ("value", "there", "then"), [(ctl.ABSENT, None, "x"), (ctl.PRESENT, "x", None), ("x", "x", "y"), (None, "x", None)]
)
async def test_the_finalizer_goes_with_the_field_that_a_deletion_is_for(
    world: World, calls: Calls, value: Any, there: Any, then: Any
) -> None:
    @ctl.on.delete(KEX.plural, field="spec.mark", value=value, id="delete")
    async def delete(**kwargs: Any) -> None:
        calls("delete", kwargs)

    def is_held() -> bool:
        return FINALIZER in world.get()["metadata"].get("finalizers", ())

    async with world.running():
        await world.create(spec={"field": "value", **({"mark": there} if there else {})})
        await world.until(is_held)
        await rest()
        assert is_held()
        # Nobody touches the object after this, so nothing else could tell the operator to look again.
        await world.patch({"spec": {"mark": then}})
        await world.until(lambda: not is_held())
        await world.patch({"spec": {"mark": there}})
        await world.until(is_held)
        await rest()
        written = len(world.writes())
        await rest(60)
        assert (is_held(), len(world.writes())) == (True, written)
        await world.delete()
        await world.gone()
    assert calls.names == ["delete"]


async def test_the_finalizer_goes_when_a_handler_has_made_its_callback_false(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        patch.status["free"] = True

    @ctl.on.delete(KEX.plural, when=lambda status, **_: not status.get("free"), id="delete")
    async def delete(**kwargs: Any) -> None:
        calls("delete", kwargs)

    async with world.running():
        await world.create()
        await world.handled()
        assert not world.get()["metadata"].get("finalizers")
        await world.delete()
        await world.gone()
    assert not calls


async def test_values_old_and_new_filter_changes(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural, id="to-b", field="spec.field", new="b")
    async def to_b(**_: Any) -> None:
        calls("to-b", {})

    @ctl.on.update(KEX.plural, id="from-b", field="spec.field", old="b")
    async def from_b(**_: Any) -> None:
        calls("from-b", {})

    @ctl.on.field(KEX.plural, id="present", field="spec.extra", value=ctl.PRESENT)
    async def present(**_: Any) -> None:
        calls("present", {})

    async with world.running():
        await world.create(spec={"field": "a"})
        await world.handled()
        for change in ({"field": "b"}, {"extra": 1}, {"field": "c"}, {"extra": None}):
            await world.patch({"spec": change})
            await world.handled()
    # A value is looked for in the old state as well: what had it and has lost it, matches.
    assert calls.names == ["to-b", "present", "from-b", "present"]


async def test_timeouts_and_retries_end_a_cycle(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="retries", retries=2)
    async def retries(**_: Any) -> None:
        calls("retries", {})
        raise ctl.TemporaryError("again", delay=1)

    @ctl.on.create(KEX.plural, id="timeout", timeout=10, backoff=4)
    async def timeout(**_: Any) -> None:
        calls("timeout", {})
        raise ValueError("again")

    @ctl.on.create(KEX.plural, id="ignored", errors=ctl.ErrorsMode.IGNORED)
    def ignored(**_: Any) -> None:
        calls("ignored", {})
        raise ValueError("never mind")

    async with world.running():
        await world.create()
        await world.handled()
    assert {name: calls.count(name) for name in calls.names} == {"retries": 2, "timeout": 3, "ignored": 1}


async def test_a_handler_that_waits_for_something_cancelled_has_failed(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create", backoff=5)
    async def create(retry: int, **_: Any) -> None:
        calls("create", {"retry": retry})
        if not retry:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("create") is not None)
        assert world.record("create")["message"] == "it waited for something that was cancelled"
        await world.handled()
    assert [call["retry"] for call in calls.of("create")] == [0, 1]


async def test_kopfs_half_handled_object_is_finished(world: World, calls: Calls) -> None:
    """Records as Kopf 1.45.2 and, without an offset, Kopf 1.36 write them."""

    @ctl.on.create(KEX.plural, id="done")
    @ctl.on.create(KEX.plural, id="old")
    @ctl.on.create(KEX.plural, id="waiting")
    async def handler(retry: int, **_: Any) -> None:
        calls("handler", {"retry": retry})

    done = {"started": "2020-01-01T00:00:00.000000+00:00", "purpose": "create", "retries": 1, "success": True}
    old = {"started": "2020-01-01T00:00:00.000000", "retries": 3, "success": False, "failure": False}
    records = {f"{P}/done": json.dumps(done), f"{P}/old": json.dumps(old), f"{P}/touch-dummy": "2020-01-01T00:00:00"}
    await world.create(annotations=records)
    async with world.running():
        await world.handled()
    assert [call["retry"] for call in calls.of("handler")] == [0, 3]
    assert world.is_clean()


async def test_a_way_back_is_told_to_a_handler_that_saw_the_state_between(world: World, calls: Calls) -> None:
    """The first handler to finish saw what the object is in the end; another one finished on the way there."""

    def declare(handler_id: str, waits: dict[str, bool]) -> None:
        @ctl.on.update(KEX.plural, id=handler_id)
        async def handler(spec: Any, **_: Any) -> None:
            if waits.pop(spec["field"], False):
                raise ctl.TemporaryError("later", delay=10)
            calls(handler_id, {"field": spec["field"]})

    declare("first", {})
    declare("second", {"one": True})
    declare("third", {"one": True, "two": True})
    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "one"}})
        await world.until(lambda: calls.count("first") == 1)
        await world.patch({"spec": {"field": "two"}})
        await world.until(lambda: calls.count("second") >= 1, 60)
        await world.patch({"spec": {"field": "one"}})
        await world.until(lambda: calls.count("third") >= 1, 60)
        await rest(60)
        assert world.is_clean()
    assert [calls.of(name)[-1] for name in ("first", "second", "third")] == [{"field": "one"}] * 3
    assert {"field": "two"} in calls.of("second")


async def test_records_of_a_checkpoint_whose_answer_was_lost_do_not_outlive_their_cycle(
    world: World, calls: Calls
) -> None:
    @ctl.on.update(KEX.plural, id="fast")
    async def fast(spec: Any, **_: Any) -> None:
        calls("fast", {"field": spec["field"]})

    @ctl.on.update(KEX.plural, id="slow")
    async def slow(spec: Any, **_: Any) -> None:
        await asyncio.sleep(2.5 if spec["field"] == "one" else 0)

    async with world.running():
        await world.create()
        await world.handled()
        rule = world.sandbox.faults.lose_answer(match=world.own_patches(), times=1)
        await world.patch({"spec": {"field": "one"}})
        await world.until(lambda: world.last() == {"spec": {"field": "one"}})
        assert rule.hits == 1
        assert world.is_clean()
        await world.patch({"spec": {"field": "two"}})
        await world.handled()
    assert [call["field"] for call in calls.of("fast")] == ["one", "two"]


@pytest.mark.parametrize("stalled", [False, True])
async def test_a_deletion_is_not_taken_for_an_own_write_that_changes_nothing(
    world: World, calls: Calls, stalled: bool
) -> None:
    """The answer to such a write has the version of whoever wrote last."""
    is_deleted_meanwhile = False

    @ctl.on.resume(KEX.plural, id="resume")
    async def resume(**_: Any) -> str:
        calls("resume", {})
        if is_deleted_meanwhile:
            if stalled:
                world.sandbox.faults.stall_watches()
            await world.delete()
        return "the same each time"

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**_: Any) -> None:
        calls("delete", {})

    async with world.running():
        await world.create()
        await world.handled()
    async with world.running():
        await world.until(lambda: world.get().get("status"))
        await rest(5)
    is_deleted_meanwhile = True
    async with world.running():
        await world.until(lambda: calls.count("resume") == 2)
        await rest(5)
        world.sandbox.faults.resume_watches()
        await world.gone()
    assert calls.names == ["resume", "resume", "delete"]
