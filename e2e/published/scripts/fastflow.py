"""python-fastflow: workflows of tasks, a graph whose nodes are objects.

Its handlers make children with generated names by `kopf.adopt`, write the status of their parents with `kubernetes_asyncio`, wait for
fields of the status (which is no subresource), ask two indices, and one function handles two fields, with `param=`;
peering is mandatory. Its definitions
come with its chart, which is not part of the wheel; those here have the same names and scope, and no subresource.
"""

from collections.abc import AsyncIterator
from typing import Any

import yaml
from conformance.api import Body
from conformance.spaces import definition
from published import environment
from published.stage import Published, Stage

WORKFLOWS = "/apis/fastflow.dev/beta-1/namespaces/NAMESPACE/workflows"
TASKS = "/apis/fastflow.dev/beta-1/namespaces/NAMESPACE/tasks"
CHAIN = """
- name: emitter
  impl: Echo
  inputs:
    args: [{{ word }}]
- name: collector
  impl: Echo
  inputs:
    args: ["Hello from: ", {{ "{{ tasks.emitter.outputs.stdout }}" }}]
  dependencies: [emitter]
"""
SINGLE = """
- name: helloworld
  impl: Echo
  inputs:
    args: [hello]
"""
BROKEN = """
- name: lost
  impl: Nothing.Of.The.Kind
"""


def definitions() -> list[Body]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{"name": "beta-1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    kinds = (("workflows", "Workflow"), ("tasks", "Task"))
    peerings = yaml.safe_load_all((environment.ROOT / "examples" / "peering.yaml").read_text())
    return [*(definition("fastflow.dev", plural, kind, versions=versions) for plural, kind in kinds), *peerings]


def workflow(name: str, dag: str, **spec: Any) -> Body:
    head = {"apiVersion": "fastflow.dev/beta-1", "kind": "Workflow", "metadata": {"name": name}}
    return {**head, "spec": {"dag": dag, "global_inputs": {}, **spec}}


def known_as(body: Body) -> str:
    """A task, by its workflow and its name there."""
    labels = body["metadata"].get("labels", {})
    if body["kind"] != "Task":
        return str(body["metadata"]["name"])
    return f"task {labels['task_local_name']} of {labels['workflow']}"


def is_(status: str) -> Any:
    return lambda body: body.get("status", {}).get("workflow_status") == status


async def play(stage: Stage) -> AsyncIterator[str]:
    peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}}
    await stage.create("/apis/kopf.dev/v1/namespaces/NAMESPACE/kopfpeerings", peering)
    await stage.start()
    await stage.create(WORKFLOWS, workflow("chain", CHAIN, global_inputs={"word": "romeo"}))
    await stage.until(f"{WORKFLOWS}/chain", is_("complete"))
    await stage.handled(f"{WORKFLOWS}/chain")
    yield "creation"

    await stage.create(WORKFLOWS, workflow("broken", BROKEN))
    await stage.until(f"{WORKFLOWS}/broken", is_("failed"))
    await stage.create(WORKFLOWS, workflow("after", SINGLE, dependencies=["broken"]))
    await stage.until(f"{WORKFLOWS}/after", is_("blocked"))
    await stage.handled(f"{WORKFLOWS}/after")
    yield "creation of one that fails, and of one that waits for it"

    await stage.stop()
    await stage.create(WORKFLOWS, workflow("late", SINGLE))
    await stage.start()
    await stage.until(f"{WORKFLOWS}/late", is_("complete"))
    await stage.handled(f"{WORKFLOWS}/late")
    yield "restart, with a creation in between"

    # As a person would, who goes on in spite of the failure.
    labels = {"metadata": {"labels": {"by": "hand"}}}
    await stage.merge(f"{WORKFLOWS}/broken", {**labels, "status": {"workflow_status": "complete"}})
    await stage.until(f"{WORKFLOWS}/after", is_("complete"))
    await stage.handled(f"{WORKFLOWS}/after")
    yield "update of several fields at once, that lets the other go on"

    for name in ("chain", "broken", "after", "late"):
        await stage.delete(f"{WORKFLOWS}/{name}")
        await stage.gone(f"{WORKFLOWS}/{name}")
    await stage.counts(TASKS, 0)
    yield "deletion"
    await stage.stop()
    yield "end"


OPERATOR = Published(
    name="python-fastflow",
    version="0.8.1",
    modules=["fastflow"],
    options=("--namespace=NAMESPACE", "--peering=default", "--priority=666"),
    definitions=definitions,
    kept=[WORKFLOWS, TASKS],
    play=play,
    environment={"namespace": "NAMESPACE", "NOTING_SKIPS": "workflow_idx task_idx"},
    known_as=known_as,
)
