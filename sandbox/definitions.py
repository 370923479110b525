"""CustomResourceDefinitions are completed, checked and given their conditions."""

from collections.abc import Mapping
from typing import Any, Final

from .status import Cause, required, unsupported, wrong

BUCKET: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


def complete(body: dict[str, Any]) -> None:
    """Fill the defaults of a new definition in place: names, conversion, an unaccepted status."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    versions = spec.get("versions") or []
    body["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": [version.get("name") for version in versions if version.get("storage")],
    }


def problems(body: Mapping[str, Any]) -> list[Cause]:
    """What is wrong with a definition's spec; the metadata is checked elsewhere."""
    spec = body.get("spec") or {}
    names = spec.get("names") or {}
    causes = [required(f"spec.{field}") for field in ("group", "scope") if not spec.get(field)]
    causes += [
        required(f"spec.names.{field}") for field in ("plural", "singular", "kind", "listKind") if not names.get(field)
    ]
    if spec.get("scope") not in (None, "", "Cluster", "Namespaced"):
        causes.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    expected = f"{names.get('plural')}.{spec.get('group')}"
    name = body["metadata"].get("name")
    if not causes and name != expected:
        causes.append(wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        message = "must have exactly one version marked as storage version"
        causes.append(Cause("FieldValueInvalid", f"Invalid value: {versions!r}: {message}", "spec.versions"))
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required"))
    return causes


def established(body: Mapping[str, Any]) -> bool:
    """Whether a definition already has what `establish` would write."""
    status = body.get("status") or {}
    spec_names = {key: value for key, value in body["spec"]["names"].items() if value}
    return bool(status.get("conditions")) and status.get("acceptedNames") == spec_names


def establish(body: dict[str, Any], now: str) -> None:
    """Accept the names of a definition in place and put up the clean-up finalizer, as the controllers would."""
    status = body.setdefault("status", {})
    status["acceptedNames"] = {key: value for key, value in body["spec"]["names"].items() if value}
    known = {condition["type"]: condition for condition in status.get("conditions") or ()}
    for type, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        known.setdefault(
            type,
            {"type": type, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message},
        )
    status["conditions"] = list(known.values())
    stored = status.setdefault("storedVersions", [])
    for version in body["spec"]["versions"]:
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    finalizers = body["metadata"].setdefault("finalizers", [])
    if CLEANUP not in finalizers and "deletionTimestamp" not in body["metadata"]:
        finalizers.append(CLEANUP)
