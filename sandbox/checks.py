"""Bodies of built-in kinds are judged as far as a controller would notice; schemas are not looked at."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from . import definitions
from .metadata import mistyped
from .resources import Resource
from .status import Cause, Mistyped, required, wrong
from .times import normalise

_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "configmaps": ("data", "binaryData"),
    "secrets": ("data", "stringData"),
}
_ENCODED: Final = {"secrets": "data", "configmaps": "binaryData"}
# Kinds with a template of pods that a selector has to find again.
_SELECTING: Final = frozenset({"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps"})
_FROZEN: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
_EVENT_SOURCE: Final = ("reportingComponent", "reportingInstance", "action", "reason")


def check_types(resource: Resource, body: dict[str, Any]) -> None:
    """Raise a 400 for values of a wrong type, where a kind is checked; write times in the server's form, in place."""
    for stanza in _TEXTS.get(resource.bucket, ()):
        values = body.get(stanza)
        if values is not None and not isinstance(values, dict):
            raise mistyped(resource, f"{resource.kind}.{stanza}", values, "map[string]string")
        for value in (values or {}).values():
            if value is not None and not isinstance(value, str):
                raise mistyped(resource, f"{resource.kind}.{stanza}", value, "string")
    _check_base64(resource, body)
    normalise(resource, body)


def _check_base64(resource: Resource, body: Mapping[str, Any]) -> None:
    stanza = _ENCODED.get(resource.bucket, "")
    for value in (body.get(stanza) or {}).values():
        try:
            base64.b64decode(value or "", validate=True)
        except (binascii.Error, ValueError):
            head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            words = f"illegal base64 data at input byte {_first_illegal(value)}"
            raise Mistyped(f"{head}: {words}", words) from None


def _first_illegal(value: str) -> int:
    """Where Go's decoder would stop: the first foreign character, else the end of the last whole group."""
    found = re.search(r"[^A-Za-z0-9+/]", value)
    return found.start() if found else len(value) // 4 * 4


def problems(resource: Resource, body: Mapping[str, Any]) -> list[Cause]:
    """What is wrong with a body apart from its metadata, for the kinds that are checked at all."""
    if resource.bucket == definitions.BUCKET:
        return definitions.problems(body)
    if resource.bucket == "events":
        return _event(body)
    if resource.bucket == "pods":
        return _containers(body.get("spec") or {}, "spec")
    if resource.bucket in _SELECTING:
        return _workload(body.get("spec") or {})
    if resource.bucket == "jobs.batch":
        return _containers(_template(body.get("spec") or {}).get("spec") or {}, "spec.template.spec")
    if resource.bucket == "leases.coordination.k8s.io":
        return _lease(body.get("spec") or {})
    return []


def _event(body: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    about = (body.get("involvedObject") or {}).get("namespace") or ""
    place = body["metadata"].get("namespace", "")
    if about != place and (about or place != "default"):
        causes.append(wrong("involvedObject.namespace", about, "does not match event.namespace"))
    if body.get("eventTime"):
        # Events of the newer shape say who did what; the older ones are not looked at.
        causes += [required(field) for field in _EVENT_SOURCE if not body.get(field)]
    return causes


def frozen(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    """What an update through the newer group of events changes in one, though only its series may change there."""
    if resource.group != "events.k8s.io":
        return []
    changed = [field for field in _FROZEN if (old.get(field) or None) != (new.get(field) or None)]
    return [wrong(field, new.get(field), "field is immutable") for field in changed]


def _lease(spec: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(duration, int) and duration <= 0:
        causes.append(wrong("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if isinstance(transitions, int) and transitions < 0:
        causes.append(wrong("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes


def _template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found = spec.get("template")
    return found if isinstance(found, Mapping) else {}


def _containers(spec: Mapping[str, Any], path: str) -> list[Cause]:
    return [] if spec.get("containers") else [required(f"{path}.containers")]


def _workload(spec: Mapping[str, Any]) -> list[Cause]:
    """The faults of a selector and a template: expressions of the selector are taken as fitting."""
    template = _template(spec)
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector") or {}
    causes = [] if selector else [required("spec.selector")]
    wanted = selector.get("matchLabels") or {}
    if not selector or any(labels.get(key) != value for key, value in wanted.items()):
        causes.append(wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"))
    return causes + _containers(template.get("spec") or {}, "spec.template.spec")
