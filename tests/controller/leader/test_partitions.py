"""Real clients, a real server over sockets, virtual time, and a network that does its worst: one writer at any moment."""

import asyncio
import contextlib
import itertools
import os
import random
from dataclasses import dataclass, replace

import pytest

from ctl.client.config.access import Access
from ctl.client.errors import APIError, RequestError
from ctl.client.fence import NotLeading
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.controller.leader.gate import Turn
from ctl.controller.leader.leadership import Leadership
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.sandbox import LoggedRequest, Match, Sandbox

pytestmark = pytest.mark.virtual_time

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
SETTINGS = LeaderElectionConfig("operator", "default", "")
SEEDS = max(2, int(os.environ.get("SOAK_SEEDS", "300")) // 100)
"""How many networks are tried; a hundred by `make soak`."""
MINUTES = 3


@dataclass
class Replica:
    """One that takes part, and writes whenever it is let."""

    identity: str
    leadership: Leadership
    client: Client
    chance: random.Random
    refused: int = 0
    lost: int = 0

    async def write(self) -> None:
        while True:
            # Begun in any state of the gate: it is the fence that is under test.
            term = self.leadership.term
            with contextlib.suppress(APIError, RequestError):
                try:
                    data = {"by": self.identity, "term": str(term)}
                    await self.client.patch(MAPS, "x", "default", {"data": data})
                except NotLeading as error:
                    self.refused += not error.sent
                    self.lost += error.sent
                    raise
            await asyncio.sleep(self.chance.uniform(0.1, 1.5))


class World:
    def __init__(self, seed: int, sandbox: Sandbox) -> None:
        self.chance = random.Random(seed)
        self.sandbox = sandbox
        self.replicas: dict[str, Replica] = {}
        self.count = itertools.count()
        self.terms = 0
        self.overlaps: list[str] = []

    def watch(self) -> None:
        """Look at each write when it arrives."""

        def look(request: LoggedRequest) -> bool:
            if request.method == "PATCH" and request.path.endswith("/configmaps/x"):
                author = request.json()["data"]["by"]
                leading = [each for each in self.replicas.values() if each.leadership.left() > 0]
                if any(each.identity != author for each in leading):
                    self.overlaps.append(f"{author} writes while {[each.identity for each in leading]} leads")
            return False

        self.sandbox.faults.delay(0, match=Match(when=look))

    @contextlib.asynccontextmanager
    async def replica(self):  # type: ignore[no-untyped-def] # noqa: ANN201
        identity = f"m{next(self.count)}-"
        access, settings = Access(self.sandbox.url), ClientSettings(user_agent=identity, error_backoffs=(1, 2, 5, 13))
        leadership = Leadership(access, replace(SETTINGS, identity=identity), settings)
        leadership.subscribe(self.turned)
        async with Client(access, settings, fence=leadership) as client:
            one = self.replicas[identity] = Replica(identity, leadership, client, self.chance)
            await leadership.start()
            writing = asyncio.create_task(one.write())
            try:
                yield one
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
                await leadership.stop(3)

    def turned(self, turn: Turn) -> None:
        self.terms += turn is Turn.OPENED

    async def live(self, until: float) -> None:
        """One place for a replica: it ends now and then, and another one takes its place."""
        time = asyncio.get_running_loop().time
        while time() < until:
            with contextlib.suppress(APIError, RequestError):
                async with self.replica():
                    await asyncio.sleep(min(self.chance.uniform(10, 120), max(0.0, until - time())))
            await asyncio.sleep(0.5)

    async def trouble(self, until: float) -> None:
        chance, faults = self.chance, self.sandbox.faults
        time = asyncio.get_running_loop().time
        leases, writes = Match(path="leases"), Match(path="configmaps")
        while time() < until:
            await asyncio.sleep(chance.uniform(0.5, 15))
            victim = chance.choice(list(self.replicas))
            kind = chance.randrange(8)
            if kind == 0:
                rule = faults.refuse(match=Match(user_agent=victim), times=None)
            elif kind == 1:
                rule = faults.delay(chance.uniform(0.5, 30), match=replace(leases, user_agent=victim))
            elif kind == 2:
                rule = faults.lose_answer(match=replace(leases, method="PUT"), times=chance.randrange(1, 6))
            elif kind == 3:
                rule = faults.lose_answer(match=replace(writes, method="PATCH"), times=chance.randrange(1, 6))
            elif kind == 4:
                rule = faults.answer(chance.choice([401, 403, 409, 429, 500, 503]), match=leases, times=None)
            elif kind == 5:
                # Shorter than the margin between the renew deadline and the duration.
                rule = faults.delay(chance.uniform(0.1, 3), match=replace(writes, method="PATCH"), times=None)
            elif kind == 6:
                faults.stall_watches(leases)
                continue
            else:
                faults.cut_watches()
                continue
            asyncio.get_running_loop().call_later(chance.uniform(1, 40), self.mend, rule)

    def mend(self, rule: object) -> None:
        rules = self.sandbox.faults.rules
        rules[:] = [each for each in rules if each is not rule]


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_one_writer_at_any_moment(seed: int) -> None:
    async with Sandbox() as sandbox:
        sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}})
        world = World(seed, sandbox)
        world.watch()
        until = asyncio.get_running_loop().time() + 60 * MINUTES
        async with asyncio.timeout(60 * MINUTES + 600), asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(world.live(until))
            await asyncio.sleep(1)
            group.create_task(world.trouble(until))
        assert world.overlaps == []
        authors = [
            (request.json()["data"]["by"], request.json()["data"]["term"])
            for request in sandbox.log.select(Match(method="PATCH", path="configmaps/x"))
            if request.code == 200
        ]
        blocks = [author for author, _ in itertools.groupby(authors)]
        assert len(blocks) == len(set(blocks)), "whoever was followed by another never writes again in that term"
        assert world.terms > 1
        assert len(authors) > 30
        assert sum(each.refused for each in world.replicas.values()) > 30
