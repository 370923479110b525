"""Controllers and an operator in the loop of another program: its tasks are its own, and each part starts, loses its lease and ends by itself."""

import asyncio
import signal
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.controller.leader.lease_rules import LeaseRules
from ctl.controller.program.serve import ServeOptions, serve
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.sandbox import Match, Sandbox

pytestmark = pytest.mark.virtual_time

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
RULES = LeaseRules()


async def _create(user: Client, name: str) -> None:
    await user.create(CONFIGMAPS, {"metadata": {"name": name, "namespace": "default"}})


def _mine(before: "set[asyncio.Task[Any]]") -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() - before if not task.done()]


async def test_parts_of_one_loop_end_by_themselves_and_leave_nothing_behind(sandbox: Sandbox, user: Client) -> None:
    seen: list[tuple[str, str]] = []
    registry = OperatorRegistry()

    @ctl.on.event("configmaps", registry=registry)
    async def look(name: str, **_: Any) -> None:
        seen.append(("handler", name))

    def controller(name: str) -> Any:
        async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
            seen.append((name, key.name))

        return ctl.controller("configmaps").named(name).reconciles(reconcile)

    access = Access(sandbox.url)
    their_signals = signal.signal(signal.SIGTERM, lambda *_: None)
    neighbour = asyncio.create_task(asyncio.sleep(3600))
    await _create(user, "one")
    before = asyncio.all_tasks()
    try:
        ready, stop = asyncio.Event(), asyncio.Event()
        two = asyncio.create_task(serve(controller("a"), controller("b"), access=access))
        operator = asyncio.create_task(
            ctl.operator(
                registry=registry,
                namespaces=["default"],
                access=access,
                standalone=True,
                ready_flag=ready,
                stop_flag=stop,
            )
        )
        await ready.wait()
        await asyncio.sleep(5)
        assert {(who, "one") for who in ("a", "b", "handler")} <= set(seen)
        two.cancel()
        with pytest.raises(asyncio.CancelledError):
            await two
        await _create(user, "two")
        await asyncio.sleep(5)
        assert [who for who, name in seen if name == "two"] == ["handler"]
        stop.set()
        await operator
        assert _mine(before) == []
        assert not neighbour.done()
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, "it handles its signals itself"
    finally:
        signal.signal(signal.SIGTERM, their_signals)
        neighbour.cancel()


async def test_leader_follower_leader_in_one_program(sandbox: Sandbox, user: Client) -> None:
    seen: list[tuple[str, str]] = []
    cut: list[str] = []

    def replica(name: str, stop: asyncio.Event) -> "asyncio.Task[None]":
        async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
            seen.append((name, key.name))
            if key.name != "long":
                return
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cut.append(name)
                raise

        return asyncio.create_task(
            serve(
                ctl.controller("configmaps").concurrency(2).reconciles(reconcile),
                stop=stop,
                options=ServeOptions(access=Access(sandbox.url), settings=ClientSettings(user_agent=name)),
                leadership=LeaderElectionConfig("maps", "default", name, RULES),
            )
        )

    stops = {name: asyncio.Event() for name in ("a", "b")}
    await _create(user, "long")
    first = replica("a", stops["a"])
    await asyncio.sleep(3)
    second = replica("b", stops["b"])
    await asyncio.sleep(10)
    assert seen == [("a", "long")]
    rule = sandbox.faults.refuse(match=Match(path="leases/maps", user_agent="a"), times=None)
    await asyncio.sleep(25)
    assert cut == ["a"], "attempts end with leadership, the program does not"
    assert seen == [("a", "long"), ("b", "long")]
    sandbox.faults.rules.remove(rule)
    await asyncio.sleep(10)
    assert not first.done()
    stops["b"].set()
    await second
    await asyncio.sleep(2)
    assert seen == [("a", "long"), ("b", "long"), ("a", "long")]
    stops["a"].set()
    await first
