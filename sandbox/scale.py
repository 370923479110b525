"""The scale subresource shows and sets the replicas of a workload as an autoscaling/v1 Scale."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from . import patching
from .history import Stored
from .resources import Resource
from .status import Subject, invalid, wrong

SCALED: Final = frozenset({"deployments.apps", "replicasets.apps", "statefulsets.apps"})
_SUBJECT: Final = Subject("autoscaling", "scales", "Scale")


def shown(stored: Stored) -> dict[str, Any]:
    """The Scale of a stored workload."""
    body = stored.decode()
    meta, spec = body["metadata"], body.get("spec", {})
    fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in fields if field in meta},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {
            "replicas": (body.get("status") or {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        },
    }


def patched(stored: Stored, patch: bytes, content_type: str) -> dict[str, Any]:
    """The Scale of a workload with a patch laid over it; errors are those of patches."""
    return patching.apply(shown(stored), patch, content_type, custom=False)


def change(scale: Mapping[str, Any]) -> bytes:
    """The merge patch of a workload that a written Scale asks for. Raises a 422.

    A resourceVersion in the Scale is a precondition of the workload, since they share it.
    """
    meta, spec = scale.get("metadata") or {}, scale.get("spec") or {}
    replicas = spec.get("replicas") or 0
    if not isinstance(replicas, int) or replicas < 0:
        cause = wrong("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(_SUBJECT, str(meta.get("name", "")), [cause])
    held = {"metadata": {"resourceVersion": meta["resourceVersion"]}} if meta.get("resourceVersion") else {}
    return msgspec.json.encode({**held, "spec": {"replicas": replicas}})


def subresource(resource: Resource, name: str) -> bool:
    """Whether a resource has the subresource of that name: status where it has one, scale for workloads.

    Service accounts have `token`.
    """
    if name == "token":
        return resource.bucket == "serviceaccounts"
    return (name == "status" and resource.has_status) or (name == "scale" and resource.bucket in SCALED)
