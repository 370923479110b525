"""`ctl finalizers`, as a process: objects are freed, and nobody else's finalizer is lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ctl.client.config.loading import load_access
from ctl.client.errors import Invalid
from ctl.client.resources import Resource
from ctl.client.rest import Client, PatchKind
from ctl.sandbox import Sandbox
from ctl.sandbox.faults import Match

from .processes import command

CRD = Path(__file__).parents[2] / "examples" / "01-minimal" / "crd.yaml"
OURS = "kopf.zalando.org/KopfFinalizerMarker"
EXAMPLES = Resource("kopf.dev", "v1", "kopfexamples", namespaced=True)


def make(sandbox: Sandbox, name: str, *finalizers: str, namespace: str = "default") -> None:
    meta = {"name": name, "namespace": namespace, "finalizers": list(finalizers)}
    sandbox.create({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": meta, "spec": {}})


def finalizers(sandbox: Sandbox, name: str, namespace: str = "default") -> list[str] | None:
    body = sandbox.get("kopf.dev/v1", "KopfExample", name, namespace)
    return None if body is None else body["metadata"].get("finalizers", [])


async def test_a_dry_run_changes_nothing(sandbox: Sandbox, kubeconfig: Path) -> None:
    make(sandbox, "held", OURS, "other/one")
    make(sandbox, "free", "other/one")
    async with command("finalizers", "remove", "-A", "kopfexamples", "--kubeconfig", kubeconfig) as run:
        assert await run.end() == 0
    assert sorted(run.lines) == [
        f"1 objects have {OURS!r}, 0 of them are being deleted. Nothing is changed; to free them, add --yes.",
        "would free kopfexamples.kopf.dev default/held",
    ]
    assert finalizers(sandbox, "held") == [OURS, "other/one"]


async def test_objects_are_freed_and_those_under_deletion_go(sandbox: Sandbox, kubeconfig: Path) -> None:
    make(sandbox, "held", "other/one", OURS, "other/two")
    make(sandbox, "leaving", OURS)
    make(sandbox, "elsewhere", OURS, namespace="kube-public")
    async with Client(load_access(kubeconfig)) as client:
        await client.delete(EXAMPLES, "leaving", "default")
    options = ("-n", "default", "--yes", "--kubeconfig", kubeconfig)
    async with command("finalizers", "remove", "kex", *options) as run:
        assert await run.end() == 0
    assert sorted(run.lines) == [
        f"2 objects had {OURS!r}: 2 freed.",
        "freed kopfexamples.kopf.dev default/held",
        "freed kopfexamples.kopf.dev default/leaving (being deleted)",
    ]
    assert finalizers(sandbox, "held") == ["other/one", "other/two"]
    assert finalizers(sandbox, "leaving") is None
    assert finalizers(sandbox, "elsewhere", "kube-public") == [OURS]


async def test_another_finalizer_may_be_meant(sandbox: Sandbox, kubeconfig: Path) -> None:
    make(sandbox, "held", OURS, "other/one")
    options = ("-A", "--yes", "--finalizer", "other/one", "--kubeconfig", kubeconfig)
    async with command("finalizers", "remove", "KopfExample", *options) as run:
        assert await run.end() == 0
    assert finalizers(sandbox, "held") == [OURS]


async def test_all_resources_are_listed(sandbox: Sandbox, kubeconfig: Path) -> None:
    make(sandbox, "held", OURS)
    meta = {"name": "one", "namespace": "default", "finalizers": [OURS]}
    sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    async with command("finalizers", "list", "-A", "--kubeconfig", kubeconfig) as run:
        assert await run.end() == 0
    assert sorted(run.lines) == [
        f"2 objects have {OURS!r}, 0 of them are being deleted.",
        "configmaps default/one",
        "kopfexamples.kopf.dev default/held",
    ]


async def test_finalizers_that_others_change_meanwhile_are_not_lost(sandbox: Sandbox, kubeconfig: Path) -> None:
    names = [f"object-{number}" for number in range(10)]
    for name in names:
        make(sandbox, name, "other/first", OURS, "other/passing")
    done = asyncio.Event()

    async def edit(client: Client, name: str) -> list[str]:
        """Add and remove finalizers of others, as careful writers do, until our one is gone."""
        added: list[str] = []
        while not done.is_set() or len(added) < 5:
            found: list[str] = (await client.get(EXAMPLES, name, "default")).body()["metadata"]["finalizers"]
            wish = [one for one in found if one != "other/passing"] + [f"other/{len(added)}"]
            patch: list[dict[str, Any]] = [
                {"op": "test", "path": "/metadata/finalizers", "value": found},
                {"op": "replace", "path": "/metadata/finalizers", "value": wish},
            ]
            try:
                await client.patch(EXAMPLES, name, "default", patch, kind=PatchKind.JSON)
            except Invalid:
                continue
            added.append(wish[-1])
            await asyncio.sleep(0.01)
        return added

    async with Client(load_access(kubeconfig)) as client, asyncio.timeout(60):
        edits = [asyncio.create_task(edit(client, name)) for name in names]
        options = ("-A", "--yes", "--kubeconfig", kubeconfig)
        async with command("finalizers", "remove", "kopfexamples", *options) as run:
            assert await run.end() == 0
        done.set()
        added = await asyncio.gather(*edits)
    for name, ours in zip(names, added, strict=True):
        assert finalizers(sandbox, name) == ["other/first", *ours]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["remove", "-A"], 2, "Missing argument 'RESOURCES...'"),
        (["remove", "pods"], 2, "Say where: --namespace NAME, or --all-namespaces."),
        (["list", "-A", "-n", "x"], 2, "not both"),
        (["remove", "-A", "nothings"], 1, "The server serves no resource 'nothings'"),
        (["remove", "-n", "default", "nodes"], 1, "nodes are in no namespace"),
    ],
)
async def test_what_is_wrong_is_said(
    sandbox: Sandbox, kubeconfig: Path, arguments: list[str], code: int, said: str
) -> None:
    async with command("finalizers", *arguments, "--kubeconfig", kubeconfig) as run:
        assert await run.end() == code
    assert said in " ".join(run.output.split())


async def test_what_may_not_be_freed_is_told(sandbox: Sandbox, kubeconfig: Path) -> None:
    make(sandbox, "denied", OURS)
    make(sandbox, "held", OURS)
    sandbox.faults.answer(403, "Forbidden", "no such right", match=Match(method="PATCH", path="/denied"), times=None)
    async with command("finalizers", "remove", "-A", "--yes", "kopfexamples", "--kubeconfig", kubeconfig) as run:
        assert await run.end() == 1
    assert f"2 objects had {OURS!r}: 1 freed, 1 not freed." in run.lines
    assert any(line.startswith("not freed kopfexamples.kopf.dev default/denied: ") for line in run.lines)
    assert (finalizers(sandbox, "denied"), finalizers(sandbox, "held")) == ([OURS], [])


async def test_an_answer_that_is_lost_is_looked_for(sandbox: Sandbox, kubeconfig: Path) -> None:
    make(sandbox, "held", OURS)
    sandbox.faults.lose_answer(match=Match(method="PATCH"))
    async with command("finalizers", "remove", "-A", "--yes", "kopfexamples", "--kubeconfig", kubeconfig) as run:
        assert await run.end() == 0
    assert f"1 objects had {OURS!r}: 1 freed." in run.lines
    assert finalizers(sandbox, "held") == []
