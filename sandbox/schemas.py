"""Objects of custom kinds are brought into the form of their structural schema: pruned, defaulted, without nulls."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .shapes import Shape, meta_shape

Schema = Mapping[str, Any]
_HEAD: Final = ("apiVersion", "kind", "metadata")
_IDLE: Final = frozenset({"type", "x-kubernetes-preserve-unknown-fields", "description"})


def says_nothing(schema: Schema | None) -> bool:
    """Whether any object fits a schema as it is."""
    return not schema or (schema.keys() <= _IDLE and bool(schema.get("x-kubernetes-preserve-unknown-fields")))


@dataclass(frozen=True)
class Conformer:
    """One pass over an object. `unknown` collects the paths of fields that were dropped.

    With `nulls` those stay that stand for values which may not be null: the result of an apply is not decoded
    anew, as other writes are.
    """

    nulls: bool = False
    unknown: list[str] = field(default_factory=list)

    def whole(self, schema: Schema, body: dict[str, Any], meta: Shape) -> dict[str, Any]:
        """The object in the form of its schema; apiVersion, kind and metadata belong to every object."""
        inner = {key: value for key, value in body.items() if key not in _HEAD}
        head: dict[str, Any] = {key: body[key] for key in _HEAD if key in body}
        if isinstance(head.get("metadata"), dict):
            head["metadata"] = self.declared(meta, head["metadata"], "metadata")
        # The order of the fields is that in which the server complains.
        found: dict[str, Any] = self.value(schema, inner, "")
        return {**head, **found}

    def value(self, schema: Schema, value: Any, path: str) -> Any:
        """The value in the form of its schema; what is of another type is left to validation."""
        if isinstance(value, dict):
            return self._map(schema, value, path)
        items = schema.get("items")
        if isinstance(value, list) and isinstance(items, Mapping):
            return [self.value(items, item, f"{path}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, float) and value.is_integer() and schema.get("type") == "integer":
            return int(value)
        return value

    def _map(self, schema: Schema, value: dict[str, Any], path: str) -> dict[str, Any]:
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        embedded = schema.get("x-kubernetes-embedded-resource")
        keeps = schema.get("x-kubernetes-preserve-unknown-fields") or more is True
        found: dict[str, Any] = {}
        for key, inner in value.items():
            place = f"{path}.{key}" if path else key
            known = properties.get(key)
            if known is None and isinstance(more, Mapping):
                known = more
            if embedded and key in _HEAD:
                found[key] = self._head(key, inner, place)
            elif known is not None:
                if inner is not None or self._keeps_null(known):
                    found[key] = self.value(known, inner, place)
            elif keeps:
                found[key] = inner
            else:
                self.unknown.append(place)
        for key, known in properties.items():
            if "default" in known and key not in found:
                found[key] = self.value(known, copy.deepcopy(known["default"]), f"{path}.{key}")
        return found

    def _keeps_null(self, schema: Schema) -> bool:
        return bool(schema.get("nullable") or (self.nulls and "default" not in schema))

    def _head(self, key: str, value: Any, path: str) -> Any:
        return self.declared(meta_shape(), value, path) if key == "metadata" and isinstance(value, dict) else value

    def declared(self, shape: Shape, value: Any, path: str) -> Any:
        """The value of a built-in type without the fields that the type does not have."""
        if isinstance(value, dict) and shape.form == "map":
            found: dict[str, Any] = {}
            for key, inner in value.items():
                place = f"{path}.{key}" if path else key
                if key in shape.fields or shape.element is not None:
                    found[key] = self.declared(shape.inner(key), inner, place)
                else:
                    self.unknown.append(place)
            return found
        if isinstance(value, list) and shape.form == "list":
            return [self.declared(shape.item, item, f"{path}[{index}]") for index, item in enumerate(value)]
        return value
