"""Whether a deletion waits for a finalizer, and the patches that add and remove one.

Pure. The patches are JSON patches (RFC 6902) that hold for one version of the object: no other finalizer is ever lost, and no object of the
same name is changed. After a refusal (422) read the object, and make the patch for its version.
"""

from collections.abc import Collection
from typing import Any

from ...client.objects import Metadata
from ...client.patches import pointer
from .desired import for_version

Operation = dict[str, Any]

_LIST = "/metadata/finalizers"


def holds(metadata: Metadata, finalizer: str) -> bool:
    """Whether the object carries the finalizer, so that it cannot vanish."""
    return finalizer in (metadata.finalizers or ())


def is_deletion_ours(metadata: Metadata, finalizer: str) -> bool:
    """Whether the object is marked for deletion and waits for this finalizer, so that its controller has to clean up."""
    return metadata.deletion_timestamp is not None and holds(metadata, finalizer)


def may_add(metadata: Metadata) -> bool:
    """Whether the server accepts a new finalizer: it does not for an object that is marked for deletion."""
    return metadata.deletion_timestamp is None


def adding(metadata: Metadata, finalizer: str) -> list[Operation]:
    """The patch that adds the finalizer at the end; empty when it is there, or when the object is marked for deletion."""
    if holds(metadata, finalizer) or not may_add(metadata):
        return []
    if metadata.finalizers:
        added: Operation = {"op": "add", "path": f"{_LIST}/-", "value": finalizer}
    else:
        added = {"op": "add", "path": _LIST, "value": [finalizer]}
    return for_version([added], metadata.resource_version)


def removing(metadata: Metadata, finalizer: str, annotations: Collection[str] = ()) -> list[Operation]:
    """The patch that removes the finalizer, wherever it is in the list; empty when it is not there.

    Those of the annotations that are there are removed with it, unless it leaves no finalizer: such an object is about to vanish.
    """
    known, there = metadata.finalizers or (), metadata.annotations or {}
    places = [index for index, name in enumerate(known) if name == finalizer]
    if not places:
        return []
    if len(places) == len(known):
        return for_version([{"op": "remove", "path": _LIST}], metadata.resource_version)
    paths = [f"{_LIST}/{index}" for index in reversed(places)]
    paths += [pointer(("metadata", "annotations", name)) for name in annotations if name in there]
    return for_version([{"op": "remove", "path": path} for path in paths], metadata.resource_version)
