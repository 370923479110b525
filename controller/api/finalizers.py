"""Finalizers: is a deletion waiting for us, and the patches that add and remove our mark.

Pure. The patches are JSON patches (RFC 6902) whose `test` operations make the server refuse them when the list has changed since: no
finalizer of somebody else is ever lost. A refusal (422) means: look at the object again.
"""

from collections.abc import Mapping
from typing import Any

from ...client.objects import Metadata

Operation = dict[str, Any]

_LIST = "/metadata/finalizers"


def holds(metadata: Metadata, finalizer: str) -> bool:
    """Whether the object carries the finalizer, so that it cannot vanish."""
    return finalizer in (metadata.finalizers or ())


def is_deletion_ours(metadata: Metadata, finalizer: str) -> bool:
    """Whether the object is marked for deletion and waits for this finalizer: now is the time to clean up."""
    return metadata.deletion_timestamp is not None and holds(metadata, finalizer)


def may_add(metadata: Metadata) -> bool:
    """Whether the server would take a new finalizer: it refuses them once the object is marked for deletion."""
    return metadata.deletion_timestamp is None


def adding(metadata: Metadata, finalizer: str) -> list[Operation]:
    """The patch that adds the finalizer at the end; empty when it is there, or when the object is marked for deletion."""
    if holds(metadata, finalizer) or not may_add(metadata):
        return []
    if not metadata.finalizers:
        # An absent list cannot be tested for: the version stands for it.
        return [
            *_same_object(metadata),
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
            {"op": "add", "path": _LIST, "value": [finalizer]},
        ]
    return [
        *_same_object(metadata),
        {"op": "test", "path": _LIST, "value": list(metadata.finalizers)},
        {"op": "add", "path": f"{_LIST}/-", "value": finalizer},
    ]


def removing(metadata: Metadata, finalizer: str) -> list[Operation]:
    """The patch that removes the finalizer, wherever it is in the list; empty when it is not there."""
    if not holds(metadata, finalizer):
        return []
    places = [index for index, name in enumerate(metadata.finalizers or ()) if name == finalizer]
    operations = _same_object(metadata)
    for index in reversed(places):
        operations += [
            {"op": "test", "path": f"{_LIST}/{index}", "value": finalizer},
            {"op": "remove", "path": f"{_LIST}/{index}"},
        ]
    return operations


def _same_object(metadata: Metadata) -> list[Operation]:
    """Another object that has taken the name may wait for the same finalizer: it is not cleaned up yet."""
    return [{"op": "test", "path": "/metadata/uid", "value": metadata.uid}] if metadata.uid else []


def without(body: Mapping[str, Any], finalizer: str) -> list[str]:
    """The names of the other finalizers of a body, in order."""
    metadata = body.get("metadata") or {}
    return [name for name in metadata.get("finalizers") or () if name != finalizer]
