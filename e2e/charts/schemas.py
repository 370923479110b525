"""Makes JSON schemas for kubeconform of what a kube-apiserver publishes, and of definitions (CRDs).

kubeconform's own schemas would be fetched from the network. These are the server's, closed: a field that is not
there is an error.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

KINDS = "x-kubernetes-group-version-kind"
PREFIX = "#/definitions/"
OPEN = ("additionalProperties", "x-kubernetes-preserve-unknown-fields")
EITHER = {"oneOf": [{"type": "string"}, {"type": "integer"}]}


def write_published(openapi: Mapping[str, Any], folder: Path) -> None:
    """Write a schema for each kind of an OpenAPI 2 document (`/openapi/v2`)."""
    closed = {name: _closed(schema) for name, schema in openapi["definitions"].items()}
    for name, schema in openapi["definitions"].items():
        kinds = schema.get(KINDS, [])
        # A kind of many groups is one of the machinery, such as Status.
        if len(kinds) == 1:
            kind = kinds[0]
            needed = {one: closed[one] for one in _needed(openapi["definitions"], name)}
            _write(folder, kind, {"$ref": f"{PREFIX}{name}", "definitions": needed})


def write_defined(definitions: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write a schema for each version of custom resource definitions."""
    for definition in definitions:
        spec = definition["spec"]
        for version in spec["versions"]:
            kind = {"group": spec["group"], "version": version["name"], "kind": spec["names"]["kind"]}
            schema = version["schema"]["openAPIV3Schema"]
            properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
            whole = {**schema, "properties": {**schema.get("properties", {}), **properties}}
            closed = _closed(whole)
            # Judged by the kinds of the server.
            closed["properties"]["metadata"] = {"type": "object"}
            _write(folder, kind, closed)


def _write(folder: Path, kind: Mapping[str, str], schema: Mapping[str, Any]) -> None:
    # As kubeconform calls them: the first part of the group, and the version.
    group = kind["group"].partition(".")[0]
    name = "-".join(part for part in (kind["kind"].lower(), group, kind["version"]) if part)
    (folder / f"{name}.json").write_text(json.dumps(schema))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return EITHER
    found = {key: _closed(value) for key, value in schema.items() if not key.startswith("x-") and key != "format"}
    if isinstance(schema.get("properties"), dict):
        # Names of fields, which can be those of keywords.
        found["properties"] = {name: _closed(one) for name, one in schema["properties"].items()}
        if not any(schema.get(key) for key in OPEN):
            found["additionalProperties"] = False
    return found


def _needed(definitions: Mapping[str, Any], name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += _references(definitions[one])
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _references(one)
    elif isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(PREFIX)
        for value in schema.values():
            yield from _references(value)
