"""Several replicas of an operator on one server: one acts, the others stand by, and take over."""

import asyncio
import contextlib
import itertools
import logging
import os
import random
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.errors import NotFound
from ctl.client.resources import Resource
from ctl.controller.leader.lease_client import LEASES
from ctl.controller.program.terms import StillActing
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.handlers.execution.activities import ActivityError
from ctl.runtime import clock
from ctl.runtime.clock import iso

from .lines import Line, a_line
from .world import KEX, PLAIN, Calls, Running, World, crd, identified, rest

pytestmark = pytest.mark.virtual_time

LOSSES = int(os.environ.get("SOAK_LOSSES", "20"))
"""How many leaders are lost in the test of many."""
LEASE = {"leader_elect": True, "lease_name": "op", "lease_namespace": "default"}


class Replica:
    """One of several operators: its own registry, with handlers that note who they are, and its own line to the server."""

    def __init__(self, world: World, name: str, line: Line) -> None:
        self.world = world
        self.name = name
        self.line = line
        self.registry = OperatorRegistry()
        self.calls = Calls()
        self.running: Running | None = None
        self._declare()

    def _declare(self) -> None:
        for activity in ("startup", "cleanup", "leading", "standby"):
            getattr(ctl.on, activity)(registry=self.registry, id=activity)(self._note(activity))

        @ctl.on.event(KEX.plural, registry=self.registry, id="event")
        async def event(name: str, type: str | None, **_: Any) -> None:
            self.calls(f"event {type} {name}", {})

        @ctl.on.create(KEX.plural, registry=self.registry, id="create")
        async def create(name: str, patch: Any, **_: Any) -> None:
            self.calls(f"create {name}", {})
            patch.status["by"] = self.name

        @ctl.on.resume(KEX.plural, registry=self.registry, id="resume")
        async def resume(name: str, **_: Any) -> None:
            self.calls(f"resume {name}", {})

        @ctl.on.update(KEX.plural, registry=self.registry, id="update")
        async def update(name: str, patch: Any, **_: Any) -> None:
            self.calls(f"update {name}", {})
            patch.status["by"] = self.name

    def _note(self, activity: str) -> Any:
        async def note(**_: Any) -> None:
            self.calls(activity, {})

        return note

    def start(self, **options: Any) -> Running:
        """Begin to run it."""
        given = {"registry": self.registry, "settings": identified(self.name), "access": Access(server=self.line.url)}
        self.running = self.world.start(**{**LEASE, **given, **options})
        return self.running

    @property
    def ran(self) -> Running:
        """The operator that runs or ran."""
        assert self.running is not None
        return self.running

    async def ready(self) -> None:
        """Wait until it is ready."""
        await self.world.until(lambda: self.ran.ready.is_set() or self.ran.task.done())
        if self.ran.task.done():
            await self.ran.task

    async def leads(self) -> None:
        """Wait until it leads."""
        await self.world.until(
            lambda: self.calls.names and self.calls.names[-1] != "standby" and "leading" in self.calls.names
        )

    async def called(self, name: str, times: int) -> None:
        """Wait until something was called so often."""
        await self.world.until(lambda: self.calls.count(name) == times)

    async def stop(self) -> None:
        """Stop it gracefully."""
        await self.ran.stop()

    async def kill(self) -> None:
        """End it in such a way that nothing of it reaches the server any more."""
        self.line.cut()
        self.ran.task.cancel()
        await asyncio.wait({self.ran.task}, timeout=100)
        assert self.ran.task.done()


@asynccontextmanager
async def crew(world: World, *names: str) -> AsyncIterator[list[Replica]]:
    """Replicas that do not run yet; what runs of them in the end is stopped."""
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(a_line(world.sandbox.url)) for _ in names]
        found = [Replica(world, name, line) for name, line in zip(names, lines, strict=True)]
        try:
            yield found
        finally:
            tasks = [replica.running.task for replica in found if replica.running is not None]
            for replica in found:
                replica.line.mend()
                if replica.running is not None:
                    replica.running.stop_flag.set()
            if tasks:
                await asyncio.wait(tasks, timeout=100)
                assert all(task.done() for task in tasks)


@asynccontextmanager
async def replicas(world: World, *names: str, **options: Any) -> AsyncIterator[list[Replica]]:
    """Replicas that run; the first leads."""
    async with crew(world, *names) as found:
        for replica in found:
            replica.start(**options)
            await replica.ready()
            await rest()
        yield found


async def holder(world: World) -> str:
    lease = await world.user.get(LEASES, "op", "default")
    found: str = lease.body()["spec"].get("holderIdentity") or ""
    return found


async def test_one_acts_and_the_others_fire_nothing(world: World) -> None:
    async with replicas(world, "a", "b", "c") as (a, b, c):
        await world.create("one")
        await world.handled("one")
        await world.patch({"spec": {"field": "other"}}, "one")
        await world.handled("one")
        assert await holder(world) == "a"
        assert a.calls.names[:2] == ["startup", "leading"]
        assert a.calls.count("create one") == a.calls.count("update one") == 1
        assert b.calls.names == c.calls.names == ["startup", "standby"]
    assert a.calls.names[-2:] == ["standby", "cleanup"]


async def test_a_kind_that_appears_during_a_term_is_served_by_the_leader(world: World) -> None:
    async with crew(world, "a", "b") as (a, b):
        for replica in (a, b):

            @ctl.on.create("lates", registry=replica.registry, id="late")
            async def late(name: str, replica: Replica = replica, **_: Any) -> None:
                replica.calls(f"late {name}", {})

            replica.start()
            await replica.ready()
            await rest()
        late_kind = Resource("kopf.dev", "v1", "lates", "Late", namespaced=True)
        await world.sandbox.load_manifest(crd(late_kind))
        await world.create("one", resource=late_kind)
        await world.create("two", resource=late_kind)
        await world.until(lambda: a.calls.count("late one") and a.calls.count("late two"))
        await rest(20)
        await world.create("three", resource=late_kind)
        await world.until(lambda: a.calls.count("late three"))
        assert [a.calls.count(f"late {name}") for name in ("one", "two", "three")] == [1, 1, 1]
        assert not [name for name in b.calls.names if name.startswith("late")]


async def test_a_planned_hand_over_takes_less_than_a_second(world: World) -> None:
    loop = asyncio.get_running_loop()
    async with replicas(world, "a", "b") as (a, b):
        await world.create("one")
        await world.handled("one")
        await a.stop()
        stopped = loop.time()
        await world.until(lambda: b.calls.count("resume one"))
        assert loop.time() - stopped < 1
        assert b.calls.names == ["startup", "standby", "leading", "event None one", "resume one"]
        await world.create("two")
        await world.handled("two")
        assert world.get("two")["status"]["by"] == "b"
        assert b.calls.count("event ADDED two") == b.calls.count("create two") == 1
        assert b.calls.count("resume two") == 0
    assert a.calls.names[-2:] == ["standby", "cleanup"]
    assert await holder(world) == ""


async def test_a_successor_of_one_that_was_killed_acts_within_the_lease_and_five_seconds(world: World) -> None:
    loop = asyncio.get_running_loop()
    async with replicas(world, "a", "b") as (a, b):
        await world.create("one")
        await world.handled("one")
        await asyncio.sleep(60)
        await a.kill()
        killed = loop.time()
        await world.patch({"spec": {"field": "while nobody leads"}}, "one")
        await b.leads()
        assert 10 < loop.time() - killed < 15 + 5
        await world.handled("one")
        assert world.get("one")["status"]["by"] == "b"
        assert (b.calls.count("resume one"), b.calls.count("update one"), b.calls.count("create one")) == (1, 1, 0)


async def test_what_happens_on_a_standby_is_told_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with replicas(world, "a", "b"):
        assert "Standby; the leader is a." in caplog.messages
    assert "Standby; the leader is b." not in caplog.messages


async def test_resume_handlers_run_once_in_each_term(world: World) -> None:
    async with replicas(world, "a", "b") as (a, b):
        await world.create("one")
        await world.handled("one")
        for term in range(1, 4):
            a.line.cut()
            await b.leads()
            await b.called("resume one", term)
            a.line.mend()
            await rest(30)
            b.line.cut()
            await a.called("resume one", term)
            b.line.mend()
            await rest(30)
        assert not a.ran.task.done()
        assert not b.ran.task.done()
        assert a.calls.count("create one") == 1
        assert a.calls.count("leading") == 4
        assert a.calls.count("standby") == 3
        assert b.calls.count("leading") == 3
        assert b.calls.count("standby") == 4


async def test_daemons_and_timers_run_on_the_leader_only(world: World) -> None:
    loop = asyncio.get_running_loop()
    beats: list[tuple[str, str, float]] = []
    ends: list[tuple[str, Any]] = []

    def declare(replica: Replica) -> None:
        @ctl.timer(KEX.plural, interval=1.0, registry=replica.registry, id="timer")
        async def timer(**_: Any) -> None:
            beats.append((replica.name, "timer", loop.time()))

        @ctl.daemon(KEX.plural, registry=replica.registry, id="daemon")
        async def daemon(stopped: Any, **_: Any) -> None:
            try:
                while not stopped:
                    beats.append((replica.name, "daemon", loop.time()))
                    await asyncio.sleep(1.0)
            finally:
                ends.append((replica.name, stopped.reason))

    async with crew(world, "a", "b") as (a, b):
        for replica in (a, b):
            declare(replica)
            replica.start()
            await replica.ready()
            await rest()
        await world.create("one")
        await asyncio.sleep(30)
        assert {name for name, _, _ in beats} == {"a"}
        a.line.cut()
        await b.leads()
        moment = loop.time()
        a.line.mend()
        await asyncio.sleep(30)
        assert max(at for name, _, at in beats if name == "a") < moment
        assert {what for name, what, _ in beats if name == "b"} == {"timer", "daemon"}
        assert [name for name, _ in ends] == ["a"]
        assert ctl.DaemonStoppingReason.OPERATOR_PAUSING in ends[0][1]
        assert not a.ran.task.done()


@pytest.mark.parametrize("outage", [11.0, 12.3, 30.0])
async def test_daemons_and_timers_come_back_with_leadership(world: World, outage: float) -> None:
    beats: list[str] = []

    async with crew(world, "a") as (a,):

        @ctl.timer(KEX.plural, interval=0.2, registry=a.registry, id="timer")
        async def timer(patch: Any, retry: int, **_: Any) -> None:
            beats.append("timer")
            patch.status["beat"] = len(beats)

        @ctl.daemon(KEX.plural, registry=a.registry, id="daemon")
        async def daemon(**_: Any) -> None:
            while True:
                beats.append("daemon")
                await asyncio.sleep(0.2)

        settings = identified("a")
        settings.networking.error_backoffs = (1, 1, 2, 3, 5, 8)
        a.start(settings=settings)
        await a.ready()
        for name in ("one", "two"):
            await world.create(name)
        await rest(10)
        for _ in range(2):
            a.line.cut()
            await rest(outage)
            a.line.mend()
            await rest(20)
            beats.clear()
            await rest(10)
            assert beats.count("timer") >= 80
            assert beats.count("daemon") >= 80
        assert a.calls.count("leading") == 3


async def test_a_standby_keeps_its_indices_and_hands_them_to_the_first_handlers(world: World) -> None:
    def declare(replica: Replica) -> None:
        @ctl.index(KEX.plural, registry=replica.registry, id="fields")
        async def fields(name: str, spec: Any, **_: Any) -> Any:
            replica.calls(f"index {name}", {})
            return {spec["field"]: name}

        @ctl.on.resume(KEX.plural, registry=replica.registry, id="look")
        async def look(fields: Any, **_: Any) -> None:
            replica.calls("look", {"found": {key: sorted(store) for key, store in fields.items()}})

    async with crew(world, "a", "b") as (a, b):
        for replica in (a, b):
            declare(replica)
            replica.start()
            await replica.ready()
            await rest()
        await world.create("one", {"field": "x"})
        await world.create("two", {"field": "y"})
        await world.create("gone", {"field": "y"})
        for name in ("one", "two", "gone"):
            await world.handled(name)
        await world.patch({"spec": {"field": "z"}}, "one")
        await world.delete("gone")
        await world.gone("gone")
        assert b.calls.count("index one") >= 2
        assert "look" not in b.calls.names
        await a.stop()
        await world.until(lambda: b.calls.count("look") == 2)
        assert b.calls.of("look")[0]["found"] == {"z": ["one"], "y": ["two"]}
        await world.create("three", {"field": "x"})
        await world.handled("three")
        assert world.get("three")["status"]["by"] == "b"


async def test_what_cannot_be_cancelled_ends_the_operator_before_others_may_act(world: World) -> None:
    loop = asyncio.get_running_loop()
    free = threading.Event()
    resorted: list[float] = []

    def declare(replica: Replica) -> None:
        @ctl.on.create(KEX.plural, registry=replica.registry, id="sync")
        def sync(**_: Any) -> None:
            free.wait(60)

    async with crew(world, "a", "b") as (a, b):
        declare(a)
        a.start(last_resort=lambda _: resorted.append(loop.time()))
        await a.ready()
        await a.leads()
        b.start()
        await b.ready()
        await world.create("one")
        await world.until(lambda: a.calls.count("event MODIFIED one") or a.calls.count("create one"))
        await rest(5)
        began = loop.time()
        a.line.cut()
        await world.until(lambda: resorted)
        assert not b.calls.count("leading")
        assert resorted[0] - began < 15
        free.set()
        with pytest.raises(StillActing, match=r"default/op was lost .* the handlers of .*one"):
            await a.ran.ended()
        await b.leads()
        assert a.calls.count("cleanup") == 1


async def test_a_task_that_a_handler_left_behind_ends_the_operator(world: World) -> None:
    left: list[asyncio.Task[None]] = []

    def declare(replica: Replica) -> None:
        @ctl.on.event(KEX.plural, registry=replica.registry, id="leaver")
        async def leaver(**_: Any) -> None:
            if not left:
                left.append(asyncio.create_task(asyncio.sleep(3600), name="left behind"))

    async with crew(world, "a") as (a,):
        declare(a)
        a.start()
        await a.ready()
        await a.leads()
        mine = asyncio.create_task(asyncio.sleep(3600), name="the program's own")
        await world.create("one")
        await world.handled("one")
        a.line.cut()
        with pytest.raises(StillActing, match="the task 'left behind', which a handler has started"):
            await a.ran.ended()
        assert not left[0].done()
        assert not mine.done()
        for task in (mine, left[0]):
            task.cancel()


async def test_a_task_that_a_handler_starts_on_its_way_out_ends_the_operator(world: World) -> None:
    left: list[asyncio.Task[None]] = []

    def declare(replica: Replica) -> None:
        @ctl.on.create(KEX.plural, registry=replica.registry, id="leaver")
        async def leaver(**_: Any) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                left.append(asyncio.create_task(asyncio.sleep(3600), name="born late"))

    async with crew(world, "a") as (a,):
        declare(a)
        a.start()
        await a.ready()
        await a.leads()
        await world.create("one")
        await rest(5)
        a.line.cut()
        with pytest.raises(StillActing, match="the task 'born late', which a handler has started"):
            await a.ran.ended()
        left[0].cancel()


async def test_a_reconciler_that_ignores_its_cancellation_ends_the_operator(world: World) -> None:
    free = asyncio.Event()

    async with crew(world, "a") as (a,):

        async def stubborn(key: Any, context: Any) -> None:
            while not free.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await free.wait()

        ctl.declare(ctl.controller("kopfexamples.kopf.dev").reconciles(stubborn), registry=a.registry)
        a.start()
        await a.ready()
        await a.leads()
        await world.create("one")
        await rest(5)
        a.line.cut()
        with pytest.raises(StillActing, match=r"the reconciler of kopfexamples\.kopf\.dev for default/one"):
            await a.ran.ended()
        free.set()
        await rest()


async def test_what_can_be_cancelled_leaves_a_follower(world: World) -> None:
    cut: list[str] = []

    def declare(replica: Replica) -> None:
        @ctl.on.create(KEX.plural, registry=replica.registry, id="slow")
        async def slow(name: str, **_: Any) -> None:
            if replica.name == "b":
                return
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cut.append(name)
                raise

    async with crew(world, "a", "b") as (a, b):
        for replica in (a, b):
            declare(replica)
            replica.start()
            await replica.ready()
            await rest()
        await world.create("one")
        await rest(5)
        a.line.cut()
        await b.leads()
        assert cut == ["one"]
        await world.handled("one")
        # What the former leader had finished was written before.
        assert (a.calls.count("create one"), b.calls.count("create one")) == (1, 0)
        a.line.mend()
        await rest(30)
        assert not a.ran.task.done()
        await b.stop()
        await world.until(lambda: a.calls.count("resume one"))


async def test_when_what_only_a_leader_starts_fails_another_one_takes_over(world: World) -> None:
    async with crew(world, "a", "b") as (a, b):

        @ctl.on.leading(registry=a.registry, id="bad")
        async def bad(**_: Any) -> None:
            await asyncio.sleep(3)
            raise ctl.PermanentError("no")

        a.start()
        await a.ready()
        b.start()
        await b.ready()
        with pytest.raises(ActivityError, match="bad"):
            await a.ran.ended()
        assert a.calls.names == ["startup", "leading", "standby", "cleanup"]
        await b.leads()


async def test_without_an_election_the_operator_leads_once_from_its_start_to_its_end(world: World) -> None:
    async with crew(world, "a") as (a,):
        await world.create("one")
        a.start(leader_elect=None, lease_name=None, lease_namespace=None)
        await a.ready()
        await world.handled("one")
        await a.stop()
        assert a.calls.names[:3] == ["startup", "leading", "event None one"]
        assert a.calls.names[-2:] == ["standby", "cleanup"]
        assert a.calls.count("event None one") == 1
        with pytest.raises(NotFound):
            await holder(world)


async def test_several_operators_of_one_process_have_leases_of_their_own(world: World) -> None:
    async with crew(world, "a", "b") as (a, b):
        for replica in (a, b):
            replica.start(lease_name=f"op-{replica.name}")
            await replica.ready()
            await replica.leads()
        await world.create("one")
        await world.until(lambda: a.calls.count("create one") and b.calls.count("create one"))


async def test_a_pause_resets_nothing_and_a_loss_while_pausing_is_a_loss(world: World) -> None:
    peering = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterkopfpeerings.kopf.dev"},
        "spec": {
            "scope": "Cluster",
            "group": "kopf.dev",
            "names": {"kind": "ClusterKopfPeering", "plural": "clusterkopfpeerings", "singular": "clusterkopfpeering"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                }
            ],
        },
    }
    world.sandbox.create(peering)
    body = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}}
    world.sandbox.create(body)
    resource = Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)

    async def record(value: Any) -> None:
        await world.user.patch(resource, "default", None, {"status": {"dev": value}})

    alive = {"priority": 100, "lifetime": 100_000, "lastseen": iso(clock.now())}
    async with replicas(world, "a", "b") as (a, b):
        await world.create("one")
        await world.handled("one")
        await record(alive)
        await rest(3)
        await world.patch({"spec": {"field": "paused"}}, "one")
        await rest(3)
        assert a.calls.count("update one") == 0
        await record(None)
        await world.handled("one")
        assert (a.calls.count("update one"), a.calls.count("resume one")) == (1, 0)
        assert a.calls.names[-2:] == ["event None one", "update one"] or a.calls.count("event None one") == 1
        await record(alive)
        await rest(3)
        a.line.cut()
        await b.leads()
        await rest(5)
        assert b.calls.names == ["startup", "standby", "leading"]
        await record(None)
        await world.until(lambda: b.calls.count("resume one"))


async def test_of_many_leaders_that_are_lost_no_two_ever_write(world: World) -> None:
    """The leader is killed, cut off, or told to stop, in turns; the server's log of writes has each leader's in one piece."""
    loop = asyncio.get_running_loop()
    rng = random.Random(7)
    waits: list[float] = []

    def declare(replica: Replica) -> None:
        @ctl.timer(KEX.plural, interval=0.5, registry=replica.registry, id="beat")
        async def beat(patch: Any, **_: Any) -> None:
            patch.status["beat"] = f"{replica.name} {loop.time()}"

    async with AsyncExitStack() as stack:
        alive: dict[str, Replica] = {}
        numbers = itertools.count()

        async def another() -> Replica:
            line = await stack.enter_async_context(a_line(world.sandbox.url))
            replica = Replica(world, f"r{next(numbers)}", line)
            declare(replica)
            replica.start()
            await replica.ready()
            alive[replica.name] = replica
            return replica

        for name in ("one", "two"):
            await world.create(name)
        for _ in range(3):
            await another()
        for lost in range(LOSSES):
            await world.until(lambda: _leader(alive) is not None, 100)
            leader = _leader(alive)
            assert leader is not None
            await rest(rng.uniform(0.5, 10))
            del alive[leader.name]
            began = loop.time()
            match rng.choice(["kill", "kill", "cut", "stop"]):
                case "kill":
                    await leader.kill()
                case "cut":
                    leader.line.cut()
                case _:
                    await leader.stop()
            await world.until(lambda: _leader(alive) is not None, 100)
            waits.append(loop.time() - began)
            if not leader.ran.task.done():
                await leader.kill()
            if lost < LOSSES - 1:
                await another()
        for replica in alive.values():
            await replica.stop()
    assert max(waits) < 15 + 5
    bodies = [log.json() for log in world.writes() if log.path.endswith("/status")]
    beats = [body["status"]["beat"].split() for body in bodies if "beat" in body["status"]]
    writers = [name for name, _ in itertools.groupby(name for name, _ in beats)]
    assert len(writers) == len(set(writers)) > LOSSES
    moments = [float(at) for _, at in beats]
    assert all(later >= earlier - 0.5 for earlier, later in itertools.pairwise(moments))


def _leader(alive: dict[str, Replica]) -> Replica | None:
    leading = [replica for replica in alive.values() if replica.calls.names[-1:] and "leading" in replica.calls.names]
    return leading[0] if leading else None


async def test_a_thousand_busy_handlers_do_not_hold_up_the_end_nor_the_release(world: World) -> None:
    loop = asyncio.get_running_loop()
    busy = asyncio.Event()
    cut = 0

    async with crew(world, "a", "b") as (a, b):

        @ctl.on.create(PLAIN.plural, registry=a.registry, id="busy")
        async def work(**_: Any) -> None:
            nonlocal cut
            try:
                await busy.wait()
            except asyncio.CancelledError:
                cut += 1
                raise

        a.start()
        await a.ready()
        await a.leads()
        b.start()
        await b.ready()
        mine = asyncio.create_task(asyncio.sleep(3600), name="the program's own")
        for number in range(1000):
            world.sandbox.create(
                {
                    "apiVersion": PLAIN.api_version,
                    "kind": PLAIN.kind,
                    "metadata": {"name": f"n{number}", "namespace": "default"},
                    "spec": {},
                }
            )
        await rest(10)
        began = loop.time()
        await a.stop()
        assert loop.time() - began < 10
        assert cut == 1000
        await world.until(lambda: b.calls.count("leading"), 1)
        assert a.calls.names[-2:] == ["standby", "cleanup"]
        assert not mine.done()
        mine.cancel()
