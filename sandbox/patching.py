"""Patches are applied to decoded objects: JSON merge (RFC 7386), JSON patch (RFC 6902), strategic merge."""

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import jsonpatch
import msgspec
import yaml
from jsonpointer import JsonPointerException, resolve_pointer

from . import decoding
from .status import Refused, bad_request, too_large, unprocessable, unsupported_media_type
from .strategic import strategic_merge

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
MAX_OPERATIONS: Final = 10_000
COPY_LIMIT: Final = 3 * 1024 * 1024
"""How many bytes of JSON the `copy` operations of one patch may copy together."""

_BUILTIN_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_CUSTOM_TYPES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


def merge(target: Any, patch: Any) -> Any:
    """The target with a merge patch laid over it; nulls delete, lists and scalars replace.

    The arguments stay as they are; the result may share unchanged parts with them.
    """
    if not isinstance(patch, Mapping):
        return patch
    found = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            found[key] = merge(found.get(key), value)
        else:
            found[key] = value if isinstance(found.get(key), Mapping) else _pruned(value)
    return found


def _pruned(value: Any) -> Any:
    """The value without nulls in the objects of its lists: RFC 7386 would keep them, the real server does not."""
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _pruned(item) for key, item in value.items() if item is not None}
    return value


class _Test(jsonpatch.TestOperation):
    """As on the real server, a missing member passes a test for null."""

    def apply(self, obj: Any) -> Any:
        try:
            return super().apply(obj)
        except (jsonpatch.JsonPatchException, JsonPointerException):
            container, part = self.pointer.to_last(obj)
            if "value" in self.operation and self.operation["value"] is None:
                missing = isinstance(container, dict) and part not in container
                if missing:
                    return obj
            raise


class _Replace(jsonpatch.ReplaceOperation):
    """As on the real server, a missing member of an object is added."""

    def apply(self, obj: Any) -> Any:
        container, part = self.pointer.to_last(obj)
        if isinstance(container, dict) and part not in container and "value" in self.operation:
            container[part] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Patch(jsonpatch.JsonPatch):
    """RFC 6902 with the real server's reading of `test` and `replace`."""

    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "test": _Test, "replace": _Replace})


def _copied(operation: Any, target: Any) -> int:
    """How many bytes an operation is about to copy."""
    if not isinstance(operation, Mapping) or operation.get("op") != "copy":
        return 0
    return len(msgspec.json.encode(resolve_pointer(target, str(operation.get("from")))))


def _json_patch(target: dict[str, Any], operations: Any) -> Any:
    if not isinstance(operations, list):
        words = "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {words}")
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise too_large(message)
    found, copied = copy.deepcopy(target), 0
    try:
        # One by one, to know what each is about to copy.
        for operation in operations:
            copied += _copied(operation, found)
            if copied > COPY_LIMIT:
                raise unprocessable()
            found = _Patch([operation]).apply(found, in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException, AttributeError, TypeError, KeyError, RecursionError):
        raise unprocessable() from None
    if decoding.is_deep(found):
        raise unprocessable()
    return found


def check_type(kind: str, *, custom: bool) -> None:
    """Raise a 415 for a content type that is no patch, or no patch that the kind takes."""
    accepted = _CUSTOM_TYPES if custom else _BUILTIN_TYPES
    if kind not in accepted and not custom:
        raise Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if kind not in accepted:
        raise unsupported_media_type(accepted)


def configuration(body: bytes) -> Any:
    """The decoded body of an apply patch: YAML, of which JSON is a part. Raises a 400."""
    try:
        return decoding.from_json(body)
    except msgspec.DecodeError:
        pass
    try:
        return decoding.from_yaml(body)
    except yaml.YAMLError as error:
        raise bad_request(f"error encoding patch: yaml: {' '.join(str(error).split())}") from None


def apply(target: dict[str, Any], patch: bytes, content_type: str, *, custom: bool) -> dict[str, Any]:
    """The patched object. `target` is the whole object and is not changed.

    Raises a 415 for a patch type that the kind does not take, a 400 for a patch that does not parse and
    a 422 for one that cannot be applied.
    """
    kind = content_type.partition(";")[0].strip()
    check_type(kind, custom=custom)
    try:
        decoded = decoding.from_json(patch)
    except msgspec.DecodeError:
        raise bad_request("invalid JSON patch") from None
    if kind == JSON_PATCH:
        found = _json_patch(target, decoded)
    elif not isinstance(decoded, dict):
        words = "json: cannot unmarshal array into Go value of type map[string]interface {}"
        raise bad_request(f"error decoding patch: {words}")
    elif kind == MERGE_PATCH:
        found = merge(target, decoded)
    else:
        found = strategic_merge(target, decoded)
    if not isinstance(found, dict):
        raise unprocessable()
    return found
