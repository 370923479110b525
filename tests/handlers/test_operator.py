"""The operator as a whole: startup, cleanup, logins, resources that come and go, and how it is told to stop."""

import asyncio
import concurrent.futures
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.config.loading import AccessError
from ctl.client.errors import RequestError
from ctl.handlers.execution.activities import ActivityError
from ctl.sandbox import Match, SandboxSettings

from .world import DEFINITIONS, GLOBAL, KEX, Calls, World, a_world, crd, quick, rest

pytestmark = pytest.mark.virtual_time


async def test_startup_comes_first_and_cleanup_last(world: World, calls: Calls) -> None:
    @ctl.on.startup(id="startup")
    async def startup(retry: int, **kwargs: Any) -> None:
        assert len(world.sandbox.log) == 0
        calls("startup", {"retry": retry, **kwargs})
        if not retry:
            raise ctl.TemporaryError("again", delay=10)

    @ctl.on.startup(id="sync")
    def sync(**_: Any) -> None:
        calls("sync", {})

    @ctl.on.create(KEX.plural, id="create")
    async def create(memo: Any, **_: Any) -> None:
        calls("create", {"memo": memo})

    @ctl.on.cleanup(id="cleanup")
    async def cleanup(**kwargs: Any) -> None:
        calls("cleanup", kwargs)

    memo = ctl.Memo(x=1)
    async with world.running(memo=memo):
        await world.create()
        await world.handled()
    assert calls.names == ["startup", "sync", "startup", "create", "cleanup"]
    for given in (calls.of("startup")[0], calls.of("cleanup")[0]):
        assert {"settings", "memo", "logger", "activity", "retry", "param"} <= {*given, "started", "param"}
        assert given["memo"] is memo
    assert calls.of("create")[0]["memo"] == memo


async def test_a_failed_startup_makes_no_request_and_nothing_else_runs(world: World, calls: Calls) -> None:
    @ctl.on.startup(id="bad")
    async def bad(**_: Any) -> None:
        raise ctl.PermanentError("no way")

    @ctl.on.cleanup(id="cleanup")
    async def cleanup(**_: Any) -> None:
        calls("cleanup", {})

    before = len(world.sandbox.log)
    running = world.start()
    with pytest.raises(ActivityError, match="bad"):
        await running.ended()
    assert len(world.sandbox.log) == before
    assert (calls.names, running.ready.is_set()) == ([], False)


async def test_an_activity_that_waits_does_not_hold_up_another_that_is_due(world: World, calls: Calls) -> None:
    @ctl.on.startup(id="slow")
    async def slow(retry: int, **_: Any) -> None:
        calls("slow", {})
        if not retry:
            raise ctl.TemporaryError("later", delay=30)

    @ctl.on.startup(id="soon")
    async def soon(retry: int, **_: Any) -> None:
        calls("soon", {})
        if retry < 3:
            raise ctl.TemporaryError("at once", delay=None)

    async with world.running():
        assert calls.names == ["slow", "soon", "soon", "soon", "soon", "slow"]


async def test_an_unreachable_server_ends_the_start_and_cleans_up(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        return

    @ctl.on.cleanup(id="cleanup")
    async def cleanup(**_: Any) -> None:
        calls("cleanup", {})

    with pytest.raises(RequestError):
        await world.start(access=Access(server="http://127.0.0.1:1")).ended()
    assert calls.names == ["cleanup"]


@pytest.mark.parametrize("code", [403, 404, 405, 429])
async def test_a_server_that_does_not_tell_its_version_is_served(world: World, calls: Calls, code: int) -> None:
    """Servers of tests often have nothing there, and busy ones ask to come later."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("create", {})

    world.sandbox.faults.answer(code, match=Match(path="^/version"), times=None)
    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["create"]


async def test_a_server_without_a_version_and_resources_is_none(world: World) -> None:
    world.sandbox.faults.answer(404, times=None)
    with pytest.raises(AccessError, match="does not look like a Kubernetes API server"):
        await world.start().ended()


# Logins.


async def test_login_handlers_give_the_credentials_and_are_asked_again_after_a_401(calls: Calls) -> None:
    async with a_world(SandboxSettings(tokens=frozenset({"first", "second", "user"}))) as world:
        refused: set[str] = set()

        @ctl.on.login(id="login")
        async def login(**kwargs: Any) -> ctl.ConnectionInfo:
            calls("login", kwargs)
            return ctl.ConnectionInfo(server=world.sandbox.url, token="second" if refused else "first")

        @ctl.on.event(KEX.plural, id="event")
        async def event(name: str, **_: Any) -> None:
            calls(name, {})

        async with world.running(access=None):
            world.sandbox.create(kex("one"))
            await world.until(lambda: calls.count("one"))
            # The server takes the first token no more, not even for the watches that are open.
            refused.add("first")
            world.sandbox.take_tokens({"second"})
            world.sandbox.faults.cut_watches()
            await rest()
            world.sandbox.create(kex("two"))
            await world.until(lambda: calls.count("two"))
    assert calls.count("login") == 2
    assert {"settings", "memo", "logger", "activity"} <= set(calls.of("login")[0])


def kex(name: str) -> dict[str, Any]:
    return {
        "apiVersion": KEX.api_version,
        "kind": KEX.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"field": "value"},
    }


async def test_logins_that_give_nothing_are_an_error(world: World) -> None:
    @ctl.on.login(id="login")
    async def login(**_: Any) -> None:
        return

    with pytest.raises(ctl.LoginError, match="Ran out of valid credentials"):
        await world.start(access=None).ended()


async def test_of_several_logins_the_highest_priority_is_used(world: World, calls: Calls) -> None:
    @ctl.on.login(id="wrong")
    async def wrong(**_: Any) -> ctl.ConnectionInfo:
        return ctl.ConnectionInfo(server="http://127.0.0.1:1", priority=1)

    @ctl.on.login(id="right")
    def right(**_: Any) -> ctl.ConnectionInfo:
        return ctl.ConnectionInfo(server=world.sandbox.url, priority=2)

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        calls("create", {})

    async with world.running(access=None):
        await world.create()
        await world.handled()
    assert calls.names == ["create"]


async def test_without_any_way_to_a_server_there_is_one_sentence(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(AccessError, match="none"):
        await world.start(access=None).ended()


# Resources.


async def test_a_resource_that_appears_later_is_served_and_may_go_again(
    calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create("kopf.dev", "v1", KEX.plural, id="create")
    async def create(name: str, **_: Any) -> None:
        calls(name, {})

    definition = "customresourcedefinitions"
    async with a_world(definitions=[crd(GLOBAL)]) as world:
        ctl.on.create("kopf.dev", "v1", KEX.plural, id="create")(create)
        async with world.running():
            await rest(5)
            assert any("Unresolved resources cannot be served" in text for text in caplog.messages)
            for name in ("first", "second"):
                await world.sandbox.load_manifest(DEFINITIONS[0])
                await rest(5)
                await world.create(name)
                await world.handled(name)
                await world.user.request("DELETE", f"/apis/apiextensions.k8s.io/v1/{definition}/kopfexamples.kopf.dev")
                await rest(30)
                assert world.sandbox.watchers == 1  # that of the definitions
    assert calls.names == ["first", "second"]


async def test_an_operator_of_some_namespaces_leaves_the_others_alone(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    @ctl.on.create(GLOBAL.plural, id="create")
    async def create(namespace: str | None, **_: Any) -> None:
        calls(str(namespace), {})

    async with world.running(namespaces=["kube-system", "kube-public"], clusterwide=False):
        await world.create()
        world.sandbox.create(kex("x") | {"metadata": {"name": "x", "namespace": "kube-system"}})
        await world.create(resource=GLOBAL)
        await rest(2)
    assert sorted(calls.names) == ["None", "kube-system"]


# The end.

Raise = Callable[[Any], None]


@pytest.mark.parametrize(
    ("make", "lift", "told"),
    [
        (asyncio.Event, lambda flag: flag.set(), "set to True"),
        (threading.Event, lambda flag: flag.set(), "set to True"),
        (lambda: asyncio.get_running_loop().create_future(), lambda flag: flag.set_result(["why"]), "set to ['why']"),
        (concurrent.futures.Future, lambda flag: flag.set_result(None), "raised"),
        (lambda: asyncio.get_running_loop().create_future(), lambda flag: flag.cancel(), "cancelled"),
        (concurrent.futures.Future, lambda flag: flag.cancel(), "cancelled"),
    ],
    ids=[
        "asyncio.Event",
        "threading.Event",
        "asyncio.Future",
        "concurrent.Future",
        "cancelled asyncio.Future",
        "cancelled concurrent.Future",
    ],
)
async def test_flags_of_each_kind(
    world: World, make: Callable[[], Any], lift: Raise, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    stop, ready = make(), make()

    def is_raised(flag: Any) -> bool:
        return bool(flag.done() if hasattr(flag, "done") else flag.is_set())

    with caplog.at_level("INFO"):
        running = world.start(stop_flag=stop, ready_flag=ready)
        await world.until(lambda: is_raised(ready))
        lift(stop)
        await running.ended()
    (text,) = [text for text in caplog.messages if text.startswith("Stop-flag is")]
    assert text == f"Stop-flag is {told}. Operator is stopping."


async def test_other_flags_are_refused(world: World) -> None:
    with pytest.raises(TypeError, match=r"Unsupported type of a flag: .* A flag is an"):
        await world.start(stop_flag="now").ended()  # type: ignore[arg-type]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_and_dispositions_are_restored(world: World, signum: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    # pytest-asyncio's runner has a handler of its own for SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        running = world.start(stop_flag=None)
        await world.until(running.ready.is_set)
        os.kill(os.getpid(), signum)
        await running.ended()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


async def test_a_signal_that_the_program_handles_itself_stays_the_programs(world: World) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda signum, _: heard.append(signum))
    try:
        async with world.running() as running:
            os.kill(os.getpid(), signal.SIGTERM)
            await rest()
            assert heard == [signal.SIGTERM]
            assert not running.task.done()
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_running_handler_gets_its_grace(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> str:
        calls("begun", {})
        await asyncio.sleep(1.5)
        calls("ended", {})
        return "done"

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("begun"))
    assert calls.names == ["begun", "ended"]
    assert world.get()["status"] == {"create": "done"}


async def test_a_handler_that_takes_longer_is_cancelled_and_the_finished_ones_are_written(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="fast")
    async def fast(**_: Any) -> str:
        calls("fast", {})
        return "done"

    @ctl.on.create(KEX.plural, id="endless")
    async def endless(**_: Any) -> None:
        try:
            await asyncio.sleep(100_000 if not calls.count("cancelled") else 0)
        except asyncio.CancelledError:
            calls("cancelled", {})
            raise

    settings = quick()
    settings.persistence.checkpoint_interval = 50
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: calls.count("fast"))
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 5
    assert calls.names == ["fast", "cancelled"]
    assert "Handler 'endless' is cancelled. Will escalate." in caplog.messages
    assert world.get()["status"] == {"fast": "done"}
    assert world.record("fast")["success"]
    async with world.running():
        await world.handled()
    assert calls.count("fast") == 1


async def stopped_at_a_slow_server(world: World, slow: float, done: Callable[[], object]) -> None:
    """Run an operator on a new object until something is done, while its first write takes so many seconds longer."""
    settings = quick()
    settings.networking.error_backoffs = [slow]
    # The stop begins at once, gives attempts two seconds, and what is being written one more.
    settings.queueing.exit_timeout = 2
    async with world.running(settings=settings):
        world.sandbox.faults.answer(503, match=world.own_patches(), times=1)
        await world.create()
        await world.until(done)


async def test_what_handlers_have_done_is_written_though_the_server_is_slow_at_the_end(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="fast")
    async def fast(**_: Any) -> None:
        calls("fast", {})

    await stopped_at_a_slow_server(world, 2.5, lambda: calls.count("fast"))
    assert await world.handled()
    assert "abandoned" not in caplog.text
    async with world.running():
        await rest(1)
    assert calls.count("fast") == 1


async def test_a_stop_while_a_checkpoint_is_awaited_at_the_end_of_a_round_leaves_nothing_unwritten(
    world: World, calls: Calls
) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(**_: Any) -> None:
        calls("first", {})

    @ctl.on.create(KEX.plural, id="second")
    async def second(**_: Any) -> None:
        # The checkpoint with what the first one did is on its way when this one ends.
        await rest(1.5)
        calls("second", {})

    await stopped_at_a_slow_server(world, 3.0, lambda: calls.count("second"))
    async with world.running():
        await world.handled()
    assert calls.names == ["first", "second"]


async def test_a_cancelled_operator_cleans_up(world: World, calls: Calls) -> None:
    @ctl.on.cleanup(id="cleanup")
    async def cleanup(**_: Any) -> None:
        await asyncio.sleep(1)
        calls("cleanup", {})

    running = world.start()
    await world.until(running.ready.is_set)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.ended()
    assert calls.names == ["cleanup"]


async def test_nobodys_tasks_but_its_own_are_touched_and_none_is_left(world: World) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        return

    foreign = asyncio.create_task(asyncio.sleep(1_000))
    before = asyncio.all_tasks()
    async with world.running():
        await world.create()
        await world.handled()
    await rest()
    assert not foreign.done()
    left = [task for task in asyncio.all_tasks() - before if "ctl" in repr(task.get_coro())]
    assert left == []
    foreign.cancel()


async def test_tasks_that_run_beside_the_operators_end_with_it_and_it_with_them(world: World, calls: Calls) -> None:
    @ctl.on.cleanup(id="cleanup")
    async def cleanup(**_: Any) -> None:
        calls("cleanup", {})

    async def serve() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            calls("unserved", {})

    async def fail() -> None:
        await rest()
        raise ZeroDivisionError

    stop, access = asyncio.Event(), Access(server=world.sandbox.url)
    for beside, fails in ((serve, False), (fail, True)):
        stop.clear()
        tasks = list(
            await ctl.spawn_tasks(
                access=access, clusterwide=True, registry=world.registry, stop_flag=stop, settings=quick()
            )
        )
        tasks.append(asyncio.create_task(beside()))
        waiting = asyncio.create_task(ctl.run_tasks(tasks))
        await rest()
        stop.set()
        if fails:
            with pytest.raises(ZeroDivisionError):
                await waiting
        else:
            await waiting
        assert all(task.done() for task in tasks)
    assert sorted(calls.names) == ["cleanup", "cleanup", "unserved"]
