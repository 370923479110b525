"""The page on arguments: who is given what, and what it means."""

import datetime as dt
from typing import Any

import pytest

import ctl

from ..handlers.world import KEX, PLAIN, Calls, World, rest

pytestmark = pytest.mark.virtual_time

OBJECT = {"body", "spec", "meta", "status", "labels", "annotations", "name", "namespace", "uid", "resource"}
ALWAYS = {"memo", "logger", "param", "retry", "started", "runtime"}
CHANGE = {"reason", "old", "new", "diff", "patch"}


async def test_each_kind_of_handler_is_given_its_arguments_and_no_more(world: World, calls: Calls) -> None:
    def note(name: str) -> Any:
        def fn(**kwargs: Any) -> None:
            calls(name, kwargs)

        return fn

    for name in ("startup", "cleanup", "probe"):
        getattr(ctl.on, name)(id=name)(note(name))
    for name in ("create", "resume", "update", "delete", "event"):
        getattr(ctl.on, name)(KEX.plural, id=name)(note(name))
    ctl.on.field(KEX.plural, field="spec.field", id="field")(note("field"))
    ctl.index(PLAIN.plural, id="idx")(note("idx"))
    ctl.timer(KEX.plural, interval=60, id="timer")(note("timer"))

    @ctl.daemon(KEX.plural, id="daemon")
    async def daemon(stopped: Any, **kwargs: Any) -> None:
        calls("daemon", {"stopped": stopped, **kwargs})
        await stopped.wait()

    await world.create("before")
    async with world.running():
        await world.create("one")
        await world.create("other", resource=PLAIN)
        await world.handled()
        await world.patch({"spec": {"field": "else"}})
        await world.handled()
        await world.delete()
        await world.gone()
    async with world.running():
        await rest(2)
    given = {name: set(kwargs) for name, kwargs in calls.made}
    indices = {"idx"}
    for name in ("create", "update", "delete", "resume", "field"):
        assert given[name] >= OBJECT | ALWAYS | CHANGE | indices, name
        assert not given[name] & {"event", "type", "stopped", "settings"}, name
    assert given["event"] >= OBJECT | {"event", "type", "memo", "logger", "param", "patch"} | indices
    assert not given["event"] & {"reason", "old", "new", "diff", "stopped", "settings"}
    assert given["daemon"] >= OBJECT | ALWAYS | {"stopped", "patch"} | indices
    assert given["timer"] >= OBJECT | ALWAYS | {"patch"} | indices
    assert not (given["daemon"] | given["timer"]) & {"reason", "old", "new", "diff", "event", "settings"}
    for name in ("startup", "cleanup"):
        assert given[name] >= ALWAYS | {"settings"} | indices, name
        assert not given[name] & OBJECT, name


async def test_attempts_are_counted_and_timed_from_the_first_one(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural)
    async def create(retry: int, started: dt.datetime, runtime: dt.timedelta, **_: Any) -> None:
        calls("create", {"retry": retry, "started": started, "runtime": runtime})
        if retry < 2:
            raise ctl.TemporaryError("not yet", delay=10)

    async with world.running():
        await world.create()
        await world.handled()
    first, second, third = calls.of("create")
    assert [first["retry"], second["retry"], third["retry"]] == [0, 1, 2]
    assert first["started"] == second["started"] == third["started"]
    assert first["started"].tzinfo is not None
    assert first["runtime"] < dt.timedelta(seconds=1)
    assert 10 <= second["runtime"].total_seconds() < 12
    assert 20 <= third["runtime"].total_seconds() < 23


async def test_one_function_counts_by_its_parameter(world: World) -> None:
    @ctl.on.create("KopfExample", param=1000)
    @ctl.on.resume("KopfExample", param=100)
    @ctl.on.update("KopfExample", param=10, field="spec.field")
    @ctl.on.update("KopfExample", param=1, field="spec.items")
    def count(param: int, patch: ctl.Patch, status: ctl.Status, **_: Any) -> None:
        patch.status["counter"] = status.get("counter", 0) + param

    def counter() -> Any:
        return world.get()["status"]["counter"]

    async with world.running():
        await world.create()
        await world.handled()
        assert counter() == 1000
        await world.patch({"spec": {"field": "b"}})
        await world.handled()
        assert counter() == 1010
        await world.patch({"spec": {"items": [1]}})
        await world.handled()
        assert counter() == 1011
        await world.patch({"spec": {"field": "c", "items": [2]}})
        await world.handled()
        assert counter() == 1022
    async with world.running():
        await rest(2)
        assert counter() == 1122


async def test_without_a_parameter_it_is_none_and_any_value_passes_as_it_is(world: World, calls: Calls) -> None:
    anything = object()
    ctl.on.event(KEX.plural, id="none")(lambda **kwargs: calls("none", kwargs) and None)
    ctl.on.event(KEX.plural, id="some", param=anything)(lambda **kwargs: calls("some", kwargs) and None)
    async with world.running():
        await world.create()
        await rest()
    assert calls.of("none")[0]["param"] is None
    assert calls.of("some")[0]["param"] is anything


async def test_overlapping_fields_call_one_function_twice_with_the_values_of_each(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural, param=10, field="spec.field")
    @ctl.on.update(KEX.plural, param=1, field="spec")
    def fn(**kwargs: Any) -> None:
        calls("fn", {name: kwargs[name] for name in ("param", "old", "new", "diff")})

    async with world.running():
        await world.create(spec={"field": "a", "same": 1})
        await world.handled()
        await world.patch({"spec": {"field": "b"}})
        await world.handled()
    found = {kwargs["param"]: kwargs for kwargs in calls.of("fn")}
    assert len(calls) == 2
    assert (found[10]["old"], found[10]["new"]) == ("a", "b")
    assert tuple(found[10]["diff"]) == (("change", (), "a", "b"),)
    assert (found[1]["old"], found[1]["new"]) == ({"field": "a", "same": 1}, {"field": "b", "same": 1})
    assert tuple(found[1]["diff"]) == (("change", ("field",), "a", "b"),)


async def test_reasons_tell_one_function_why_it_is_called(world: World, calls: Calls) -> None:
    def fn(reason: str, **_: Any) -> None:
        calls(reason, {})

    for decorator in (ctl.on.create, ctl.on.resume, ctl.on.update, ctl.on.delete):
        decorator(KEX.plural)(fn)
    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "b"}})
        await world.handled()
    async with world.running():
        await rest(2)
        await world.delete()
        await world.gone()
    assert calls.names == ["create", "update", "resume", "delete"]


async def test_none_in_a_diff_is_a_value_that_is_not_there(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural)
    def update(diff: ctl.Diff, old: Any, new: Any, body: ctl.Body, **_: Any) -> None:
        calls(
            "update", {"diff": sorted(diff, key=str), "old": old["spec"], "new": new["spec"], "spec": dict(body.spec)}
        )

    async with world.running():
        await world.create(spec={"gone": 1, "kept": 2, "edited": 3})
        await world.patch({"metadata": {"labels": {"is": "handled"}}})
        await world.until(lambda: calls.count("update") or world.last())
        await rest(2)
        await world.patch({"spec": {"gone": None, "edited": 4, "added": {"deep": 5}}})
        await world.handled()
    kwargs = calls.of("update")[-1]
    assert kwargs["diff"] == [
        ("add", ("spec", "added"), None, {"deep": 5}),
        ("change", ("spec", "edited"), 3, 4),
        ("remove", ("spec", "gone"), 1, None),
    ]
    assert kwargs["old"] == {"gone": 1, "kept": 2, "edited": 3}
    assert kwargs["new"] == kwargs["spec"] == {"kept": 2, "edited": 4, "added": {"deep": 5}}


async def test_raw_events_are_the_servers_words(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural)
    def fn(event: ctl.RawEvent, type: str | None, **_: Any) -> None:
        calls(str(event["type"]), {"same": event["type"] == type, "object": event["object"]})

    await world.create()
    async with world.running():
        await world.create("two")
        await rest()
        await world.patch({"spec": {"field": "b"}})
        await rest()
        await world.delete("two")
        await rest()
    assert calls.names == ["None", "ADDED", "MODIFIED", "DELETED"]
    assert all(kwargs["same"] for _, kwargs in calls.made)
    assert isinstance(calls.of("ADDED")[0]["object"], dict)
    assert calls.of("MODIFIED")[0]["object"]["spec"] == {"field": "b"}


async def test_settings_of_startup_are_those_that_the_operator_works_by(world: World, calls: Calls) -> None:
    @ctl.on.startup()
    def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = "example.com/finalizer"

    @ctl.on.delete(KEX.plural)
    def delete(**_: Any) -> None: ...

    others = ctl.OperatorSettings()
    async with world.running():
        await world.create()
        await world.handled()
        assert world.get()["metadata"]["finalizers"] == ["example.com/finalizer"]
        await world.delete()
        await world.gone()
    assert others.persistence.finalizer != "example.com/finalizer"
