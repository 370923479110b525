"""What handlers say about objects becomes Event objects: which, where, in which order, and how many."""

import asyncio
import contextvars
import logging
import threading
from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource
from ctl.handlers.kopf import posting
from ctl.sandbox import LoggedRequest, Match, reviews

from .world import GLOBAL, KEX, Calls, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

EVENTS = Resource("", "v1", "events", kind="Event", namespaced=True)
REVIEWS = "/selfsubjectaccessreviews"
Event = dict[str, Any]


async def events(world: World, namespace: str | None = "default") -> list[Event]:
    """The Event objects of the server, by their age."""
    found = [obj.body() for obj in await world.user.list(EVENTS, namespace)]
    return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))


def posted(world: World) -> list[LoggedRequest]:
    """What operators wrote to Event objects."""
    found = [request for request in world.sandbox.write_log if request.user_agent.startswith("ctl/")]
    return [request for request in found if "/events" in request.path]


async def wait_for(world: World, number: int) -> list[Event]:
    """Wait until there are so many Event objects."""
    await world.until(lambda: len([request for request in posted(world) if request.code == 201]) >= number)
    return await events(world)


async def test_an_event_is_written_as_kopf_writes_it(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        ctl.event(body, type="Odd", reason="Because", message="something happened")

    settings = quick()
    settings.posting.reporting_component = "me"
    settings.posting.reporting_instance = "me-1"
    settings.posting.event_name_prefix = "mine-"
    async with world.running(settings=settings):
        body = await world.create()
        [event] = await wait_for(world, 1)
    assert event["metadata"]["name"].startswith("mine-")
    moment = event["firstTimestamp"]
    assert {key: value for key, value in event.items() if key != "metadata"} == {
        "apiVersion": "v1",
        "kind": "Event",
        "action": "Action?",
        "type": "Odd",
        "reason": "Because",
        "message": "something happened",
        "reportingComponent": "me",
        "reportingInstance": "me-1",
        "source": {"component": "me"},
        "involvedObject": {
            "apiVersion": KEX.api_version,
            "kind": KEX.kind,
            "name": "one",
            "uid": body["metadata"]["uid"],
            "namespace": "default",
        },
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "eventTime": event["eventTime"],
    }
    assert event["eventTime"].startswith("2031-05-06T07:00:")
    [request] = posted(world)
    assert request.path == "/api/v1/namespaces/default/events"
    assert "count" not in request.json()


async def test_info_warn_and_exception_have_types_of_their_own(world: World) -> None:
    @ctl.on.create(KEX.plural)
    def create(body: ctl.Body, **_: Any) -> None:
        ctl.info(body, reason="I", message="fine")
        ctl.warn(body, reason="W", message="careful")
        try:
            raise ValueError("broken")
        except ValueError as exc:
            ctl.exception(body)
            ctl.exception(body, reason="E", message="it was", exc=exc)

    async with world.running():
        await world.create()
        found = await wait_for(world, 4)
    assert [(event["type"], event["reason"], event["message"]) for event in found] == [
        ("Normal", "I", "fine"),
        ("Warning", "W", "careful"),
        ("Error", "ValueError", "broken"),
        ("Error", "E", "it was broken"),
    ]


@pytest.mark.parametrize(
    ("enabled", "level", "reasons"),
    [
        (True, logging.INFO, {"event", "info", "warn", "error"}),
        (True, logging.WARNING, {"event", "warn", "error"}),
        (True, logging.ERROR, {"event", "error"}),
        (True, logging.CRITICAL, {"event"}),
        (False, logging.INFO, set()),
    ],
)
async def test_settings_say_what_is_posted(world: World, *, enabled: bool, level: int, reasons: set[str]) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        ctl.event(body, type="Odd", reason="event")
        ctl.info(body, reason="info")
        ctl.warn(body, reason="warn")
        ctl.exception(body, reason="error", exc=ValueError("x"))

    settings = quick()
    settings.posting.enabled, settings.posting.level = enabled, level
    async with world.running(settings=settings):
        await world.create()
        await world.handled()
        await rest()
    assert {event["reason"] for event in await events(world)} == reasons


async def test_objects_without_a_namespace_and_other_objects(world: World) -> None:
    @ctl.on.create(GLOBAL.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "elsewhere"}}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}
        ctl.info([body, [other, event]], reason="R")

    ns = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
    await world.user.create(ns, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    async with world.running():
        await world.create(resource=GLOBAL)
        await wait_for(world, 2)
    [mine] = await events(world, "default")
    [others] = await events(world, "elsewhere")
    assert mine["involvedObject"]["name"] == "one"
    assert others["involvedObject"]["name"] == "p"


async def test_ten_thousand_equal_posts_are_one_event_with_a_count(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        for _number in range(100):
            for _again in range(100):
                ctl.info(body, reason="Same", message="the same again")
            await asyncio.sleep(1)

    async with world.running():
        await world.create()
        await world.handled(seconds=300)
        await world.until(lambda: posted(world)[-1].json().get("count") == 10_000, 120)
    [event] = await events(world)
    assert event["count"] == 10_000
    assert event["firstTimestamp"] < event["lastTimestamp"]
    assert [request.method for request in posted(world)].count("POST") == 1
    assert len(posted(world)) <= 9


async def test_many_messages_of_one_reason_are_combined(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        for number in range(1000):
            ctl.info(body, reason="Step", message=f"step {number}")

    async with world.running():
        await world.create()
        await world.handled()
    found = await events(world)
    assert [event["message"] for event in found] == [
        *(f"step {number}" for number in range(9)),
        "(combined from similar events): step 999",
    ]
    assert found[-1]["count"] == 991


async def test_events_about_one_object_are_in_order_also_after_failures(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        for word in "abcde":
            ctl.info(body, reason=word)

    world.sandbox.faults.answer(503, match=Match(method="POST", path="/events"), times=3)
    async with world.running():
        await world.create()
        found = await wait_for(world, 5)
    assert [event["reason"] for event in found] == list("abcde")
    assert [request.json()["reason"] for request in posted(world)] == ["a", "a", "a", *"abcde"]


async def test_what_cannot_be_posted_is_given_up_with_a_warning(world: World, caplog: pytest.LogCaptureFixture) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        ctl.info(body, reason="Lost", message="one")
        ctl.info(body, reason="Kept", message="two")

    world.sandbox.faults.answer(
        500, match=Match(path="/events", when=lambda request: b"Lost" in request.body), times=None
    )
    settings = quick()
    settings.posting.default_backoffs = (1, 2)
    async with world.running(settings=settings):
        await world.create()
        [event] = await wait_for(world, 1)
    assert event["reason"] == "Kept"
    assert "Failed to post an event. Ignoring and continuing. Event: type='Normal', reason='Lost'" in caplog.text


async def test_a_post_may_have_pauses_of_its_own(world: World, caplog: pytest.LogCaptureFixture) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        ctl.event(body, type="Normal", reason="Once", message="never", backoffs=())
        ctl.info(body, reason="Twice", message="the second time", backoffs=1)
        ctl.warn(body, reason="Warned", message="at once", backoffs=[1, 2])
        ctl.exception(body, exc=ValueError("told"), backoffs=(3,))

    refused = Match(path="/events", when=lambda request: b"Once" in request.body)
    world.sandbox.faults.answer(500, match=refused, times=None)
    world.sandbox.faults.answer(
        500, match=Match(path="/events", when=lambda request: b"Twice" in request.body), times=1
    )
    async with world.running():
        await world.create()
        found = await wait_for(world, 3)
    assert {event["reason"] for event in found} == {"Twice", "Warned", "ValueError"}
    assert caplog.text.count("Failed to post an event. Ignoring and continuing.") == 1


async def test_an_event_that_the_server_has_forgotten_is_written_anew(world: World) -> None:
    @ctl.timer(KEX.plural, interval=10)
    async def timer(body: ctl.Body, **_: Any) -> None:
        ctl.info(body, reason="Tick")

    async with world.running():
        await world.create()
        [first] = await wait_for(world, 1)
        await rest(60)
        await world.user.delete(EVENTS, first["metadata"]["name"], "default")
        [second] = await wait_for(world, 2)
    assert second["count"] > 3
    assert second["firstTimestamp"] == first["firstTimestamp"]


def deny(world: World, monkeypatch: pytest.MonkeyPatch, *denied: tuple[str, str]) -> None:
    """Let access reviews refuse verbs of resources."""

    def review(resource: Any, body: Any, reviewer: Any) -> dict[str, Any]:
        answer = reviews.review(resource, body, reviewer)
        asked = (body.get("spec") or {}).get("resourceAttributes") or {}
        if (asked.get("verb"), asked.get("resource")) in denied:
            answer["status"] = {"allowed": False}
        return answer

    monkeypatch.setattr("ctl.sandbox.api.review", review)


async def test_without_the_right_to_patch_each_window_is_one_new_event(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deny(world, monkeypatch, ("patch", "events"))

    @ctl.timer(KEX.plural, interval=10)
    async def timer(body: ctl.Body, **_: Any) -> None:
        ctl.info(body, reason="Tick")

    with caplog.at_level(logging.INFO):
        async with world.running():
            await world.create()
            await rest(1850)
            counts = [event.get("count", 1) for event in await events(world)]
    assert counts[0] == 1
    # The last of a window may come at its very end.
    assert [round(count, -1) for count in counts[1:]] == [60, 60, 60]
    assert {request.method for request in posted(world)} == {"POST"}
    assert all(request.code == 201 for request in posted(world))
    assert caplog.text.count("The right to patch events is missing") == 1


async def test_without_the_right_to_create_nothing_is_tried(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deny(world, monkeypatch, ("create", "events"))

    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        ctl.info(body, reason="One")
        ctl.info(body, reason="Two")

    with caplog.at_level(logging.INFO):
        async with world.running():
            await world.create()
            await world.handled()
            await rest()
    assert posted(world) == []
    assert caplog.text.count("The right to create events is missing in namespace 'default': nothing is posted.") == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_what_waits_is_written_at_the_end(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        for _number in range(50):
            ctl.info(body, reason="Same")
            await asyncio.sleep(0.01)

    async with world.running():
        await world.create()
        await world.handled()
    [event] = await events(world)
    assert event["count"] == 50


async def test_posts_of_threads_and_of_the_loop_are_told_in_the_order_in_which_they_were_said(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        for reason in ("First", "Second"):
            thread = threading.Thread(
                target=contextvars.copy_context().run, args=(ctl.info, body), kwargs={"reason": reason}
            )
            thread.start()
            # The loop does not turn before the thread has spoken.
            thread.join()
        ctl.info(body, reason="Third")

    async with world.running():
        await world.create()
        await world.handled()
        await rest()
    found = [event["reason"] for event in await events(world)]
    assert found[:3] == ["First", "Second", "Third"]


async def test_log_messages_are_posted_when_asked_for(world: World) -> None:
    @ctl.on.event(KEX.plural)
    async def raw(logger: logging.Logger, **_: Any) -> None:
        logger.error("never posted: local")

    @ctl.on.create(KEX.plural, id="create")
    def create(logger: logging.Logger, **_: Any) -> None:
        logger.debug("too low")
        logger.info("hello %s", "you")
        logger.warning("careful")
        logger.critical("dead")

    settings = quick()
    settings.posting.loggers = True
    before = list(logging.getLogger("kopf.objects").handlers)
    level = logging.getLogger("kopf.objects").level
    logging.getLogger("kopf.objects").setLevel(logging.INFO)
    try:
        async with world.running(settings=settings):
            await world.create()
            await world.handled()
            await rest()
    finally:
        logging.getLogger("kopf.objects").setLevel(level)
    found = [(event["type"], event["reason"], event["message"]) for event in await events(world)]
    assert found == [
        ("Normal", "Logging", "hello you"),
        ("Warning", "Logging", "careful"),
        ("Fatal", "Logging", "dead"),
        ("Normal", "Logging", "Handler 'create' succeeded."),
        ("Normal", "Logging", "Creation is processed: 1 succeeded; 0 failed."),
    ]
    assert logging.getLogger("kopf.objects").handlers == before


async def test_log_messages_are_not_posted_by_default(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(logger: logging.Logger, **_: Any) -> None:
        logger.error("oh")

    async with world.running():
        await world.create()
        await world.handled()
    assert await events(world) == []


async def test_posts_come_from_daemons_threads_and_tasks_of_handlers(world: World) -> None:
    @ctl.daemon(KEX.plural)
    def daemon(body: ctl.Body, stopped: Any, **_: Any) -> None:
        ctl.info(body, reason="Daemon")
        stopped.wait(1000)

    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        async def child() -> None:
            ctl.info(body, reason="Task")

        await asyncio.create_task(child())
        await asyncio.to_thread(ctl.info, body, reason="Thread")

    async with world.running():
        await world.create()
        found = await wait_for(world, 3)
    assert {event["reason"] for event in found} == {"Daemon", "Task", "Thread"}


async def test_outside_of_handlers_of_objects_it_is_a_lookup_error(world: World, calls: Calls) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}

    def attempt(where: str) -> None:
        try:
            ctl.info(pod, reason="R")
        except LookupError as exc:
            calls(where, {"error": str(exc)})

    @ctl.on.startup()
    async def startup(**_: Any) -> None:
        attempt("startup")

    @ctl.on.cleanup()
    async def cleanup(**_: Any) -> None:
        attempt("cleanup")

    @ctl.on.create(KEX.plural)
    def create(**_: Any) -> None:
        thread = threading.Thread(target=attempt, args=("thread",))
        thread.start()
        thread.join()

    attempt("test")
    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["test", "startup", "thread", "cleanup"]
    assert all("while handlers of objects run" in kwargs["error"] for _, kwargs in calls.made)
    assert posting.event is ctl.event


async def test_nothing_else_can_be_posted_about(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural)
    async def create(**_: Any) -> None:
        with pytest.raises(TypeError):
            ctl.info(object(), reason="R")
        calls("create", {})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["create"]
