"""Events have two served shapes and one stored: core/v1. Here the events.k8s.io shape is turned into it and back."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .history import Stored
from .resources import Resource
from .status import bad_request

# events.k8s.io -> core
_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK: Final = {core: new for new, core in _NAMES.items()}


def converted(resource: Resource) -> bool:
    """Whether the resource is served in another shape than it is stored in."""
    return resource.group == "events.k8s.io" and resource.plural == "events"


def inward(resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
    """The stored shape of a body of the resource."""
    if not converted(resource):
        return dict(body)
    return {_NAMES.get(key, key): value for key, value in body.items()}


def outward(resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
    """The resource's shape of a stored body; what the new shape leaves out when empty is left out."""
    if not converted(resource):
        return dict(body)
    found = {_BACK.get(key, key): value for key, value in body.items() if value not in ("", None) or key == "eventTime"}
    return {"metadata": found.pop("metadata"), "eventTime": found.pop("eventTime", None), **found}


def encoded(resource: Resource, stored: Stored) -> bytes:
    """The JSON of a stored object in the resource's shape, without apiVersion and kind."""
    if not converted(resource):
        return stored.body
    return msgspec.json.encode(outward(resource, stored.decode()))


def field_label(resource: Resource, label: str) -> str:
    """The stored field that a field label of the resource means. Raises a 400 for the other shape's label."""
    if not converted(resource):
        return label
    if label.startswith("involvedObject.") or label == "reportingComponent":
        raise bad_request(f"field label not supported: {label}")
    if label.startswith("regarding."):
        return "involvedObject." + label.removeprefix("regarding.")
    return "reportingComponent" if label == "reportingController" else label
