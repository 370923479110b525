"""The pages of the tutorial, step by step: starting, creating, updating, diffing, cascaded deletion.

In real time: its handlers talk to the server by the `kubernetes` package, in threads.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import kubernetes
import pytest

import ctl
from ctl.cli.loading import load
from ctl.client.resources import Resource

from ..handlers.world import World, a_world

TUTORIAL = Path(__file__).parent / "tutorial"
EVC = Resource("kopf.dev", "v1", "ephemeralvolumeclaims", "EphemeralVolumeClaim", namespaced=True)
PVC = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A server with the tutorial's definition; the way to it is found as a user's is."""
    monkeypatch.setitem(sys.modules, "kopf", ctl)
    monkeypatch.setattr(kubernetes.client.Configuration, "_default", None)
    async with a_world(definitions=[(TUTORIAL / "crd.yaml").read_text()]) as found:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        found.sandbox.kubeconfig(tmp_path / "kubeconfig")
        yield found


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - the world tells nobody
            await asyncio.sleep(0.02)


async def test_starting_the_operator(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kopf.objects")
    load([str(TUTORIAL / "skeleton_operator.py")], [])
    await world.create("my-claim", {}, EVC)
    async with world.running(access=None):
        await until(lambda: "Creation is processed" in caplog.text)
    async with world.running(access=None):
        # It is handled already; another one shows that the operator has begun.
        await world.create("another", {}, EVC)
        await until(lambda: caplog.text.count("Creation is processed") == 2)
        await world.delete("my-claim", EVC)
        await world.create("my-claim", {}, EVC)
        await until(lambda: caplog.text.count("Creation is processed") == 3)
    assert [caplog.text.count(f"Called for {name}.") for name in ("my-claim", "another")] == [2, 1]


async def test_claims_for_volumes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kopf.objects")
    load([str(TUTORIAL / "claims_operator.py")], [])

    def volume() -> Any:
        return world.find("my-claim", PVC) or {}

    async with world.running(access=None):
        await world.create("without", {}, EVC)
        await until(lambda: "A claim needs a size; got None." in caplog.text)
        await world.create("my-claim", {"size": "1G"}, EVC)
        await until(lambda: world.get("my-claim", EVC).get("status") == {"create_fn": {"pvc-name": "my-claim"}})
        assert volume()["spec"]["resources"] == {"requests": {"storage": "1G"}}
        owner = volume()["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"]) == ("EphemeralVolumeClaim", "my-claim")

        await until(lambda: world.is_clean("my-claim", EVC))
        await world.patch({"spec": {"size": "2G"}}, "my-claim", EVC)
        await until(lambda: volume()["spec"]["resources"] == {"requests": {"storage": "2G"}})

        await world.patch({"metadata": {"labels": {"other": "kept"}}}, "my-claim", PVC)
        await world.patch({"metadata": {"labels": {"application": "some-app", "owner": "me"}}}, "my-claim", EVC)
        labels = {"application": "some-app", "owner": "me", "other": "kept"}
        await until(lambda: volume()["metadata"]["labels"] == labels)
        await world.patch({"metadata": {"labels": {"owner": None}}}, "my-claim", EVC)
        await until(lambda: volume()["metadata"]["labels"] == {"application": "some-app", "other": "kept"})

        await world.delete("my-claim", EVC)
        await until(lambda: not volume())
    assert world.find("my-claim", EVC) is None
    assert world.find("without", PVC) is None
