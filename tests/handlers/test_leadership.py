"""Several replicas of an operator on one server: one acts, the others stand by, and take over."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import ctl
from ctl.controller.gating.election import LEASES
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.handlers.settings import OperatorSettings

from .world import KEX, Calls, Running, World, quick, rest

pytestmark = pytest.mark.virtual_time

LEASE = {"leader_elect": True, "lease_name": "op", "lease_namespace": "default"}


def identified(identity: str, **changes: Any) -> OperatorSettings:
    settings = quick()
    settings.leadership.identity = identity
    for name, value in changes.items():
        setattr(settings.leadership, name, value)
    return settings


class Replica:
    """One of several operators: its own registry, with handlers that note who they are."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
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

    @property
    def leads(self) -> bool:
        return self.calls.count("leading") > self.calls.count("standby") - (
            self.calls.names[:2] == ["startup", "standby"]
        )

    def start(self, **options: Any) -> Running:
        self.running = self.world.start(
            **{**LEASE, "registry": self.registry, "settings": identified(self.name), **options}
        )
        return self.running

    async def ready(self) -> None:
        assert self.running is not None
        await self.world.until(lambda: self.running.ready.is_set() or self.running.task.done())
        if self.running.task.done():
            await self.running.task

    async def stop(self) -> None:
        assert self.running is not None
        await self.running.stop()


@asynccontextmanager
async def replicas(world: World, *names: str, **options: Any) -> Any:
    found = [Replica(world, name) for name in names]
    try:
        for replica in found:
            replica.start(**options)
            await replica.ready()
            await rest()
        yield found
    finally:
        for replica in found:
            if replica.running is not None:
                replica.running.stop_flag.set()
        await asyncio.wait([replica.running.task for replica in found if replica.running], timeout=100)


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
