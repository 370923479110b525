"""An operator whose thousand handlers would go on for an hour ends within its grace when it is told to, and gives its lease away."""

import signal
from pathlib import Path

from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.sandbox import Sandbox

from .processes import command

COUNT = 1000
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CRD = Path(__file__).resolve().parents[2] / "examples" / "01-minimal" / "crd.yaml"
OPERATOR = f"""
import asyncio
import ctl

busy = 0

@ctl.on.create("kopfexamples")
async def create_fn(logger, **_):
    global busy
    busy += 1
    if busy == {COUNT}:
        logger.info("all are busy")
    await asyncio.sleep(3600)
"""


async def test_a_thousand_busy_handlers_hold_up_neither_the_end_nor_the_release(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(OPERATOR)
    async with Sandbox() as sandbox:
        await sandbox.load_manifest(CRD.read_text())
        for number in range(COUNT):
            sandbox.create(
                {
                    "apiVersion": "kopf.dev/v1",
                    "kind": "KopfExample",
                    "metadata": {"name": f"o{number}", "namespace": "default"},
                    "spec": {},
                }
            )
        kubeconfig = sandbox.kubeconfig(tmp_path / "kubeconfig")
        lease = ("--leader-elect", "--lease-name", "busy", "--lease-namespace", "default")
        async with (
            command("run", "-A", "--kubeconfig", kubeconfig, *lease, path) as run,
            Client(Access(sandbox.url)) as client,
        ):
            await run.line("all are busy")
            held = (await client.get(LEASES, "busy", "default")).body()
            assert held["spec"]["holderIdentity"]
            # Within PATIENCE, which is many times the grace, for a machine that is busy; an hour is what the handlers would take.
            assert await run.end(signal.SIGTERM) == 0
            released = (await client.get(LEASES, "busy", "default")).body()
        assert released["spec"]["holderIdentity"] == ""
    assert "Traceback" not in run.output
