"""Random handlers, and a process that is killed after each single write in turn, or before it has the answer: another one goes on.

It always ends; what was stored as done is not done again; the last state is seen by all; nothing is left on the object.
"""

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import ctl
from ctl.runtime.clock import now, parse

from .world import KEX, LAST, Running, World, a_world, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

SCRIPTS = int(os.environ.get("SOAK_ROUNDS", "2"))
"""How many random sets of handlers there are; `make soak` has 50."""
END = {"spec": {"field": 3}}


@dataclass(frozen=True)
class Part:
    """One handler: how its attempts end, how long each takes, and what it has below it."""

    id: str
    outcomes: tuple[str, ...]
    seconds: float
    options: dict[str, Any]
    below: tuple["Part", ...] = ()
    writes: str = ""


@dataclass
class Told:
    """One success: of which handler, in which change, and when."""

    id: str
    reason: str
    old: Any
    new: Any
    at: Any

    @property
    def change(self) -> tuple[str, str, str]:
        """What the handler has done then."""
        return self.id, self.reason, repr((self.old, self.new))


@dataclass
class Play:
    """A set of handlers, declared anew in each process, and what they were told."""

    parts: list[Part]
    done: list[Told] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)

    def declare(self) -> None:
        """Declare the handlers, as a new process does."""
        for part in self.parts:
            deleting = part.id.startswith("gone")
            for decorator in [ctl.on.delete] if deleting else [ctl.on.create, ctl.on.update]:
                decorator(KEX.plural, id=part.id, **part.options)(self._handler(part))

    def _handler(self, part: Part, prefix: str = "") -> Callable[..., Any]:
        own_id = f"{prefix}{part.id}"

        async def handler(retry: int, patch: ctl.Patch, old: Any, new: Any, reason: str, **_: Any) -> str | None:
            await asyncio.sleep(part.seconds)
            self.seen[own_id] = dict(new["spec"]) if new else None
            for child in part.below:
                ctl.subhandler(id=child.id, **child.options)(self._handler(child, f"{own_id}/"))
            match part.outcomes[min(retry, len(part.outcomes) - 1)]:
                case "later":
                    raise ctl.TemporaryError("later", delay=1.5)
                case "bug":
                    raise ValueError("a bug")
                case "never":
                    raise ctl.PermanentError("never")
            if part.writes == "fns":
                patch.fns.append(lambda body: body.setdefault("status", {}).update({part.id: "applied"}))
            self.done.append(Told(own_id, str(reason), old, new, now()))
            return "result" if part.writes == "result" else None

        return handler


def parts_of(seed: int) -> list[Part]:
    """The handlers of one script."""
    chance = random.Random(seed)

    def outcomes() -> tuple[str, ...]:
        return (
            *(chance.choice(["later", "bug"]) for _ in range(chance.choice([0, 0, 1, 2]))),
            chance.choice(["ok"] * 5 + ["never"]),
        )

    def part(id: str, depth: int) -> Part:
        below = [part(f"s{number}", depth + 1) for number in range(chance.choice([0, 0, 1, 2]) if depth < 2 else 0)]
        options = (
            {"backoff": 1.0}
            | ({"retries": 2} if chance.random() < 0.2 else {})
            | ({"timeout": 4.0} if chance.random() < 0.2 else {})
        )
        slow = chance.choice([0.0, 0.0, 0.3, 1.2])
        return Part(
            id, ("ok",) if below else outcomes(), slow, options, tuple(below), chance.choice(["", "fns", "result"])
        )

    found = [part(f"h{number}", 0) for number in range(chance.randrange(1, 5))]
    return [*found, part("gone", 1)] if chance.random() < 0.6 else found


async def live(world: World) -> None:
    """Create, change early, change late, and let go."""
    await world.create(spec={"field": 1})
    await asyncio.sleep(1.1)
    await world.patch({"spec": {"field": 2}})
    await asyncio.sleep(20)
    await world.patch(END)


async def settle(world: World, play: Play) -> None:
    """Wait for the end of the last change, and see that it is one; then delete the object."""
    await world.handled(seconds=600)
    await rest(30)
    assert world.last()["spec"] == END["spec"]
    for part in play.parts:
        if not part.id.startswith("gone") and "timeout" not in part.options:
            assert play.seen[part.id] == END["spec"], part
    writes = len(world.writes())
    await rest(100)
    assert (len(world.writes()), world.is_clean()) == (writes, True)
    await world.delete()
    await world.until(lambda: world.find() is None, seconds=600)
    await rest()


async def cut(seed: int, number: int, *, lost: bool) -> bool:
    """Kill the process after so many writes, and let another one go on; gives whether there were so many."""
    play = Play(parts_of(seed))
    async with a_world() as world:
        play.declare()
        life = asyncio.create_task(live(world))
        with world.cut_after(number, lost=lost) as killed:
            async with world.running() as running:
                ended, waiting = asyncio.create_task(killed.wait()), asyncio.create_task(_wait(life, world))
                await asyncio.wait({ended, waiting}, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                waiting.cancel()
                stored = await _kill(world, running, play)
        before = len(play.done)
        async with world.running():
            await life
            await settle(world, play)
        again = [told.change for told in play.done[before:] if told.change in stored]
        assert not again, (seed, number, lost, again)
        assert world.find() is None
    return killed.is_set()


async def _wait(life: "asyncio.Task[None]", world: World) -> None:
    await asyncio.shield(life)
    await world.handled(seconds=600)
    await rest(30)


async def _kill(world: World, running: Running, play: Play) -> set[tuple[str, str, str]]:
    """What the server has as done when the process is dead: neither it, nor what ends after the kill, counts otherwise."""
    known = len(play.done)
    await world.crash(running)
    del play.done[known:]
    body = world.find()
    if body is None:
        return set()
    newest = {told.id: told for told in play.done}
    found = set()
    for told in newest.values():
        record = world.record(told.id.replace("/", "."))
        if record and record.get("success"):
            stopped = parse(record["stopped"])
            found |= {told.change} if stopped >= told.at else set()
        elif LAST in world.annotations() and world.last()["spec"] == dict(told.new["spec"]):
            found.add(told.change)
    return found


@pytest.mark.parametrize("seed", range(1, SCRIPTS + 1))
async def test_a_process_is_killed_after_each_single_write(seed: int) -> None:
    for lost in (False, True):
        number = 0
        while await cut(seed, number, lost=lost):
            number += 1
        assert number >= 3
