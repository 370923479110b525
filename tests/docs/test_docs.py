"""The Python of the documentation runs, block after block, in one namespace for each page, against the sandbox."""

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.handlers.declaration.registry import OperatorRegistry, set_default_registry
from ctl.sandbox import Sandbox

pytestmark = pytest.mark.virtual_time

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 5.0
"""How long a block may go on; one that serves until it is stopped is stopped then."""

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notes.example.com}
spec:
  scope: Namespaced
  group: example.com
  names: {kind: Note, plural: notes, singular: note}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    set_default_registry(OperatorRegistry())
    async with Sandbox() as sandbox:
        await sandbox.load_manifest(CRD)
        await sandbox.load_manifest(
            "{apiVersion: example.com/v1, kind: Note, metadata: {name: one, namespace: default}, spec: {text: hello}}"
        )
        yield sandbox
    set_default_registry(OperatorRegistry())


def blocks(page: str) -> list[str]:
    """The Python of a page."""
    return BLOCK.findall((DOCS / page).read_text())


async def run(block: str, known: dict[str, Any]) -> None:
    """Run one block, which may await at its top; it is cut off after SECONDS."""
    code = compile(block, "<docs>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    found: Coroutine[Any, Any, None] | None = eval(code, known)
    if inspect.iscoroutine(found):
        try:
            async with asyncio.timeout(SECONDS) as limit:
                await found
        except TimeoutError:
            assert limit.expired()


async def test_controllers(sandbox: Sandbox) -> None:
    access, stop = Access(sandbox.url), asyncio.Event()
    asyncio.get_running_loop().call_later(SECONDS / 2, stop.set)
    known: dict[str, Any] = {"asyncio": asyncio, "access": access, "stop": stop}
    for block in blocks("controllers.md"):
        await run(block, known)
    child = sandbox.get("v1", "ConfigMap", "one-text", "default")
    assert child is not None
    assert child["data"] == {"text": "hello"}
    assert child["metadata"]["ownerReferences"][0]["name"] == "one"
    note = sandbox.get("example.com/v1", "Note", "one", "default")
    assert note is not None
    assert note["status"]["conditions"][0]["reason"] == "Written"
    # The functions that the page only defines are reconcilers, too.
    for name in ("explain", "scale", "with_outside"):
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(1, event.set)
        assembly = ctl.controller("notes.example.com").owns("configmaps").named(name).reconciles(known[name])
        await ctl.serve(assembly, access=access, stop=event)
    assert (sandbox.get("v1", "ConfigMap", "one", "default") or {})["data"] == {"a": "1", "count": "1"}
    assert sandbox.get("v1", "ConfigMap", "two", "default") is not None
    note = sandbox.get("example.com/v1", "Note", "one", "default")
    assert note is not None
    assert note["metadata"]["finalizers"] == ["example.com/outside"]
    stop.set()
    await ctl.serve(known["fuller"], access=access, stop=stop)


async def test_informers(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(sandbox.kubeconfig(tmp_path / "kubeconfig")))
    await sandbox.load_manifest("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine, namespace: default}}")
    async with ctl.Client(Access(sandbox.url)) as client:
        known: dict[str, Any] = {}
        for block in blocks("informers.md"):
            known["factory"] = factory = ctl.SharedInformerFactory(client)
            await run(block, known)
            await factory.stop()
    assert "default/mine" in capsys.readouterr().out


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_block_of_python_can_be_compiled(page: str) -> None:
    for block in blocks(page):
        compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.fixture
async def examples(sandbox: Sandbox) -> Sandbox:
    await sandbox.load_manifest((DOCS.parent / "examples" / "01-minimal" / "crd.yaml").read_text())
    return sandbox


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - the world tells nobody
            await asyncio.sleep(0.1)


async def test_guide(examples: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kopf.objects")
    known: dict[str, Any] = {"asyncio": asyncio, "access": Access(examples.url)}
    for block in blocks("guide.md"):
        await run(block, known)
    head = "apiVersion: kopf.dev/v1\nkind: KopfExample\nmetadata: "
    await examples.load_manifest(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: default, labels: {guide: index}}, data: {a: b}}"
    )
    stop = asyncio.Event()
    operator = asyncio.create_task(known["main"](stop))
    for name, labels, spec in (
        ("one", "guide: index, colour: blue, size: xl", "field: a, replicas: 1"),
        ("two", "guide: patching", "field: a, replicas: 4, ready: false"),
        ("three", "guide: daemon", "field: a"),
    ):
        await examples.load_manifest(
            f"{head}{{name: {name}, namespace: default, labels: {{{labels}}}}}\nspec: {{{spec}}}"
        )

    def status(name: str) -> Any:
        return (examples.get("kopf.dev/v1", "KopfExample", name, "default") or {}).get("status") or {}

    await until(lambda: caplog.text.count("Creation is processed") == 3)
    await until(lambda: "looking after three" in caplog.text)
    assert status("one")["create_fn"] == {"message": "hello, one"}
    assert status("two")["phase"] == "Known"
    assert "still 'a'" in caplog.text
    two = examples.get("kopf.dev/v1", "KopfExample", "two", "default") or {}
    assert two["spec"]["field"] == "set by the operator"
    assert "example.com/ours" in two["metadata"]["finalizers"]
    assert caplog.text.count("called for create") == 3
    for text in ("blue, of some size", "its config is {'a': 'b'}", "a big one"):
        assert caplog.text.count(text) == 1, text
    stop.set()
    await operator


async def test_migrating(examples: Sandbox) -> None:
    modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "kopf"}
    stop = asyncio.Event()
    try:
        for block in blocks("migrating-from-kopf.md"):
            await run(block, {})
        assert sys.modules["kopf"].__version__ == "1.45.2"
        operator = asyncio.create_task(ctl.operator(access=Access(examples.url), clusterwide=True, stop_flag=stop))
        await examples.load_manifest(
            "{apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: one, namespace: default}, spec: {field: a}}"
        )
        async with ctl.Client(Access(examples.url)) as client:
            events = ctl.Resource("", "v1", "events", namespaced=True)
            async with asyncio.timeout(60):
                while not [event for event in await client.list(events) if event.body()["reason"] == "Created"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        stop.set()
        await operator
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "kopf"]:
            del sys.modules[name]
        sys.modules.update(modules)
