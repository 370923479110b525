"""Fixtures of the suites that run whole operators."""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from conformance.api import Api
from conformance.spaces import provide, provided
from controlplane import build
from controlplane.cluster import ControlPlane, Options
from operators.auditing import Audited
from operators.cluster import Examples
from targets import Target, of_control_plane

CRD = Path(__file__).resolve().parents[2] / "examples" / "01-minimal" / "crd.yaml"


@pytest.fixture(scope="session")
def served(target: Target) -> Iterator[Target]:
    """A server that serves `kopfexamples.kopf.dev`."""
    with provided(target, yaml.safe_load(CRD.read_text())):
        yield target


@pytest.fixture
async def examples(served: Target) -> AsyncIterator[Examples]:
    """The objects of a namespace of the test's own."""
    name = f"e2e-{secrets.token_hex(6)}"
    async with Api(served) as api:
        await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        found = Examples(api, name)
        yield found
        await api.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def audited() -> Iterator[Audited]:
    if os.environ.get("KUBECONFIG"):
        pytest.skip("needs a server whose audit log can be read; the one of KUBECONFIG is not ours")
    if not build.is_built():
        pytest.fail("The real control plane is not built yet: run `make e2e`, or python e2e/controlplane/build.py.")
    with ControlPlane(Options(audit=True)) as cluster:
        yield Audited(cluster, of_control_plane(cluster))


@pytest.fixture
async def admin(audited: Audited) -> AsyncIterator[Api]:
    async with Api(audited.target) as api:
        await provide(api, yaml.safe_load(CRD.read_text()))
        yield api
