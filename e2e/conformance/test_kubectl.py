"""The real kubectl, as a user at a terminal would use it."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.api import Api
from conformance.spaces import Space, configmap
from targets import Target

SECONDS = 60.0
pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not installed: its tests need it on the PATH"
)


@dataclass(frozen=True)
class Kubectl:
    """kubectl in one namespace of one server, with a home of its own."""

    target: Target
    namespace: str
    home: Path

    def command(self, *words: str) -> list[str]:
        return ["kubectl", f"--kubeconfig={self.target.kubeconfig}", f"--namespace={self.namespace}", *words]

    async def start(self, words: Sequence[str]) -> asyncio.subprocess.Process:
        # An environment of its own: no configuration of the user's, and the discovery cache in this test's folder.
        environment = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        pipe = asyncio.subprocess.PIPE
        program = shutil.which("kubectl") or "kubectl"
        command = [program, *self.command(*words)[1:]]
        return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)

    async def fails(self, *words: str, stdin: object = None) -> str:
        """Run to its end, which has to be a failure, and give what was written to standard error."""
        code, _, complaint = await self._run(words, stdin)
        assert code != 0, words
        return complaint

    async def __call__(self, *words: str, stdin: object = None) -> str:
        """Run to its end, which has to be a success, and give what was printed. An object as stdin goes as YAML."""
        code, printed, complaint = await self._run(words, stdin)
        assert code == 0, f"kubectl {' '.join(words)}: {complaint}"
        return printed

    async def json(self, *words: str) -> Any:
        return json.loads(await self(*words, "-o", "json"))

    async def _run(self, words: Sequence[str], stdin: object) -> tuple[int | None, str, str]:
        process = await self.start(words)
        text = yaml.safe_dump(stdin).encode() if stdin is not None else b""
        try:
            printed, complaint = await asyncio.wait_for(process.communicate(text), SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        return process.returncode, printed.decode(), complaint.decode()

    async def run(self, *words: str) -> tuple[int | None, str, str]:
        """Run to its end: the code, what was printed, and what was written to standard error."""
        return await self._run(words, None)

    @asynccontextmanager
    async def lines(self, *words: str) -> AsyncIterator[asyncio.StreamReader]:
        """Run until the end of the block and give its output."""
        process = await self.start(words)
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
            await process.communicate()


@pytest.fixture
def kubectl(target: Target, space: Space, tmp_path: Path) -> Kubectl:
    return Kubectl(target, space.name, tmp_path)


async def line(output: asyncio.StreamReader) -> str:
    return (await asyncio.wait_for(output.readline(), SECONDS)).decode().strip()


async def test_create_and_get(kubectl: Kubectl, space: Space) -> None:
    printed = await kubectl("create", "-f", "-", stdin=space.widget("one", spec={"a": 1}))
    assert printed == f"widget.{space.group}/one created\n"
    assert (await kubectl.json("get", "widgets", "one"))["spec"] == {"a": 1}
    assert (await kubectl("get", f"widgets.{space.group}", "-o", "name")) == f"widget.{space.group}/one\n"
    heading, row = (await kubectl("get", "widget", "one")).splitlines()
    assert heading.split() == ["NAME", "AGE"]
    assert row.split()[0] == "one"
    assert "AlreadyExists" in await kubectl.fails("create", "-f", "-", stdin=space.widget("one"))
    assert "NotFound" in await kubectl.fails("get", "widget", "absent")


async def test_create_the_built_in_kinds_by_command(kubectl: Kubectl) -> None:
    # These send protobuf where the server takes it.
    await kubectl("create", "namespace", f"{kubectl.namespace}-n", "--dry-run=server")
    await kubectl("create", "configmap", "one", "--from-literal=a=b")
    await kubectl("create", "secret", "generic", "one", "--from-literal=a=b")
    await kubectl("create", "deployment", "one", "--image=none", "--replicas=2")
    await kubectl("create", "service", "clusterip", "one", "--tcp=80")
    await kubectl("create", "job", "one", "--image=none")
    assert (await kubectl.json("get", "cm", "one"))["data"] == {"a": "b"}
    assert (await kubectl.json("get", "secret", "one"))["data"] == {"a": "Yg=="}
    assert (await kubectl.json("get", "deploy", "one"))["spec"]["replicas"] == 2
    assert (await kubectl.json("get", "job", "one"))["spec"]["template"]["spec"]["containers"][0]["image"] == "none"
    assert (await kubectl.json("get", "svc", "one"))["spec"]["ports"][0]["port"] == 80


async def test_run_and_scale(kubectl: Kubectl) -> None:
    await kubectl("run", "one", "--image=none", "--restart=Never")
    heading, row = (await kubectl("get", "pod", "one")).splitlines()
    assert heading.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["one", "0/1", "Pending", "0"]
    await kubectl("create", "deployment", "one", "--image=none")
    await kubectl("scale", "deployment", "one", "--replicas=3")
    assert (await kubectl.json("get", "deploy", "one"))["spec"]["replicas"] == 3


async def test_apply_creates_changes_and_removes_fields(kubectl: Kubectl, space: Space) -> None:
    one = space.widget("one", spec={"a": 1, "b": 2}, labels={"l": "1"})
    assert await kubectl("apply", "-f", "-", stdin=one) == f"widget.{space.group}/one created\n"
    assert await kubectl("apply", "-f", "-", stdin=one) == f"widget.{space.group}/one unchanged\n"
    changed = space.widget("one", spec={"a": 3})
    assert await kubectl("apply", "-f", "-", stdin=changed) == f"widget.{space.group}/one configured\n"
    found = await kubectl.json("get", "widget", "one")
    assert found["spec"] == {"a": 3}
    assert "labels" not in found["metadata"]
    assert "kubectl.kubernetes.io/last-applied-configuration" in found["metadata"]["annotations"]


async def test_apply_of_a_built_in_kind(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=configmap("one", {"a": "1", "b": "2"})) == "configmap/one created\n"
    assert await kubectl("apply", "-f", "-", stdin=configmap("one", {"a": "3"})) == "configmap/one configured\n"
    assert (await kubectl.json("get", "cm", "one"))["data"] == {"a": "3"}


async def test_get_watch_shows_each_change(kubectl: Kubectl, api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
    shown = "--output=jsonpath={.type} {.object.metadata.name} {.object.spec.a}{'\\n'}"
    async with kubectl.lines("get", "widgets", "--watch", "--output-watch-events", shown) as output:
        assert await line(output) == "ADDED one 1"
        await api.merge(space.widgets("one"), {"spec": {"a": 2}})
        assert await line(output) == "MODIFIED one 2"
        await api.delete(space.widgets("one"))
        assert await line(output) == "DELETED one 2"


async def test_get_watch_as_a_table(kubectl: Kubectl, api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    async with kubectl.lines("get", "widgets", "-w") as output:
        assert (await line(output)).split() == ["NAME", "AGE"]
        assert (await line(output)).split()[0] == "one"
        await api.create(space.widgets(), space.widget("two"))
        assert (await line(output)).split()[0] == "two"


async def test_patch_in_its_three_kinds(kubectl: Kubectl, space: Space) -> None:
    await kubectl("create", "-f", "-", stdin=space.widget("one", spec={"a": 1}))
    printed = await kubectl("patch", "widget", "one", "--type=merge", '--patch={"spec":{"a":2}}')
    assert printed == f"widget.{space.group}/one patched\n"
    assert "(no change)" in await kubectl("patch", "widget", "one", "--type=merge", '--patch={"spec":{"a":2}}')
    await kubectl("patch", "widget", "one", "--type=json", '--patch=[{"op":"add","path":"/spec/b","value":3}]')
    assert (await kubectl.json("get", "widget", "one"))["spec"] == {"a": 2, "b": 3}
    await kubectl("patch", "widget", "one", "--subresource=status", "--type=merge", '--patch={"status":{"s":1}}')
    assert (await kubectl.json("get", "widget", "one"))["status"] == {"s": 1}
    await kubectl("create", "-f", "-", stdin=configmap("one", {"a": "1"}))
    await kubectl("patch", "configmap", "one", '--patch={"data":{"b":"2"}}')
    assert (await kubectl.json("get", "cm", "one"))["data"] == {"a": "1", "b": "2"}


async def test_label_and_annotate(kubectl: Kubectl, space: Space) -> None:
    await kubectl("create", "-f", "-", stdin=space.widget("one"))
    assert await kubectl("label", "widget", "one", "l=1", "m=2") == f"widget.{space.group}/one labeled\n"
    assert await kubectl("annotate", "widget", "one", "n=x y") == f"widget.{space.group}/one annotated\n"
    assert "--overwrite" in await kubectl.fails("label", "widget", "one", "l=2")
    await kubectl("label", "widget", "one", "l=2", "--overwrite")
    await kubectl("label", "widget", "one", "m-")
    metadata = (await kubectl.json("get", "widget", "one"))["metadata"]
    assert metadata["labels"] == {"l": "2"}
    assert metadata["annotations"] == {"n": "x y"}
    assert (await kubectl("get", "widgets", "-l", "l=2", "-o", "name")).strip() == f"widget.{space.group}/one"
    assert await kubectl("get", "widgets", "-l", "l=3", "-o", "name") == ""


async def test_delete_waits_for_the_finalizer(kubectl: Kubectl, api: Api, space: Space) -> None:
    await kubectl("create", "-f", "-", stdin=space.widget("one", finalizers=["ctl.test/keep"]))
    start = (await api.get(space.widgets()))["metadata"]["resourceVersion"]
    async with api.watch(space.widgets(), resourceVersion=start) as watch:
        deleting = asyncio.create_task(kubectl("delete", "widget", "one"))
        event = await watch.next()
        assert (event["type"], "deletionTimestamp" in event["object"]["metadata"]) == ("MODIFIED", True)
        assert not deleting.done()
        await kubectl("patch", "widget", "one", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
        # What is printed names the namespace in newer versions.
        assert f'widget.{space.group} "one" deleted' in await deleting
    assert "NotFound" in await kubectl.fails("get", "widget", "one")


async def test_delete_without_a_finalizer(kubectl: Kubectl, space: Space) -> None:
    await kubectl("create", "-f", "-", stdin=space.widget("one"))
    await kubectl("create", "-f", "-", stdin=space.widget("two"))
    await kubectl("delete", "widget", "one")
    await kubectl("delete", "widgets", "--all")
    assert (await kubectl.json("get", "widgets"))["items"] == []


async def test_wait_for_a_condition(kubectl: Kubectl, space: Space) -> None:
    await kubectl("create", "-f", "-", stdin=space.widget("one"))
    waiting = asyncio.create_task(
        kubectl("wait", "widget/one", "--for=jsonpath={.status.phase}=Ready", "--timeout=50s")
    )
    await kubectl(
        "patch", "widget", "one", "--subresource=status", "--type=merge", '--patch={"status":{"phase":"Ready"}}'
    )
    assert "condition met" in await waiting


async def test_api_resources_and_versions(kubectl: Kubectl, space: Space) -> None:
    # Not all is listed while the definition of another test goes.
    deadline = time.monotonic() + SECONDS
    while (found := await kubectl.run("api-resources", "--no-headers"))[0] != 0:
        assert time.monotonic() < deadline, found
    rows = [row.split() for row in found[1].splitlines()]
    assert ["widgets", f"{space.group}/v1", "true", "Widget"] in rows
    assert ["configmaps", "cm", "v1", "true", "ConfigMap"] in rows
    assert ["leases", "coordination.k8s.io/v1", "true", "Lease"] in rows
    assert [
        "customresourcedefinitions",
        "crd,crds",
        "apiextensions.k8s.io/v1",
        "false",
        "CustomResourceDefinition",
    ] in rows
    assert f"{space.group}/v1" in (await kubectl("api-versions")).splitlines()
    assert (await kubectl.json("version"))["serverVersion"]["major"] == "1"


async def test_a_definition_is_waited_for_as_documentation_says(kubectl: Kubectl, space: Space) -> None:
    await kubectl("wait", f"crd/widgets.{space.group}", "--for=condition=established", "--timeout=50s")
    names = (await kubectl.json("get", f"crd/widgets.{space.group}"))["spec"]["names"]
    assert names["kind"] == "Widget"


async def test_server_side_apply(kubectl: Kubectl, space: Space) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    done = f"widget.{space.group}/one serverside-applied\n"
    assert await kubectl(*apply, stdin=space.widget("one", spec={"a": 1, "b": 1})) == done
    assert await kubectl(*apply, stdin=space.widget("one", spec={"a": 1})) == done
    found = await kubectl.json("get", "widget", "one", "--show-managed-fields")
    assert found["spec"] == {"a": 1}
    assert [(entry["manager"], entry["operation"]) for entry in found["metadata"]["managedFields"]] == [
        ("kubectl", "Apply")
    ]
    other = space.widget("one", spec={"a": 2})
    complaint = await kubectl.fails(*apply, "--field-manager=other", stdin=other)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.a' in complaint
    assert await kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=other) == done
    assert (await kubectl.json("get", "widget", "one"))["spec"] == {"a": 2}


async def test_server_side_apply_after_apply(kubectl: Kubectl, space: Space) -> None:
    await kubectl("apply", "-f", "-", stdin=space.widget("one", spec={"a": 1, "b": 1}))
    await kubectl("apply", "--server-side", "-f", "-", stdin=space.widget("one", spec={"a": 2}))
    found = await kubectl.json("get", "widget", "one", "--show-managed-fields")
    # kubectl moves what it owned before to its new manager, and a second one for the annotation.
    managers = {(entry["manager"], entry["operation"]) for entry in found["metadata"]["managedFields"]}
    assert managers == {("kubectl", "Apply"), ("kubectl-last-applied", "Apply")}
    assert found["spec"] == {"a": 2}
    kept = json.loads(found["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert kept["spec"] == {"a": 2}


async def test_server_side_apply_of_a_deployment(kubectl: Kubectl) -> None:
    text = await kubectl("create", "deployment", "one", "--image=none", "--dry-run=client", "-o", "yaml")
    wanted = yaml.safe_load(text)
    assert (
        await kubectl("apply", "--server-side", "-f", "-", stdin=wanted) == "deployment.apps/one serverside-applied\n"
    )
    await kubectl("set", "image", "deployment/one", "none=other")
    complaint = await kubectl.fails("apply", "--server-side", "-f", "-", stdin=wanted)
    assert '.spec.template.spec.containers[name="none"].image' in complaint


async def test_tokens_and_rights(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "one")
    token = (await kubectl("create", "token", "one", "--duration=20m")).strip()
    assert len(token.split(".")) == 3
    await kubectl("create", "role", "one", "--verb=get,list", "--resource=configmaps")
    await kubectl("create", "rolebinding", "one", "--role=one", f"--serviceaccount={kubectl.namespace}:one")
    assert await kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    account = f"--as=system:serviceaccount:{kubectl.namespace}:one"
    deadline = time.monotonic() + SECONDS
    while True:
        code, printed, _ = await kubectl.run("auth", "can-i", "list", "configmaps", account)
        if code == 0 or time.monotonic() > deadline:
            break
    assert printed == "yes\n"
    assert await kubectl.run("auth", "can-i", "delete", "configmaps", account) == (1, "no\n", "")
    assert "configmaps" in await kubectl("auth", "can-i", "--list", account)
    assert (await kubectl.json("auth", "whoami", account))["status"]["userInfo"]["username"] == account[5:]
    assert "forbidden" in await kubectl.fails("get", "secrets", account)
    assert await kubectl("get", "configmaps", "-o", "name", account, "--field-selector=metadata.name=absent") == ""


async def test_create_and_see_an_event(kubectl: Kubectl, api: Api, space: Space) -> None:
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": space.name, "uid": "1"}
    event = {
        "metadata": {"name": "one"},
        "involvedObject": about,
        "reason": "Tested",
        "message": "told",
        "type": "Warning",
    }
    await api.create(space.core("events"), event)
    await kubectl("create", "-f", "-", stdin=configmap("one", {"a": "1"}))
    assert "told" in await kubectl("events", "--types=Warning")
    assert "Tested" in await kubectl("get", "events", "--field-selector=involvedObject.name=one")
