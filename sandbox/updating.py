"""An update is prepared by what its endpoint may change, then checked against the state before."""

from collections.abc import Mapping
from typing import Any, Final

from . import definitions, metadata
from .checks import frozen, problems
from .defaults import complete
from .patterns import Patience
from .resources import Resource
from .schemas import says_nothing
from .status import Cause, Refused, Subject, conflict, invalid, wrong
from .validation import violations

_STATUS_KEEPS: Final = {"pods": "ownerReferences", "deployments.apps": "labels"}


def _spec_like(body: Mapping[str, Any]) -> dict[str, Any]:
    """All that counts for the generation of a built-in kind."""
    return {key: value for key, value in body.items() if key not in ("metadata", "status")}


def _raises_generation(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if not resource.traits.generation:
        return False
    if resource.custom:
        keys = (old.keys() | new.keys()) - {"metadata"}
        return any(old.get(key) != new.get(key) for key in keys)
    if resource.traits.annotations_count:
        notes = "annotations"
        if old["metadata"].get(notes, {}) != new["metadata"].get(notes, {}):
            return True
    return _spec_like(old) != _spec_like(new)


def _keep(new: dict[str, Any], old: Mapping[str, Any], key: str) -> None:
    """Let one top-level stanza be as it was."""
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def _for_status(resource: Resource, old: Mapping[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What `/status` may change: status; for most built-in kinds also metadata."""
    if resource.custom or resource.bucket == definitions.BUCKET:
        meta = dict(old["metadata"])
    else:
        meta = dict(new["metadata"])
        if kept := _STATUS_KEEPS.get(resource.bucket):
            _keep(meta, old["metadata"], kept)
    found = {**old, "metadata": meta}
    _keep(found, new, "status")
    return found


def _for_main(resource: Resource, old: Mapping[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What the main endpoint may change: all but a status that has an endpoint of its own."""
    if resource.has_status:
        _keep(new, old, "status")
    complete(resource, new)
    if resource.bucket == "namespaces":
        # Only the /finalize endpoint may touch them.
        new["spec"] = {**(new.get("spec") or {}), **{k: v for k, v in old["spec"].items() if k == "finalizers"}}
    return new


def prepare(resource: Resource, old: Mapping[str, Any], new: dict[str, Any], subresource: str) -> dict[str, Any]:
    """The body to be stored for an update from `old` to `new`, both without apiVersion and kind.

    Metadata that no client may change is taken from `old`; the generation follows the kind's rule.
    """
    found = _for_status(resource, old, new) if subresource == "status" else _for_main(resource, old, new)
    meta, before = found["metadata"], old["metadata"]
    meta.setdefault("uid", before["uid"])
    meta["creationTimestamp"] = before["creationTimestamp"]
    meta.pop("generation", None)
    if "generation" in before:
        raised = subresource != "status" and _raises_generation(resource, old, found)
        meta["generation"] = before["generation"] + int(raised)
    if "deletionTimestamp" in before:
        meta["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in before:
        meta.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    return found


def schema_problems(
    resource: Resource, body: Mapping[str, Any], patience: Patience, subresource: str = ""
) -> list[Cause]:
    """What the schema of a custom kind says to a body; the status endpoint looks at nothing but the status."""
    schema = resource.schema
    if schema is None or says_nothing(schema):
        return []
    if subresource == "status":
        found = (schema.get("properties") or {}).get("status")
        return violations(found, body["status"], patience, "", "status") if found and "status" in body else []
    return violations(schema, {key: value for key, value in body.items() if key != "metadata"}, patience)


def check(
    resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any], patience: Patience, subresource: str = ""
) -> None:
    """Raise a 422 that names every fault of a prepared update."""
    plain = metadata.problems(resource, new["metadata"])
    changed = metadata.update_problems(old["metadata"], new["metadata"])
    causes: list[Cause] = [*plain, *changed]
    if resource.custom:
        # The server checks again there; its message drops the repetition, its causes do not.
        causes += [*plain, *changed, *plain]
    causes += problems(resource, new)
    if touched := frozen(resource, old, new):
        # Events are named by their older group there.
        raise invalid(Subject("", "events", "Event"), new["metadata"].get("name", ""), touched)
    if found := schema_problems(resource, new, patience, subresource):
        # What was wrong before the schema changed may stay so, as long as it is not touched.
        known = schema_problems(resource, old, patience, subresource)
        causes += [cause for cause in found if cause not in known]
    if causes:
        raise invalid(resource.subject, new["metadata"].get("name", ""), causes)


def check_version(resource: Resource, name: str, given: Any, current: int) -> None:
    """Raise a 409 when an update is based on another version, a 422 when the kind demands one and none is given."""
    if not given:
        if not resource.traits.unconditional:
            cause = wrong("metadata.resourceVersion", 0, "must be specified for an update")
            subject = resource.subject
            raise invalid(type(subject)(subject.group, subject.plural, subject.plural), name, [cause])
    elif not given.isdigit():
        raise Refused(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
    elif given != str(current):
        raise conflict(resource.subject, name)
