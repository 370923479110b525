"""One write a round: which handlers are called, with what, and what is written to the object."""

import asyncio
import copy
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource
from ctl.handlers.storage.progress import StatusProgressStorage

from .world import FINALIZER, KEX, LAST, PLAIN, Calls, P, World, messages, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

BASE = '{"spec":{"field":"value"}}\n'
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"


@pytest.mark.parametrize("number", [1, 3, 10])
async def test_any_number_of_create_handlers_costs_one_patch(world: World, calls: Calls, number: int) -> None:
    def declare(index: int) -> None:
        @ctl.on.create(KEX.plural, id=f"create-{index}")
        async def create(**kwargs: Any) -> None:
            calls(f"create-{index}", kwargs)

    for index in range(number):
        declare(index)
    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == [f"create-{index}" for index in range(number)]
    assert world.bodies() == [{"metadata": {"annotations": {LAST: BASE}}}]
    assert [(request.code, request.content_type) for request in world.writes()] == [(200, MERGE)]


async def test_a_result_costs_one_patch_of_the_status_and_it_goes_first(world: World) -> None:
    @ctl.on.create(KEX.plural, id="mapping")
    async def mapping(**_: Any) -> dict[str, Any]:
        return {"a": {"b": 1}, "none": None}

    @ctl.on.create(KEX.plural, id="scalar")
    async def scalar(**_: Any) -> int:
        return 7

    @ctl.on.create(KEX.plural, id="sync")
    def sync(**_: Any) -> list[int]:
        return [1, 2]

    async with world.running():
        await world.create()
        body = await world.handled()
    assert [request.path.rsplit("/", 1)[-1] for request in world.writes()] == ["status", "one"]
    assert world.bodies() == [
        {"status": {"mapping": {"a": {"b": 1}, "none": None}, "scalar": 7, "sync": [1, 2]}},
        {"metadata": {"annotations": {LAST: BASE}}},
    ]
    assert body["status"] == {"mapping": {"a": {"b": 1}}, "scalar": 7, "sync": [1, 2]}


async def test_without_a_status_subresource_results_go_with_the_one_write(world: World) -> None:
    @ctl.on.create(PLAIN.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> str:
        patch.status["mine"] = True
        return "done"

    async with world.running():
        await world.create(resource=PLAIN)
        body = await world.handled(resource=PLAIN)
    assert world.bodies(PLAIN) == [
        {"status": {"mine": True, "create": "done"}, "metadata": {"annotations": {LAST: BASE}}}
    ]
    assert body["status"] == {"mine": True, "create": "done"}


async def test_mappings_of_results_merge_at_the_top_level_with_what_the_handler_patched(world: World) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> dict[str, Any]:
        patch.status["create"] = {"own": {"x": 1}, "kept": True}
        return {"own": {"y": 2}}

    async with world.running():
        await world.create()
        body = await world.handled()
    assert body["status"] == {"create": {"own": {"y": 2}, "kept": True}}


async def test_the_arguments_of_a_change_handler(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, param="mine", id="create")
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)

    @ctl.on.update(KEX.plural, id="update")
    def update(**kwargs: Any) -> None:
        calls("update", kwargs)

    async with world.running():
        await world.create(labels={"a": "b"}, annotations={"c": "d"})
        uid = (await world.handled())["metadata"]["uid"]
        await world.patch({"spec": {"field": "other"}})
        await world.handled()
    common = {
        "resource",
        "patch",
        "body",
        "spec",
        "meta",
        "status",
        "uid",
        "name",
        "namespace",
        "labels",
        "annotations",
    }
    common |= {"memo", "logger", "param", "retry", "started", "runtime", "reason", "old", "new", "diff"}
    (given,) = calls.of("create")
    assert set(given) == common
    assert isinstance(given["resource"], Resource)
    assert given["resource"] == KEX
    assert (given["name"], given["namespace"], given["uid"]) == ("one", "default", uid)
    assert dict(given["labels"]) == {"a": "b"}
    assert dict(given["annotations"]) == {"c": "d"}
    assert (given["reason"], given["param"], given["retry"]) == ("create", "mine", 0)
    assert given["old"] is None
    assert given["new"] == {"spec": {"field": "value"}, "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    assert isinstance(given["started"], datetime)
    assert given["started"].tzinfo is UTC
    assert isinstance(given["runtime"], timedelta)
    (given,) = calls.of("update")
    assert set(given) == common
    assert given["reason"] == "update"
    assert given["old"]["spec"] == {"field": "value"}
    assert given["new"]["spec"] == {"field": "other"}
    assert tuple(given["diff"]) == (("change", ("spec", "field"), "value", "other"),)


async def test_memos_are_copies_of_the_operators_and_one_for_each_object(world: World) -> None:
    seen: list[tuple[str, Any]] = []

    @ctl.on.create(KEX.plural, id="note")
    @ctl.on.update(KEX.plural, id="note")
    async def note(name: str, memo: Any, **_: Any) -> None:
        seen.append((name, memo))
        memo.count = getattr(memo, "count", 0) + 1

    async with world.running(memo=ctl.Memo(shared="x")):
        for name in ("one", "two"):
            await world.create(name)
            await world.handled(name)
        await world.patch({"spec": {"field": "other"}})
        await world.handled()
    assert [name for name, _ in seen] == ["one", "two", "one"]
    assert seen[0][1] is seen[2][1]
    assert seen[0][1] is not seen[1][1]
    assert (seen[0][1].count, seen[1][1].count, seen[1][1].shared) == (2, 1, "x")


async def test_the_finalizer_lands_before_any_handler_runs(world: World) -> None:
    at_call: list[dict[str, Any]] = []

    @ctl.on.create(KEX.plural, id="create")
    async def create(body: Any, **_: Any) -> None:
        at_call.append(world.get())
        assert body["metadata"]["finalizers"] == [FINALIZER]

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**_: Any) -> None:
        at_call.append(world.get())

    async with world.running():
        version = (await world.create())["metadata"]["resourceVersion"]
        await world.handled()
        await world.delete()
        await world.gone()
    assert [found["metadata"]["finalizers"] for found in at_call] == [[FINALIZER], [FINALIZER]]
    adding, _, removing = world.writes()
    assert [request.content_type for request in world.writes()] == [JSON, MERGE, JSON]
    assert adding.json() == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]},
    ]
    assert removing.json()[1:] == [{"op": "remove", "path": "/metadata/finalizers"}]
    assert removing.json()[0]["op"] == "test"


async def test_foreign_finalizers_stay_and_an_unneeded_own_one_is_removed(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)

    async with world.running():
        await world.create(finalizers=["other.io/x", FINALIZER])
        body = await world.handled()
        assert world.bodies()[0][1:] == [{"op": "remove", "path": "/metadata/finalizers/1"}]
        assert body["metadata"]["finalizers"] == ["other.io/x"]
        await world.delete()
        await rest()
        await world.patch({"metadata": {"finalizers": None}})
        await world.gone()
    assert calls.names == ["create"]


async def test_retries_and_their_records_without_any_touching(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(**_: Any) -> dict[str, str]:
        return {"message": "hi"}

    @ctl.on.create(KEX.plural, id="second")
    async def second(retry: int, patch: ctl.Patch, started: datetime, runtime: timedelta, **kwargs: Any) -> None:
        calls("second", {"retry": retry, "started": started, "runtime": runtime, **kwargs})
        patch.status["tried"] = retry
        if retry < 2:
            raise ctl.TemporaryError("oops", delay=30)

    async with world.running():
        await world.create()
        await rest()
        first_record = world.record("first")
        assert list(first_record)[-1] == "seen"  # Kopf does not look at it
        assert {key: value for key, value in first_record.items() if key != "seen"} == {
            "started": "2031-05-06T07:00:00.000000+00:00",
            "stopped": "2031-05-06T07:00:00.000000+00:00",
            "purpose": "create",
            "retries": 1,
            "success": True,
            "failure": False,
        } | {key: world.record("first")[key] for key in ("started", "stopped")}
        record = world.record("second")
        assert list(record) == ["started", "delayed", "purpose", "retries", "success", "failure", "message"]
        waits = datetime.fromisoformat(record["delayed"]) - datetime.fromisoformat(record["started"])
        assert timedelta(seconds=30) <= waits < timedelta(seconds=30.1)
        assert (record["retries"], record["message"]) == (1, "oops")
        assert world.last() is None
        await world.handled()
    given = calls.of("second")
    assert [call["retry"] for call in given] == [0, 1, 2]
    assert len({call["started"] for call in given}) == 1
    assert [round(call["runtime"].total_seconds()) for call in given] == [0, 30, 60]
    assert not any("touch-dummy" in str(body) for body in world.bodies())
    assert world.get()["status"] == {"first": {"message": "hi"}, "tried": 2}
    # Two requests for each of the three rounds: the status and the records.
    assert len(world.writes()) == 6
    assert world.bodies()[-1] == {"metadata": {"annotations": {f"{P}/first": None, f"{P}/second": None, LAST: BASE}}}


async def test_a_delay_is_read_back_after_a_restart(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(retry: int, **kwargs: Any) -> None:
        calls("create", {"retry": retry, "at": asyncio.get_running_loop().time()})
        if not retry:
            raise ctl.TemporaryError("later", delay=100)

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("create") is not None)
    written = len(world.writes())
    await asyncio.sleep(40)
    async with world.running():
        await asyncio.sleep(50)
        assert calls.count("create") == 1
        assert len(world.writes()) == written
        await world.handled()
    first, second = calls.of("create")
    assert [first["retry"], second["retry"]] == [0, 1]
    assert second["at"] - first["at"] == pytest.approx(100, abs=1)


async def test_a_delay_that_ended_while_the_operator_was_down_is_over_at_once(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(retry: int, **_: Any) -> None:
        calls("create", {"retry": retry})
        if not retry:
            raise ctl.TemporaryError("later", delay=100)

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("create") is not None)
    await asyncio.sleep(1000)
    async with world.running():
        await world.handled(seconds=2)
    assert [call["retry"] for call in calls.of("create")] == [0, 1]


async def test_the_checkpoint_writes_a_finished_handler_while_the_next_one_runs(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="fast")
    async def fast(patch: ctl.Patch, **kwargs: Any) -> str:
        calls("fast", kwargs)
        patch.spec["patched"] = True
        return "quick"

    @ctl.on.create(KEX.plural, id="slow")
    async def slow(body: Any, **kwargs: Any) -> None:
        calls("slow", {"at": asyncio.get_running_loop().time()})
        assert body["spec"]["patched"]
        await asyncio.sleep(20)

    async with world.running() as running:
        await world.create()
        await world.until(lambda: calls.count("slow"))
        began = calls.of("slow")[0]["at"]
        await asyncio.sleep(0.8)
        assert world.writes() == []
        await asyncio.sleep(0.4)
        assert asyncio.get_running_loop().time() - began < 1.5
        assert world.record("fast")["success"]
        assert world.record("slow")["retries"] == 0
        assert world.get()["status"] == {"fast": "quick"}
        assert world.get()["spec"]["patched"]
        await world.crash(running)
    assert calls.names == ["fast", "slow"]
    # The next process goes on where the records say.
    async with world.running():
        await world.handled(seconds=100)
    assert calls.names == ["fast", "slow", "slow"]
    assert world.last() == {"spec": {"field": "value", "patched": True}}


async def test_checkpoints_go_on_while_handlers_are_slow(world: World, calls: Calls) -> None:
    def declare(index: int) -> None:
        @ctl.on.create(KEX.plural, id=f"h{index}")
        async def handler(**kwargs: Any) -> None:
            calls(f"h{index}", kwargs)
            await asyncio.sleep(3 * index)

    for index in range(4):
        declare(index)
    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("h3"))
        await asyncio.sleep(1.5)
        assert [world.record(f"h{index}")["success"] for index in range(4)] == [True, True, True, False]
        await world.handled()
    assert calls.names == ["h0", "h1", "h2", "h3"]


async def test_an_outcome_that_comes_during_a_checkpoint_gets_one_of_its_own(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(**kwargs: Any) -> None:
        calls("first", kwargs)

    @ctl.on.create(KEX.plural, id="second")
    async def second(**kwargs: Any) -> None:
        calls("second", kwargs)
        await asyncio.sleep(3)

    @ctl.on.create(KEX.plural, id="third")
    async def third(**kwargs: Any) -> None:
        calls("third", kwargs)
        await asyncio.sleep(30)

    async with world.running():
        # The checkpoint after the first handler takes longer than the second handler.
        world.sandbox.faults.delay(4, match=world.own_patches(), times=1)
        await world.create()
        await world.until(lambda: calls.count("third"))
        await asyncio.sleep(4)
        assert world.record("second")["success"]
        await world.handled()
    assert calls.names == ["first", "second", "third"]


async def test_each_handler_sees_what_the_ones_before_it_patched(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(patch: ctl.Patch, **_: Any) -> int:
        patch.spec["seen"] = 1
        patch.metadata.labels["l"] = "1"
        patch.status["phase"] = "first"
        patch.fns.append(lambda body: body["spec"].setdefault("items", []).append("x"))
        return 42

    @ctl.on.create(KEX.plural, id="second")
    async def second(patch: ctl.Patch, body: Any, spec: Any, status: Any, labels: Any, **_: Any) -> None:
        seen = {"spec": dict(spec), "status": dict(status), "labels": dict(labels), "patch": dict(patch)}
        calls("second", copy.deepcopy(seen))
        patch.spec["seen"] = None
        # Nested values are real and one's own.
        body["spec"]["items"].append("mine")

    @ctl.on.create(KEX.plural, id="third")
    async def third(spec: Any, **_: Any) -> None:
        calls("third", {"spec": dict(spec)})

    async with world.running():
        await world.create()
        await world.until(lambda: world.last() is not None)
        await rest()
    assert calls.of("second") == [
        {
            "spec": {"field": "value", "seen": 1, "items": ["x"]},
            "status": {"phase": "first", "first": 42},
            "labels": {"l": "1"},
            "patch": {},
        }
    ]
    assert calls.of("third") == [{"spec": {"field": "value", "items": ["x"]}}]
    assert world.get()["spec"] == {"field": "value", "items": ["x"]}


async def test_a_failed_handlers_patch_is_written_too(world: World) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        patch.status["so"] = "far"
        raise ctl.PermanentError("no further")

    async with world.running():
        await world.create()
        body = await world.handled()
    assert body["status"] == {"so": "far"}


async def test_old_new_and_diff_are_the_same_for_all_handlers_of_a_round(world: World, calls: Calls) -> None:
    def declare(index: int) -> None:
        @ctl.on.update(KEX.plural, id=f"u{index}")
        async def update(patch: ctl.Patch, old: Any, new: Any, diff: Any, **_: Any) -> None:
            calls(f"u{index}", copy.deepcopy({"old": dict(old), "new": dict(new), "diff": tuple(diff)}))
            if not old["spec"].get("n"):
                patch.spec["n"] = index

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        return

    for index in range(1, 4):
        declare(index)
    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "other"}})
        await world.handled()
    firsts = [calls.of(f"u{index}")[0] for index in range(1, 4)]
    assert firsts[0] == firsts[1] == firsts[2]
    assert firsts[0]["new"] == {"spec": {"field": "other"}}
    # Then the handlers' own changes are an update by themselves.
    assert [calls.of(f"u{index}")[1:] for index in range(1, 4)] == [
        [
            {
                "old": {"spec": {"field": "other"}},
                "new": {"spec": {"field": "other", "n": 3}},
                "diff": (("add", ("spec", "n"), None, 3),),
            }
        ]
    ] * 3


async def test_own_patches_of_the_spec_are_an_update(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        patch.spec["more"] = 1

    @ctl.on.update(KEX.plural, id="update")
    async def update(diff: Any, **_: Any) -> None:
        calls("update", {"diff": tuple(diff)})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.of("update") == [{"diff": (("add", ("spec", "more"), None, 1),)}]
    assert len(world.writes()) == 2


async def test_a_foreign_controllers_status_and_annotations_are_no_change(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural, id="update")
    async def update(**kwargs: Any) -> None:
        calls("update", kwargs)

    async with world.running():
        await world.create()
        await world.handled()
        written = len(world.writes())
        await world.patch({"status": {"theirs": 1}}, subresource="status")
        await world.patch({"metadata": {"annotations": {"other.kopf.zalando.org/x": "y", f"{P}/unknown": "{}"}}})
        await rest()
        assert (calls.names, len(world.writes())) == ([], written)
        await world.patch({"metadata": {"annotations": {"mine.io/x": "y"}}})
        await world.until(lambda: calls.count("update"))
        await rest()
    assert calls.names == ["update"]


async def test_echoes_of_own_writes_start_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> str:
        return "x"

    with caplog.at_level("DEBUG", logger="kopf.objects"):
        async with world.running():
            await world.create()
            await world.handled()
    texts = [record.getMessage().split(":")[0] for record in caplog.records if record.name == "kopf.objects"]
    assert texts == [
        "Creation is in progress",
        "Handler 'create' is invoked.",
        "Handler 'create' succeeded.",
        "Merge-patching the status with",
        "Merge-patching the resource with",
        "Creation is processed",
        "Handling cycle is finished, waiting for new changes.",
    ]


async def test_what_is_written_is_logged_as_it_is(world: World, caplog: pytest.LogCaptureFixture) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> str:
        patch.metadata.annotations["by"] = "us"
        return "x"

    with caplog.at_level("DEBUG", logger="kopf.objects"):
        async with world.running():
            await world.create()
            await world.handled()
    texts = [text for text in messages(caplog.records) if text.startswith("Merge-patching")]
    assert texts[0] == "Merge-patching the status with: {'status': {'create': 'x'}}"
    assert texts[1].startswith("Merge-patching the resource with: {'metadata': {'annotations': {'by': 'us', ")


async def test_a_handler_for_a_field_gets_the_field(world: World, calls: Calls) -> None:
    @ctl.on.field(KEX.plural, field="spec.field", id="changed")
    async def changed(old: Any, new: Any, diff: Any, reason: str, **_: Any) -> None:
        calls("changed", {"old": old, "new": new, "diff": tuple(diff), "reason": reason})

    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"other": 1}})
        await world.handled()
        await world.patch({"spec": {"field": "new"}})
        await world.handled()
    assert calls.of("changed") == [
        {"old": None, "new": "value", "diff": (("add", (), None, "value"),), "reason": "create"},
        {"old": "value", "new": "new", "diff": (("change", (), "value", "new"),), "reason": "update"},
    ]


async def test_cluster_scoped_objects_are_handled(world: World, calls: Calls) -> None:
    from .world import GLOBAL

    @ctl.on.create(GLOBAL.plural, id="handler")
    @ctl.on.delete(GLOBAL.plural, id="handler")
    async def handler(reason: str, namespace: str | None, **_: Any) -> None:
        calls(reason, {"namespace": namespace})

    async with world.running():
        await world.create(resource=GLOBAL)
        await world.handled(resource=GLOBAL)
        await world.delete(resource=GLOBAL)
        await world.gone(resource=GLOBAL)
    assert calls.made == [("create", {"namespace": None}), ("delete", {"namespace": None})]


async def test_an_error_of_one_handler_is_no_part_of_the_next_one(world: World, calls: Calls) -> None:
    """Whatever way errors of threads take to the round, it does not lead through the handlers after them."""

    @ctl.on.create(KEX.plural, id="first", errors=ctl.ErrorsMode.IGNORED)
    def first(**_: Any) -> None:
        raise ValueError("of the first")

    @ctl.on.create(KEX.plural, id="second", errors=ctl.ErrorsMode.IGNORED)
    async def second(**_: Any) -> None:
        calls("second", {"found": sys.exc_info()})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.of("second") == [{"found": (None, None, None)}]


async def test_what_a_handler_does_to_old_and_new_reaches_no_other(world: World, calls: Calls) -> None:
    def spoil(name: str, old: Any, new: Any) -> None:
        calls(name, {"old": copy.deepcopy(old), "new": copy.deepcopy(new)})
        for state in (old, new):
            if state is not None:
                state["spec"].clear()

    for name in ("first", "second"):

        @ctl.on.create(KEX.plural, id=name, param=name)
        @ctl.on.update(KEX.plural, id=name, param=name)
        async def handle(old: Any, new: Any, param: str, **_: Any) -> None:
            spoil(param, old, new)

    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "b"}})
        await rest()
    was, now = {"spec": {"field": "value"}}, {"spec": {"field": "b"}}
    for name in ("first", "second"):
        assert calls.of(name) == [{"old": None, "new": was}, {"old": was, "new": now}]
    assert world.annotations()[LAST] == '{"spec":{"field":"b"}}\n'


async def test_records_in_the_status_are_not_believed_of_a_namesake(world: World, calls: Calls) -> None:
    """Servers ignore the uid in what is sent to the status of custom resources: a checkpoint may reach an object with the same name."""

    @ctl.on.create(KEX.plural, id="first")
    async def first(uid: str, **_: Any) -> str:
        calls("first", {"uid": uid})
        return uid

    @ctl.on.create(KEX.plural, id="slow")
    async def slow(uid: str, **_: Any) -> str:
        calls("slow", {"uid": uid})
        if calls.count("slow") == 1:
            await world.delete()
            await world.create()
            await asyncio.sleep(5)
        return uid

    @ctl.on.create(KEX.plural, id="last")
    async def last(uid: str, **_: Any) -> str:
        calls("last", {"uid": uid})
        return uid

    settings = quick()
    settings.persistence.progress_storage = StatusProgressStorage()
    async with world.running(settings=settings):
        old = (await world.create())["metadata"]["uid"]
        await world.until(lambda: calls.count("last"))
        await rest(5)
        body = world.get()
    new = body["metadata"]["uid"]
    assert calls.made == [
        (name, {"uid": uid})
        for uid, name in [(old, "first"), (old, "slow"), (new, "first"), (new, "slow"), (new, "last")]
    ]
    assert body["status"] == {"first": new, "slow": new, "last": new, "kopf": {"progress": {}}}
