"""Object metadata is brought into the server's form and checked by its rules."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .resources import Resource
from .status import Cause, Mistyped, prohibited, required, too_long, wrong

ANNOTATIONS_LIMIT: Final = 256 * 1024

_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_TYPES: Final[dict[str, type]] = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "generation": int,
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "labels": dict,
    "annotations": dict,
    "ownerReferences": list,
    "finalizers": list,
    "managedFields": list,
}
_GO_TYPES: Final = {str: "string", int: "int64", dict: "map[string]string", list: "slice"}

_ITEMS: Final[dict[str, tuple[type, str]]] = {
    "finalizers": (str, "string"),
    "ownerReferences": (dict, "v1.OwnerReference"),
    "managedFields": (dict, "v1.ManagedFieldsEntry"),
}

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_SUBDOMAIN_HELP: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_HELP: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    f"and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_QUALIFIED_HELP: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_HELP: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_LABEL_VALUE}')"
)


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    names: dict[type, str] = {str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _mistyped(resource: Resource, field: str, value: Any, expected: str) -> Mistyped:
    return mistyped(resource, f"ObjectMeta.{'' if resource.custom else 'metadata.'}{field}", value, expected)


def mistyped(resource: Resource, field: str, value: Any, expected: str) -> Mistyped:
    """A 400 for a value that does not fit the Go type of a field."""
    words = f"json: cannot unmarshal {_go_kind(value)} into Go struct field {field} of type {expected}"
    head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    return Mistyped(f"{head}: {words}", words)


def clean(resource: Resource, metadata: Any) -> dict[str, Any]:
    """A fresh metadata dict: known fields only, in the server's order, without nulls and empty stanzas.

    Raises a 400 for values of a wrong type.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise _mistyped(resource, "", metadata, "v1.ObjectMeta")
    found: dict[str, Any] = {}
    for field, kind in _TYPES.items():
        value = metadata.get(field)
        if value is None:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _mistyped(resource, field, value, _GO_TYPES[kind])
        checked = _inside(resource, field, value)
        if checked not in ("", {}, []):
            found[field] = checked
    return found


def _inside(resource: Resource, field: str, value: Any) -> Any:
    """The value with the types of its items checked, too."""
    if isinstance(value, dict):
        return _strings(resource, field, value)
    if isinstance(value, list):
        kind, words = _ITEMS[field]
        for item in value:
            if not isinstance(item, kind):
                raise _mistyped(resource, field, item, words)
    return value


def ordered(metadata: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The metadata in the server's order with a resourceVersion (none for version 0: a dry run)."""
    found: dict[str, Any] = {}
    for field in _TYPES:
        if field == "resourceVersion":
            if version:
                found[field] = str(version)
        elif field in metadata:
            found[field] = metadata[field]
    return found


def _strings(resource: Resource, field: str, values: dict[Any, Any]) -> dict[str, str]:
    """The map with nulls dropped (as the server reads them for strings: empty)."""
    for value in values.values():
        if value is not None and not isinstance(value, str):
            raise _mistyped(resource, field, value, "string")
    return {key: value or "" for key, value in values.items()}


def name_problem(resource: Resource, name: str) -> str | None:
    """What is wrong with an object's name, in the server's words; None for a valid one."""
    if resource.traits.free_names:
        bad = name in (".", "..") or "/" in name or "%" in name
        return f"may not be '{name}' or contain '/' or '%'" if bad else None
    if resource.traits.label_names:
        if "." in name:
            return "must not contain dots"
        if len(name) > 63:
            return "must be no more than 63 bytes"
        return None if re.fullmatch(_LABEL, name) else _LABEL_HELP
    if len(name) > 253:
        return "must be no more than 253 bytes"
    return None if re.fullmatch(_SUBDOMAIN, name) else _SUBDOMAIN_HELP


def qualified_problem(name: str) -> str | None:
    """What is wrong with a label key, an annotation key or a finalizer."""
    prefix, slash, part = name.rpartition("/")
    if slash and not (prefix and re.fullmatch(_SUBDOMAIN, prefix)):
        return "prefix part " + (_SUBDOMAIN_HELP if prefix else "must be non-empty")
    if not part:
        return "name part must be non-empty"
    if len(part) > 63:
        return "name part must be no more than 63 bytes"
    return None if re.fullmatch(_QUALIFIED, part) else _QUALIFIED_HELP


def label_value_problem(value: str) -> str | None:
    """What is wrong with the value of a label."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return None if re.fullmatch(_LABEL_VALUE, value) else _VALUE_HELP


def _maps(metadata: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in metadata.get("labels", {}).items():
        if problem := qualified_problem(key):
            causes.append(wrong("metadata.labels", key, problem))
        if problem := label_value_problem(value):
            causes.append(wrong("metadata.labels", value, problem))
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    named = [(key, qualified_problem(key.lower())) for key in annotations]
    causes += [wrong("metadata.annotations", key, problem) for key, problem in named if problem]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        causes.append(too_long("metadata.annotations", ANNOTATIONS_LIMIT))
    return causes


def _owners(references: Sequence[Mapping[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    for index, reference in enumerate(references):
        path = f"metadata.ownerReferences[{index}]"
        causes += [
            required(f"{path}.{field}", "must not be empty")
            for field in ("apiVersion", "kind", "name", "uid")
            if not reference.get(field)
        ]
        if reference.get("controller") is True:
            controllers.append(f"{reference.get('kind')}/{reference.get('name')}")
    if len(controllers) > 1:
        found = f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        message = f"Only one reference can have Controller set to true. {found}"
        causes.append(wrong("metadata.ownerReferences", list(references), message))
    return causes


def problems(resource: Resource, metadata: Mapping[str, Any]) -> list[Cause]:
    """Every fault of cleaned metadata, for a create as well as an update."""
    causes: list[Cause] = []
    base = metadata.get("generateName", "")
    if base and (problem := name_problem(resource, base[:-2] + "a" if len(base) > 1 and base[-1] == "-" else base)):
        causes.append(wrong("metadata.generateName", base, problem))
    name = metadata.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif problem := name_problem(resource, name):
        causes.append(wrong("metadata.name", name, problem))
    if not resource.namespaced and metadata.get("namespace"):
        causes.append(prohibited("metadata.namespace", "not allowed on this type"))
    causes += _maps(metadata)
    causes += _owners(metadata.get("ownerReferences", []))
    causes += _finalizers(metadata.get("finalizers", []), custom=resource.custom)
    return causes


def _finalizers(names: Sequence[str], *, custom: bool) -> list[Cause]:
    """Finalizers must be qualified names; those of built-in kinds standard ones or with a domain."""
    found = [(name, qualified_problem(name)) for name in names]
    causes = [wrong("metadata.finalizers", name, problem) for name, problem in found if problem]
    if not custom:
        message = "name is neither a standard finalizer name nor is it fully qualified"
        causes += [
            wrong(f"metadata.finalizers[{index}]", name, message)
            for index, name in enumerate(names)
            if "/" not in name and name not in _STANDARD_FINALIZERS
        ]
    return causes


def update_problems(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    """Every change of metadata that an update must not make."""
    causes: list[Cause] = []
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers", [])) - set(old.get("finalizers", [])))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            words = "no new finalizers can be added if the object is being deleted, found new finalizers"
            causes.append(prohibited("metadata.finalizers", f"{words} []string{{{listed}}}"))
    causes += [
        wrong(f"metadata.{field}", new.get(field), "field is immutable")
        for field in (
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        )
        if new.get(field) != old.get(field)
    ]
    return causes
