"""devservers: machines for developers as StatefulSets, their flavors, and their users with namespaces and rights.

Two of its resources are of the whole cluster. It starts a task of its own at startup, sets `patch["status"]` as a plain dict, adopts
manifests in a dict of dicts, stacks decorators, and leaves `spec` and `meta` to its own classes. Its definitions are not part of the
package and are ours (its handlers of flavors are never imported); nor are two scripts, which `environment.py` puts beside it, and `ssh-keygen`, which is stubbed.
"""

from collections.abc import AsyncIterator

from conformance.api import Body
from conformance.spaces import definition
from published.stage import Published, Stage

GROUP = "devserver.io"
FLAVORS = f"/apis/{GROUP}/v1/devserverflavors"
USERS = f"/apis/{GROUP}/v1/devserverusers"
SERVERS = f"/apis/{GROUP}/v1/namespaces/NAMESPACE/devservers"
CORE = "/api/v1/namespaces/NAMESPACE"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/dev-alice"


def definitions() -> list[Body]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    versions = [{**version, "subresources": {"status": {}}}]
    kinds = (("devserverflavors", "DevServerFlavor", "Cluster"), ("devserverusers", "DevServerUser", "Cluster"))
    return [
        definition(GROUP, "devservers", "DevServer", versions=versions),
        *(definition(GROUP, plural, kind, versions=versions, scope=scope) for plural, kind, scope in kinds),
    ]


async def play(stage: Stage) -> AsyncIterator[str]:
    head = {"apiVersion": f"{GROUP}/v1"}

    def body(kind: str, name: str, **spec: object) -> Body:
        return {**head, "kind": kind, "metadata": {"name": name}, "spec": spec}

    await stage.start()
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    await stage.create(FLAVORS, body("DevServerFlavor", "small", default=True, resources=resources))
    await stage.create(USERS, body("DevServerUser", "alice", username="alice"))
    await stage.until(f"{USERS}/alice", lambda found: found.get("status", {}).get("phase") == "Ready")
    await stage.handled(f"{USERS}/alice")
    await stage.create(
        SERVERS, body("DevServer", "box", flavor="small", enableSSH=True, ssh={"publicKey": "ssh-rsa x"})
    )
    await stage.until(f"{SERVERS}/box", lambda found: found.get("status", {}).get("phase") == "Running")
    await stage.handled(f"{SERVERS}/box")
    await stage.create(SERVERS, body("DevServer", "odd", flavor="none"))
    await stage.handled(f"{SERVERS}/odd")
    yield "creation"

    await stage.merge(f"{USERS}/alice", {"metadata": {"labels": {"a": "b"}}, "spec": {"team": "one", "shell": "zsh"}})
    await stage.handled(f"{USERS}/alice", team="one")
    await stage.merge(f"{SERVERS}/box", {"metadata": {"labels": {"a": "b"}}, "spec": {"enableSSH": False}})
    await stage.handled(f"{SERVERS}/box", enableSSH=False)
    yield "update of several fields at once"

    await stage.stop()
    await stage.merge(f"{USERS}/alice", {"spec": {"team": "two"}})
    await stage.start()
    await stage.handled(f"{USERS}/alice", team="two")
    yield "restart, with an update in between"

    for where in (f"{SERVERS}/box", f"{SERVERS}/odd", f"{USERS}/alice", f"{FLAVORS}/small"):
        await stage.delete(where)
        await stage.gone(where)
    await stage.counts("/apis/apps/v1/namespaces/NAMESPACE/statefulsets", 0)
    yield "deletion"
    await stage.stop()
    yield "end"
    await stage.delete("/api/v1/namespaces/dev-alice")
    await stage.gone("/api/v1/namespaces/dev-alice")


OPERATOR = Published(
    name="devservers",
    version="0.0.1",
    modules=["devserver.operator"],
    definitions=definitions,
    kept=[
        FLAVORS,
        USERS,
        SERVERS,
        "/apis/apps/v1/namespaces/NAMESPACE/statefulsets",
        f"{CORE}/services",
        f"{CORE}/configmaps",
        f"{CORE}/secrets",
        f"{RBAC}/roles",
        f"{RBAC}/rolebindings",
        "/api/v1/namespaces/dev-alice/serviceaccounts",
    ],
    play=play,
    options=("--standalone", "--all-namespaces"),
    exclusive=True,
    stubs="devservers",
)
