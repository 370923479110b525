"""Nothing begins when the lease may be over, also before the loop has heard of that; in real time, with a loop that is blocked."""

import time
from typing import Any

import pytest

import ctl
from ctl.sandbox import Match

from .world import KEX, World, identified, rest

LEASE: Any = {"leader_elect": True, "lease_name": "op", "lease_namespace": "default"}
DEADLINE = 1.5


class Cut:
    """Handlers call it: the first call blocks the loop until the lease, which nothing renews any more, is over."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: list[bool] = []
        """For each call, whether the lease was cut off."""
        self.rule: Any = None

    def __call__(self) -> None:
        first = not self.calls
        self.calls.append(self.rule is not None)
        if first:
            self.rule = self.world.sandbox.faults.refuse(match=Match(path="/leases/", user_agent="ctl/"), times=None)
            time.sleep(DEADLINE + 0.2)

    def mend(self) -> None:
        """Let the lease be renewed again."""
        assert self.rule is not None
        self.world.sandbox.faults.rules.remove(self.rule)
        self.rule = None


def declare(kind: str, cut: Cut) -> None:
    async def handle(**_: Any) -> None:
        cut()

    def in_thread(**_: Any) -> None:
        cut()

    decorator: Any = getattr(ctl.on, "event" if kind == "event" else "create")
    decorator(KEX.plural, id="first")(handle)
    decorator(KEX.plural, id="second")(in_thread if kind == "thread" else handle)


@pytest.mark.parametrize("kind", ["create", "event", "thread", "others"])
async def test_what_is_ready_to_run_when_the_lease_is_over_begins_in_the_next_term(world: World, kind: str) -> None:
    cut = Cut(world)
    declare(kind, cut)
    objects = ["one", "two"] if kind == "others" else ["one"]
    for name in objects:
        await world.create(name)
    settings = identified("one", lease_duration=5, renew_deadline=DEADLINE, retry_period=0.3)
    async with world.running(settings=settings, **LEASE):
        await world.until(lambda: cut.rule is not None)
        # Whatever was ready had its turn before the first of these.
        await rest(0.5)
        cut.mend()
        await world.until(lambda: len(cut.calls) >= 1 + len(objects))
    assert not any(cut.calls)
