"""Reconcilers behave the same on every server: the example, apply with its owners of fields, conditions that a schema prunes."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.api import Api, Body
from conformance.spaces import provided
from operators.cluster import Examples
from operators.processes import ctl_command, running
from targets import Target

from ctl.client.config.loading import load_access
from ctl.client.errors import Conflict
from ctl.client.rest import Client
from ctl.controller.api.client import CachedClient
from ctl.controller.api.conditions import Condition, find
from ctl.controller.api.writes import KeepsChanging
from ctl.controller.building.builder import controller
from ctl.controller.building.context import Context
from ctl.informers.factory import SharedInformerFactory

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "21-replica-set"
SETS = "/apis/example.com/v1/namespaces/{}/configsets"
SECONDS = 60.0


@pytest.fixture(scope="module")
def ready(target: Target) -> Iterator[Target]:
    """A server that has the example's resource."""
    with provided(target, yaml.safe_load((EXAMPLE / "crd.yaml").read_text())):
        yield target


@pytest.fixture
async def user(ready: Target) -> AsyncIterator[Api]:
    """A client of such a server."""
    async with Api(ready) as api:
        yield api


async def until(holds: Callable[[Any], bool], look: Callable[[], Any]) -> Any:
    """Look until something holds; gives what was seen."""
    deadline = time.monotonic() + SECONDS
    while not holds(found := await look()):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.05)
    return found


async def test_21_replica_set(target: Target, user: Api, examples: Examples, tmp_path: Path) -> None:
    space = examples.namespace
    path, maps = f"{SETS.format(space)}/colours", f"/api/v1/namespaces/{space}/configmaps"

    async def names() -> list[str]:
        items = (await user.call("GET", maps)).body["items"]
        return sorted(item["metadata"]["name"] for item in items if item["metadata"].get("ownerReferences"))

    async def condition() -> Any:
        return find((await user.call("GET", path)).body, "Ready") or {}

    async def patch(change: Body) -> None:
        assert (await user.call("PATCH", path, change, kind="application/merge-patch+json")).code == 200

    command = ctl_command("run", "-v", "-n", space, str(EXAMPLE / "example.py"))
    with running(command, target, tmp_path / "log") as operator:
        body = yaml.safe_load((EXAMPLE / "obj.yaml").read_text())
        await user.create(SETS.format(space), {**body, "metadata": {"name": "colours"}})
        await until(lambda found: found == ["colours-0", "colours-1", "colours-2"], names)
        entry = await until(lambda found: found.get("status") == "True", condition)
        assert (entry["reason"], entry["observedGeneration"]) == ("AllThere", 1)
        began = time.monotonic()
        await user.call("DELETE", f"{maps}/colours-1")
        await until(lambda found: len(found) == 3, names)
        assert time.monotonic() - began < 30, "much less than until the next resync"
        await patch({"spec": {"replicas": 1}})
        await until(lambda found: found == ["colours-0"], names)
        again = await until(lambda found: found.get("observedGeneration") == 2, condition)
        assert again["lastTransitionTime"] == entry["lastTransitionTime"]
        await patch({"spec": {"replicas": 1000}})
        await until(lambda found: found.get("reason") == "TooMany", condition)
        operator.wait_for("will not be repeated until something changes")
        assert await names() == ["colours-0"]

        async def reasons() -> set[str]:
            return {event["reason"] for event in await examples.events("colours")}

        # Posts come after what they tell of.
        await until(lambda found: found >= {"Created", "Deleted"}, reasons)
        assert operator.stop() == 0
        assert await reasons() == {"Created", "Deleted"}
    assert operator.text().count("Traceback") == 1, "that of the TerminalError"


@pytest.fixture
async def cached(target: Target, user: Api, examples: Examples) -> AsyncIterator[CachedClient]:
    """The client of a controller that looks at the example's resource."""

    async def nothing(key: Any, context: Context) -> None:
        """Reconcile what is so already."""

    async with Client(load_access(target.kubeconfig)) as client:
        factory = SharedInformerFactory(client)
        blueprint = controller("configsets.example.com").owns("configmaps").in_namespaces(examples.namespace)
        built = blueprint.reconciles(nothing).build(client, factory)
        await built.start()
        await factory.wait_for_sync(timeout=SECONDS)
        yield built.cached
        await built.stop(5)
        await factory.stop()


async def test_applied_fields_have_owners(cached: CachedClient, examples: Examples, target: Target) -> None:
    def config(**data: str) -> Body:
        return {"metadata": {"name": "one", "namespace": examples.namespace}, "data": data}

    before = target.patches("configmaps") if target.patches is not None else None
    first = await cached.apply("configmaps", config(a="1"))
    again = await cached.apply("configmaps", config(a="1"))
    assert again.resource_version == first.resource_version
    if before is not None and target.patches is not None:
        assert target.patches("configmaps") - before == 1
    [entry] = [each for each in again.body()["metadata"]["managedFields"] if each["operation"] == "Apply"]
    assert (entry["manager"], entry["fieldsV1"]) == ("configsets.example.com", {"f:data": {"f:a": {}}})
    with pytest.raises(Conflict, match="conflict"):
        await cached.apply("configmaps", config(a="2"), manager="other")
    taken = await cached.apply("configmaps", config(a="2", b="3"), manager="other", force=True)
    assert taken.body()["data"] == {"a": "2", "b": "3"}
    left = await cached.apply("configmaps", config(a="2"), manager="other")
    assert left.body()["data"] == {"a": "2"}, "what is not applied any more is removed"
    managers = {each["manager"] for each in left.body()["metadata"]["managedFields"]}
    assert "other" in managers


async def test_two_writers_lose_no_update(cached: CachedClient, examples: Examples) -> None:
    written = await cached.ensure(
        "configmaps", {"metadata": {"name": "one", "namespace": examples.namespace}, "data": {"n": "0"}}
    )

    def count(body: Body) -> None:
        body["data"]["n"] = str(int(body["data"]["n"]) + 1)

    async def write() -> None:
        done = 0
        while done < 25:
            with contextlib.suppress(KeepsChanging):  # as a reconciler's attempt would, it is made again
                await cached.change("configmaps", written.object.key, count)
                done += 1

    await asyncio.gather(write(), write())
    found = await cached.get_live("configmaps", written.object.key)
    assert found is not None
    assert found.body()["data"] == {"n": "50"}


async def test_what_a_schema_prunes_is_told_of_and_not_written_again(
    cached: CachedClient, examples: Examples, caplog: pytest.LogCaptureFixture
) -> None:
    obj = await cached.create(
        "configsets.example.com", {"metadata": {"name": "one", "namespace": examples.namespace}, "spec": {}}
    )
    versions = []
    for _ in range(3):
        status = {"replicas": 1, "unknown": {"field": 1}}
        await cached.set_status("configsets.example.com", obj, status, [Condition("Ready", True)], generation=1)
        found = cached.get("configsets.example.com", obj.key)
        assert found is not None
        versions.append(found.resource_version)
    assert len(set(versions)) == 1
    assert versions[0] != obj.resource_version
    assert found is not None
    assert "unknown" not in found.body()["status"]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in told if "does not keep" in text]) == 1
    assert len([text for text in told if "does not keep status.unknown of configsets" in text]) == 1
