"""Fixtures of the suites that run whole operators."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from conformance.api import Api
from conformance.spaces import DEFINITIONS, established
from operators.cluster import Examples
from targets import Target

CRD = Path(__file__).resolve().parents[2] / "examples" / "01-minimal" / "crd.yaml"


@pytest.fixture(scope="session")
def served(target: Target) -> Iterator[Target]:
    """A server that serves `kopfexamples.kopf.dev`."""
    definition = yaml.safe_load(CRD.read_text())

    async def install() -> bool:
        async with Api(target) as api:
            answer = await api.call("POST", DEFINITIONS, definition)
            assert answer.code in {201, 409}, answer
            await established(api, definition)
            return answer.code == 201

    async def uninstall() -> None:
        async with Api(target) as api:
            await api.delete(f"{DEFINITIONS}/{definition['metadata']['name']}")

    ours = asyncio.run(install())
    yield target
    if ours:
        asyncio.run(uninstall())


@pytest.fixture
async def examples(served: Target) -> AsyncIterator[Examples]:
    """The objects of a namespace of the test's own."""
    name = f"e2e-{secrets.token_hex(6)}"
    async with Api(served) as api:
        await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        found = Examples(api, name)
        yield found
        await api.call("DELETE", f"/api/v1/namespaces/{name}")
