"""Turns rights into roles and bindings, as YAML to be applied.

Pure. A right in the served namespaces becomes a Role in each of them, a right in the cluster a ClusterRole, a right in
the namespace of the Lease a Role there. Each role is bound to the operator's service account.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from .rules import Requirements, Right, RightScope, merged

API: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Grantee:
    """The service account that gets the rights, and the name of the roles."""

    role: str
    """The name of the roles and bindings."""
    account: str
    account_namespace: str
    lease_namespace: str


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """The rights of one role; `namespace` None is the cluster."""

    namespace: str | None
    rights: tuple[Right, ...]


def grants(requirements: Requirements, grantee: Grantee, namespaces: Sequence[str] | None) -> list[RoleGrant]:
    """The rights of each role: the cluster's first, then the namespaces' by name.

    `namespaces` are the served ones; None: their names are not known, so their rights are granted in the whole cluster.
    """
    by_namespace: dict[str | None, list[Right]] = {None: []}
    for right in requirements.rights:
        for namespace in _namespaces(right, grantee, namespaces):
            by_namespace.setdefault(namespace, []).append(right)
    order = sorted(one for one in by_namespace if one is not None)
    found = [RoleGrant(one, _relocated(by_namespace[one])) for one in (None, *order)]
    return [grant for grant in found if grant.rights]


def _namespaces(right: Right, grantee: Grantee, namespaces: Sequence[str] | None) -> Iterable[str | None]:
    match right.scope:
        case RightScope.CLUSTER:
            return (None,)
        case RightScope.HOME:
            return (grantee.lease_namespace,)
        case RightScope.SERVED:
            return (None,) if namespaces is None else namespaces


def _relocated(rights: Iterable[Right]) -> tuple[Right, ...]:
    """The rights of one role, each resource once, whatever their scopes were."""
    return merged(Right(one.group, one.resource, one.verbs, RightScope.CLUSTER, one.why, one.names) for one in rights)


def manifests(found: Iterable[RoleGrant], grantee: Grantee) -> Iterator[dict[str, Any]]:
    """A role and its binding for each grant, as bodies."""
    for grant in found:
        where = {} if grant.namespace is None else {"namespace": grant.namespace}
        meta, prefix = {"name": grantee.role, **where}, "Cluster" if grant.namespace is None else ""
        yield {"apiVersion": f"{API}/v1", "kind": f"{prefix}Role", "metadata": meta, "rules": rules(grant)}
        account = {"kind": "ServiceAccount", "name": grantee.account, "namespace": grantee.account_namespace}
        yield {
            "apiVersion": f"{API}/v1",
            "kind": f"{prefix}RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": API, "kind": f"{prefix}Role", "name": grantee.role},
            "subjects": [account],
        }


def rules(grant: RoleGrant) -> list[dict[str, list[str]]]:
    """The rules of a role: one for each resource, or for objects of it by name."""
    return [_rule(right) for right in grant.rights]


def render(requirements: Requirements, grantee: Grantee, namespaces: Sequence[str] | None, title: str) -> str:
    """The manifests as text, with comments on the reason for each right and on what is not known."""
    lines = [f"# {title}"]
    lines += [f"# Not resolved: {text}" for text in requirements.unresolved]
    lines += [f"# Note: {text}" for text in requirements.notes]
    found = grants(requirements, grantee, namespaces)
    for grant, (role, binding) in zip(found, _pairs(manifests(found, grantee)), strict=True):
        lines += ["---", _dump({key: value for key, value in role.items() if key != "rules"}), "rules:"]
        for right in grant.rights:
            lines += [f"  # {'; '.join(right.why)}"] if right.why else []
            first, *rest = (f"{key}: {_flow(value)}" for key, value in _rule(right).items())
            lines += [f"  - {first}", *(f"    {line}" for line in rest)]
        lines += ["---", _dump(binding)]
    return "\n".join(lines) + "\n"


def _pairs(documents: Iterator[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    return zip(documents, documents, strict=True)


def _rule(right: Right) -> dict[str, list[str]]:
    names = {"resourceNames": list(right.names)} if right.names else {}
    return {"apiGroups": [right.group], "resources": [right.resource], **names, "verbs": list(right.verbs)}


def _dump(body: Any) -> str:
    text: str = yaml.safe_dump(body, sort_keys=False, default_flow_style=False)
    return text.rstrip()


def _flow(value: list[str]) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.strip()
