"""Patches are applied to decoded objects: JSON merge (RFC 7386), JSON patch (RFC 6902), strategic merge."""

from collections.abc import Mapping
from typing import Any, Final

import jsonpatch
import msgspec
from jsonpointer import JsonPointerException

from .status import bad_request, unprocessable, unsupported_media_type
from .strategic import strategic_merge

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
MAX_OPERATIONS: Final = 10_000

_BUILTIN_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)
_CUSTOM_TYPES: Final = (JSON_PATCH, MERGE_PATCH)


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
            found[key] = value
    return found


def _json_patch(target: dict[str, Any], operations: Any) -> Any:
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise bad_request(message)
    try:
        return jsonpatch.JsonPatch(operations).apply(target)
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, KeyError):
        raise unprocessable() from None


def apply(target: dict[str, Any], patch: bytes, content_type: str, *, custom: bool) -> dict[str, Any]:
    """The patched object. `target` is the whole object and is not changed.

    Raises a 415 for a patch type that the kind does not take, a 400 for a patch that does not parse and
    a 422 for one that cannot be applied.
    """
    kind = content_type.partition(";")[0].strip()
    accepted = _CUSTOM_TYPES if custom else _BUILTIN_TYPES
    if kind not in accepted:
        raise unsupported_media_type(accepted)
    try:
        decoded = msgspec.json.decode(patch)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if kind == JSON_PATCH:
        found = _json_patch(target, decoded)
    elif not isinstance(decoded, dict):
        raise bad_request("error decoding patch: the patch must be a JSON object")
    elif kind == MERGE_PATCH:
        found = merge(target, decoded)
    else:
        found = strategic_merge(target, decoded)
    if not isinstance(found, dict):
        raise unprocessable()
    return found
