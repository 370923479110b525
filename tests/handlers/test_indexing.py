"""Indices are filled before handlers run, follow every event, and hold no ghosts."""

import asyncio
import logging
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

import ctl
from ctl.sandbox import Match

from .world import GLOBAL, KEX, PLAIN, Calls, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

Content = dict[Any, list[Any]]


def content(index: "ctl.Index[Any, Any]") -> Content:
    """What an index holds now."""
    return {key: sorted(store, key=repr) for key, store in index.items()}


class Peephole:
    """Lets a test look into the indices: a handler's arguments hold them, and they are live."""

    def __init__(self) -> None:
        self.kwargs: Mapping[str, Any] = {}

        @ctl.on.startup(id="peephole")
        async def startup(**kwargs: Any) -> None:
            self.kwargs = kwargs

    def __call__(self, name: str) -> Content:
        return content(self.kwargs[name])


@pytest.fixture
def peep(world: World) -> Peephole:
    return Peephole()


async def test_objects_are_indexed_as_they_come_change_and_go(world: World, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="by_color")
    async def by_color(name: str, spec: ctl.Spec, **_: Any) -> dict[str, str]:
        return dict.fromkeys(spec.get("colors", ()), name)

    @ctl.index(KEX.plural, id="names")
    def names(name: str, **_: Any) -> str:
        return name

    await world.create("old", {"colors": ["red"]})
    async with world.running():
        await world.until(lambda: peep("names") == {None: ["old"]})
        assert peep("by_color") == {"red": ["old"]}
        await world.create("new", {"colors": ["red", "blue"]})
        await world.until(lambda: peep("by_color") == {"red": ["new", "old"], "blue": ["new"]})
        await world.patch({"spec": {"colors": ["blue"]}}, "new")
        await world.until(lambda: peep("by_color") == {"red": ["old"], "blue": ["new"]})
        await world.patch({"spec": {"colors": []}}, "old")
        await world.until(lambda: peep("by_color") == {"blue": ["new"]})
        await world.delete("new")
        await world.until(lambda: peep("names") == {None: ["old"]})
        assert peep("by_color") == {}
    assert world.writes() == []


async def test_every_kind_of_handler_and_filter_gets_the_indices(world: World, calls: Calls) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(name: str, **_: Any) -> str:
        return name

    def when(known: "ctl.Index[Any, str]", **_: Any) -> bool:
        calls("when", {"known": content(known)})
        return True

    @ctl.on.startup()
    async def startup(**kwargs: Any) -> None:
        calls("startup", {"known": content(kwargs["known"])})

    @ctl.on.event(KEX.plural, when=when)
    async def event(known: "ctl.Index[Any, str]", **_: Any) -> None:
        calls("event", {"known": content(known)})

    @ctl.on.create(KEX.plural)
    def create(known: "ctl.Index[Any, str]", **_: Any) -> None:
        calls("create", {"known": content(known)})

    @ctl.timer(KEX.plural, interval=1000)
    async def timer(known: "ctl.Index[Any, str]", **_: Any) -> None:
        calls("timer", {"known": content(known)})

    @ctl.on.cleanup()
    async def cleanup(known: "ctl.Index[Any, str]", **_: Any) -> None:
        calls("cleanup", {"known": content(known)})

    await world.create()
    async with world.running():
        await world.until(lambda: calls.count("timer"))
        await world.handled()
    assert calls.of("startup") == [{"known": {}}]
    assert set(calls.names) == {"startup", "when", "event", "create", "timer", "cleanup"}
    assert all(kwargs == {"known": {None: ["one"]}} for name, kwargs in calls.made if name != "startup")


async def test_no_handler_runs_before_everything_is_indexed(world: World, calls: Calls) -> None:
    """Also those of resources that are not indexed wait; slow index functions of one resource hold up all."""

    @ctl.index(PLAIN.plural, id="plains")
    async def plains(name: str, **_: Any) -> str:
        await asyncio.sleep(7)
        return name

    @ctl.index(KEX.plural, id="kexes")
    async def kexes(name: str, **_: Any) -> str:
        return name

    def note(kind: str, kwargs: Mapping[str, Any]) -> None:
        calls(kind, {"plains": content(kwargs["plains"]), "kexes": content(kwargs["kexes"])})

    @ctl.on.event(KEX.plural)
    async def event(**kwargs: Any) -> None:
        note("event", kwargs)

    @ctl.on.resume(GLOBAL.plural)
    @ctl.on.create(GLOBAL.plural)
    async def change(**kwargs: Any) -> None:
        note("change", kwargs)

    @ctl.daemon(GLOBAL.plural)
    async def daemon(stopped: Any, **kwargs: Any) -> None:
        note("daemon", kwargs)
        await stopped.wait()

    for name in ("a", "b"):
        await world.create(name, resource=PLAIN)
        await world.create(name)
        await world.create(name, resource=GLOBAL)
    world.sandbox.faults.delay(20, match=Match(path="/plains$", user_agent="ctl/"), times=1)
    async with world.running():
        await rest(15)
        await world.create("c")
        await rest(10)
        assert calls.names == []
        await world.until(lambda: len(calls) >= 7)
    assert sorted(calls.names) == ["change", "change", "daemon", "daemon", "event", "event", "event"]
    full = {"plains": {None: ["a", "b"]}, "kexes": {None: ["a", "b", "c"]}}
    assert all(kwargs == full for _, kwargs in calls.made)


async def test_a_worker_limit_of_one_is_no_deadlock(world: World, calls: Calls) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(name: str, **_: Any) -> str:
        await asyncio.sleep(0.01)
        return name

    @ctl.on.event(KEX.plural)
    async def event(known: "ctl.Index[Any, str]", **_: Any) -> None:
        calls("event", {"number": len(known[None])})

    number = 5000
    for at in range(number):
        body = {"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": {"name": f"n{at}", "namespace": "default"}}
        world.sandbox.create(body)
    settings = quick()
    settings.queueing.worker_limit = 1
    async with world.running(settings=settings):
        await world.until(lambda: calls.count("event") == number, 600)
    assert {kwargs["number"] for kwargs in calls.of("event")} == {number}


async def test_deletions_missed_in_a_gap_leave_no_ghosts(world: World, calls: Calls, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(name: str, **_: Any) -> str:
        return name

    @ctl.on.event(KEX.plural)
    async def event(name: str, type: str | None, known: "ctl.Index[Any, str]", **_: Any) -> None:
        calls("event", {"type": type, "name": name, "known": content(known)})

    for name in ("a", "b", "c"):
        await world.create(name)
    async with world.running():
        await world.until(lambda: peep("known") == {None: ["a", "b", "c"]})
        rule = world.sandbox.faults.refuse(match=Match(path="/kopfexamples", user_agent="ctl/"), times=None)
        world.sandbox.faults.cut_watches()
        await rest(1)
        await world.delete("a")
        await world.delete("b")
        await world.create("b")
        world.sandbox.faults.rules.remove(rule)
        await world.until(lambda: peep("known") == {None: ["b", "c"]})
        await world.delete("b")
        await world.delete("c")
        await world.until(lambda: peep("known") == {})
    deleted = [kwargs for kwargs in calls.of("event") if kwargs["type"] == "DELETED"]
    assert [kwargs["name"] for kwargs in deleted] == ["a", "b", "b", "c"]
    assert deleted[-1]["known"] == {}


async def test_filters_that_match_no_more_remove_the_object_from_that_index_only(world: World, peep: Peephole) -> None:
    @ctl.index(KEX.plural, labels={"on": "yes"}, id="some")
    async def some(name: str, **_: Any) -> str:
        return name

    @ctl.index(KEX.plural, id="every")
    async def every(name: str, **_: Any) -> str:
        return name

    await world.create("a", labels={"on": "yes"})
    async with world.running():
        await world.until(lambda: peep("some") == {None: ["a"]})
        await world.patch({"metadata": {"labels": {"on": "no"}}}, "a")
        await world.until(lambda: peep("some") == {})
        assert peep("every") == {None: ["a"]}
        await world.patch({"metadata": {"labels": {"on": "yes"}}}, "a")
        await world.until(lambda: peep("some") == {None: ["a"]})


async def test_one_name_is_one_index_whatever_fills_it(world: World, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="known")
    @ctl.index(PLAIN.plural, id="known")
    async def known(resource: ctl.Resource, name: str, **_: Any) -> dict[str, str]:
        return {name: resource.plural}

    await world.create("a")
    await world.create("a", resource=PLAIN)
    async with world.running():
        await world.until(lambda: peep("known") == {"a": ["kopfexamples", "plains"]})
        await world.delete("a")
        await world.until(lambda: peep("known") == {"a": ["plains"]})


async def test_none_changes_nothing_and_an_empty_mapping_removes(world: World, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(spec: ctl.Spec, **_: Any) -> Any:
        return spec.get("give")

    await world.create("a", {"give": {"x": 1, "none": None}})
    async with world.running():
        await world.until(lambda: peep("known") == {"x": [1], "none": [None]})
        await world.patch({"spec": {"give": None, "other": 1}}, "a")
        await rest(1)
        assert peep("known") == {"x": [1], "none": [None]}
        await world.patch({"spec": {"give": "plain"}}, "a")
        await world.until(lambda: peep("known") == {None: ["plain"]})
        await world.patch({"spec": {"give": {}}}, "a")
        await world.until(lambda: peep("known") == {})


async def test_ignored_errors_keep_the_old_values(
    world: World, peep: Peephole, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(spec: ctl.Spec, **_: Any) -> int:
        return 100 // int(spec["divisor"])

    await world.create("a", {"divisor": 5})
    async with world.running():
        await world.until(lambda: peep("known") == {None: [20]})
        await world.patch({"spec": {"divisor": 0}}, "a")
        await rest(1)
        assert peep("known") == {None: [20]}
        await world.patch({"spec": {"divisor": 4}}, "a")
        await world.until(lambda: peep("known") == {None: [25]})
    # What Python says of the division differs between its versions.
    assert "Indexer 'known' failed with an exception and will ignore it: " in caplog.text
    assert " by zero" in caplog.text


async def test_permanent_errors_exclude_the_object_for_good(world: World, calls: Calls, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(spec: ctl.Spec, **kwargs: Any) -> Any:
        calls("known", kwargs)
        if spec.get("bad"):
            raise ctl.PermanentError("never again")
        return 1

    await world.create("a")
    async with world.running():
        await world.until(lambda: peep("known") == {None: [1]})
        await world.patch({"spec": {"bad": True}}, "a")
        await world.until(lambda: peep("known") == {})
        await world.patch({"spec": {"bad": False}}, "a")
        await rest(100)
        assert calls.count("known") == 2
        assert peep("known") == {}
        await world.delete("a")
        await world.create("a")
        await world.until(lambda: peep("known") == {None: [1]})


async def test_temporary_errors_exclude_the_object_until_the_delay_is_over(
    world: World, calls: Calls, peep: Peephole
) -> None:
    """The function is called again then, without any event; an event that comes earlier does not call it."""

    @ctl.index(KEX.plural, id="known")
    async def known(spec: ctl.Spec, retry: int, **_: Any) -> Any:
        calls("known", {"retry": retry, "at": asyncio.get_running_loop().time()})
        if retry < 2 and spec.get("bad"):
            raise ctl.TemporaryError("not now", delay=30)
        return retry

    @ctl.index(KEX.plural, id="other")
    async def other(**_: Any) -> None:
        calls("other", {})

    await world.create("a")
    async with world.running():
        await world.until(lambda: peep("known") == {None: [0]})
        await world.patch({"spec": {"bad": True}}, "a")
        await world.until(lambda: peep("known") == {})
        await rest(10)
        await world.patch({"spec": {"more": 1}}, "a")
        await rest(5)
        assert [kwargs["retry"] for kwargs in calls.of("known")] == [0, 0]
        await world.until(lambda: peep("known") == {None: [2]}, 100)
        times = [kwargs["at"] for kwargs in calls.of("known")]
        assert [kwargs["retry"] for kwargs in calls.of("known")] == [0, 0, 1, 2]
        assert [round(later - earlier) for earlier, later in pairwise(times[1:])] == [30, 30]
        assert calls.count("other") == 3
        await world.patch({"spec": {"bad": False}}, "a")
        await world.until(lambda: peep("known") == {None: [0]})


async def test_retries_of_an_index_function_end(world: World, calls: Calls, peep: Peephole) -> None:
    @ctl.index(KEX.plural, errors=ctl.ErrorsMode.TEMPORARY, retries=3, backoff=5, id="known")
    async def known(**_: Any) -> None:
        calls("known", {})
        raise ValueError("always")

    await world.create("a")
    async with world.running():
        await rest(100)
        await world.patch({"spec": {"more": 1}}, "a")
        await rest(100)
    assert calls.count("known") == 3


async def test_a_filter_that_fails_does_not_hold_the_others_up_for_ever(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.index(KEX.plural, when=lambda spec, **_: spec["wanted"], id="known")
    async def known(name: str, **_: Any) -> str:
        return name

    @ctl.on.event(PLAIN.plural)
    async def event(known: "ctl.Index[Any, str]", **_: Any) -> None:
        calls("event", {"known": content(known)})

    await world.create("bad", {})
    await world.create("good", {"wanted": True})
    await world.create("plain", resource=PLAIN)
    async with world.running():
        await world.until(lambda: calls.count("event"))
    assert calls.of("event") == [{"known": {None: ["good"]}}]
    assert "Throttling for 1.0 seconds due to an unexpected error: KeyError('wanted')" in caplog.text


async def test_the_log_says_what_handlers_wait_for(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.index(PLAIN.plural, id="known")
    async def known(**_: Any) -> None:
        calls("index", {})

    @ctl.on.event(KEX.plural)
    async def event(**_: Any) -> None:
        calls("event", {})

    await world.create()
    rule = world.sandbox.faults.answer(403, "Forbidden", match=Match(path="/plains", user_agent="ctl/"), times=None)
    with caplog.at_level(logging.WARNING):
        async with world.running():
            await rest(100)
            assert calls.names == []
            assert (
                "Handlers wait until everything is indexed; missing are the first lists of: <Informer of" in caplog.text
            )
            assert "plains" in caplog.text
            world.sandbox.faults.rules.remove(rule)
            await world.until(lambda: calls.count("event"), 300)


async def test_the_patch_of_an_index_function_is_not_written(world: World, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(patch: ctl.Patch, memo: ctl.Memo, **_: Any) -> int:
        patch.spec["never"] = True
        memo.seen = memo.get("seen", 0) + 1
        return int(memo.seen)

    await world.create("a")
    async with world.running():
        await world.until(lambda: peep("known") == {None: [1]})
        await world.patch({"spec": {"x": 1}}, "a")
        await world.until(lambda: peep("known") == {None: [2]})
    assert world.writes() == []


async def test_what_is_not_served_any_more_is_in_no_index(world: World, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="known")
    async def known(name: str, **_: Any) -> str:
        return name

    await world.create("a")
    async with world.running():
        await world.until(lambda: peep("known") == {None: ["a"]})
        crds = ctl.Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
        await world.user.delete(crds, "kopfexamples.kopf.dev")
        await world.until(lambda: peep("known") == {})


async def test_the_server_leaves_out_what_an_index_alone_would_not_take(world: World, peep: Peephole) -> None:
    @ctl.index(KEX.plural, id="known", labels={"on": "yes"})
    async def known(name: str, **_: Any) -> str:
        return name

    @ctl.index(PLAIN.plural, id="plains", labels={"on": "yes"})
    async def plains(name: str, **_: Any) -> str:
        return name

    @ctl.on.event(PLAIN.plural)
    async def event(**_: Any) -> None:
        """Wants all of them."""

    await world.create("a", labels={"on": "yes"})
    await world.create("b", labels={"on": "no"})
    async with world.running():
        await world.until(lambda: peep("known") == {None: ["a"]})
        await world.patch({"metadata": {"labels": {"on": "yes"}}}, "b")
        await world.until(lambda: peep("known") == {None: ["a", "b"]})
        await world.patch({"metadata": {"labels": {"on": None}}}, "a")
        await world.until(lambda: peep("known") == {None: ["b"]})
    asked = {
        (resource.plural, request.query.get("labelSelector"))
        for request in world.sandbox.log
        for resource in (KEX, PLAIN)
        if request.user_agent.startswith("ctl/") and request.path.endswith(resource.plural)
    }
    assert asked == {(KEX.plural, "on=yes"), (PLAIN.plural, None)}


async def test_who_acts_on_an_own_write_finds_it_indexed_and_shown(world: World, calls: Calls) -> None:
    """Its answer is known before the watch tells of it; those who follow the watch are not to lag behind."""

    @ctl.index(KEX.plural, id="phases")
    async def phases(name: str, status: ctl.Status, **_: Any) -> dict[str, Any]:
        return {name: status.get("phase")}

    @ctl.on.event(KEX.plural, id="event")
    async def event(status: ctl.Status, memo: ctl.Memo, **_: Any) -> None:
        memo["shown"] = status.get("phase")

    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        patch.status["phase"] = "made"

    @ctl.on.field(KEX.plural, field="status.phase", id="phase")
    async def phase(new: Any, patch: ctl.Patch, memo: ctl.Memo, phases: "ctl.Index[str, Any]", **_: Any) -> None:
        calls("phase", {"new": new, "indexed": list(phases["one"]), "shown": memo["shown"]})
        if new == "made":
            patch.status["phase"] = "ready"

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("phase") == 2)
        await world.handled()
    assert calls.of("phase") == [{"new": new, "indexed": [new], "shown": new} for new in ("made", "ready")]


async def test_what_the_watch_does_not_tell_of_is_awaited_for_a_while_only(world: World, calls: Calls) -> None:
    ctl.on.event(KEX.plural, id="event")(lambda **_: None)

    @ctl.on.create(KEX.plural, id="create")
    async def create(patch: ctl.Patch, **_: Any) -> None:
        calls("create", {"at": asyncio.get_running_loop().time()})
        world.sandbox.faults.stall_watches()
        patch.status["phase"] = "made"

    @ctl.on.field(KEX.plural, field="status.phase", id="phase", new="made")
    async def phase(**_: Any) -> None:
        calls("phase", {"at": asyncio.get_running_loop().time()})

    async with world.running(settings=quick()):
        await world.create()
        await world.until(lambda: calls.count("phase"))
    [created], [followed] = calls.of("create"), calls.of("phase")
    assert 5 <= followed["at"] - created["at"] < 6
