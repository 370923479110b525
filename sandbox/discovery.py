"""Discovery documents say what is served: the legacy lists and the aggregated form."""

from typing import Any, Final

from . import scale
from .registry import Registry
from .resources import Resource

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SUBRESOURCE_VERBS: Final = ["get", "patch", "update"]


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
    entries = [found]
    for name in _subresources(resource):
        kind = (
            {"group": "autoscaling", "version": "v1", "kind": "Scale"} if name == "scale" else {"kind": resource.kind}
        )
        head = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
        entries.append({**head, **kind, "verbs": _SUBRESOURCE_VERBS})
    return entries


def _subresources(resource: Resource) -> list[str]:
    return [name for name in ("scale", "status") if scale.subresource(resource, name)]


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
    if names := _subresources(resource):
        kinds = {"status": kind, "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}
        found["subresources"] = [
            {"subresource": name, "responseKind": kinds[name], "verbs": _SUBRESOURCE_VERBS} for name in names
        ]
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
