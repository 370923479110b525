"""A real server that keeps a log of all requests, and operators with rights of their own on it."""

import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from conformance.api import Api, Body
from controlplane.cluster import ControlPlane
from targets import Target

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALARMS = ("[WARNING", "[ERROR", "[CRITICAL", "Traceback")


@dataclass(frozen=True)
class Audited:
    """A real server that keeps a log of all requests."""

    cluster: ControlPlane
    target: Target

    def refusals_of(self, user: str) -> list[str]:
        """Which requests of a user were refused for want of rights."""
        found = [event for event in self.cluster.audit_events() if event["user"].get("username") == user]
        assert found, f"{user} has asked for nothing"
        return [f"{event['verb']} {event['requestURI']}" for event in found if event["responseStatus"]["code"] == 403]

    def used_by(self, user: str) -> set[tuple[str, str, str]]:
        """What a user did, as (verb, resource.group with its subresource, namespace), refused or not."""
        found = set()
        for event in self.cluster.audit_events():
            ref = event.get("objectRef")
            if event["user"].get("username") == user and ref is not None:
                name = f"{ref['resource']}.{ref.get('apiGroup', '')}".rstrip(".")
                name += f"/{ref['subresource']}" if ref.get("subresource") else ""
                found.add((event["verb"], name, ref.get("namespace", "")))
        return found


async def service_account(api: Api, namespace: str, name: str, rules: list[Body]) -> str:
    """Create an account with these rights in one namespace; gives a token of it."""
    core = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    meta = {"name": name, "namespace": namespace}
    await api.create(core, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": meta}
    await api.create(f"{RBAC}/namespaces/{namespace}/roles", {**rbac, "kind": "Role", "rules": rules})
    binding = {
        **rbac,
        "kind": "RoleBinding",
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
    }
    await api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token: str = (await api.create(f"{core}/{name}/token", review))["status"]["token"]
    return token


def alarms(text: str) -> list[str]:
    return [line for line in text.splitlines() if any(alarm in line for alarm in ALARMS)]


async def grant(api: Api, documents: Iterable[Body]) -> None:
    """Create roles and bindings as they are given."""
    for body in documents:
        namespace = body["metadata"].get("namespace")
        place = f"namespaces/{urllib.parse.quote(namespace)}/" if namespace else ""
        await api.create(f"{RBAC}/{place}{body['kind'].lower()}s", body)


async def account_token(api: Api, namespace: str, name: str) -> str:
    """Create an account without rights; gives a token of it."""
    core = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(core, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token: str = (await api.create(f"{core}/{name}/token", review))["status"]["token"]
    return token


def granted(documents: Iterable[Body]) -> Iterator[tuple[str, str, str]]:
    """What roles allow, as `Audited.used_by` tells what is done."""
    for body in documents:
        for rule in body.get("rules", ()):
            for resource in rule["resources"]:
                plural, slash, subresource = resource.partition("/")
                name = f"{plural}.{rule['apiGroups'][0]}".rstrip(".") + slash + subresource
                for verb in rule["verbs"]:
                    yield verb, name, body["metadata"].get("namespace", "")
