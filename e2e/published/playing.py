"""Plays a published operator's script under Kopf and under ctl, and says after each step what is different."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from parity.comparing import Differences, compared
from parity.runs import ENGINES, Recording
from published.expected import EXPECTED
from published.proxy import counted
from published.stage import OTHERS, Published, Stage, staged
from targets import Target

SETTLE_SECONDS = 15.0
"""How long the two may take to come to the same after a step, from when the step has done what is awaited in both."""
POLL_SECONDS = 0.25
QUIET_SECONDS = 1.0
Look = Callable[[], Awaitable[Recording]]


@dataclass(frozen=True)
class Step:
    """What came of one step."""

    name: str
    differences: Differences
    requests: dict[str, Counter[str]]
    """Engine -> how many requests there were, of which kind."""


async def played(published: Published, target: Target, folder: Path) -> list[Step]:
    """All steps: under both side by side, or one after the other where they would meet."""
    token = secrets.token_hex(4)
    if published.exclusive:
        return await _in_turn(published, target, folder, token)
    async with AsyncExitStack() as stack:
        stages = [
            await stack.enter_async_context(
                staged(published, target, engine, f"published-{token}-{engine}", folder / engine)
            )
            for engine in ENGINES
        ]
        kopf, ctl = stages
        steps: list[Step] = []
        plays = [published.play(stage) for stage in stages]
        while True:
            names = await asyncio.gather(*(anext(play, "") for play in plays))
            if not all(names):
                return steps
            found = await _settled(published, kopf.recorded, ctl.recorded)
            requests = {stage.engine: counted(stage.asked()) for stage in stages}
            steps.append(Step(names[0], found, requests))


async def _in_turn(published: Published, target: Target, folder: Path, token: str) -> list[Step]:
    names: list[str] = []
    recordings: list[Recording] = []
    requests: list[Counter[str]] = []
    async with staged(published, target, "kopf", f"published-{token}", folder / "kopf") as stage:
        async for name in published.play(stage):
            names.append(name)
            recordings.append(await _quiet(stage))
            requests.append(counted(stage.asked()))
    steps: list[Step] = []
    async with staged(published, target, "ctl", f"published-{token}-again", folder / "ctl") as stage:
        number = 0
        async for name in published.play(stage):
            found = await _settled(published, _given(recordings[number]), stage.recorded)
            steps.append(Step(name, found, {"kopf": requests[number], "ctl": counted(stage.asked())}))
            number += 1
    assert [step.name for step in steps] == names
    return steps


def _given(recording: Recording) -> Look:
    async def found() -> Recording:
        return recording

    return found


async def _quiet(stage: Stage) -> Recording:
    """What there is when nothing has become different for a while."""
    deadline = time.monotonic() + SETTLE_SECONDS
    last = await stage.recorded()
    while True:
        await asyncio.sleep(QUIET_SECONDS)
        now = await stage.recorded()
        if now == last or time.monotonic() > deadline:
            return now
        last = now


async def _settled(published: Published, kopf: Look, ctl: Look) -> Differences:
    """The differences that nobody expects: none as soon as there were none in two looks, else those after a while."""
    deadline = time.monotonic() + SETTLE_SECONDS
    meant = EXPECTED.get(published.name, ())
    same = 0
    while True:
        left, right = await kopf(), await ctl()
        compare = compared(left, _about_objects(right, left))
        found = {path: text for path, text in compare.items() if not any(one.covers(path, text) for one in meant)}
        same = 0 if found else same + 1
        if same == 2 or (found and time.monotonic() > deadline):
            return found
        await asyncio.sleep(POLL_SECONDS)


def _about_objects(ctl: Recording, kopf: Recording) -> Recording:
    """In ctl's log each line from within a handler names the object; in Kopf's only those of the logger that handlers are given."""
    others = set(kopf.output.split(OTHERS))
    lines = [line for line in ctl.logs if line["message"] not in others]
    # What a client library tells of answers holds versions, which no two runs share.
    return replace(ctl, logs=[line for line in lines if not line["message"].startswith("response body: ")])
