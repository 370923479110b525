"""CustomResourceDefinitions are completed, checked and given their conditions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from . import patterns
from .status import Cause, required, unsupported, wrong

BUCKET: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


_SPEC: Final = ("group", "names", "scope", "versions", "conversion", "preserveUnknownFields")
_NAMES: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_VERSION: Final = ("name", "served", "storage", "deprecated", "deprecationWarning", "schema", "subresources")


def _in_order(stanza: dict[str, Any], order: tuple[str, ...]) -> dict[str, Any]:
    """The stanza with its keys in the server's order."""
    return {**{key: stanza[key] for key in order if key in stanza}, **stanza}


def complete(body: dict[str, Any]) -> None:
    """Fill the defaults of a definition in place: names, conversion, and the order of its keys."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
        spec["names"] = _in_order(names, _NAMES)
    spec.setdefault("conversion", {"strategy": "None"})
    versions = [version for version in spec.get("versions") or () if isinstance(version, dict)]
    spec["versions"] = [_in_order(version, _VERSION) for version in versions]
    body["spec"] = _in_order(spec, _SPEC)


def begin(body: dict[str, Any]) -> None:
    """Give a new definition its first status in place: nothing is accepted yet."""
    versions = (body.get("spec") or {}).get("versions") or []
    body["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": [version.get("name") for version in versions if version.get("storage")],
    }


def problems(body: Mapping[str, Any]) -> list[Cause]:
    """What is wrong with a definition's spec; the metadata is checked elsewhere."""
    spec = body.get("spec") or {}
    names = spec.get("names") or {}
    causes: list[Cause] = []
    name = body["metadata"].get("name")
    if name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        causes.append(wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    causes += [required(f"spec.{field}") for field in ("group", "scope") if not spec.get(field)]
    if spec.get("scope") not in (None, "", "Cluster", "Namespaced"):
        causes.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        message = "must have exactly one version marked as storage version"
        causes.append(wrong("spec.versions", versions or None, message))
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    causes += _patterns(versions)
    known = ("plural", "singular", "kind", "listKind")
    causes += [required(f"spec.names.{field}") for field in known if not names.get(field)]
    return causes


def _patterns(versions: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """The patterns of the schemas that are no regular expressions; a schema that all versions share stands at another place."""
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in versions]
    if all(schema == schemas[0] for schema in schemas):
        yield from _unusable(schemas[0] if schemas else {}, "spec.validation.openAPIV3Schema")
        return
    for index, schema in enumerate(schemas):
        yield from _unusable(schema, f"spec.versions[{index}].schema.openAPIV3Schema")


def _unusable(schema: Any, place: str) -> Iterator[Cause]:
    if not isinstance(schema, Mapping):
        return
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            patterns.check(pattern)
        except patterns.PatternError as error:
            yield wrong(f"{place}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")
    for key in ("items", "additionalProperties", "not"):
        yield from _unusable(schema.get(key), f"{place}.{key}")
    for key in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(key) or ()):
            yield from _unusable(inner, f"{place}.{key}[{index}]")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _unusable(inner, f"{place}.properties[{name}]")


def established(body: Mapping[str, Any]) -> bool:
    """Whether a definition already has what `establish` would write."""
    status = body.get("status") or {}
    spec_names = {key: value for key, value in body["spec"]["names"].items() if value}
    return bool(status.get("conditions")) and status.get("acceptedNames") == spec_names


def terminate(body: dict[str, Any], now: str) -> None:
    """Mark a definition for deletion in place: its objects go first, held by the clean-up finalizer."""
    meta = body["metadata"]
    meta["deletionTimestamp"] = now
    meta["finalizers"] = [*dict.fromkeys([*meta.get("finalizers", ()), CLEANUP])]
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    status = body.setdefault("status", {})
    status["conditions"] = [*(status.get("conditions") or ()), condition]


def establish(body: dict[str, Any], now: str) -> None:
    """Accept the names of a definition in place, as the controllers would."""
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
