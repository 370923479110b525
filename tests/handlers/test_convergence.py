"""Whatever happens to an object: every handler sees its last state in the end, nothing is left on it, and nothing is too much."""

import asyncio
import os
import random
from typing import Any

import pytest

import ctl

from .world import KEX, P, World, a_world, quick, rest

pytestmark = pytest.mark.virtual_time

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "2"))
"""How often two hundred random lives are lived; `make soak` does it 50 times."""

OBJECTS = 200


async def test_a_thousand_objects_cost_a_thousand_patches() -> None:
    called: dict[str, int] = {}

    async with a_world() as world:

        @ctl.on.create(KEX.plural, id="create")
        async def create(name: str, **_: Any) -> None:
            called[name] = called.get(name, 0) + 1

        @ctl.on.create(KEX.plural, id="other")
        async def other(name: str, **_: Any) -> None:
            called[name] += 1

        names = [f"o{number}" for number in range(1000)]
        async with world.running():
            for name in names:
                world.sandbox.create(_body(name))
            await world.until(lambda: all(world.annotations(name) for name in names))
            await rest()
        assert called == dict.fromkeys(names, 2)
        assert len(world.writes()) == 1000
        assert {request.code for request in world.writes()} == {200}


async def test_a_worker_limit_is_kept_and_nothing_is_left_behind(world: World) -> None:
    busy, most = 0, 0

    @ctl.on.create(KEX.plural, id="create")
    @ctl.on.update(KEX.plural, id="create")
    async def create(patch: ctl.Patch, spec: Any, **_: Any) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.1)
        # An own change gets a round of its own, at once: the key is handed out again while its last attempt ends.
        if spec.get("turn", 0) < 3:
            patch.spec["turn"] = spec.get("turn", 0) + 1
        busy -= 1

    settings = quick()
    settings.queueing.worker_limit = 2
    names = [f"o{number}" for number in range(20)]
    async with world.running(settings=settings):
        for name in names:
            world.sandbox.create(_body(name))
        for name in names:
            await world.handled(name)
    assert most == 2
    assert all(world.get(name)["spec"]["turn"] == 3 for name in names)


# It waits for some twenty thousand timers: on a machine that does much else, each of them takes its time.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "crash"), [(seed, seed % 2 == 0) for seed in range(1, ROUNDS + 1)])
async def test_random_lives_converge(world: World, seed: int, crash: bool) -> None:
    """Each object lives through edits of its own while handlers fail at random and the server breaks now and then.

    A crash comes at any moment. Where it finds an object as it was handled last, what a handler saw in between is known to nobody
    if its outcome was not written yet: of these alone nothing is promised.
    """
    chance = random.Random(seed)
    seen: dict[tuple[str, str], Any] = {}
    marks: dict[tuple[str, str], Any] = {}

    def declare(handler_id: str) -> None:
        @ctl.on.create(KEX.plural, id=handler_id)
        @ctl.on.update(KEX.plural, id=handler_id)
        @ctl.on.resume(KEX.plural, id=handler_id)
        async def handler(name: str, spec: Any, labels: Any, **_: Any) -> None:
            await asyncio.sleep(chance.choice([0, 0, 0, 0.3, 1.5]))
            luck = chance.random()
            if luck < 0.2:
                raise ctl.TemporaryError("unlucky", delay=chance.choice([None, 0, 1, 7]))
            if luck < 0.3:
                raise ValueError("a bug")
            seen[name, handler_id] = (dict(spec), dict(labels))
            marks[name, handler_id] = _marks(world, name)
            if luck < 0.4:
                raise ctl.PermanentError("it has seen it, and does not like it")

    @ctl.on.startup()
    async def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.execution.default_backoff = 3

    handlers = ["a", "b", "c"]
    for handler_id in handlers:
        declare(handler_id)

    async def live(name: str) -> None:
        world.sandbox.create(_body(name))
        for _ in range(chance.randrange(8)):
            await asyncio.sleep(chance.choice([0, 0.05, 0.5, 2, 5]))
            change: dict[str, Any] = chance.choice(
                [
                    {"spec": {"field": chance.randrange(3)}},
                    {"spec": {"extra": chance.choice([None, 1, {"deep": chance.randrange(2)}])}},
                    {"metadata": {"labels": {"l": chance.choice([None, "x", "y"])}}},
                    {"metadata": {"annotations": {"mine.io/a": str(chance.randrange(3))}}},
                ]
            )
            await world.patch(change, name)

    async def settled() -> None:
        # An object may look settled between two rounds, or before a resumption: all are to be so for a while, together.
        for _ in range(20):
            for name in names:
                await world.until(lambda name=name: _is_settled(world, name), seconds=1000)  # type: ignore[misc]
            await rest(10)
            if all(_is_settled(world, name) for name in names):
                return
        raise AssertionError([name for name in names if not _is_settled(world, name)])

    names, unknown = [f"o{number}" for number in range(OBJECTS)], set[tuple[str, str]]()
    async with world.running() as running:
        lives = asyncio.gather(*(live(name) for name in names))
        for _ in range(5):
            await asyncio.sleep(2)
            match chance.choice(["lose", "break", "cut"]):
                case "lose":
                    world.sandbox.faults.lose_answer(match=world.own_patches(), times=5)
                case "break":
                    world.sandbox.faults.answer(500, match=world.own_patches(), times=5)
                case _:
                    world.sandbox.faults.cut_watches()
        await lives
        if crash:
            await world.crash(running)
            unknown = {
                one for one, was in marks.items() if _is_as_handled(world, one[0]) and _marks(world, one[0]) == was
            }
        else:
            await settled()
    if crash:
        async with world.running():
            await settled()
    for name in names:
        body = world.get(name)
        state = (body["spec"], body["metadata"].get("labels") or {})
        for handler_id in handlers:
            assert seen[name, handler_id] == state or (name, handler_id) in unknown, (name, handler_id)


def _marks(world: World, name: str) -> dict[str, str]:
    """What we have written to an object so far."""
    return {key: value for key, value in world.annotations(name).items() if key.startswith(P)}


def _is_settled(world: World, name: str) -> bool:
    return world.is_clean(name) and _is_as_handled(world, name)


def _is_as_handled(world: World, name: str) -> bool:
    body, last = world.get(name), world.last(name)
    if last is None:
        return False
    return bool(
        last.get("spec") == body["spec"]
        and last.get("metadata", {}).get("labels") == body["metadata"].get("labels")
        and last.get("metadata", {}).get("annotations", {}).get("mine.io/a")
        == body["metadata"]["annotations"].get("mine.io/a")
    )


def _body(name: str) -> dict[str, Any]:
    return {
        "apiVersion": KEX.api_version,
        "kind": KEX.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"field": "value"},
    }
