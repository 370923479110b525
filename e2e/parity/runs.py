"""Plays a scenario under Kopf and under ctl, and keeps what became of it in a form that can be compared."""

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.api import Api, Body
from parity.definitions import CLUSTERED, address
from parity.world import NOT_OURS, OPERATORS, Place, World
from targets import Target

ENGINES = ("kopf", "ctl")

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
SHARED = ((_UID, "UID"), (_TIME, "TIME"), (_ADDRESS, "0xADDRESS"))
"""Patterns of what no two runs share, and what to call it."""
_VOLATILE = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """An operator and what happens while it runs."""

    name: str
    """The operator's file is `operators/{name}_operator.py`, if `operator` names no other."""
    play: Callable[[World], Awaitable[None]]
    operator: str = ""
    plural: str = "apples"
    """The kind of the objects that the scenario speaks of without naming one."""
    start: tuple[str, ...] | None = ()
    """Its arguments; () is the run's namespace; None: the scenario starts it."""
    embedded: bool = False
    """It runs itself instead of being run by the command."""
    exclusive: bool = False
    """It concerns the whole cluster: one after the other."""
    kept: tuple[str, ...] = ()
    """The kinds whose objects are compared at the end; () is `plural`."""
    environment: dict[str, str] = field(default_factory=dict)
    ordered: bool = True
    """The handlers of one object come in an order; tasks side by side do not."""
    real: bool = False
    """It runs on the real server always, not only in the long runs."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What became of a scenario under one of the two."""

    calls: list[Body]
    objects: dict[str, Body]
    """`plural/name` -> the object."""
    events: list[Body]
    logs: list[Body]
    """The lines about objects: message, severity, object."""
    codes: list[int]
    output: str


async def played(scenario: Scenario, target: Target, folder: Path) -> dict[str, Recording]:
    """The recordings of both, made side by side in namespaces of their own if they cannot meet."""
    if scenario.exclusive:
        return {engine: await play(scenario, target, folder, engine) for engine in ENGINES}
    found = await asyncio.gather(*(play(scenario, target, folder, engine) for engine in ENGINES))
    return dict(zip(ENGINES, found, strict=True))


async def play(scenario: Scenario, target: Target, folder: Path, engine: str) -> Recording:
    """One run."""
    place = Place(engine=engine, target=target, namespace=f"parity-{secrets.token_hex(6)}", folder=folder / engine)
    place.folder.mkdir()
    async with Api(target) as api, _namespace(api, place.namespace):
        world = World(
            api=api,
            place=place,
            operator=OPERATORS / f"{scenario.operator or scenario.name}_operator.py",
            plural=scenario.plural,
            embedded=scenario.embedded,
            environment=dict(scenario.environment),
        )
        try:
            if scenario.start is not None:
                await world.start(*scenario.start)
            await scenario.play(world)
            if world.runs:
                await world.stop()
            return await _recorded(scenario, world)
        finally:
            world.close()


@contextlib.asynccontextmanager
async def _namespace(api: Api, name: str) -> AsyncIterator[None]:
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield
    finally:
        await _cleared(api, name)


async def _cleared(api: Api, name: str) -> None:
    """Nothing of a run is left that could hold up another: no finalizers, no objects of the cluster with its token."""
    for plural in ("apples", "pears", "plums", "orchards", "configmaps"):
        path = address(plural, name)
        for item in (await api.get(path))["items"]:
            mine = item["metadata"]["name"]
            if plural in CLUSTERED and name not in mine:
                continue
            await api.call(
                "PATCH", f"{path}/{mine}", {"metadata": {"finalizers": None}}, kind="application/merge-patch+json"
            )
            await api.call("DELETE", f"{path}/{mine}")
    await api.call("DELETE", f"/api/v1/namespaces/{name}")


async def _recorded(scenario: Scenario, world: World) -> Recording:
    objects: dict[str, Body] = {}
    for plural in scenario.kept or (scenario.plural,):
        for item in await world.items(plural):
            name = item["metadata"]["name"]
            mine = plural not in CLUSTERED or world.namespace in name
            if mine and name not in NOT_OURS:
                objects[f"{plural}/{_generated(item)}"] = item
    found = {
        "calls": [call for call in world.calls() if call["object"] not in NOT_OURS],
        "objects": {key: plain(item) for key, item in objects.items()},
        "events": [item for item in await world.items("events") if item["involvedObject"]["name"] not in NOT_OURS],
        "logs": [line for line in _lines(world.output()) if line["object"]["name"] not in NOT_OURS],
    }
    return Recording(**_normal(found, world), codes=world.codes, output=world.output())


def _generated(item: Body) -> str:
    name: str = item["metadata"]["name"]
    prefix = item["metadata"].get("generateName")
    return name if prefix is None else f"{prefix}GENERATED"


def plain(item: Body) -> Body:
    """An object without what no two runs share; its annotations as JSON where they are JSON."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _VOLATILE}
    metadata["name"] = _generated(item)
    kept = {k: v for k, v in metadata.get("annotations", {}).items() if not k.endswith("/touch-dummy")}
    metadata["annotations"] = {key: _unpacked(text) for key, text in kept.items()}
    return {**item, "metadata": {key: value for key, value in metadata.items() if value or key != "annotations"}}


def _unpacked(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _lines(output: str) -> list[Body]:
    found = []
    for text in output.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("object"), dict) and "message" in line:
            found.append({"message": line["message"], "severity": line["severity"], "object": line["object"]})
    return found


def _normal(found: Body, world: World) -> Body:
    """Without names and times that no two runs share."""
    text = json.dumps(found)
    text = text.replace(world.namespace, "NAMESPACE").replace(world.place.target.url, "SERVER")
    for pattern, word in SHARED:
        text = pattern.sub(word, text)
    normal: Body = json.loads(text)
    return normal
