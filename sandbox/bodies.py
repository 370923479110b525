"""Bodies of writes are brought into the stored form: what fits the kind, with clean metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from . import checks, conversion, metadata, protobuf, status
from .options import Validation
from .resources import Resource
from .schemas import Conformer, says_nothing


@dataclass(frozen=True)
class Reading:
    """How a body is read: what becomes of unknown fields, the warnings about them, and whether an apply made it."""

    validation: Validation = "Warn"
    applied: bool = False
    warnings: list[str] = field(default_factory=list)


PLAIN: Final = Reading(validation="Ignore")


def _conformed(resource: Resource, body: Mapping[str, Any], how: Reading) -> dict[str, Any]:
    """The body without fields that its kind does not have, with the defaults of its schema.

    Raises a 400 for unknown fields where they are not allowed.
    """
    if resource.custom and says_nothing(resource.schema):
        return dict(body)
    conformer = Conformer(nulls=how.applied)
    if resource.schema is not None:
        found = conformer.whole(resource.schema, dict(body), resource.shape.fields["metadata"])
    else:
        found = conformer.declared(resource.shape, dict(body), "")
    words = [f'unknown field "{path}"' for path in sorted(conformer.unknown)]
    if words and how.validation == "Strict":
        fault = f"strict decoding error: {', '.join(words)}"
        head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise status.Mistyped(f"{head}: {fault}", fault)
    if how.validation == "Warn":
        how.warnings.extend(word for word in words if word not in how.warnings)
    return found


def bare(resource: Resource, body: Mapping[str, Any], how: Reading = PLAIN) -> dict[str, Any]:
    """The body without apiVersion and kind, which must fit, in the form of its kind and with clean metadata."""
    _check_kind(resource, body)
    body = _conformed(resource, body, how)
    new = {"metadata": metadata.clean(resource, body.get("metadata"))}
    stored = conversion.inward(resource, body)
    # Unknown fields of built-in kinds are dropped, as Go's decoder does (here on the top level only).
    known = None if resource.custom else protobuf.top_level(resource.kind)
    dropped = {"apiVersion", "kind", "metadata"}
    if known is not None:
        dropped |= stored.keys() - known - {"stringData"}
    new.update({key: value for key, value in stored.items() if key not in dropped})
    checks.check_types(resource, new)
    return new


def _check_kind(resource: Resource, body: Mapping[str, Any]) -> None:
    """Raise a 400 when apiVersion or kind are not those of the resource; built-in kinds may leave them out."""
    kind, version = body.get("kind"), body.get("apiVersion")
    if resource.custom:
        if not kind:
            raw = msgspec.json.encode(body).decode()
            words = f"Object 'Kind' is missing in '{raw}' ({raw})"
            raise status.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {words}")
        if version != resource.group_version:
            expected = f"does not match the expected API version ({resource.group_version})"
            raise status.bad_request(f"the API version in the data ({version or ''}) {expected}")
        check_custom(resource, body)
    problem = None
    if kind is not None and kind != resource.kind:
        internal = f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"
        problem = f"converting ({resource.group_version}.{kind}) to ({internal}): unknown conversion"
    elif version is not None and version != resource.group_version:
        problem = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
    if problem is not None:
        told = str(version or resource.group_version).rpartition("/")[2]
        message = f'{kind} in version "{told}" cannot be handled as a {resource.kind}: {problem}'
        raise status.Mistyped(message, problem)


def check_custom(resource: Resource, body: Mapping[str, Any]) -> None:
    """Raise a 422 when apiVersion or kind of a custom object are not those of the resource."""
    expected = {"apiVersion": resource.group_version, "kind": resource.kind}
    causes = [
        status.wrong(field, body.get(field), f"must be {value}")
        for field, value in expected.items()
        if body.get(field) != value
    ]
    if causes:
        meta = body.get("metadata")
        name = str(meta.get("name", "")) if isinstance(meta, dict) else ""
        subject = status.Subject(resource.group, resource.plural, str(body.get("kind")))
        raise status.invalid(subject, name, causes)
