"""Rights become the roles and bindings that grant them, as YAML to be applied.

Pure. A right of the served namespaces becomes a Role in each of them, one of the cluster a ClusterRole, one of the operator's own namespace
a Role there; each is bound to the operator's service account.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from .needs import Needs, Place, Right, merged

API: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Grantee:
    """Who gets the rights, and under which name they are granted."""

    role: str
    """The name of the roles and bindings."""
    account: str
    account_namespace: str
    lease_namespace: str


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of one role; `namespace` None is the cluster."""

    namespace: str | None
    rights: tuple[Right, ...]


def grants(needs: Needs, grantee: Grantee, namespaces: Sequence[str] | None) -> list[Grant]:
    """Which roles there are to be: of the cluster first, then of the namespaces by name.

    `namespaces` are those that are served; None: nobody can name them, so that their rights are granted in all.
    """
    by_place: dict[str | None, list[Right]] = {None: []}
    for right in needs.rights:
        for place in _places(right, grantee, namespaces):
            by_place.setdefault(place, []).append(right)
    order = sorted(place for place in by_place if place is not None)
    found = [Grant(place, _relocated(by_place[place])) for place in (None, *order)]
    return [grant for grant in found if grant.rights]


def _places(right: Right, grantee: Grantee, namespaces: Sequence[str] | None) -> Iterable[str | None]:
    match right.place:
        case Place.CLUSTER:
            return (None,)
        case Place.HOME:
            return (grantee.lease_namespace,)
        case Place.SERVED:
            return (None,) if namespaces is None else namespaces


def _relocated(rights: Iterable[Right]) -> tuple[Right, ...]:
    """What is granted in one place, each resource once, wherever it is needed from."""
    return merged(Right(one.group, one.resource, one.verbs, Place.CLUSTER, one.why, one.names) for one in rights)


def manifests(found: Iterable[Grant], grantee: Grantee) -> Iterator[dict[str, Any]]:
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


def rules(grant: Grant) -> list[dict[str, list[str]]]:
    """The rules of a role: one for each resource, or for some objects of it."""
    return [_rule(right) for right in grant.rights]


def render(needs: Needs, grantee: Grantee, namespaces: Sequence[str] | None, title: str) -> str:
    """The documents as text, with comments that say what each right is for and what could not be known."""
    lines = [f"# {title}"]
    lines += [f"# Not resolved: {text}" for text in needs.unresolved]
    lines += [f"# Note: {text}" for text in needs.notes]
    found = grants(needs, grantee, namespaces)
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
