"""What a handler sees is as if the outcome of each handler before it had been written: its own writes, its results, its record."""

import asyncio
import copy
import json
import random
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.handlers.settings import OperatorSettings
from ctl.handlers.storage.outside import ConfigMapProgressStorage
from ctl.handlers.storage.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)
from ctl.sandbox import LoggedRequest, Match

from .test_weather import MANNERS
from .weather import a_weather
from .world import KEX, Body, Calls, P, World, messages, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")


def reads(world: World, name: str = "one") -> list[LoggedRequest]:
    """How often operators have read one object."""
    return [
        request
        for request in world.sandbox.log
        if request.user_agent.startswith("ctl/") and request.query.get("fieldSelector") == f"metadata.name={name}"
    ]


def blocking_patch(world: World, change: Body, subresource: str = "/status") -> None:
    """What a client library does in a thread."""
    request = urllib.request.Request(
        f"{world.sandbox.url}/apis/kopf.dev/v1/namespaces/default/kopfexamples/one{subresource}",
        data=json.dumps(change).encode(),
        headers={"Content-Type": "application/merge-patch+json"},
        method="PATCH",
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        answer.read()


Write = Callable[[Body], Awaitable[object]]


def writing(world: World) -> Write:
    async def write(status: Body) -> None:
        await world.patch({"status": status}, subresource="status")

    return write


def watches_are_stalled(world: World) -> None:
    assert world.sandbox.faults.stall_watches(Match(path=KEX.plural))


# What handlers write by another client.


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_next_handler_sees_what_the_one_before_it_has_written_by_another_client(
    world: World, calls: Calls, kind: str
) -> None:
    """Two field handlers of one change keep in the status what they have made (as ClusterSecret does)."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> Body:
        return {"synced": ["a"]}

    def note(**kwargs: Any) -> None:
        calls("second", copy.deepcopy({name: kwargs[name] for name in ("old", "new", "diff")}))
        calls("synced", {"synced": list(kwargs["status"]["create"]["synced"])})

    if kind == "async":

        @ctl.on.field(KEX.plural, field="spec.first", id="first")
        async def first(new: Any, **_: Any) -> None:
            if new is not None:
                await world.patch({"status": {"create": {"synced": ["a"]}}}, subresource="status")
                await world.patch({"status": {"create": {"synced": ["a", "b"]}}}, subresource="status")

        @ctl.on.field(KEX.plural, field="spec.second", id="second")
        async def second(**kwargs: Any) -> None:
            note(**kwargs)

    else:

        @ctl.on.field(KEX.plural, field="spec.first", id="first")
        def first_in_a_thread(**_: Any) -> None:
            blocking_patch(world, {"status": {"create": {"synced": ["a"]}}})
            blocking_patch(world, {"status": {"create": {"synced": ["a", "b"]}}})

        @ctl.on.field(KEX.plural, field="spec.second", id="second")
        def second_in_a_thread(**kwargs: Any) -> None:
            note(**kwargs)

    async with world.running():
        await world.create()
        await world.handled()
        written = len(world.writes())
        await world.patch({"spec": {"first": 1, "second": 1}})
        await world.handled()
        assert calls.of("synced") == [{"synced": ["a", "b"]}]
        # One write and one read for the whole change; what the handler has written is there.
        assert (len(world.writes()) - written, len(reads(world))) == (1, 1)
    assert calls.of("second") == [{"old": None, "new": 1, "diff": calls.of("second")[0]["diff"]}]
    assert world.get()["status"]["create"] == {"synced": ["a", "b"]}


async def test_the_watch_need_not_have_told_of_it(world: World, calls: Calls) -> None:
    write = writing(world)

    @ctl.on.update(KEX.plural, id="first")
    async def first(**_: Any) -> None:
        watches_are_stalled(world)
        await write({"by": "first"})

    @ctl.on.update(KEX.plural, id="second")
    async def second(status: Any, patch: ctl.Patch, **_: Any) -> None:
        calls("second", dict(status))
        patch.fns.append(lambda body: body["status"].update({"seen": body["status"]["by"]}))

    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: "seen" in world.get().get("status", {}))
        world.sandbox.faults.resume_watches()
        await world.handled()
    assert calls.of("second") == [{"by": "first"}]
    assert world.get()["status"] == {"by": "first", "seen": "first"}
    # Functions were applied to what was read: no write met a conflict.
    assert {request.code for request in world.writes()} == {200}


async def test_versions_that_cannot_be_compared_make_no_difference(world: World, calls: Calls) -> None:
    write = writing(world)

    @ctl.on.create(KEX.plural, id="first")
    async def first(**_: Any) -> None:
        await write({"by": "first"})

    @ctl.on.create(KEX.plural, id="second")
    async def second(status: Any, **_: Any) -> None:
        calls("second", dict(status))
        await write({"by": "second"})

    @ctl.on.create(KEX.plural, id="third")
    async def third(status: Any, **_: Any) -> None:
        calls("third", dict(status))

    async with a_weather(world.sandbox.url, random.Random(1)) as weather:
        weather.manner = MANNERS["opaque"]
        async with world.running(access=Access(server=weather.url)):
            await world.create()
            await world.handled()
    assert calls.made == [("second", {"by": "first"}), ("third", {"by": "second"})]


async def test_handlers_that_cannot_have_written_anything_need_no_read(world: World, calls: Calls) -> None:
    # They are imported when they are looked at first, which takes a while.
    subhandler, execute = ctl.subhandler, ctl.execute
    for letter in "ab":

        @ctl.on.create(KEX.plural, id=letter, param=letter)
        async def handler(name: str, param: str, **_: Any) -> str:
            calls(name, {"handler": param})

            @subhandler(id="sub")
            async def sub(name: str, **_: Any) -> None:
                calls(name, {"handler": f"{param}/sub"})

            await execute()
            return param

    @ctl.on.create(KEX.plural, id="c")
    def in_a_thread(name: str, **_: Any) -> None:
        calls(name, {"handler": "c"})

    @ctl.on.create(KEX.plural, id="d")
    async def last(name: str, **_: Any) -> None:
        calls(name, {"handler": "d"})

    names = [f"o{number}" for number in range(10)]
    async with world.running():
        for name in names:
            await world.create(name)
            await world.handled(name)
            assert [call["handler"] for call in calls.of(name)] == ["a", "a/sub", "b", "b/sub", "c", "d"]
    # On a busy machine a function may take a millisecond that did nothing; not all of them do.
    assert [name for name in names if not reads(world, name)]


async def test_nothing_is_read_for_a_handler_that_is_the_last(world: World, calls: Calls) -> None:
    write = writing(world)

    @ctl.on.create(KEX.plural, id="only")
    async def only(**_: Any) -> None:
        calls("only", {})
        await write({"by": "only"})

    async with world.running():
        await world.create()
        await world.handled()
    assert (calls.names, reads(world)) == (["only"], [])


async def test_subhandlers_see_what_their_parent_and_each_other_have_written(world: World, calls: Calls) -> None:
    write = writing(world)

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        await write({"step": 0})
        for number in (1, 2):

            @ctl.subhandler(id=str(number))
            async def sub(status: Any, number: int = number, **_: Any) -> None:
                calls(f"sub-{number}", {"step": status["step"]})
                await write({"step": number})

        await ctl.execute()
        await write({"step": 3})

    @ctl.on.create(KEX.plural, id="after")
    def after(status: Any, **_: Any) -> None:
        calls("after", {"step": status["step"]})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.made == [("sub-1", {"step": 0}), ("sub-2", {"step": 1}), ("after", {"step": 3})]
    assert (len(world.writes()), len(reads(world))) == (1, 3)


@pytest.mark.parametrize("fault", ["forbidden", "broken", "cut", "slow"])
async def test_a_read_that_fails_fails_no_handler(
    world: World, calls: Calls, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Then the object is shown as the watch has told of it by then."""
    write, faults = writing(world), world.sandbox.faults

    @ctl.on.create(KEX.plural, id="first")
    async def first(**_: Any) -> None:
        await write({"by": "first"})
        await rest()

    @ctl.on.create(KEX.plural, id="second")
    async def second(status: Any, **_: Any) -> None:
        calls("second", dict(status))

    match = Match(method="GET", user_agent="ctl/", when=lambda request: "fieldSelector" in request.query)
    with caplog.at_level("DEBUG", logger="kopf.objects"):
        # With the usual settings, by which requests are repeated for a minute.
        async with world.running(settings=OperatorSettings()):
            if fault == "slow":
                faults.delay(1000, match=match)
            elif fault == "cut":
                faults.refuse(match=match, times=None)
            else:
                faults.answer(403 if fault == "forbidden" else 500, match=match, times=None)
            await world.create()
            await world.handled(seconds=10)
    assert calls.of("second") == [{"by": "first"}]
    assert [record.levelname for record in caplog.records if "could not be read" in record.getMessage()] == ["DEBUG"]
    assert "Creation is processed: 2 succeeded; 0 failed." in messages(caplog.records)


async def test_what_a_handler_makes_of_the_spec_by_another_client_is_a_change_of_its_own(
    world: World, calls: Calls
) -> None:
    @ctl.on.update(KEX.plural, id="first")
    async def first(**kwargs: Any) -> None:
        calls("first", copy.deepcopy({name: kwargs[name] for name in ("old", "new")}))
        await world.patch({"spec": {"made": "by first"}})

    @ctl.on.update(KEX.plural, id="second")
    async def second(spec: Any, patch: ctl.Patch, **kwargs: Any) -> None:
        calls("second", copy.deepcopy({"spec": dict(spec), **{name: kwargs[name] for name in ("old", "new")}}))
        patch.status["saw"] = spec["made"]

    async with world.running():
        await world.create()
        await world.handled()
        written = len(world.writes())
        await world.patch({"spec": {"field": "b"}})
        await world.until(lambda: calls.count("second") == 2)
        await rest()
    a, b, made = ({"spec": spec} for spec in ({"field": "value"}, {"field": "b"}, {"field": "b", "made": "by first"}))
    assert calls.of("first") == [{"old": a, "new": b}, {"old": b, "new": made}]
    assert calls.of("second") == [{"old": a, "new": b, **made}, {"old": b, "new": made, **made}]
    assert world.get()["spec"] == made["spec"]
    assert (world.last(), world.is_clean()) == (made, True)
    assert len(world.writes()) - written == 4


@pytest.mark.parametrize("end", ["marked", "gone", "replaced"])
async def test_a_round_ends_before_the_next_handler_when_the_read_tells_of_the_end(
    world: World, calls: Calls, end: str
) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(uid: str, **_: Any) -> None:
        calls("first", {"uid": uid})
        if calls.count("first") > 1:
            return
        watches_are_stalled(world)
        await world.delete()
        if end == "replaced":
            await world.create()

    @ctl.on.create(KEX.plural, id="second")
    async def second(uid: str, **_: Any) -> None:
        calls("second", {"uid": uid})

    @ctl.on.delete(KEX.plural, id="delete", optional=end != "marked")
    async def delete(uid: str, **_: Any) -> None:
        calls("delete", {"uid": uid})

    async with world.running():
        old = (await world.create())["metadata"]["uid"]
        await world.until(lambda: reads(world))
        await rest()
        world.sandbox.faults.resume_watches()
        if end == "replaced":
            new = (await world.handled())["metadata"]["uid"]
        else:
            await world.gone()
    expected = [("first", {"uid": old})]
    if end == "marked":
        expected.append(("delete", {"uid": old}))
    if end == "replaced":
        expected += [(name, {"uid": new}) for name in ("first", "second")]
    assert calls.made == expected


async def test_a_checkpoint_on_its_way_is_awaited_and_nothing_is_done_twice(world: World, calls: Calls) -> None:
    write = writing(world)

    @ctl.on.create(KEX.plural, id="first")
    async def first(patch: ctl.Patch, **_: Any) -> None:
        patch.fns.append(lambda body: body["spec"].setdefault("items", []).append("x"))

    @ctl.on.create(KEX.plural, id="second")
    async def second(spec: Any, **_: Any) -> None:
        calls("second", copy.deepcopy(dict(spec)))
        await asyncio.sleep(1.5)
        await write({"by": "second"})

    @ctl.on.create(KEX.plural, id="third")
    async def third(spec: Any, status: Any, **_: Any) -> None:
        calls("third", copy.deepcopy({**spec, **status}))

    async with world.running():
        # The checkpoint after the first handler is still on its way when the second has ended.
        world.sandbox.faults.delay(2, match=world.own_patches(), times=1)
        await world.create(spec={})
        await world.until(lambda: world.last() is not None and world.is_clean())
        await rest()
    assert calls.made == [("second", {"items": ["x"]}), ("third", {"items": ["x"], "by": "second"})]
    assert world.get()["spec"] == {"items": ["x"]}


async def test_a_handler_that_is_tried_again_sees_what_it_has_written(world: World, calls: Calls) -> None:
    """Also where nothing else is written to the object, since its records are kept elsewhere."""
    write = writing(world)

    @ctl.on.create(KEX.plural, id="create")
    async def create(status: Any, retry: int, **_: Any) -> None:
        calls("create", {"retry": status.get("retry")})
        watches_are_stalled(world)
        await write({"retry": retry})
        if retry < 3:
            raise ctl.TemporaryError("again", delay=0.1)

    settings = quick()
    settings.persistence.progress_storage = ConfigMapProgressStorage()
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: calls.count("create") >= 4)
        world.sandbox.faults.resume_watches()
        await world.handled()
    assert [call["retry"] for call in calls.of("create")] == [None, 0, 1, 2]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_timers_next_tick_sees_what_the_last_one_has_written(world: World, calls: Calls, kind: str) -> None:
    write = writing(world)

    if kind == "async":

        @ctl.timer(KEX.plural, interval=1, id="timer")
        async def timer(status: Any, **_: Any) -> None:
            calls("timer", {"ticks": status.get("ticks", 0)})
            await write({"ticks": status.get("ticks", 0) + 1})

    else:

        @ctl.timer(KEX.plural, interval=1, id="timer")
        def timer_in_a_thread(status: Any, **_: Any) -> None:
            calls("timer", {"ticks": status.get("ticks", 0)})
            blocking_patch(world, {"status": {"ticks": status.get("ticks", 0) + 1}})

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("timer"))
        watches_are_stalled(world)
        await world.until(lambda: calls.count("timer") >= 5)
    assert [call["ticks"] for call in calls.of("timer")[:5]] == [0, 1, 2, 3, 4]


async def test_a_timer_reads_nothing_when_the_watch_had_time_to_tell_or_nothing_can_have_been_written(
    world: World, calls: Calls
) -> None:
    @ctl.timer(KEX.plural, labels={"timer": "waits"}, interval=10, id="slow")
    async def slow(**_: Any) -> None:
        calls("slow", {})
        await asyncio.sleep(1)

    @ctl.timer(KEX.plural, labels={"timer": "waits"}, interval=1, id="told")
    async def told(**_: Any) -> Body:
        await asyncio.sleep(0.1)
        return {"at": calls("told", {})}

    @ctl.timer(KEX.plural, labels={"timer": "fast"}, interval=1, id="fast")
    async def fast(**_: Any) -> None:
        calls("fast", {})

    async with world.running():
        await world.create("waits", labels={"timer": "waits"})
        await world.create("fast", labels={"timer": "fast"})
        await world.until(lambda: calls.count("slow") >= 3 and calls.count("fast") >= 20)
    assert calls.count("told") > 10
    assert reads(world, "waits") == []
    # On a busy machine a function may take a millisecond that did nothing; most of them do not.
    assert len(reads(world, "fast")) < calls.count("fast") / 2


async def test_a_daemon_that_is_called_again_sees_what_it_has_written(world: World, calls: Calls) -> None:
    write = writing(world)

    @ctl.daemon(KEX.plural, id="daemon")
    async def daemon(status: Any, retry: int, **_: Any) -> None:
        calls("daemon", {"retry": status.get("retry")})
        watches_are_stalled(world)
        await write({"retry": retry})
        if retry < 3:
            raise ctl.TemporaryError("again", delay=0.1)

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("daemon") >= 4)
        world.sandbox.faults.resume_watches()
        await rest()
    assert [call["retry"] for call in calls.of("daemon")] == [None, 0, 1, 2]


# What the records of handlers say.


class Mine(ProgressStorage):
    """A storage as a user writes one: all records in one label-like field of the spec."""

    def fetch(self, *, key: str, body: Any) -> Any:
        return (body.get("extra") or {}).get(key)

    def store(self, *, key: str, record: Any, body: Any, patch: Any) -> None:
        patch.setdefault("extra", {})[key] = dict(record)

    def purge(self, *, key: str, body: Any, patch: Any) -> None:
        if key in (body.get("extra") or {}):
            patch.setdefault("extra", {})[key] = None

    def touch(self, *, body: Any, patch: Any, value: str | None) -> None: ...

    def clear(self, *, essence: Any) -> Any:
        return {key: value for key, value in essence.items() if key != "extra"}


def kept(body: Any) -> dict[str, Any]:
    """The records that a body shows, wherever they are."""
    annotations = (body.get("metadata") or {}).get("annotations") or {}
    found: dict[str, Any] = {key: json.loads(text) for key, text in annotations.items() if '"retries"' in text}
    found |= {
        f"status {key}": record
        for key, record in (body.get("status") or {}).get("kopf", {}).get("progress", {}).items()
    }
    found |= {f"extra {key}": record for key, record in (body.get("extra") or {}).items()}
    return copy.deepcopy(found)


STORAGES: dict[str, Callable[[], ProgressStorage]] = {
    "annotations": lambda: AnnotationsProgressStorage(prefix="op.example.com", verbose=True),
    "status": StatusProgressStorage,
    "smart": SmartProgressStorage,
    "multi": lambda: MultiProgressStorage([AnnotationsProgressStorage(), StatusProgressStorage()]),
    "own": Mine,
    "partly outside": lambda: MultiProgressStorage([ConfigMapProgressStorage(), AnnotationsProgressStorage()]),
}


@pytest.mark.parametrize("name", STORAGES)
async def test_a_handler_sees_the_records_of_those_before_it_as_they_are_written(
    world: World, calls: Calls, name: str
) -> None:
    at_checkpoint: list[Body] = []

    @ctl.on.create(KEX.plural, id="first")
    async def first(body: Any, **_: Any) -> None:
        calls("first", kept(body))

    @ctl.on.create(KEX.plural, id="failed")
    async def failed(body: Any, **_: Any) -> None:
        calls("failed", kept(body))
        raise ctl.PermanentError("no way")

    @ctl.on.create(KEX.plural, id="delayed")
    async def delayed(body: Any, retry: int, **_: Any) -> None:
        calls("delayed", kept(body))
        if not retry:
            raise ctl.TemporaryError("not yet", delay=10)

    @ctl.on.create(KEX.plural, id="last")
    async def last(body: Any, **_: Any) -> None:
        calls("last", kept(body))
        await asyncio.sleep(3)
        at_checkpoint.append(world.get())

    settings = quick()
    settings.persistence.progress_storage = STORAGES[name]()
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: at_checkpoint)
        await world.until(lambda: calls.count("delayed") == 2)
        await rest()
    seen = calls.of("last")[0]
    # The checkpoint has written meanwhile what the last handler saw.
    assert seen == kept(at_checkpoint[0])
    assert calls.of("first") == [{}]
    said = {key.rpartition("/")[2].rpartition(" ")[2]: record for key, record in seen.items()}
    assert {
        key: (r["purpose"], r["retries"], r["success"], r["failure"], r.get("message")) for key, r in said.items()
    } == {
        "first": ("create", 1, True, False, None),
        "failed": ("create", 1, False, True, "no way"),
        "delayed": ("create", 1, False, False, "not yet"),
        "last": ("create", 0, False, False, None),
    }
    assert said["delayed"]["delayed"] > said["delayed"]["started"]
    assert kept(world.get()) == {}


@pytest.mark.parametrize("name", STORAGES)
async def test_a_body_that_is_kept_shows_later_what_it_was_at_the_call(world: World, name: str) -> None:
    bodies: dict[str, Any] = {}

    @ctl.on.create(KEX.plural, id="first")
    async def first(body: Any, **_: Any) -> None:
        bodies["first"] = body

    @ctl.on.create(KEX.plural, id="second")
    async def second(body: Any, **_: Any) -> None:
        bodies["second"] = body

    @ctl.on.create(KEX.plural, id="third")
    async def third(body: Any, retry: int, **_: Any) -> None:
        bodies[f"third {retry}"] = body
        if not retry:
            raise ctl.TemporaryError("not yet", delay=10)

    settings = quick()
    settings.persistence.progress_storage = STORAGES[name]()
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: "third 1" in bodies)
        await rest()
        # A third round, whose records none of them has.
        await world.patch({"spec": {"field": "later"}})
        await rest()
    retries = {
        called: {key.rpartition("/")[2].rpartition(" ")[2]: record["retries"] for key, record in kept(body).items()}
        for called, body in bodies.items()
    }
    assert retries == {
        "first": {},
        "second": {"first": 1, "second": 0, "third": 0},
        "third 0": {"first": 1, "second": 1, "third": 0},
        "third 1": {"first": 1, "second": 1, "third": 1},
    }


async def test_records_that_are_kept_elsewhere_are_not_shown_and_not_touched(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(**_: Any) -> None: ...

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(body: Any, **_: Any) -> None:
        calls("parent", kept(body))

        @ctl.subhandler(id="a")
        async def a(**_: Any) -> None: ...

        @ctl.subhandler(id="b")
        async def b(body: Any, retry: int, **_: Any) -> None:
            calls("b", kept(body))

    settings = quick()
    settings.persistence.progress_storage = ConfigMapProgressStorage()
    async with world.running(settings=settings):
        await world.create()
        await world.handled()
    assert calls.made == [("parent", {}), ("b", {})]
    assert not [request for request in world.sandbox.write_log if "/configmaps" in request.path]


async def test_subhandlers_that_wait_for_each_others_records_lose_no_time(world: World, calls: Calls) -> None:
    """Each looks into the annotations whether the ones that it depends on have succeeded (as those of crate-operator do)."""

    def depending(name: str, *on: str) -> Any:
        async def step(annotations: Any, **_: Any) -> Body:
            calls(name, {"at": asyncio.get_running_loop().time()})
            for other in on:
                record = json.loads(annotations.get(f"op.example.com/upgrade.{other}", "{}"))
                if not record.get("success"):
                    raise ctl.TemporaryError(f"waiting for {other}", delay=5)
            await asyncio.sleep(0.01)
            return {"done": name}

        return step

    @ctl.on.update(KEX.plural, id="upgrade")
    async def upgrade(**_: Any) -> None:
        ctl.register(depending("stop"), id="stop")
        ctl.register(depending("scale", "stop"), id="scale")
        ctl.register(depending("start", "stop", "scale"), id="start")

    settings = quick()
    settings.persistence.progress_storage = AnnotationsProgressStorage(prefix="op.example.com")
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: world.last() is not None)
        await rest()
        written = len(world.writes())
        await world.patch({"spec": {"field": "new"}})
        await world.until(lambda: (world.last() or {}).get("spec") == {"field": "new"})
    assert calls.names == ["stop", "scale", "start"]
    assert calls.made[-1][1]["at"] - calls.made[0][1]["at"] < 1
    assert len(world.writes()) - written == 2  # the results, then the diff-base
    assert world.get()["status"] == {f"upgrade/{name}": {"done": name} for name in calls.names}


async def test_the_record_of_a_parent_says_that_it_waits_for_its_subhandlers(world: World, calls: Calls) -> None:
    """As where one sub-handler is called at a time, and the parent again for each of them."""

    @ctl.on.create(KEX.plural, id="first")
    async def first(**_: Any) -> Body:
        return {"x": 1}

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(body: Any, status: Any, retry: int, **_: Any) -> str:
        calls("parent", {"kept": kept(body), "status": dict(status)})
        for letter in "abc":

            @ctl.subhandler(id=letter)
            async def sub(body: Any, status: Any, letter: str = letter, **_: Any) -> str:
                calls(letter, {"kept": kept(body), "status": dict(status)})
                return letter.upper()

        await ctl.execute()
        calls("after", {"kept": kept(body), "status": dict(status)})
        return "P"

    async with world.running():
        await world.create()
        await world.handled()

    def summary(name: str) -> Body:
        records = calls.of(name)[0]["kept"]
        return {key.removeprefix(f"{P}/"): (r["retries"], r["success"], r.get("message")) for key, r in records.items()}

    began, ended = (0, False, None), (1, True, None)
    assert summary("parent") == {"first": ended, "parent": began}
    assert summary("a") == summary("parent")
    assert summary("b") == {
        "first": ended,
        "parent": (1, False, "None"),
        "parent.a": ended,
        "parent.b": began,
        "parent.c": began,
    }
    assert summary("c") == summary("b") | {"parent": (2, False, "None"), "parent.b": ended}
    assert summary("after") == summary("c") | {"parent": (3, False, "None"), "parent.c": ended}
    waiting = calls.of("b")[0]["kept"][f"{P}/parent"]
    assert waiting["subrefs"] == ["parent/a", "parent/b", "parent/c"]
    assert waiting["purpose"] == "create"
    assert "delayed" in waiting
    assert calls.of("after")[0]["status"] == {"first": {"x": 1}, "parent/a": "A", "parent/b": "B", "parent/c": "C"}
    # It ran once, whatever its record said meanwhile; and nothing of it was written.
    assert len(world.writes()) == 2
    assert world.is_clean()
