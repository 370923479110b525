"""The server that a command talks to, and how it finds the way there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctl.sandbox import Sandbox

CRD = Path(__file__).parents[2] / "examples" / "01-minimal" / "crd.yaml"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    """It serves `kopfexamples.kopf.dev`."""
    async with Sandbox() as sandbox:
        await sandbox.load_manifest(CRD.read_text())
        yield sandbox


@pytest.fixture
def kubeconfig(sandbox: Sandbox, tmp_path: Path) -> Path:
    """Where the way is written."""
    return sandbox.kubeconfig(tmp_path / "kubeconfig")
