"""The OpenAPI documents say just enough for kubectl to leave validation and patching to the server."""

from typing import Any

from .registry import Registry
from .resources import Resource


def root(registry: Registry) -> dict[str, Any]:
    """The index of `/openapi/v3`."""
    paths = {_path(resource): {"serverRelativeURL": f"/openapi/v3/{_path(resource)}"} for resource in registry}
    return {"paths": paths}


def _path(resource: Resource) -> str:
    return f"apis/{resource.group_version}" if resource.group else f"api/{resource.version}"


def _operation(resource: Resource) -> dict[str, Any]:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _kind(resource),
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "OK"}},
    }


def _kind(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: Resource) -> str:
    return ".".join([*reversed((resource.group or "core.api.k8s.io").split(".")), resource.version, resource.kind])


def _schema(resource: Resource) -> dict[str, Any]:
    return {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": [_kind(resource)],
    }


def _url(resource: Resource) -> str:
    space = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_path(resource)}{space}/{resource.plural}/{{name}}"


def version3(registry: Registry, path: str) -> dict[str, Any] | None:
    """The document of one group and version (`api/v1`, `apis/apps/v1`); None when it is not served."""
    found = [resource for resource in registry if _path(resource) == path]
    if not found:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.1"},
        "paths": {_url(resource): {"patch": _operation(resource)} for resource in found},
        "components": {"schemas": {_schema_name(resource): _schema(resource) for resource in found}},
    }


def version2(registry: Registry) -> dict[str, Any]:
    """The document of `/openapi/v2`."""
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.37.1"},
        "paths": {_url(resource): {"patch": _operation(resource)} for resource in registry},
        "definitions": {_schema_name(resource): _schema(resource) for resource in registry},
    }
