"""Discovery documents say what is served: the legacy lists and the aggregated form."""

from typing import Any, Final

from .registry import Registry
from .resources import Resource

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_STATUS_VERBS: Final = ["get", "patch", "update"]


def wants_aggregated(accept: str) -> bool:
    """Whether a client accepts the aggregated document (version v2)."""
    choices = [choice.replace(" ", "") for choice in accept.split(",")]
    return any("as=APIGroupDiscoveryList" in choice and "v=v2" in choice.split(";") for choice in choices)


def api_versions(address: str) -> dict[str, Any]:
    """The legacy document of `/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(registry: Registry, group: str) -> dict[str, Any]:
    """One group as it stands in `/apis` (and, with kind and apiVersion, at `/apis/GROUP`)."""
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in registry.versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def api_groups(registry: Registry) -> dict[str, Any]:
    """The legacy document of `/apis`."""
    groups = [api_group(registry, group) for group in registry.groups()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _listed(resource: Resource) -> list[dict[str, Any]]:
    found: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    if not resource.has_status:
        return [found]
    status = {
        "name": f"{resource.plural}/status",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _STATUS_VERBS,
    }
    return [found, status]


def api_resources(registry: Registry, group: str, version: str) -> dict[str, Any] | None:
    """The legacy document of one group and version; None when it is not served."""
    found = [resource for resource in registry if (resource.group, resource.version) == (group, version)]
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].group_version,
        "resources": [entry for resource in found for entry in _listed(resource)],
    }


def _aggregated(resource: Resource) -> dict[str, Any]:
    kind = {"group": "", "version": "", "kind": resource.kind}
    if resource.custom:
        # Only there does the server say more; clients fall back to the group and version around it.
        kind |= {"group": resource.group, "version": resource.version}
    found: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    if resource.has_status:
        found["subresources"] = [{"subresource": "status", "responseKind": kind, "verbs": _STATUS_VERBS}]
    return found


def _aggregated_group(registry: Registry, group: str) -> dict[str, Any]:
    versions = []
    for version in registry.versions(group):
        resources = [_aggregated(each) for each in registry if (each.group, each.version) == (group, version)]
        versions.append({"version": version, "resources": resources, "freshness": "Current"})
    return {"metadata": {"name": group, "creationTimestamp": None} if group else {}, "versions": versions}


def aggregated(registry: Registry, *, core: bool) -> dict[str, Any]:
    """The aggregated document of `/api` (core) or `/apis`."""
    groups = [""] if core else registry.groups()
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(registry, group) for group in groups],
    }
