"""An operator is killed at random moments while objects come, change and go: all is handled to the end, and nothing stored is done again.

A run prints its seed; `CRASH_SEED=... pytest e2e/operators/test_crashes.py` does the same to the objects and kills at the same moments.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from conformance.api import Api, Body
from operators.cluster import OBJECTS, PREFIX, Examples, diff_base, progress
from operators.processes import ctl_command, running
from targets import Target

OPERATOR = Path(__file__).with_name("crash_operator.py")
CRASHES = int(os.environ.get("SOAK_CRASHES", "15"))
"""How often a process is killed, on each server; at most 20 times in one life of the objects."""
BATCH = 20
COUNT = 100
LIVES = 20.0
"""Seconds in which the objects live through their changes, for 15 kills."""
WINDOW = 1.0
"""After this long an outcome is on its way to the server (`settings.persistence.checkpoint_interval`)."""
LATENCY = 10.0
"""What a write may take beyond it, on a machine that is busy with a process that starts and a hundred objects."""
SETTLE_SECONDS = 120.0
QUIET = 2.0
LIFE_SECONDS = 400.0
LONGEST = 2.0
"""The longest that a process works before it is killed."""
FINALIZER = f"{PREFIX}/KopfFinalizerMarker"
ON_CHANGES = ("first", "slow", "thread", "flaky", "parent/a", "parent/b", "fns", "field/spec.field")

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Done:
    """A handler's success, as it noted it itself."""

    run: int
    at: float
    id: str
    uid: str
    name: str
    reason: str
    field: str
    told: str
    """A digest of its `old` and `new`."""

    @property
    def change(self) -> tuple[str, str, str, str]:
        """What was handled: the same handler succeeds in it once."""
        return self.uid, self.id, self.reason, self.told


@dataclass(frozen=True)
class Kill:
    """A SIGKILL: which process, when, and what the server had afterwards."""

    run: int
    at: float
    objects: dict[str, Body]

    def stored(self, done: Done) -> bool:
        """Whether the server shows that this was the outcome of a handler; asked of its last success before."""
        body = self.objects.get(done.uid)
        if body is None:
            return False
        record = progress(body).get(done.id.replace("/", "."), {})
        if record.get("success"):
            return datetime.fromisoformat(record["stopped"]).timestamp() >= done.at
        base = diff_base(body)
        return done.reason in {"create", "update"} and base is not None and base["spec"]["field"] == done.field


@dataclass
class Story:
    """What was done to the objects, and what came of it."""

    examples: Examples
    api: Api
    seed: int
    log: Path
    kills: list[Kill] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    """The last wish for each object that is to live on."""
    guarded: set[str] = field(default_factory=set)
    """The uids of what was deleted when it had the finalizer."""

    async def objects(self) -> dict[str, Body]:
        """All objects by uid."""
        answer = await self.api.call("GET", OBJECTS.format(namespace=self.examples.namespace))
        assert answer.code == 200, answer
        return {body["metadata"]["uid"]: body for body in answer.body["items"]}

    async def live(self, number: int, seconds: float) -> None:
        """Let one object come, change and perhaps go, and perhaps come again."""
        chance = random.Random(f"{self.seed} {number}")
        name, end = f"o{number:03}", time.monotonic() + seconds
        turn = 0
        await asyncio.sleep(chance.random() * seconds * 0.7)
        while True:
            await self.examples.create(name, {"field": f"{name}-{turn}"})
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(chance.choice([0.0, 0.2, 1.0, 3.0, 6.0]))
                turn += 1
                await self.examples.patch(name, {"spec": {"field": f"{name}-{turn}"}})
            if chance.random() < 0.6 or time.monotonic() > end:
                self.fields[name] = f"{name}-{turn}"
                return
            await asyncio.sleep(chance.choice([0.0, 0.5, 3.0]))
            found = await self.delete(name)
            if chance.random() < 0.5 or found is None:
                return
            await self.examples.until(name, _is_not(found), LIFE_SECONDS)
            turn += 1

    async def delete(self, name: str) -> str | None:
        """Ask for the deletion of one; gives its uid."""
        answer = await self.api.call("DELETE", f"{OBJECTS.format(namespace=self.examples.namespace)}/{name}")
        assert answer.code == 200, answer
        # What is answered with the object still waits for its finalizers; else with a status.
        metadata = answer.body.get("metadata", {})
        if FINALIZER not in metadata.get("finalizers", ()):
            return None
        self.guarded.add(metadata["uid"])
        return str(metadata["uid"])

    def done(self) -> list[Done]:
        """All successes, in order."""
        lines = self.log.read_text().splitlines(keepends=True)
        # One that is written just now, or was when the process was killed, is not whole.
        return [Done(**json.loads(line)) for line in lines if line.endswith("}\n")]

    def untold(self, found: dict[str, Body]) -> Iterator[str]:
        """What is not as it should be in the end."""
        seen: dict[tuple[str, str], str] = {}
        done = self.done()
        for one in done:
            seen[one.uid, one.id] = one.field
        yield from (f"{name} is not there" for name in self.fields if name not in _names(found))
        for uid, body in found.items():
            name, wanted = body["metadata"]["name"], self.fields.get(body["metadata"]["name"])
            if wanted is None:
                yield f"{name} is still there"
                continue
            base, status = diff_base(body), body.get("status", {})
            if body["metadata"].get("finalizers") != [FINALIZER]:
                yield f"{name} has the finalizers {body['metadata'].get('finalizers')}"
            if left := [key for key in body["metadata"].get("annotations", {}) if "last-handled" not in key]:
                yield f"{name} still has {left}"
            if base is None or base["spec"]["field"] != wanted:
                yield f"{name} was handled as {base}, not {wanted}"
            told = {handler: seen.get((uid, handler)) for handler in ON_CHANGES}
            yield from (f"{handler} saw {saw} of {wanted}" for handler, saw in told.items() if saw != wanted)
            shown = (status.get("first", {}).get("field"), status.get("thread"), status.get("last"))
            if shown != (wanted,) * 3 or wanted not in status.get("trail", ()):
                yield f"{name} has the status {status}, not {wanted}"
        gone = {one.uid for one in done if one.id == "gone"} & {one.uid for one in done if one.id == "goner"}
        yield from (f"the deletion of {uid} was not handled" for uid in self.guarded - gone)

    def repeated(self) -> Iterator[str]:
        """What was done again, although its success was stored, or should have been."""
        done = self.done()
        moments = {kill.run: kill.at for kill in self.kills}
        first: dict[tuple[str, str, str, str], Done] = {}
        for one in done:
            if one.id == "resumed":
                continue
            before = first.setdefault(one.change, one)
            if before is one:
                continue
            first[one.change] = one
            if before.run == one.run:
                yield f"in one process: {before} and {one}"
            elif moments[before.run] - before.at > WINDOW + LATENCY:
                yield f"{moments[before.run] - before.at:.2f} s before the kill: {before} and {one}"
        yield from self._stored(done)

    def _stored(self, done: list[Done]) -> Iterator[str]:
        for kill in self.kills:
            newest: dict[tuple[str, str], Done] = {}
            for one in done:
                if one.run <= kill.run:
                    newest[one.uid, one.id] = one
            kept = {one.change: one for one in newest.values() if one.id != "resumed" and kill.stored(one)}
            yield from (
                f"stored: {kept[one.change]} and {one}" for one in done if one.run > kill.run and one.change in kept
            )


def _is_not(uid: str) -> Callable[[Body | None], bool]:
    return lambda body: body is None or body["metadata"]["uid"] != uid


def _names(found: dict[str, Body]) -> set[str]:
    return {body["metadata"]["name"] for body in found.values()}


def batches() -> Iterator[int]:
    """How many kills there are in each life of the objects."""
    for begun in range(0, CRASHES, BATCH):
        yield min(BATCH, CRASHES - begun)


@pytest.mark.parametrize(("number", "kills"), list(enumerate(batches())))
async def test_a_process_is_killed_over_and_over(
    served: Target, examples: Examples, tmp_path: Path, number: int, kills: int
) -> None:
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 2**31)
    print(f"life {number}: CRASH_SEED={seed}")
    chance, seconds = random.Random(seed), LIVES * kills / 15
    command = ctl_command("run", "-n", examples.namespace, str(OPERATOR))
    async with Api(served) as api:
        story = Story(examples, api, seed, tmp_path / "done")
        story.log.touch()
        lives = asyncio.gather(*(story.live(one, seconds) for one in range(COUNT)))
        given = {"LOG": str(story.log), "SEED": str(seed)}
        for run in range(kills):
            with running(command, served, tmp_path / f"log-{run}", RUN=str(run), **given) as operator:
                await asyncio.to_thread(operator.wait_for, "Starting ctl")
                await asyncio.sleep(chance.uniform(0, LONGEST))
                at = time.time()
                await asyncio.to_thread(operator.kill)
            story.kills.append(Kill(run, at, await story.objects()))
        with running(command, served, tmp_path / "log", RUN=str(kills), **given) as operator:
            await lives
            await asyncio.to_thread(operator.wait_for, "Starting ctl")
            # All is told, and nothing follows. (What was handled before this process came is resumed by it.)
            deadline = time.monotonic() + SETTLE_SECONDS
            while True:
                state = len(story.done()), _versions(await story.objects())
                await asyncio.sleep(QUIET)
                wrong, found = list(story.untold(await story.objects())), await story.objects()
                if not wrong and (len(story.done()), _versions(found)) == state:
                    break
                assert time.monotonic() < deadline, (wrong, operator.text()[-5000:])
            assert await asyncio.to_thread(operator.stop) == 0
    again = len(story.done()) - len({one.change for one in story.done()})
    print(f"{len(story.done())} successes, {again} of them again after a kill")
    repeated = list(story.repeated())
    assert not repeated, "\n".join(repeated)


def _versions(found: dict[str, Body]) -> dict[str, str]:
    return {uid: body["metadata"]["resourceVersion"] for uid, body in found.items()}
