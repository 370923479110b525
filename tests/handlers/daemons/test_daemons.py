"""Daemons of whole operators: one for each object and handler, told to stop when it must, and bringing home what it did."""

import asyncio
import logging
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import ctl
from ctl.controller.api.writes import TRIES
from ctl.handlers.daemons.stoppers import DaemonStoppingReason as Why
from ctl.sandbox import Match

from ..world import FINALIZER, KEX, Calls, World, messages, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

STATUS = Match(method="PATCH", path="/status$")


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """What was warned of as a waste of the system's resources."""
    found: list[str] = []
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if category is ResourceWarning:
            found.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", ResourceWarning)
        warnings.showwarning = show
        yield found
        warnings.showwarning = before


async def test_each_object_has_a_daemon_from_creation_to_deletion(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural)
    async def watcher(stopped: Any, name: str, **kwargs: Any) -> None:
        calls("begin", {"name": name, **kwargs})
        await stopped.wait()
        calls("end", {"name": name, "reason": stopped.reason})

    await world.create("old")
    async with world.running():
        await world.create("new")
        await world.until(lambda: calls.count("begin") == 2)
        await rest()
        assert sorted(kwargs["name"] for kwargs in calls.of("begin")) == ["new", "old"]
        assert all(world.get(name)["metadata"]["finalizers"] == [FINALIZER] for name in ("old", "new"))
        assert calls.of("begin")[0].keys() >= {
            "body",
            "spec",
            "meta",
            "status",
            "labels",
            "annotations",
            "uid",
            "patch",
        }
        assert calls.of("begin")[0].keys() >= {"memo", "logger", "resource", "retry", "started", "runtime", "param"}
        await world.delete("new")
        await world.gone("new")
        assert calls.of("end") == [{"name": "new", "reason": Why.RESOURCE_DELETED}]
        assert world.find("old") is not None
    assert [kwargs["reason"] for kwargs in calls.of("end")] == [Why.RESOURCE_DELETED, Why.OPERATOR_EXITING]
    assert calls.count("begin") == 2


async def test_an_instant_exit_costs_the_finalizer_and_nothing_else(world: World) -> None:
    @ctl.on.daemon(KEX.plural)
    async def watcher(stopped: Any, **_: Any) -> None:
        await stopped.wait()

    async with world.running():
        await world.create()
        await world.until(lambda: world.get()["metadata"].get("finalizers"))
        await world.delete()
        await world.gone()
    assert len(world.writes()) == 2


async def test_a_daemon_that_returns_is_not_started_again_and_needs_no_finalizer(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural, id="once")
    async def once(**kwargs: Any) -> dict[str, int]:
        calls("once", kwargs)
        await asyncio.sleep(1)
        return {"answer": 42}

    async with world.running():
        await world.create()
        await world.until(lambda: world.get().get("status") == {"once": {"answer": 42}})
        await world.until(lambda: not world.get()["metadata"].get("finalizers"))
        await world.patch({"spec": {"field": "other"}})
        await rest(5)
        assert calls.count("once") == 1
        assert not world.get()["metadata"].get("finalizers")


async def test_errors_are_retried_as_they_say(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural, backoff=7)
    async def moody(retry: int, patch: Any, **kwargs: Any) -> None:
        calls("moody", {"retry": retry, "at": asyncio.get_running_loop().time()})
        patch.status["attempt"] = retry
        if retry == 0:
            raise ctl.TemporaryError("soon", delay=3)
        if retry == 1:
            raise ValueError("boo")
        raise ctl.PermanentError("never again")

    async with world.running():
        await world.create()
        await world.until(lambda: world.get().get("status") == {"attempt": 2})
        await rest(100)
    first, second, third = (kwargs["at"] for kwargs in calls.of("moody"))
    assert [kwargs["retry"] for kwargs in calls.of("moody")] == [0, 1, 2]
    assert second - first == pytest.approx(3, abs=0.1)
    assert third - second == pytest.approx(7, abs=0.1)


@pytest.mark.parametrize("delay", [30, lambda spec, **_: spec["wait"]])
async def test_the_start_is_delayed(world: World, calls: Calls, delay: Any) -> None:
    @ctl.on.daemon(KEX.plural, initial_delay=delay)
    async def late(**kwargs: Any) -> None:
        calls("late", kwargs)

    async with world.running():
        await world.create(spec={"wait": 30})
        await rest(29)
        assert not calls.made
        await rest(2)
        assert calls.count("late") == 1


async def test_a_delayed_daemon_that_is_stopped_never_starts(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural, initial_delay=30)
    async def late(**kwargs: Any) -> None:
        calls("late", kwargs)

    async with world.running():
        await world.create()
        await rest()
        await world.delete()
        await world.gone()
        await rest(60)
    assert not calls.made


async def test_arguments_show_the_newest_state(world: World) -> None:
    seen: list[Any] = []

    @ctl.on.daemon(KEX.plural)
    async def watcher(stopped: Any, spec: Any, labels: Any, status: Any, body: Any, **_: Any) -> None:
        while not stopped:
            seen.append((spec["field"], dict(labels), dict(status), body["spec"]["field"]))
            await stopped.wait(1)

    async with world.running():
        await world.create()
        await world.until(lambda: seen)
        await world.patch({"spec": {"field": "new"}, "metadata": {"labels": {"a": "b"}}})
        await world.patch({"status": {"x": 1}}, subresource="status")
        await rest(2)
    assert seen[0] == ("value", {}, {}, "value")
    assert seen[-1] == ("new", {"a": "b"}, {"x": 1}, "new")


async def test_arguments_are_fresh_though_a_slow_handler_runs(world: World) -> None:
    seen: list[Any] = []

    @ctl.on.daemon(KEX.plural)
    async def watcher(stopped: Any, spec: Any, **_: Any) -> None:
        while not stopped:
            seen.append(spec["field"])
            await stopped.wait(1)

    @ctl.on.create(KEX.plural)
    async def slow(**_: Any) -> None:
        await asyncio.sleep(20)

    async with world.running():
        await world.create()
        await rest(2)
        await world.patch({"spec": {"field": "new"}})
        await rest(3)
        assert seen[-1] == "new"


async def test_a_mutation_of_nested_values_reaches_no_neighbour(world: World) -> None:
    seen: list[Any] = []

    @ctl.on.daemon(KEX.plural)
    async def bad(spec: Any, stopped: Any, **_: Any) -> None:
        spec["nested"]["x"] = "mutated"
        await stopped.wait()

    @ctl.on.daemon(KEX.plural)
    async def good(spec: Any, stopped: Any, **_: Any) -> None:
        await asyncio.sleep(1)
        seen.append(spec["nested"]["x"])
        await stopped.wait()

    async with world.running():
        await world.create(spec={"nested": {"x": "original"}})
        await world.until(lambda: seen)
    assert seen == ["original"]


async def test_filters_are_asked_on_each_event(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural, labels={"on": "yes"})
    async def watcher(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        await stopped.wait()
        calls("end", {"reason": stopped.reason})

    async with world.running():
        await world.create()
        await rest()
        assert not calls.made
        assert not world.get()["metadata"].get("finalizers")
        for number in (1, 2):
            await world.patch({"metadata": {"labels": {"on": "yes"}}})
            await world.until(partial(lambda count: calls.count("begin") == count, number))
            await world.until(lambda: world.get()["metadata"].get("finalizers"))
            await world.patch({"metadata": {"labels": {"on": "no"}}})
            await world.until(partial(lambda count: calls.count("end") == count, number))
            await world.until(lambda: not world.get()["metadata"].get("finalizers"))
    assert [kwargs["reason"] for kwargs in calls.of("end")] == [Why.FILTERS_MISMATCH] * 2


async def test_one_that_ends_slowly_is_started_again_after_its_end(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural, labels={"on": "yes"})
    async def slow(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        await stopped.wait()
        if Why.FILTERS_MISMATCH in stopped.reason:
            await asyncio.sleep(10)
        calls("end", {})

    async with world.running():
        await world.create(labels={"on": "yes"})
        await world.until(lambda: calls.count("begin") == 1)
        await world.patch({"metadata": {"labels": {"on": "no"}}})
        await rest(1)
        assert world.get()["metadata"].get("finalizers") == [FINALIZER]
        await world.patch({"metadata": {"labels": {"on": "yes"}}})
        await rest(1)
        assert calls.names == ["begin"]
        await rest(10)
        assert calls.names == ["begin", "end", "begin"]


async def test_stages_of_termination(world: World, calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    @ctl.on.daemon(KEX.plural, id="d", cancellation_backoff=3, cancellation_timeout=5)
    async def stubborn(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            calls("cancelled", {"at": loop.time(), "reason": stopped.reason})
            await asyncio.sleep(1)
            calls("end", {"at": loop.time()})

    caplog.set_level(logging.DEBUG)
    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("begin"))
        await rest()
        start = asyncio.get_running_loop().time()
        await world.delete()
        await rest(2)
        assert world.find() is not None
        await world.gone()
    [cancelled], [end] = calls.of("cancelled"), calls.of("end")
    assert cancelled["at"] - start == pytest.approx(3, abs=0.1)
    assert cancelled["reason"] == Why.RESOURCE_DELETED | Why.DAEMON_SIGNALLED | Why.DAEMON_CANCELLED
    assert end["at"] - cancelled["at"] == pytest.approx(1, abs=0.1)
    said = [text for text in messages(caplog.records) if text.startswith("Daemon")]
    assert said == [
        "Daemon 'd' is invoked.",
        "Daemon 'd' is signalled to exit gracefully.",
        "Daemon 'd' is signalled to exit by force.",
        "Daemon 'd' succeeded.",
        "Daemon 'd' has exited on request and will not be retried or restarted.",
    ]


async def test_one_that_disobeys_is_left_orphaned(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture, complaints: list[str]
) -> None:
    free = asyncio.Event()

    @ctl.on.daemon(KEX.plural, id="d", cancellation_timeout=2)
    async def disobedient(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                calls("cancelled", {})

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("begin"))
        await rest()
        await world.delete()
        await rest(1.5)
        assert world.find() is not None
        await world.gone()
        assert calls.names == ["begin", "cancelled"]
        assert "Daemon 'd' did not exit in time. Leaving it orphaned." in messages(caplog.records)
        assert complaints == ["d of default/one did not exit in time."]
        free.set()


async def test_without_a_limit_it_is_polled_and_blocks_the_deletion(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    free = asyncio.Event()

    @ctl.on.daemon(KEX.plural, id="d", cancellation_polling=10)
    async def slow(**_: Any) -> None:
        calls("begin", {})
        await free.wait()

    caplog.set_level(logging.DEBUG)
    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("begin"))
        await rest()
        await world.delete()
        await rest(35)
        assert world.find() is not None
        said = "Daemon 'd' is still exiting. The next check is in 10 seconds."
        assert messages(caplog.records).count(said) == 4
        free.set()
        await world.gone()


async def test_delete_handlers_run_beside_the_end_of_a_daemon_and_once(world: World, calls: Calls) -> None:
    free = asyncio.Event()

    @ctl.on.daemon(KEX.plural)
    async def slow(**_: Any) -> None:
        calls("begin", {})
        await free.wait()
        await asyncio.sleep(5)
        calls("end", {})

    @ctl.on.delete(KEX.plural)
    async def delete(**_: Any) -> None:
        calls("delete", {})
        free.set()

    async with world.running():
        await world.create()
        await world.handled()
        await world.delete()
        await rest(1)
        await world.patch({"metadata": {"labels": {"still": "there"}}})
        await rest(1)
        assert calls.names == ["begin", "delete"]
        await world.gone()
    assert calls.names == ["begin", "delete", "end"]


async def test_at_the_operators_end_a_daemon_without_limits_is_cancelled_after_five_seconds(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture, complaints: list[str]
) -> None:
    @ctl.on.daemon(KEX.plural, id="d")
    async def endless(**_: Any) -> None:
        calls("begin", {})
        try:
            await asyncio.sleep(10_000)
        finally:
            calls("end", {"at": asyncio.get_running_loop().time()})

    async with world.running() as running:
        await world.create()
        await world.until(lambda: calls.count("begin"))
        start = asyncio.get_running_loop().time()
        await running.stop()
    assert complaints == ["d of default/one did not exit in time."]
    assert calls.of("end")[0]["at"] - start == pytest.approx(5, abs=0.2)
    assert "Daemon 'd' did not exit in time. Leaving it orphaned." in messages(caplog.records)
    assert world.get()["metadata"]["finalizers"] == [FINALIZER]


async def test_at_the_operators_end_limits_are_kept(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.daemon(KEX.plural, id="d", cancellation_backoff=2, cancellation_timeout=3)
    async def endless(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        try:
            await asyncio.sleep(10_000)
        finally:
            calls("end", {"at": asyncio.get_running_loop().time(), "reason": stopped.reason})

    caplog.set_level(logging.DEBUG)
    async with world.running() as running:
        await world.create()
        await world.until(lambda: calls.count("begin"))
        start = asyncio.get_running_loop().time()
        await running.stop()
    [end] = calls.of("end")
    assert end["at"] - start == pytest.approx(2, abs=0.2)
    assert end["reason"] == Why.OPERATOR_EXITING | Why.DAEMON_SIGNALLED | Why.DAEMON_CANCELLED
    assert "Daemon 'd' has exited gracefully." in messages(caplog.records)


async def test_what_a_daemon_leaves_at_the_operators_end_is_written(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural)
    async def last(stopped: Any, patch: Any, **_: Any) -> str:
        calls("begin", {})
        await stopped.wait()
        patch.status["x"] = 1
        return "bye"

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("begin"))
    status = world.get()["status"]
    assert status["x"] == 1
    assert "bye" in status.values()


async def test_sync_daemons_have_threads_of_their_own_and_leave_the_pool_to_handlers(
    world: World, calls: Calls
) -> None:
    names: list[str] = []

    @ctl.on.daemon(KEX.plural)
    def daemon(stopped: Any, name: str, **_: Any) -> None:
        names.append(threading.current_thread().name)
        stopped.wait()

    @ctl.on.create(KEX.plural)
    def create(name: str, **_: Any) -> None:
        calls("create", {"name": name})

    settings = quick()
    settings.execution.max_workers = 1
    async with world.running(settings=settings):
        for number in range(20):
            await world.create(f"x{number}")
        await world.until(lambda: len(names) == 20 and len(calls) == 20)
        assert len(set(names)) == 20
    # What a thread has said last comes before its end.
    for thread in [one for one in threading.enumerate() if one.name in names]:
        thread.join(60)
        assert not thread.is_alive()


async def test_fns_that_meet_a_conflict_are_not_lost(world: World) -> None:
    def add(body: Any) -> None:
        body.setdefault("status", {}).setdefault("list", []).append(1)

    @ctl.on.daemon(KEX.plural)
    async def patching(patch: Any, **_: Any) -> None:
        await asyncio.sleep(1)
        patch.fns.append(add)

    async with world.running():
        await world.create()
        rule = world.outrun(STATUS, times=TRIES + 1)
        await world.until(lambda: world.get().get("status") == {"list": [1]})
        assert rule.hits == TRIES + 1


async def test_a_write_that_fails_is_made_again(world: World) -> None:
    @ctl.on.daemon(KEX.plural, id="d")
    async def patching(patch: Any, **_: Any) -> str:
        await asyncio.sleep(1)
        return "done"

    async with world.running():
        await world.create()
        await rest()
        world.sandbox.faults.answer(503, match=STATUS, times=3)
        await world.until(lambda: world.get().get("status") == {"d": "done"})


async def test_nothing_is_kept_of_an_object_that_no_daemon_is_for(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural, when=lambda spec, **_: spec["field"] == "never")
    async def never(**kwargs: Any) -> None:
        calls("never", kwargs)

    async with world.running():
        await world.create()
        await rest(1)
    assert world.writes() == []
    assert not calls.made


async def test_a_thread_that_disobeys_is_left_to_itself_and_the_object_goes(
    world: World, calls: Calls, complaints: list[str]
) -> None:
    """A thread cannot be cancelled; while it runs, virtual time passes as real time does."""
    free = threading.Event()

    @ctl.on.daemon(KEX.plural, id="d", cancellation_timeout=0.1)
    def disobedient(**_: Any) -> None:
        calls("begin", {})
        free.wait(60)

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("begin"))
        await world.until(lambda: world.get()["metadata"].get("finalizers"))
        await world.delete()
        await world.gone()
        free.set()
    assert complaints == ["d of default/one did not exit in time."]


async def test_a_handler_that_fails_while_its_daemon_ends_is_tried_again(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural)
    async def slow(stopped: Any, **_: Any) -> None:
        await stopped.wait()
        await asyncio.sleep(10)
        calls("end", {})

    @ctl.on.delete(KEX.plural)
    async def delete(retry: int, **_: Any) -> None:
        calls("delete", {"retry": retry})
        if retry < 2:
            raise ctl.TemporaryError("soon", delay=2)

    async with world.running():
        await world.create()
        await world.handled()
        await world.delete()
        await world.gone()
    assert calls.names == ["delete", "delete", "delete", "end"]


async def test_an_operator_that_comes_back_finishes_the_deletion(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural)
    async def watcher(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        await stopped.wait()

    async with world.running():
        await world.create()
        await world.until(lambda: world.get()["metadata"].get("finalizers"))
    await world.delete()
    assert world.find() is not None
    async with world.running():
        await world.gone()
    assert calls.names == ["begin"]


async def test_a_namesake_gets_a_daemon_of_its_own(world: World, calls: Calls) -> None:
    @ctl.on.daemon(KEX.plural)
    async def watcher(stopped: Any, uid: str, **_: Any) -> None:
        calls("begin", {"uid": uid})
        await stopped.wait()
        calls("end", {"uid": uid})

    async with world.running():
        first = await world.create()
        await world.until(lambda: calls.count("begin") == 1)
        await rest()
        await world.patch({"metadata": {"finalizers": None}})
        await world.delete()
        second = await world.create()
        await world.until(lambda: calls.count("begin") == 2)
        await rest()
        assert calls.of("end") == [{"uid": first["metadata"]["uid"]}]
        assert calls.of("begin")[1] == {"uid": second["metadata"]["uid"]}


async def test_many_daemons_share_an_object(world: World, calls: Calls) -> None:
    def declare(number: int) -> None:
        @ctl.on.daemon(KEX.plural, id=f"d{number}")
        async def watcher(stopped: Any, **_: Any) -> int:
            calls(f"d{number}", {})
            await asyncio.sleep(1)
            return number

    for number in range(10):
        declare(number)
    async with world.running():
        await world.create()
        await world.until(lambda: len(world.get().get("status") or {}) == 10)
        await world.until(lambda: not world.get()["metadata"].get("finalizers"))
    assert sorted(calls.names) == sorted(f"d{number}" for number in range(10))
