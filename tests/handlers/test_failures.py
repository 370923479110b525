"""When the server refuses, breaks, or its answers are lost: nothing is lost, nothing is done twice, one object suffers."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import ctl
from ctl.controller.api.writes import TRIES
from ctl.sandbox import LoggedRequest, Match

from .world import FINALIZER, KEX, LAST, Calls, World, a_world, messages, rest

pytestmark = pytest.mark.virtual_time

JSON = "application/json-patch+json"
OVER = "Throttling is over. Switching back to normal operations."


async def test_a_patch_that_the_server_refuses_throttles_one_object(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    """What is refused for its content is done anew by the handlers, with a back-off; the others go on."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(name: str, patch: ctl.Patch, **_: Any) -> None:
        calls(name, {"at": asyncio.get_running_loop().time()})
        if name == "bad" and calls.count("bad") < 4:
            patch.metadata.labels["not a label!"] = "x"

    async with world.running():
        await world.create("bad")
        await world.create("good")
        await world.handled("good")
        assert calls.count("bad") == 1
        await world.handled("bad")
    times = [call["at"] for call in calls.of("bad")]
    assert [round(later - earlier) for earlier, later in itertools.pairwise(times)] == [1, 1, 2]
    assert calls.count("good") == 1
    assert [text.split(":")[0] for text in messages(caplog.records) if "Throttling for" in text] == [
        "Throttling for 1.0 seconds due to an unexpected error",
        "Throttling for 1.0 seconds due to an unexpected error",
        "Throttling for 2.0 seconds due to an unexpected error",
    ]


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (500, "InternalError"), (503, "ServiceUnavailable")])
async def test_what_was_achieved_waits_for_a_server_that_refuses_for_now(
    world: World, calls: Calls, code: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> str:
        calls("create", {})
        patch.spec["patched"] = True
        return "result"

    @ctl.on.create(KEX.plural, id="later")
    async def later(retry: int, **_: Any) -> None:
        calls("later", {})
        if not retry:
            raise ctl.TemporaryError("later", delay=3)

    with caplog.at_level("INFO", logger="kopf.objects"):
        async with world.running():
            world.sandbox.faults.answer(code, reason, match=world.own_patches(), times=2)
            await world.create()
            await world.until(lambda: world.last() is not None)
            await rest()
    assert calls.names == ["create", "later", "later"]
    assert world.get()["spec"] == {"field": "value", "patched": True}
    assert world.get()["status"] == {"create": "result"}
    assert world.is_clean()
    assert OVER in messages(caplog.records)


async def test_the_handlers_that_ran_do_not_run_again_after_a_failed_write_and_a_change(
    world: World, calls: Calls
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(spec: Any, **_: Any) -> None:
        calls("create", {"field": spec["field"]})

    @ctl.on.update(KEX.plural, id="update")
    async def update(old: Any, new: Any, **_: Any) -> None:
        calls("update", {"old": old["spec"]["field"], "new": new["spec"]["field"]})

    async with world.running():
        world.sandbox.faults.answer(500, match=world.own_patches())
        await world.create()
        await world.until(lambda: calls.count("create"))
        await world.patch({"spec": {"field": "changed"}})
        await world.handled()
    assert calls.made == [("create", {"field": "value"}), ("update", {"old": "value", "new": "changed"})]


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (409, "Conflict"), (500, "InternalError"), (503, "")])
async def test_delete_handlers_are_called_once_though_the_release_fails(
    world: World, calls: Calls, code: int, reason: str
) -> None:
    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**_: Any) -> None:
        calls("delete", {})

    async with world.running():
        await world.create()
        await world.until(lambda: world.get()["metadata"].get("finalizers"))
        rule = world.sandbox.faults.answer(code, reason, match=world.own_patches(), times=6)
        await world.delete()
        await world.gone()
    assert rule.hits == 6
    assert calls.count("delete") == 1


async def test_what_event_handlers_want_outlives_a_broken_server(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(patch: ctl.Patch, type: str | None, **_: Any) -> None:
        calls("event", {"type": type})
        if type == "ADDED":
            patch.status["added"] = True
            patch.fns.append(lambda body: body["spec"].setdefault("list", []).append(1))

    async with world.running():
        world.sandbox.faults.answer(500, match=world.own_patches(), times=3)
        await world.create()
        await world.until(lambda: world.get()["spec"].get("list"))
        await rest()
    assert world.get()["status"] == {"added": True}
    assert world.get()["spec"]["list"] == [1]
    assert [call["type"] for call in calls.of("event")].count("ADDED") == 1


async def test_no_error_delays_leave_the_back_off_to_the_queue(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("create", {})

    @ctl.on.startup()
    async def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.queueing.error_delays = ()

    async with world.running():
        world.sandbox.faults.answer(500, match=world.own_patches(), times=3)
        await world.create()
        await world.handled(seconds=2)
    assert calls.names == ["create"]


async def test_error_delays_may_be_endless(world: World) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        return

    @ctl.on.startup()
    async def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        class Endless:
            def __iter__(self) -> Any:
                return itertools.count(1)

        settings.queueing.error_delays = Endless()

    async with world.running():
        world.sandbox.faults.answer(500, match=world.own_patches(), times=3)
        began = asyncio.get_running_loop().time()
        await world.create()
        await world.handled()
    assert asyncio.get_running_loop().time() - began == pytest.approx(6, abs=1)


async def test_a_filter_that_raises_throttles_its_object_only(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create", when=lambda spec, **_: spec["must"])
    async def create(name: str, **_: Any) -> None:
        calls(name, {})

    async with world.running():
        await world.create("bad", spec={})
        await world.create("good", spec={"must": True})
        await world.handled("good")
        await world.patch({"spec": {"must": True}}, "bad")
        await world.handled("bad")
    assert sorted(calls.names) == ["bad", "good"]


# Lost answers.


def _whole(calls: Calls, *, fns: bool) -> None:
    """Handlers whose round makes each kind of write there is."""

    @ctl.on.create(KEX.plural, id="one")
    async def one(patch: ctl.Patch, **_: Any) -> str:
        calls("one", {})
        patch.spec["merged"] = 1
        if fns:
            patch.fns.append(lambda body: body["spec"].setdefault("list", []).append("x"))
            patch.fns.append(lambda body: body["status"].setdefault("list", []).append("y"))
        return "result"

    @ctl.on.create(KEX.plural, id="two")
    async def two(**_: Any) -> None:
        calls("two", {})

    @ctl.on.delete(KEX.plural, id="gone")
    async def gone(**_: Any) -> str:
        calls("gone", {})
        return "bye"


@pytest.mark.parametrize(
    ("number", "way", "fns"),
    [
        *((number, "lose", False) for number in range(1, 7)),
        *((number, "lose", True) for number in range(1, 9)),
        *((number, "refuse", True) for number in range(2, 7)),
        *((number, "500", True) for number in (1, 3, 5)),
    ],
)
async def test_each_write_of_a_life_may_lose_its_answer(
    world: World, calls: Calls, number: int, way: str, fns: bool
) -> None:
    """finalizer, status, commit, functions (spec, status), result of the deletion, release: each is cut in turn."""
    _whole(calls, fns=fns)
    seen: list[LoggedRequest] = []

    def nth(request: LoggedRequest) -> bool:
        if request not in seen:
            seen.append(request)
        return len(seen) == number

    match = world.own_patches(when=nth)
    if way == "lose":
        rule = world.sandbox.faults.lose_answer(match=match)
    elif way == "refuse":
        rule = world.sandbox.faults.refuse(match=match)
    else:
        rule = world.sandbox.faults.answer(500, match=match)
    async with world.running():
        await world.create()
        await world.until(lambda: world.last() is not None and "merged" in world.last()["spec"])
        await world.until(lambda: not fns or (world.get()["spec"].get("list") and world.get()["status"].get("list")))
        await rest(5)
        body = world.get()
        assert body["spec"] == {"field": "value", "merged": 1} | ({"list": ["x"]} if fns else {})
        assert body["status"] == {"one": "result"} | ({"list": ["y"]} if fns else {})
        assert body["metadata"]["finalizers"] == [FINALIZER]
        assert world.is_clean()
        assert world.last()["spec"] == body["spec"]
        await world.delete()
        await world.gone()
    assert calls.names == ["one", "two", "gone"]
    assert rule.hits == 1


async def test_a_finalizer_is_put_once_though_the_object_changes_under_it(world: World, calls: Calls) -> None:
    _whole(calls, fns=False)
    changing: Callable[[LoggedRequest], bool] = lambda request: b"finalizers" in request.body  # noqa: E731

    async with world.running():
        rule = world.sandbox.faults.delay(1, match=world.own_patches(when=changing), times=2)
        await world.create(finalizers=["other.io/x"])
        await world.until(lambda: rule.hits == 1)
        await world.patch({"metadata": {"finalizers": ["other.io/x", "other.io/y"]}})
        await world.until(lambda: rule.hits == 2)
        await world.patch({"metadata": {"finalizers": ["other.io/y"]}})
        await world.handled()
        assert world.get()["metadata"]["finalizers"] == ["other.io/y", FINALIZER]


# Functions of patches.


async def test_functions_of_a_patch_are_a_json_patch_after_the_merge(world: World) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        patch.metadata.labels["l"] = "x"
        patch.status["a"] = 1
        patch.fns.append(lambda body: body["spec"].update(list=[1]))
        patch.fns.append(lambda body: body["status"].update(b=2))

    async with world.running():
        await world.create()
        await world.until(lambda: (world.get().get("status") or {}).get("b"))
        await rest()
    status, main, spec_ops, status_ops = world.writes()[:4]
    assert [request.path.rsplit("/", 1)[-1] for request in (status, main, spec_ops, status_ops)] == [
        "status",
        "one",
        "one",
        "status",
    ]
    assert spec_ops.json()[0]["op"] == status_ops.json()[0]["op"] == "test"
    assert spec_ops.json()[1:] == [{"op": "add", "path": "/spec/list", "value": [1]}]
    assert status_ops.json()[1:] == [{"op": "add", "path": "/status/b", "value": 2}]


async def test_functions_are_computed_anew_when_the_object_has_changed(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.fns.append(lambda body: body["spec"]["list"].append("ours"))

    is_function: Callable[[LoggedRequest], bool] = lambda request: request.content_type == JSON  # noqa: E731
    async with world.running():
        rule = world.sandbox.faults.delay(1, match=world.own_patches(when=is_function), times=1)
        await world.create(spec={"list": []})
        await world.until(lambda: rule.hits == 1)
        await world.patch({"spec": {"list": ["theirs"]}})
        await world.until(lambda: "ours" in world.get()["spec"]["list"])
        await rest()
    assert world.get()["spec"]["list"] == ["theirs", "ours"]
    assert calls.names == ["create"]
    assert [request.code for request in world.writes() if is_function(request)] == [422, 200]


async def test_functions_that_conflicts_left_are_applied_soon_without_any_event(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.fns.append(lambda body: body.setdefault("status", {}).update(done=True))

    is_function: Callable[[LoggedRequest], bool] = lambda request: request.content_type == JSON  # noqa: E731
    async with world.running():
        world.outrun(Match(when=is_function), times=5)
        await world.create()
        await world.handled()
        assert world.get()["status"] == {"done": True}
    assert calls.names == ["create"]


async def test_functions_that_always_conflict_neither_spin_nor_get_lost(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.spec["list"] = ["merged"]
        patch.fns.append(lambda body: body["spec"]["list"].append("applied"))

    is_function: Callable[[LoggedRequest], bool] = lambda request: request.content_type == JSON  # noqa: E731
    rule = world.outrun(Match(when=is_function), times=None)
    async with world.running() as running:
        await world.create()
        await rest(600)
        # TRIES at once, then as `settings.queueing.error_delays` say.
        assert 20 <= rule.hits <= TRIES * 14
        assert calls.names == ["create"]
        # It is not said to be done before that is done: another process has its handler called again.
        assert LAST not in world.annotations()
        assert world.record("create") is None
        await world.crash(running)
    async with world.running():
        await world.until(lambda: calls.names == ["create"] * 2)
        await rest(10)
        world.sandbox.faults.rules.remove(rule)
        await world.handled(seconds=600)
        assert world.get()["spec"]["list"] == ["merged", "applied"]
    assert calls.names == ["create"] * 2


async def test_functions_that_a_webhook_refuses_with_409_are_tried_once_and_throttle_their_object(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    """The object is as it was: nobody else was faster, and the same will be refused again."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.fns.append(lambda body: body["spec"].update(done=True))

    is_function: Callable[[LoggedRequest], bool] = lambda request: request.content_type == JSON  # noqa: E731
    rule = world.sandbox.faults.answer(
        409, "Conflict", "a webhook says no", match=world.own_patches(when=is_function), times=None
    )
    async with world.running():
        await world.create()
        await rest(600)
        assert 5 <= rule.hits <= 14, "once for each of settings.queueing.error_delays"
        said = [text for text in messages(caplog.records) if "Throttling for" in text]
        assert said
        assert all("a webhook says no" in text for text in said)
        world.sandbox.faults.rules.remove(rule)
        await world.handled(seconds=600)
        assert world.get()["spec"]["done"] is True
    assert calls.names == ["create"]


async def test_functions_do_to_the_object_once_what_they_do_when_the_status_conflicts(world: World) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        def both(body: Any) -> None:
            body["spec"]["list"].append("x")
            body.setdefault("status", {}).setdefault("list", []).append(len(body["spec"]["list"]))

        patch.fns.append(both)

    def is_function(request: LoggedRequest) -> bool:
        return request.content_type == JSON and request.path.endswith("/status")

    async with world.running():
        world.outrun(Match(when=is_function), times=12)
        await world.create(spec={"list": []})
        await world.handled()
        assert world.get()["spec"]["list"] == ["x"]
        assert len(world.get()["status"]["list"]) == 1


async def test_what_functions_did_is_not_overwritten_when_the_commit_is_made_again(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.spec["list"] = ["merged"]
        patch.status["list"] = ["merged"]
        patch.fns.append(lambda body: body["spec"]["list"].append("applied"))
        patch.fns.append(lambda body: body["status"]["list"].append("applied"))

    def is_commit(request: LoggedRequest) -> bool:
        return request.content_type != JSON and b"last-handled" in request.body

    async with world.running():
        world.sandbox.faults.answer(500, match=world.own_patches(when=is_commit), times=3)
        await world.create()
        await world.handled()
        assert world.get()["spec"]["list"] == world.get()["status"]["list"] == ["merged", "applied"]
    assert calls.names == ["create"]


async def test_functions_of_a_timer_that_always_conflict_wait_for_its_next_tick(world: World, calls: Calls) -> None:
    @ctl.timer(KEX.plural, interval=10, id="timer")
    async def timer(patch: ctl.Patch, **_: Any) -> None:
        tick = calls("timer", {})
        patch.fns.append(lambda body: body["spec"]["list"].append(tick))

    async with world.running():
        rule = world.outrun(Match(), times=12)
        await world.create(spec={"list": []})
        await world.until(lambda: rule.hits == 12 and world.get()["spec"]["list"])
    assert world.get()["spec"]["list"] == [*range(1, calls.count("timer") + 1)]
    assert calls.count("timer") <= 3


async def test_functions_whose_result_is_never_valid_do_not_spin(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(patch: ctl.Patch, type: str | None, **_: Any) -> None:
        calls("event", {})
        if type == "ADDED":
            patch.fns.append(lambda body: body["metadata"].update(labels={"not a label!": "x"}))

    async with world.running():
        await world.create()
        await rest(60)
        assert len(world.writes()) == 1
    assert len([text for text in messages(caplog.records) if "Throttling for" in text]) == 1


async def test_a_function_that_raises_is_dropped_with_a_word(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.fns.append(lambda body: body["nothing"]["here"].clear())
        patch.fns.append(lambda body: body["spec"].update(fine=True))

    @ctl.on.create(KEX.plural, id="next")
    async def following(spec: Any, **_: Any) -> None:
        calls("next", {"fine": spec["fine"]})

    async with world.running():
        await world.create()
        await world.until(lambda: world.get()["spec"].get("fine"))
        await rest(5)
    assert calls.made == [("create", {}), ("next", {"fine": True})]
    assert any("A function in patch.fns failed and is dropped" in text for text in messages(caplog.records))


async def test_a_patch_that_is_no_json_is_the_handlers_to_mend(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="create", backoff=5)
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {})
        patch.status["x"] = object() if calls.count("create") < 3 else "fine"

    async with world.running():
        await world.create()
        body = await world.handled()
    assert calls.count("create") == 3
    assert body["status"] == {"x": "fine"}
    assert "Throttling" not in caplog.text


async def test_a_broken_stream_loses_nothing(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(name: str, **_: Any) -> None:
        calls(name, {})

    async with world.running():
        for number in range(5):
            await world.create(f"o{number}")
            world.sandbox.faults.cut_watches() if number % 2 else world.sandbox.faults.fail_watches()
            await rest()
        for number in range(5):
            await world.handled(f"o{number}")
    assert sorted(calls.names) == [f"o{number}" for number in range(5)]


PRUNING = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: KopfExample, plural: kopfexamples, singular: kopfexample}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {known: {type: integer}}}
"""


async def test_what_the_server_prunes_is_told(calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    async with a_world(definitions=[PRUNING]) as world:

        @ctl.on.create(KEX.plural, id="create")
        async def create(patch: ctl.Patch, **kwargs: Any) -> str:
            patch.status["known"] = 1
            calls("create", kwargs)
            return "a result"

        async with world.running():
            await world.create()
            await world.handled()
        assert world.get()["status"] == {"known": 1}
    [said] = [text for text in messages(caplog.records) if "inconsistencies" in text]
    expected = "Merge-patching finished with inconsistencies: (('remove', ('status', 'create'), 'a result', None),)"
    assert said == expected
    assert len(calls) == 1


async def test_a_result_that_is_nothing_for_json_is_dropped_and_the_handler_is_done(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="bad")
    async def bad(**_: Any) -> object:
        calls("bad", {})
        return object()

    @ctl.on.create(KEX.plural, id="good")
    async def good(**_: Any) -> str:
        calls("good", {})
        return "fine"

    async with world.running():
        await world.create()
        body = await world.handled()
        await rest(5)
    assert calls.names == ["bad", "good"]
    assert body["status"] == {"good": "fine"}
    assert "The result of handler 'bad' cannot be written to the status, and is dropped: " in caplog.text


@pytest.mark.parametrize("held", [False, True], ids=["handled", "held"])
async def test_a_404_of_an_object_that_is_listed_is_no_end_of_it(world: World, calls: Calls, held: bool) -> None:
    """An API server that has just started says so of all custom objects, for some moments."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("create", {})

    if held:
        ctl.on.delete(KEX.plural, id="delete")(create)

    async with world.running():
        world.sandbox.faults.answer(404, "NotFound", match=world.own_patches(), times=3)
        await world.create()
        await world.handled()
        assert world.get()["metadata"].get("finalizers", []) == ([FINALIZER] if held else [])
    assert calls.names == ["create"]


async def test_a_refusal_that_names_the_uid_is_no_end_of_an_object_that_lives(world: World, calls: Calls) -> None:
    """Policies and webhooks choose their words; that another object has the name is seen from the object itself."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("create", {})

    async with world.running():
        text = "ValidatingAdmissionPolicy 'p' denied request: metadata.uid is not in the allowed set"
        world.sandbox.faults.answer(422, "Invalid", text, match=world.own_patches(), times=1)
        await world.create()
        await world.handled()
        assert calls.count("create") == 2, "what was refused for its content is done anew"


@pytest.mark.parametrize(
    ("code", "reason", "tries"), [(500, "InternalError", TRIES), (422, "Invalid", 1), (409, "Conflict", 1)]
)
async def test_why_a_finalizer_could_not_be_put_is_what_the_server_said(
    world: World, calls: Calls, code: int, reason: str, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**_: Any) -> None:
        calls("delete", {})

    async with world.running():
        world.sandbox.faults.answer(code, reason, "a webhook says no", match=world.own_patches(), times=tries)
        await world.create()
        await world.handled()
    said = [text for text in messages(caplog.records) if "Throttling for" in text]
    assert len(said) == 1
    assert "a webhook says no" in said[0]
    assert "changed under each" not in said[0]


@pytest.mark.parametrize("with_results", [False, True])
async def test_a_refusal_to_let_an_object_go_calls_no_handler_of_its_deletion_again(
    world: World, calls: Calls, *, with_results: bool
) -> None:
    """A webhook says no to what is not the handlers': the finalizer, and the records that go with it."""

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**_: Any) -> Any:
        calls("delete", {})
        return "done" if with_results else None

    def lets_go(request: LoggedRequest) -> bool:
        return b'"remove"' in request.body and b"/metadata/finalizers" in request.body

    async with world.running():
        await world.create(finalizers=["example.com/theirs"])
        await world.handled()
        rule = world.sandbox.faults.answer(422, "Invalid", "no", match=world.own_patches(when=lets_go), times=3)
        await world.delete()
        await world.until(lambda: rule.hits == 3)
        await world.until(lambda: world.get()["metadata"]["finalizers"] == ["example.com/theirs"])
    assert calls.names == ["delete"]
