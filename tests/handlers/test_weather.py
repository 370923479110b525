"""Operators in bad weather: whatever a server or the way to it does for a while, everything is in order soon after it has ended."""

import asyncio
import json
import logging
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.handlers.settings import OperatorSettings

from .weather import FAIR, HTML, Asked, Fate, Manner, Refusal, Weather, a_weather
from .world import KEX, PLAIN, Calls, Running, World, rest

pytestmark = pytest.mark.virtual_time

SEEDS = int(os.environ.get("SOAK_WEATHER", "0"))
"""How many seeds each climate has with each manner of the server; 0 is a few storms of some. `make soak` has 1."""
OBJECTS = 12
STORM = 60.0
"""Seconds that the weather is bad."""
RECOVERY = 90.0
"""Seconds after which everything is in order again: streams that fell silent are noticed after 70 s, refused ones tried again after 60."""
BUSIEST = 200
"""How many requests there may be in one second, all objects being created in the first."""
QUIET = 20
"""How many requests there may be in a minute in which nothing happens; a whole series of looks at what is served may fall into it."""

CHILD = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)

Climate = Callable[[random.Random, Asked], Fate]


def status(code: int, reason: str, **more: Any) -> bytes:
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, **more}
    ).encode()


def refuse(*refusals: Refusal, often: float = 0.5, only: Callable[[Asked], bool] = lambda _: True) -> Climate:
    def climate(chance: random.Random, asked: Asked) -> Fate:
        return Fate(refusal=chance.choice(refusals)) if only(asked) and chance.random() < often else FAIR

    return climate


def happen(*fates: Fate, often: float = 0.4, only: Callable[[Asked], bool] = lambda _: True) -> Climate:
    def climate(chance: random.Random, asked: Asked) -> Fate:
        return chance.choice(fates) if only(asked) and chance.random() < often else FAIR

    return climate


def slow(chance: random.Random, asked: Asked) -> Fate:
    return Fate(delay=chance.choice([0.0, 0.1, 0.5, 3.0, 10.0, 30.0]))


def ill(*streams: str, often: float = 0.9) -> Climate:
    def climate(chance: random.Random, asked: Asked) -> Fate:
        return Fate(stream=chance.choice(streams)) if asked.watching and chance.random() < often else FAIR

    return climate


def collection(asked: Asked) -> bool:
    return asked.path.endswith(f"/{KEX.plural}")


def writes(asked: Asked) -> bool:
    return asked.writing


BUSY = (
    Refusal(429, status(429, "TooManyRequests"), {"Retry-After": "1"}),
    Refusal(429, status(429, "TooManyRequests", details={"retryAfterSeconds": 2})),
    Refusal(429, b"Too many requests, please try again later.\n", {"Retry-After": "1"}),
    Refusal(429, b""),
)
FAILING = (
    Refusal(500, status(500, "InternalError", message="etcdserver: request timed out")),
    Refusal(502, HTML, {"Content-Type": "text/html"}),
    Refusal(503, HTML, {"Content-Type": "text/html"}),
    Refusal(503, status(503, "ServiceUnavailable"), {"Retry-After": "1"}),
    Refusal(504, status(504, "Timeout")),
    Refusal(504, b""),
)
UNKNOWN = Refusal(401, status(401, "Unauthorized"))
FORBIDDEN = Refusal(403, status(403, "Forbidden", message="not now"))
MISSING = Refusal(404, b"404 page not found\n", {"Content-Type": "text/plain"})
CONFLICT = Refusal(409, status(409, "Conflict", message="the object has been modified"))
INVALID = Refusal(422, status(422, "Invalid", message="no"))
EXPIRED = Refusal(410, status(410, "Expired", message="The provided continue parameter is too old"))

CLIMATES: dict[str, Climate] = {
    "busy": refuse(*BUSY),
    "failing": refuse(*FAILING),
    "down": refuse(*FAILING, often=1.0),
    "unauthorized": refuse(UNKNOWN, often=1.0),
    "unauthorized at times": refuse(UNKNOWN, often=0.3),
    "forbidden": refuse(FORBIDDEN, often=1.0),
    "missing": refuse(MISSING, often=1.0, only=collection),
    "conflicts": refuse(CONFLICT, often=0.7, only=writes),
    "invalid": refuse(INVALID, often=0.4, only=writes),
    "reset": happen(Fate(reset=True)),
    "lost": happen(Fate(lose=True), Fate(half=True)),
    "slow": slow,
    "expired pages": refuse(EXPIRED, only=lambda asked: "continue" in asked.query),
    "streams end": ill("ends"),
    "streams break": ill("cut", "truncated"),
    "streams are garbled": ill("garbage", "unknown", "odd"),
    "streams expire": ill("gone"),
    "streams fail": ill("error"),
    "streams are silent": ill("silent"),
    "streams repeat": ill("doubled", "replayed"),
}


def mixed(chance: random.Random, asked: Asked) -> Fate:
    return CLIMATES[chance.choice(HARMLESS)](chance, asked)


HARMLESS = [name for name in CLIMATES if name != "invalid"]
"""What the server refuses for its content is done anew by the handlers."""


MANNERS = {
    "plain": Manner(),
    "gzip": Manner(gzip=True, framing="chunked"),
    "close": Manner(framing="close", keep="close"),
    "quietly": Manner(keep="quietly"),
    "old": Manner(streams_lists=False),
    "mute": Manner(bookmarks=False),
    "opaque": Manner(version=lambda number: f"v{number}x", unversion=lambda text: re.sub(rb"v(\d+)x", rb"\1", text)),
}


@dataclass
class Book:
    """What the handlers of an operator were told."""

    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    created: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    daemons: Counter[str] = field(default_factory=Counter)
    ticks: dict[str, float] = field(default_factory=dict)
    things: Any = None
    reconciled: int = 0
    events: dict[str, str] = field(default_factory=dict)
    levels: dict[tuple[str, str], Any] = field(default_factory=dict)

    def declare(self) -> None:
        time = asyncio.get_running_loop().time

        @ctl.on.create(KEX.plural, id="create")
        async def create(uid: str, spec: Any, patch: ctl.Patch, **_: Any) -> str:
            self.created[uid] += 1
            self.seen.setdefault("create", {})[uid] = dict(spec)
            await asyncio.sleep(0.2)
            patch.status["state"] = "created"
            return "made"

        @ctl.on.update(KEX.plural, id="update")
        async def update(uid: str, spec: Any, patch: ctl.Patch, **_: Any) -> None:
            self.seen.setdefault("update", {})[uid] = dict(spec)
            patch.status["state"] = f"updated to {spec.get('field')}"

        @ctl.on.delete(KEX.plural, id="delete")
        async def delete(uid: str, **_: Any) -> None:
            self.deleted[uid] += 1

        @ctl.on.event(KEX.plural, id="event")
        async def event(uid: str, spec: Any, type: str | None, **_: Any) -> None:
            self.events[uid] = "gone" if type == "DELETED" else str(dict(spec))

        @ctl.index(KEX.plural, id="things")
        async def things(uid: str, spec: Any, **_: Any) -> Any:
            return {uid: dict(spec)}

        @ctl.daemon(KEX.plural, id="daemon")
        async def daemon(uid: str, stopped: Any, things: Any, **_: Any) -> None:
            self.things = things
            self.daemons[uid] += 1
            try:
                await stopped.wait()
            finally:
                self.daemons[uid] -= 1

        @ctl.declare
        @ctl.controller(f"{PLAIN.plural}.{PLAIN.group}").owns("configmaps").reconciles
        async def reconcile(key: Any, context: Any) -> None:
            self.reconciled += 1
            body = context.body()
            if body is not None and not context.is_being_deleted:
                data = {"field": str(body["spec"]["field"])}
                await context.ensure("configmaps", context.own({"metadata": {"name": key.name}, "data": data}))

        @ctl.timer(KEX.plural, id="timer", interval=10)
        async def timer(uid: str, **_: Any) -> None:
            self.ticks[uid] = time()


class Lines(logging.Handler):
    """Counts warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


@contextmanager
def counted() -> Iterator[Lines]:
    """Count what is logged inside of the block."""
    lines = Lines()
    logging.getLogger().addHandler(lines)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(lines)


class Storm:
    """Objects that live while the weather is bad, and what must be so afterwards."""

    def __init__(self, world: World, weather: Weather, chance: random.Random) -> None:
        self.world = world
        self.weather = weather
        self.chance = chance
        self.book = Book()
        self.uids: dict[str, str] = {}
        self.gone: list[str] = []
        self.names = [f"o{number}" for number in range(OBJECTS)]
        self.parents = [f"p{number}" for number in range(4)]

    async def live(self, name: str) -> None:
        """Come, change, and perhaps go, and come again under the same name."""
        world, chance = self.world, self.chance
        end = asyncio.get_running_loop().time() + STORM
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(chance.choice([0.1, 1, 5, 10]))
            body = world.find(name)
            if body is None:
                self.uids[name] = (await world.create(name, {"field": chance.randrange(3)}))["metadata"]["uid"]
            elif chance.random() < 0.15 and "deletionTimestamp" not in body["metadata"]:
                self.gone.append(self.uids.pop(name))
                await world.delete(name)
            elif "deletionTimestamp" not in body["metadata"]:
                await world.patch({"spec": {"field": chance.randrange(1000)}}, name)

    async def grow(self, name: str) -> None:
        """Have a child: change, and lose it now and then."""
        world, chance = self.world, self.chance
        end = asyncio.get_running_loop().time() + STORM
        await world.create(name, {"field": 0}, PLAIN)
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(chance.choice([0.1, 1, 5, 10]))
            if chance.random() < 0.3 and world.find(name, CHILD) is not None:
                await world.delete(name, CHILD)
            else:
                await world.patch({"spec": {"field": chance.randrange(1000)}}, name, PLAIN)

    async def gusts(self) -> None:
        """Now and then all connections break: what comes then, comes in the bad weather."""
        end = asyncio.get_running_loop().time() + STORM
        while asyncio.get_running_loop().time() < end:
            self.weather.reset_all()
            await asyncio.sleep(self.chance.choice([3, 6, 12]))

    def faults(self) -> list[str]:
        """What is not in order; empty when all is."""
        world, book, found = self.world, self.book, []
        for name, uid in self.uids.items():
            body = world.find(name)
            if body is None:
                found.append(f"{name}: lost")
                continue
            last = world.last(name)
            if not world.is_clean(name) or last is None or last["spec"] != body["spec"]:
                found.append(f"{name}: not settled: {world.annotations(name)} {body['spec']}")
            told = book.seen.get("update", {}).get(uid, book.seen.get("create", {}).get(uid))
            if told != body["spec"]:
                found.append(f"{name}: handlers saw {told}, it is {body['spec']}")
            if book.events.get(uid) != str(body["spec"]):
                found.append(f"{name}: event handlers saw {book.events.get(uid)}")
            if book.daemons[uid] != 1:
                found.append(f"{name}: {book.daemons[uid]} daemons")
            if book.created[uid] < 1:
                found.append(f"{name}: never created")
        for uid in self.gone:
            if book.daemons[uid]:
                found.append(f"{uid}: a daemon of the dead")
            if uid in book.events and book.events[uid] != "gone":
                found.append(f"{uid}: its deletion was not told")
        for name in self.names:
            body = world.find(name)
            if body is not None and body["metadata"]["uid"] in self.gone:
                found.append(f"{name}: still there: {body['metadata'].get('finalizers')}")
        for name in self.parents:
            child = world.find(name, CHILD)
            wanted = {"field": str(world.get(name, PLAIN)["spec"]["field"])}
            if child is None or child["data"] != wanted:
                found.append(f"{name}: its child is {child and child['data']}, not {wanted}")
        if book.things is not None:
            index = {uid: dict(next(iter(values))) for uid, values in book.things.items()}
            truth = {uid: world.get(name)["spec"] for name, uid in self.uids.items()}
            if index != truth:
                found.append(f"index {index} is not {truth}")
        return found

    async def calm(self, running: Running) -> float:
        """Wait until all is in order; gives how long that took."""
        time = asyncio.get_running_loop().time
        cleared = time()
        while found := self.faults():
            assert not running.task.done(), running.task
            assert time() - cleared < RECOVERY, found[:5]
            await asyncio.sleep(0.5)
        return time() - cleared

    def check_ticks(self) -> None:
        """Timers run for those who live, and for nobody else."""
        now = asyncio.get_running_loop().time()
        late = [name for name, uid in self.uids.items() if self.book.ticks.get(uid, 0) < now - 11]
        assert not late
        assert not [uid for uid in self.gone if self.book.ticks.get(uid, 0) > now - 20]

    def busiest(self) -> int:
        """The most requests within one second; 0 when there were none."""
        return max(Counter(int(when) for when, _, _ in self.weather.log).values(), default=0)


@dataclass(frozen=True)
class Case:
    """One storm: what the weather is like, how the server speaks, and what decides all that is left to chance."""

    climate: str
    manner: str
    seed: int

    def __str__(self) -> str:
        return f"{self.climate}, {self.manner}, {self.seed}"


async def storm(world: World, case: Case) -> dict[str, float]:
    """Let objects live through bad weather, and see that all is in order afterwards; gives figures."""
    chance = random.Random(str(case))
    climate = CLIMATES.get(case.climate, mixed)
    async with a_weather(world.sandbox.url, chance) as weather:
        weather.manner = MANNERS[case.manner]
        found = Storm(world, weather, chance)
        found.book.declare()
        async with world.running(access=Access(server=weather.url), settings=OperatorSettings()) as running:
            weather.judge = lambda asked: climate(chance, asked)
            lives = [found.live(name) for name in found.names] + [found.grow(name) for name in found.parents]
            with counted() as lines:
                await asyncio.gather(found.gusts(), *lives)
            during, busiest = len(weather.log), found.busiest()
            weather.judge = lambda _: FAIR
            took = await found.calm(running)
            await rest(30)
            assert not found.faults()
            assert not running.task.done()
            found.check_ticks()
            before = len(weather.log)
            await rest(60)
            quiet = len(weather.log) - before
    created, deleted = (max(counts.values(), default=0) for counts in (found.book.created, found.book.deleted))
    return {
        "took": took,
        "requests": during,
        "busiest": busiest,
        "quiet": quiet,
        "lines": lines.count,
        "created": created,
        "deleted": deleted,
    }


ALL = [
    Case(climate, manner, seed)
    for seed in range(1, SEEDS + 1)
    for climate in [*CLIMATES, "mixed"]
    for manner in MANNERS
    if SEEDS > 0
]
FEW = [Case("mixed", manner, 1) for manner in MANNERS] + [
    Case("streams are garbled", "plain", 1),
    Case("conflicts", "plain", 1),
]


@pytest.mark.parametrize("case", ALL or FEW, ids=str)
async def test_everything_is_in_order_soon_after_the_storm(world: World, case: Case) -> None:
    found = await storm(world, case)
    assert found["deleted"] <= 1
    # What is refused for its content is done anew by the handlers.
    assert found["created"] <= 1 or case.climate == "invalid"
    assert found["busiest"] <= BUSIEST, "no server is asked again and again"
    assert found["quiet"] <= QUIET
    assert found["lines"] <= 2 * found["requests"]


async def test_what_is_known_to_be_deleted_does_not_come_back_when_the_watch_lags_behind(
    world: World, calls: Calls
) -> None:
    """Versions that cannot be compared: the copy shows what the watch tells, though an answer has shown what came later."""
    on, may_go, told = asyncio.Event(), asyncio.Event(), list[str | None]()

    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    @ctl.on.delete(KEX.plural)
    async def handler(reason: str, **kwargs: Any) -> None:
        calls(reason, kwargs)
        await rest(3)

    @ctl.daemon(KEX.plural)
    async def daemon(stopped: Any, **kwargs: Any) -> None:
        calls("daemon", kwargs)
        await stopped.wait()

    @ctl.on.event(KEX.plural)
    async def event(type: str | None, **_: Any) -> None:
        told.append(type)

    async def lag(line: bytes) -> None:
        if b'"MODIFIED"' in line or b'"DELETED"' in line:
            await on.wait()
            await rest(2)

    def judge(asked: Asked) -> Fate:
        is_release = asked.method == "PATCH" and b'"remove"' in asked.body
        return Fate(refusal=FORBIDDEN) if is_release and not may_go.is_set() else FAIR

    async with a_weather(world.sandbox.url, random.Random(1)) as weather:
        weather.manner, weather.hold, weather.judge = MANNERS["opaque"], lag, judge
        async with world.running(access=Access(server=weather.url)):
            await world.create()
            await world.until(lambda: calls.count("create"))
            await world.patch({"spec": {"field": "changed"}})
            await world.delete()
            await world.until(lambda: calls.count("delete"))
            on.set()
            # One after another comes what the object was before; each is looked at.
            await world.until(lambda: told.count("MODIFIED") >= 3)
            may_go.set()
            await world.gone()
            await world.until(lambda: "DELETED" in told)
    assert calls.count("create") == 1
    assert calls.count("delete") == 1
    assert calls.count("daemon") == 1


async def test_a_server_that_closes_each_connection_without_a_word_loses_nothing(world: World, calls: Calls) -> None:
    """It does so a moment after each answer: what is sent at once on the same connection is lost, again and again."""

    @ctl.on.create(KEX.plural, id="create")
    @ctl.on.delete(KEX.plural, id="delete")
    async def handler(reason: str, patch: ctl.Patch, **_: Any) -> None:
        calls(reason, {})
        patch.status["state"] = reason

    async with a_weather(world.sandbox.url, random.Random(1)) as weather:
        weather.manner = Manner(keep="late")
        async with world.running(access=Access(server=weather.url), settings=OperatorSettings()):
            await world.create()
            await world.handled()
            await world.delete()
            await world.gone()
    assert calls.names == ["create", "delete"]


async def test_a_server_that_was_restored_counts_from_before(world: World, calls: Calls) -> None:
    """Its versions are lower than those that the operator knows; the watch that goes on from there stays silent."""

    @ctl.on.create(KEX.plural, id="create")
    @ctl.on.update(KEX.plural, id="update")
    async def handler(name: str, spec: Any, reason: str, **_: Any) -> None:
        calls(f"{reason} {name}", {"field": spec["field"]})

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(name: str, **_: Any) -> None:
        calls(f"delete {name}", {})

    def later(text: bytes) -> bytes:
        return re.sub(rb"\b7(\d{6})\b", lambda found: str(int(found[1])).encode(), text)

    async with a_weather(world.sandbox.url, random.Random(1)) as weather:
        weather.manner = Manner(version=lambda number: f"7{number:06}", unversion=later)
        async with world.running(access=Access(server=weather.url), settings=OperatorSettings()):
            for name in ("one", "two", "three", "gone"):
                await world.create(name)
            await world.until(lambda: len(calls) == 4)
            await rest(100)
            weather.manner = Manner()
            weather.judge = lambda _: Fate(reset=True)
            weather.reset_all()
            await rest(5)
            weather.judge = lambda _: FAIR
            await world.patch({"spec": {"field": "changed"}}, "one")
            await world.create("new")
            await rest(10)
            await world.patch({"spec": {"field": "changed"}}, "two")
            await world.delete("gone")
            await world.handled("new", seconds=RECOVERY)
            await world.handled("one")
            await world.handled("two")
            await world.gone("gone")
            await world.patch({"spec": {"field": "again"}}, "one")
            await world.delete("three")
            await world.handled("one")
            await world.gone("three")
            await rest(300)
            before = len(weather.log)
            await rest(100)
            assert len(weather.log) - before <= QUIET
    assert sorted(calls.names[4:]) == sorted(
        ["update one", "create new", "update two", "delete gone", "update one", "delete three"]
    )


async def test_objects_without_uids_are_told_apart(world: World, calls: Calls) -> None:
    """Few kinds of aggregated APIs have none, and simple servers."""
    indices: list[Any] = []

    @ctl.index(KEX.plural, id="specs")
    async def specs(name: str, spec: Any, **_: Any) -> Any:
        return {name: spec["field"]}

    @ctl.on.create(KEX.plural, id="create")
    async def create(name: str, specs: Any, **_: Any) -> str:
        calls(f"create {name}", {})
        indices[:] = [specs]
        return "result"

    @ctl.on.update(KEX.plural, id="update")
    async def update(name: str, diff: Any, **_: Any) -> None:
        calls(f"update {name}", {})

    @ctl.daemon(KEX.plural, id="daemon")
    async def daemon(name: str, stopped: Any, **_: Any) -> None:
        calls(f"begin {name}", {})
        await stopped.wait()
        calls(f"end {name}", {})

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(name: str, **_: Any) -> None:
        calls(f"delete {name}", {})

    async with a_weather(world.sandbox.url, random.Random(1)) as weather:
        weather.manner = Manner(uids=False)
        async with world.running(access=Access(server=weather.url), settings=OperatorSettings()):
            for name in ("one", "two", "three"):
                await world.create(name)
            for name in ("one", "two", "three"):
                await world.handled(name)
            await world.patch({"spec": {"field": "changed"}}, "two")
            await world.handled("two")
            await world.delete("one")
            await world.gone("one")
            await rest(5)
            assert {key: list(values) for key, values in indices[0].items()} == {"two": ["changed"], "three": ["value"]}
            assert {name for name in calls.names if name.startswith("end")} == {"end one"}
    assert sorted(calls.names) == sorted(
        [f"{what} {name}" for what in ("create", "begin", "end") for name in ("one", "two", "three")]
        + ["update two", "delete one"]
    )
