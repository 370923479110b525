"""jaymd96-citadel-operator: quotas, limits and network policies for a namespace.

Its handlers write the status of their own object with the `kubernetes` client, and one function handles creation, update and resuming.
The definitions of its resources come with it; Cilium's policies are of a definition of ours.
"""

from collections.abc import AsyncIterator

import yaml
from conformance.api import Body
from conformance.spaces import definition
from published import environment
from published.stage import Published, Stage

NAMESPACED = "/apis/citadel.dev/v1alpha1/namespaces/NAMESPACE/namespaceinfrastructures"
POLICIES = "/apis/cilium.io/v2/namespaces/NAMESPACE/ciliumnetworkpolicies"
CORE = "/api/v1/namespaces/NAMESPACE"


def definitions() -> list[Body]:
    folder = environment.site_packages() / "citadel_operator" / "crds"
    names = ("namespaceinfrastructure.yaml", "nodeterminationpolicy.yaml")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    return [
        *(yaml.safe_load((folder / name).read_text()) for name in names),
        definition("cilium.io", "ciliumnetworkpolicies", "CiliumNetworkPolicy", versions=versions),
    ]


async def play(stage: Stage) -> AsyncIterator[str]:
    where = f"{NAMESPACED}/team"
    await stage.start()
    spec = {
        "targetNamespace": "NAMESPACE",
        "networkPolicy": {"allowedPeers": ["one", "two"]},
        "resourceQuota": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "limitRange": {"maxCpu": "2"},
    }
    await stage.create(
        NAMESPACED,
        {
            "apiVersion": "citadel.dev/v1alpha1",
            "kind": "NamespaceInfrastructure",
            "metadata": {"name": "team"},
            "spec": spec,
        },
    )
    await stage.until(where, lambda body: body.get("status", {}).get("phase") == "Active")
    await stage.handled(where)
    yield "creation"

    await stage.merge(
        where,
        {
            "metadata": {"labels": {"tier": "gold"}},
            "spec": {
                "networkPolicy": {"allowedPeers": ["one", "two", "three"], "defaultDeny": False},
                "resourceQuota": {"cpu": "6", "pods": None},
                "limitRange": {"maxMemory": "4Gi"},
            },
        },
    )
    await stage.called("on_reconcile ends", 2)
    await stage.handled(where)
    yield "update of several fields at once"

    await stage.stop()
    await stage.merge(where, {"spec": {"resourceQuota": {"cpu": "8"}}})
    await stage.start()
    await stage.called("on_reconcile ends", 3)
    await stage.handled(where)
    yield "restart, with an update in between"

    await stage.stop()
    await stage.start()
    await stage.called("on_reconcile ends", 4)
    await stage.handled(where)
    yield "restart without a change"

    await stage.delete(where)
    await stage.gone(where)
    yield "deletion"
    await stage.stop()
    yield "end"


OPERATOR = Published(
    name="jaymd96-citadel-operator",
    version="0.2.0",
    modules=["citadel_operator.k3s.namespace_infra_operator"],
    definitions=definitions,
    kept=[NAMESPACED, POLICIES, f"{CORE}/resourcequotas", f"{CORE}/limitranges"],
    play=play,
    # What is logged about an object becomes Events, as it was for this operator's Kopf (1.37).
    environment={"NOTING_POSTS": "yes"},
)
