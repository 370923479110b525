"""Real, unmodified clients: the `kubernetes` package and kubectl where it is installed."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ctl.sandbox import Sandbox, SandboxSettings

KUBECTL = shutil.which("kubectl")
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, kind: Foo, shortNames: [fo]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
"""
FOO = """
apiVersion: example.com/v1
kind: Foo
metadata: {name: one, finalizers: [x.io/hold]}
spec: {size: %d}
"""


# As a test has it in its process, and as `ctl sandbox` serves it.
SERVERS = {"open": SandboxSettings(), "guarded": SandboxSettings(tokens=frozenset({"open sesame"}), tls=True)}


@pytest.fixture(params=SERVERS)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    async with Sandbox(settings=SERVERS[request.param]) as found:
        yield found


class Kubectl:
    """kubectl with a home of its own; each call must succeed."""

    def __init__(self, config: Path) -> None:
        self.config = config

    async def __call__(self, *words: str, stdin: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL),
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"KUBECONFIG": str(self.config), "HOME": str(self.config.parent)},
        )
        async with asyncio.timeout(60):
            output, _ = await process.communicate(stdin.encode())
        assert process.returncode == 0, output.decode()
        return output.decode()


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl(sandbox: Sandbox, tmp_path: Path) -> None:
    kubectl = Kubectl(sandbox.kubeconfig(tmp_path / "config"))
    assert "created" in await kubectl("apply", "-f", "-", stdin=CRD)
    assert "foos" in await kubectl("api-resources", "--api-group=example.com")
    assert "created" in await kubectl("apply", "-f", "-", stdin=FOO % 1)
    assert "configured" in await kubectl("apply", "-f", "-", stdin=FOO % 2)
    assert "unchanged" in await kubectl("apply", "-f", "-", stdin=FOO % 2)
    assert (await kubectl("get", "fo")).split() == ["NAME", "SIZE", "one", "2"]
    await kubectl("label", "foo", "one", "a=b")
    await kubectl("annotate", "foo", "one", "c=d")
    assert "one" in await kubectl("get", "foos", "-l", "a=b", "-A")
    await kubectl("create", "configmap", "made", "--from-literal=a=b")
    await kubectl("create", "deployment", "made", "--image=nginx")
    await kubectl("set", "image", "deployment/made", "nginx=nginx:2")
    deployment: dict[str, Any] = json.loads(await kubectl("get", "deployment", "made", "-o", "json"))
    assert [one["image"] for one in deployment["spec"]["template"]["spec"]["containers"]] == ["nginx:2"]
    assert deployment["metadata"]["generation"] == 2
    await kubectl("delete", "foo", "one", "--wait=false")
    waiting = asyncio.create_task(kubectl("wait", "--for=delete", "foo/one", "--timeout=30s"))
    async with asyncio.timeout(30):
        while not sandbox.watchers:  # noqa: ASYNC110 - kubectl's watch is seen from outside only
            await asyncio.sleep(0.01)
    await kubectl("patch", "foo", "one", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    await waiting
    await kubectl("delete", "crd", "foos.example.com")
    await kubectl("create", "namespace", "made")
    await kubectl("delete", "namespace", "made")


async def test_the_kubernetes_package(sandbox: Sandbox, tmp_path: Path) -> None:
    config = sandbox.kubeconfig(tmp_path / "config")
    await sandbox.load_manifest(CRD)
    found = await asyncio.to_thread(use_package, str(config))
    assert found == {"data": {"a": "2"}, "events": ["ADDED", "MODIFIED"], "conflict": 409, "sizes": [7]}


def use_package(config: str) -> dict[str, Any]:
    from kubernetes import client, watch
    from kubernetes import config as kubeconfig

    found: dict[str, Any] = {}
    with kubeconfig.new_client_from_config(config) as api:
        core = client.CoreV1Api(api)
        core.create_namespaced_config_map(
            "default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one"), data={"a": "1"})
        )
        core.patch_namespaced_config_map("one", "default", {"data": {"a": "2"}})
        found["data"] = core.read_namespaced_config_map("one", "default").data
        metadata = core.read_namespaced_config_map("one", "default").metadata
        assert metadata is not None
        version = str(int(metadata.resource_version or 0) - 2)
        stream = watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=5
        )
        found["events"] = [event["type"] for _, event in zip(range(2), stream, strict=False)]
        try:
            core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one")))
        except client.ApiException as error:
            found["conflict"] = error.status
        custom = client.CustomObjectsApi(api)
        body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"generateName": "f-"}, "spec": {"size": 7}}
        custom.create_namespaced_custom_object("example.com", "v1", "default", "foos", body)
        listed: Any = custom.list_cluster_custom_object("example.com", "v1", "foos")
        items = listed["items"]
        found["sizes"] = [item["spec"]["size"] for item in items]
    return found
