"""What an operator must not do at its stop, whatever is missing by then."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.controller.program.serve import serve
from ctl.handlers.execution.activities import ActivityError
from ctl.sandbox import Match

from .world import KEX, PLAIN, Calls, World, identified, quick

CLUSTER = Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)
PEERING = Path(__file__).resolve().parents[2] / "examples" / "peering.yaml"

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("trouble", ["slow", "forbidden"])
@pytest.mark.parametrize("elected", [False, True])
@pytest.mark.parametrize("indexed", [KEX, PLAIN], ids=["its own kind", "another kind"])
async def test_no_handler_is_called_at_the_stop_while_an_index_is_not_filled(
    world: World, calls: Calls, trouble: str, elected: bool, indexed: Any
) -> None:
    handled = PLAIN if indexed is KEX else KEX

    @ctl.index(indexed.plural, id="known")
    def known(name: str, **_: Any) -> str:
        return name

    @ctl.on.create(handled.plural)
    @ctl.on.event(handled.plural)
    def prune(name: str, known: Any, **kwargs: Any) -> None:
        calls("prune", {"known": list(known)})

    await world.create("one", resource=KEX)
    await world.create("one", resource=PLAIN)
    lists = Match(path=f"/{indexed.plural}$", user_agent="ctl/")
    if trouble == "slow":
        world.sandbox.faults.delay(3600, match=lists)
    else:
        world.sandbox.faults.answer(403, "Forbidden", "not yours", match=lists, times=None)
    settings = identified("a", elect=True) if elected else quick()
    loop = asyncio.get_running_loop()
    async with world.running(settings=settings):
        await asyncio.sleep(20)
        assert not calls.made
        began = loop.time()
    assert not calls.made
    assert loop.time() - began < 5
    assert not [write for write in world.writes(KEX) + world.writes(PLAIN) if write.method == "PATCH"]


@pytest.mark.parametrize("elected", [False, True])
async def test_a_declared_controller_attempts_nothing_at_the_stop_while_a_first_list_is_missing(
    world: World, calls: Calls, elected: bool
) -> None:
    async def prune(key: ctl.Key, context: ctl.Context) -> None:
        calls("prune", {})
        if not context.list("plains.kopf.dev"):
            obj = context.object
            assert obj is not None
            await context.delete("kopfexamples.kopf.dev", obj)

    ctl.declare(
        ctl.controller("kopfexamples.kopf.dev").watches("plains.kopf.dev", ctl.mappers.constant()).reconciles(prune)
    )
    await world.create("one")
    await world.create("one", resource=PLAIN)
    world.sandbox.faults.delay(3600, match=Match(path=f"/{PLAIN.plural}$", user_agent="ctl/"))
    settings = identified("a", elect=True) if elected else quick()
    loop = asyncio.get_running_loop()
    async with world.running(settings=settings):
        await asyncio.sleep(20)
        began = loop.time()
    assert not calls.made
    assert world.find("one") is not None
    assert loop.time() - began < 5


async def test_what_outlives_the_stop_does_not_find_the_world_empty(world: World, calls: Calls) -> None:
    """An attempt that ignores its cancellation goes on when the operator has stopped: it reads the last state, and not an empty one."""
    over = asyncio.Event()

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        calls("begun", {})
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        calls("seen", {"objects": [obj.name for obj in context.list("kopfexamples.kopf.dev")]})

    ctl.declare(ctl.controller("kopfexamples.kopf.dev").reconciles(reconcile))
    await world.create("one")
    settings = quick()
    settings.queueing.exit_timeout = 5
    async with world.running(settings=settings):
        await world.until(lambda: calls.count("begun") == 1)
    over.set()
    await asyncio.sleep(1)
    assert calls.of("seen") == [{"objects": ["one"]}]


@pytest.mark.parametrize("elected", [False, True])
async def test_a_standby_handler_that_fails_at_the_stop_keeps_nothing_else_from_being_stopped(
    world: World, elected: bool
) -> None:
    await world.sandbox.load_manifest(PEERING.read_text())
    await world.create("default", resource=CLUSTER)

    @ctl.on.standby(id="standby")
    def standby(**_: Any) -> None:
        raise ctl.PermanentError("no")

    @ctl.on.event(KEX.plural)
    def event(**_: Any) -> None:
        """Have something to watch."""

    def informed() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("informers")]

    settings = identified("a", elect=True) if elected else quick()
    running = world.start(settings=settings, identity="me")
    await world.until(lambda: world.get("default", CLUSTER).get("status"))
    await world.until(informed)
    with pytest.raises(ActivityError, match="standby"):
        await running.stop()
    assert not world.get("default", CLUSTER).get("status"), "peers are not to wait for who has gone"
    assert not informed()


# At any moment.


MOMENTS = 60 if "SOAK_ROUNDS" in os.environ else 12
CUTS = 60 if "SOAK_ROUNDS" in os.environ else 6


def _declare(calls: Calls) -> None:
    """Handlers and a controller of all sorts, which note what they know of another kind, of which there is one object."""

    @ctl.index(PLAIN.plural, id="known")
    def known(name: str, **_: Any) -> str:
        return name

    @ctl.on.create(KEX.plural)
    @ctl.on.event(KEX.plural)
    @ctl.timer(KEX.plural, interval=1)
    def handler(known: Any, **_: Any) -> None:
        calls("handler", {"known": len(known)})

    @ctl.daemon(KEX.plural)
    async def daemon(known: Any, stopped: ctl.DaemonStopped, **_: Any) -> None:
        calls("daemon", {"known": len(known)})
        await stopped.wait()

    @ctl.on.leading()
    @ctl.on.standby()
    async def turned(**_: Any) -> None:
        await asyncio.sleep(0.3)

    ctl.declare(_pruner(calls))


def _pruner(calls: Calls) -> Any:
    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        calls("reconciler", {"known": len(context.list("plains.kopf.dev"))})

    watching = ctl.controller("kopfexamples.kopf.dev").watches("plains.kopf.dev", ctl.mappers.constant())
    return watching.named("pruner").reconciles(reconcile)


def _begin(world: World, calls: Calls, program: str) -> tuple["asyncio.Task[None]", asyncio.Event]:
    """Start a program that takes part in an election."""
    if program == "operator":
        settings = identified("a", elect=True, lease_name="op", lease_namespace="default")
        running = world.start(settings=settings, identity="me")
        return running.task, running.stop_flag
    stop = asyncio.Event()
    serving = serve(
        _pruner(calls),
        access=Access(world.sandbox.url),
        stop=stop,
        leadership=LeaderElectionConfig("op", "default", "a"),
    )
    return asyncio.create_task(serving), stop


async def _prepare(world: World) -> None:
    await world.sandbox.load_manifest(PEERING.read_text())
    await world.create("default", resource=CLUSTER)
    await world.create("one")
    await world.create("one", resource=PLAIN)


@pytest.mark.parametrize("program", ["operator", "serve"])
async def test_a_stop_at_any_moment_of_the_start_is_quick_and_leaves_nothing(
    world: World, calls: Calls, program: str
) -> None:
    loop = asyncio.get_running_loop()
    await _prepare(world)
    _declare(calls)
    world.sandbox.faults.delay(0.2, match=Match(user_agent="ctl/"))
    for moment in range(MOMENTS):
        before = asyncio.all_tasks()
        task, stop = _begin(world, calls, program)
        await asyncio.sleep(6.5 * moment / MOMENTS)
        began = loop.time()
        stop.set()
        await asyncio.wait_for(task, 100)
        assert loop.time() - began < 5
        lease = world.sandbox.get("coordination.k8s.io/v1", "Lease", "op") or {"spec": {}}
        assert not lease["spec"].get("holderIdentity"), "others are not to wait for who has gone"
        assert not world.get("default", CLUSTER).get("status")
        await asyncio.sleep(1)
        assert not asyncio.all_tasks() - before
    assert calls.made
    assert all(kwargs["known"] for _, kwargs in calls.made), "nothing was attempted by an empty copy or index"


@pytest.mark.parametrize("program", ["operator", "serve"])
@pytest.mark.parametrize("seed", range(CUTS))
async def test_losses_of_the_lease_during_the_start_let_nothing_be_attempted_too_early(
    world: World, calls: Calls, program: str, seed: int
) -> None:
    chance, faults = random.Random(seed), world.sandbox.faults
    await _prepare(world)
    _declare(calls)
    faults.delay(chance.choice([5, 20, 60]), match=Match(path=f"/{PLAIN.plural}$", user_agent="ctl/"))
    task, stop = _begin(world, calls, program)
    for _ in range(5):
        await asyncio.sleep(chance.uniform(0, 8))
        cut = faults.refuse(match=Match(path="/leases", user_agent="ctl/"), times=None)
        await asyncio.sleep(chance.uniform(2, 20))
        faults.rules.remove(cut)
    await asyncio.sleep(chance.uniform(0, 30))
    stop.set()
    await asyncio.wait_for(task, 100)
    assert all(kwargs["known"] for _, kwargs in calls.made)
