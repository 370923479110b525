"""The operator of the manual's tutorial, as a process: its clients of the `kubernetes` package are told nothing of the server."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.api import Api, Body
from conformance.spaces import DEFINITIONS, provide
from operators.cluster import Examples
from operators.processes import ctl_command, running
from targets import Target

TUTORIAL = Path(__file__).resolve().parents[2] / "tests" / "manual" / "tutorial"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "ephemeral"},
    "provisioner": "example.com/none",
    "allowVolumeExpansion": True,
}
"""Only volumes of such a class can grow."""
SECONDS = 60.0


def volume(namespace: str) -> Body:
    """What a provisioner would make: a volume for the claim `my-claim` of a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{namespace}"},
        "spec": {
            "capacity": {"storage": "1G"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "ephemeral",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": "my-claim"},
            "hostPath": {"path": "/nowhere"},
        },
    }


class Claims:
    """Objects of a namespace: claims of the operator's own kind, and those for volumes."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        self.evcs = f"/apis/kopf.dev/v1/namespaces/{namespace}/ephemeralvolumeclaims"
        self.pvcs = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"

    async def create(self, name: str, spec: Body) -> None:
        body = {"apiVersion": "kopf.dev/v1", "kind": "EphemeralVolumeClaim", "metadata": {"name": name}, "spec": spec}
        await self._api.create(self.evcs, body)

    async def patch(self, path: str, change: Body) -> None:
        answer = await self._api.call("PATCH", path, change, kind="application/merge-patch+json")
        assert answer.code == 200, answer

    async def until(self, path: str, holds: Callable[[Body], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            answer = await self._api.call("GET", path)
            if answer.code == 200 and holds(answer.body):
                return
            assert time.monotonic() < deadline, answer
            await asyncio.sleep(0.05)


@pytest.fixture
async def claims(target: Target, examples: Examples) -> AsyncIterator[Claims]:
    definition: dict[str, Any] = yaml.safe_load((TUTORIAL / "crd.yaml").read_text())
    async with Api(target) as api:
        await provide(api, definition)
        needed: tuple[tuple[str, Body], ...] = (
            ("/apis/storage.k8s.io/v1/storageclasses", CLASS),
            ("/api/v1/persistentvolumes", volume(examples.namespace)),
        )
        for path, body in needed:
            answer = await api.call("POST", path, body)
            assert answer.code in {201, 404, 409}, answer  # the sandbox has no classes, and needs none
        yield Claims(api, examples.namespace)
        for path, body in (*needed, (DEFINITIONS, definition)):
            await api.call("DELETE", f"{path}/{body['metadata']['name']}")


async def test_the_tutorial(target: Target, claims: Claims, tmp_path: Path) -> None:
    command = ctl_command("run", "-v", "-n", claims.namespace, str(TUTORIAL / "claims_operator.py"))
    with running(command, target, tmp_path / "log") as operator:
        await claims.create("without", {})
        operator.wait_for("A claim needs a size; got None.")
        await claims.create("my-claim", {"size": "1G"})
        evc, pvc = f"{claims.evcs}/my-claim", f"{claims.pvcs}/my-claim"
        await claims.until(evc, lambda body: body.get("status") == {"create_fn": {"pvc-name": "my-claim"}})
        await claims.until(pvc, lambda body: body["metadata"]["ownerReferences"][0]["name"] == "my-claim")
        if target.name == "real":  # where only bound claims can grow
            await claims.until(pvc, lambda body: body["status"].get("phase") == "Bound")
        await claims.patch(evc, {"spec": {"size": "2G"}})
        await claims.until(pvc, lambda body: body["spec"]["resources"]["requests"] == {"storage": "2G"})
        await claims.patch(evc, {"metadata": {"labels": {"application": "some-app", "owner": "me"}}})
        await claims.until(pvc, lambda body: set(body["metadata"].get("labels", ())) == {"application", "owner"})
        await claims.patch(evc, {"metadata": {"labels": {"owner": None}}})
        await claims.until(pvc, lambda body: body["metadata"]["labels"] == {"application": "some-app"})
        operator.wait_for("Updating is processed: 2 succeeded; 0 failed.")
        assert operator.stop() == 0
