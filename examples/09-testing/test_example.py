import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import example  # noqa: F401 - declares the handlers
import pytest

import ctl
from ctl.sandbox import Sandbox

CRD = Path(__file__).parent.parent / "01-minimal" / "crd.yaml"
EXAMPLES = ctl.Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)


@pytest.fixture
async def sandbox(tmp_path):
    async with Sandbox() as server:
        await server.load_manifest(CRD.read_text())
        yield ctl.load_access(server.kubeconfig(tmp_path / "kubeconfig"))


@asynccontextmanager
async def operating(access, namespace="default"):
    """Run the operator, and give a user's client."""
    ready, stop = asyncio.Event(), asyncio.Event()
    operator = asyncio.create_task(
        ctl.operator(access=access, namespaces=[namespace], standalone=True, ready_flag=ready, stop_flag=stop)
    )
    try:
        async with ctl.Client(access) as user:
            await asyncio.wait_for(ready.wait(), 30)
            yield user
    finally:
        stop.set()
        await operator


async def create(user, name, namespace="default"):
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}, "spec": {"field": "old"}}
    await user.create(EXAMPLES, body, namespace)


async def status(user, name, handler, namespace="default", seconds=30):
    """Wait for the result of a handler."""
    async with asyncio.timeout(seconds):
        while True:
            found = (await user.get(EXAMPLES, name, namespace)).body()
            if handler in found.get("status", {}):
                return found["status"][handler]
            await asyncio.sleep(0.1)


async def greets(access, namespace="default"):
    async with operating(access, namespace) as user:
        await create(user, "tested", namespace)
        try:
            assert await status(user, "tested", "create_fn", namespace) == {"message": "hello, tested"}
        finally:
            await user.delete(EXAMPLES, "tested", namespace)


async def test_new_objects_are_greeted(sandbox):
    await greets(sandbox)


@pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="KUBECONFIG names no cluster to test on as well")
async def test_new_objects_are_greeted_in_a_cluster():
    await greets(ctl.load_access(), os.environ.get("EXAMPLE_NAMESPACE", "default"))


@pytest.mark.virtual_time
async def test_a_change_is_handled_a_quarter_of_an_hour_later(sandbox):
    async with operating(sandbox) as user:
        await create(user, "patient")
        await status(user, "patient", "create_fn")
        await user.patch(EXAMPLES, "patient", "default", {"spec": {"field": "new"}})
        await asyncio.sleep(14 * 60)
        assert "update_fn" not in (await user.get(EXAMPLES, "patient", "default")).body()["status"]
        found = await status(user, "patient", "update_fn", seconds=2 * 60)
        assert found == {"field": "new", "attempts": 2}
