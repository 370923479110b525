"""baler-operator: pipelines of Haystack as Deployments.

Its handlers are functions for threads that put what they have to say into `patch.status`, and a timer with `when=` takes that as what
to poll. It leaves it to Kopf's login to configure the `kubernetes` client. Its definition comes with its chart, which is not part of
the wheel; the one here has the same names, scope and subresource.
"""

from collections.abc import AsyncIterator

from conformance.api import Body
from conformance.spaces import definition
from published.stage import Published, Stage

GROUP = "pipelines.baler.gatecastle.com"
WHERE = f"/apis/{GROUP}/v1/namespaces/NAMESPACE/haystack"
CORE = "/api/v1/namespaces/NAMESPACE"
DEPLOYMENTS = "/apis/apps/v1/namespaces/NAMESPACE/deployments"


def definitions() -> list[Body]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "haystack", "singular": "haystacks", "kind": "Haystack", "shortNames": ["hp"]}
    return [
        definition(GROUP, "haystack", "Haystack", names=names, versions=[{**version, "subresources": {"status": {}}}])
    ]


def spec(*pipelines: str, version: str = "1.25.0") -> Body:
    components = [{"name": "reader", "type": "FARMReader", "params": {"top_k": 3}}]
    nodes = [{"name": "reader", "inputs": ["Query"]}]
    return {
        "version": version,
        "components": components,
        "pipelines": [{"name": name, "nodes": nodes} for name in pipelines],
    }


async def play(stage: Stage) -> AsyncIterator[str]:
    where = f"{WHERE}/search"
    await stage.start()
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Haystack"}
    await stage.create(WHERE, {**head, "metadata": {"name": "search"}, "spec": spec("query", "index")})
    await stage.counts(DEPLOYMENTS, 2)
    await stage.handled(where)
    await stage.until(where, lambda body: body.get("status", {}).get("phase") == "Pending")
    yield "creation"

    # There is no kubelet: what it would say is said for it.
    await stage.counts(f"{CORE}/pods", 2)
    for pod in await stage.items(f"{CORE}/pods"):
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
        await stage.merge(f"{CORE}/pods/{pod['metadata']['name']}/status", {"status": ready})
    await stage.until(where, lambda body: body["status"]["phase"] == "Running")
    yield "pods are ready"

    change = spec("query", "index", version="1.24.1")
    annotations = {f"compute.{GROUP}/request-cpu": "250m", f"compute.{GROUP}/node-selector": "disk:ssd"}
    await stage.merge(
        where, {"metadata": {"annotations": annotations}, "spec": {**change, "env": [{"name": "A", "value": "b"}]}}
    )
    await stage.called("update_pipeline_haystack ends")
    await stage.handled(where, version="1.24.1")
    yield "update of several fields at once"

    await stage.stop()
    await stage.merge(where, {"spec": {"version": "1.23.0"}})
    await stage.start()
    await stage.called("update_pipeline_haystack ends", 2)
    await stage.handled(where, version="1.23.0")
    yield "restart, with an update in between"

    await stage.merge(where, {"spec": {"version": "0.1"}})
    await stage.called("update_pipeline_haystack ends", 3)
    await stage.handled(where, version="0.1")
    yield "update that is refused"

    await stage.delete(where)
    await stage.gone(where)
    await stage.counts(DEPLOYMENTS, 0)
    yield "deletion"
    await stage.stop()
    yield "end"


OPERATOR = Published(
    name="baler-operator",
    version="0.0.1.dev0",
    modules=["baler_operator.app"],
    definitions=definitions,
    kept=[WHERE, DEPLOYMENTS, f"{CORE}/services", f"{CORE}/configmaps"],
    play=play,
)
