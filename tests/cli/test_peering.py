"""`ctl freeze` and `ctl resume`, as processes, against a sandbox in the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctl.runtime import clock
from ctl.sandbox import Sandbox

from .processes import command

MANIFESTS = Path(__file__).resolve().parents[2] / "examples" / "peering.yaml"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    """With the definitions that users install, and peering objects in two namespaces and for the cluster."""
    async with Sandbox() as sandbox:
        await sandbox.load_manifest(MANIFESTS.read_text())
        for name in ("one", "two", "three"):
            await sandbox.load_manifest(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}")
        await sandbox.load_manifest("apiVersion: kopf.dev/v1\nkind: ClusterKopfPeering\nmetadata: {name: mine}")
        for name in ("one", "two"):
            await sandbox.load_manifest(
                f"apiVersion: kopf.dev/v1\nkind: KopfPeering\nmetadata: {{name: mine, namespace: {name}}}"
            )
        yield sandbox


def records(sandbox: Sandbox, namespace: str | None = None) -> Any:
    kind = "ClusterKopfPeering" if namespace is None else "KopfPeering"
    found = sandbox.get("kopf.dev/v1", kind, "mine", namespace)
    assert found is not None
    return found.get("status") or {}


Done = Callable[..., Awaitable[str]]


@pytest.fixture
def done(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Done:
    """Runs a command to its end against the sandbox."""
    monkeypatch.delenv("POD_ID", raising=False)
    kubeconfig = str(sandbox.kubeconfig(tmp_path / "kubeconfig"))
    return partial(_done, KUBECONFIG=kubeconfig)


async def _done(*args: str, code: int = 0, **env: str) -> str:
    async with command(*args, env=env) as run:
        assert await run.end() == code, run.output
        assert "Traceback" not in run.output
        return run.output


async def test_operators_are_frozen_and_resumed_by_one_record(sandbox: Sandbox, done: Done) -> None:
    said = await done("freeze", "-A", "-P", "mine", "-t", "300", "-m", "maintenance")
    ((identity, record),) = records(sandbox).items()
    assert "@" in identity
    assert "/" not in identity
    assert (record["priority"], record["lifetime"]) == (100, 300)
    assert clock.now() - clock.parse(record["lastseen"]) < timedelta(seconds=60)
    assert f"are frozen by {identity} for 300 s: 'mine' cluster-wide." in said
    assert records(sandbox, "one") == {}
    await done("resume", "-A", "-P", "mine")
    assert records(sandbox) == {}


async def test_namespaces_are_named_or_matched(sandbox: Sandbox, done: Done) -> None:
    await done("freeze", "-n", "t*", "-n", "one", "-P", "mine", "-t", "60", "--dev", "-i", "me")
    for name in ("one", "two"):
        assert records(sandbox, name)["me"]["priority"] == 666
    assert records(sandbox) == {}
    await done("resume", "-n", "one", "-P", "mine", "--id", "me")
    assert records(sandbox, "one") == {}
    assert set(records(sandbox, "two")) == {"me"}


@pytest.mark.parametrize("prefix", ["CTL", "KOPF"])
async def test_options_come_from_the_environment(sandbox: Sandbox, done: Done, prefix: str) -> None:
    given = {"PEERING": "mine", "CLUSTERWIDE": "true", "ID": "env"}
    more = {"PRIORITY": "7", "LIFETIME": "50"}
    await done("freeze", **{f"{prefix}_FREEZE_{key}": value for key, value in {**given, **more}.items()})
    record = records(sandbox)["env"]
    assert (record["priority"], record["lifetime"]) == (7, 50)
    await done("resume", **{f"{prefix}_RESUME_{key}": value for key, value in given.items()})
    assert records(sandbox) == {}


async def test_the_pod_is_the_identity_where_there_is_one(sandbox: Sandbox, done: Done) -> None:
    await done("freeze", "-A", "-P", "mine", "-t", "60", POD_ID="pod-7")
    assert set(records(sandbox)) == {"pod-7"}
    await done("freeze", "-A", "-P", "mine", "-t", "0", POD_ID="pod-7")
    assert records(sandbox) == {}


async def test_a_freeze_that_freezes_nothing_is_an_error(sandbox: Sandbox, done: Done) -> None:
    said = await done("freeze", "-A", "-P", "other", "-t", "60", code=1)
    assert "Nothing is frozen: there is no peering object 'other' cluster-wide." in said
    assert "Create it" in said
    assert "nothing was frozen there" in await done("resume", "-A", "-P", "other")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["freeze", "-A", "-n", "x", "-P", "mine", "-t", "1"], "Either --namespace or --all-namespaces"),
        (["freeze", "-A", "-P", "mine"], "Missing option '-t' / '--lifetime'."),
        (["resume", "-A"], "Missing option '-P' / '--peering'."),
    ],
)
async def test_wrong_usage_is_one_sentence_and_code_2(args: list[str], said: str) -> None:
    assert said in await _done(*args, code=2)
