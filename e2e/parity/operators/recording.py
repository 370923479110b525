"""Writes each call of a handler down as one line of JSON, the same whoever runs the operator.

The operators of this folder call it; it imports neither Kopf nor ctl. What differs from run to run (uids, versions, times)
and what the framework keeps on objects for itself is left out here, since a handler cannot rely on it.
"""

import datetime
import enum
import json
import os
import threading
from collections.abc import Collection, Mapping
from typing import Any

VOLATILE = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
OWN = ("last-handled-configuration", "touch-dummy", "kopf-managed")
# Who runs the operator must not matter, or these are the same as others of the call.
SKIPPED = {"logger", "uid", "meta", "settings"}

# Classes without a public name, on either side.
_PRIVATE = {
    "LiveBody": "Body",
    "MappingView": "a view",
    "LabelsView": "a view",
    "AnnotationsView": "a view",
    "AsyncFlagWaiter": "an asynchronous flag",
    "AsyncDaemonStopperChecker": "an asynchronous flag",
    "SyncFlagWaiter": "a synchronous flag",
    "SyncDaemonStopperChecker": "a synchronous flag",
}

_lock = threading.Lock()


def record(handler: str, kwargs: Mapping[str, Any], /, **said: Any) -> None:
    """Add one call: who was called, with what, and what the handler has to say beside."""
    body = kwargs.get("body")
    line = {
        "handler": handler,
        "object": kwargs.get("name") if body is None else body.get("metadata", {}).get("name"),
        "names": sorted(kwargs),
        "types": {name: _type(value) for name, value in kwargs.items() if value is not None},
        "kwargs": {name: _value(name, value) for name, value in kwargs.items() if name not in SKIPPED},
        "said": plain(said),
    }
    text = json.dumps(line, default=repr) + "\n"
    with _lock, open(os.environ["RECORDING"], "a") as file:  # noqa: PTH123 (as an operator writes it)
        file.write(text)


def without(kwargs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Arguments without those that depend on when exactly the call came."""
    return {name: value for name, value in kwargs.items() if name not in names}


def _type(value: Any) -> str:
    name = type(value).__name__
    return _PRIVATE.get(name, name)


def _value(name: str, value: Any) -> Any:
    # Empty stanzas of a patch change nothing; whoever looks at one makes it.
    return plain({k: v for k, v in value.items() if v != {}}) if name == "patch" else plain(value)


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    match value:
        case enum.Enum():
            return value.value if isinstance(value, str) else str(value)
        case None | bool() | int() | float() | str():
            return value
        case datetime.datetime():
            return f"datetime, {'naive' if value.tzinfo is None else 'aware'}"
        case datetime.timedelta():
            return "timedelta"
        case Exception():
            return repr(value)
        case Mapping():
            return _mapping(value)
        case tuple() | list():
            return [plain(item) for item in value]
        case _ if hasattr(value, "plural") and hasattr(value, "version"):
            return f"{value.plural}.{value.version}.{value.group}"
        case _ if hasattr(value, "is_set"):
            return {"is_set": value.is_set(), "reason": str(getattr(value, "reason", None))}
        case Collection():
            return sorted((plain(item) for item in value), key=repr)
    return repr(value)


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    found = {str(key): plain(item) for key, item in value.items()}
    if isinstance(found.get("metadata"), dict):
        found["metadata"] = {k: v for k, v in found["metadata"].items() if k not in VOLATILE}
        if "deletionTimestamp" in found["metadata"]:
            found["metadata"]["deletionTimestamp"] = "set"
        if isinstance(found["metadata"].get("annotations"), dict):
            found["metadata"]["annotations"] = _foreign(found["metadata"]["annotations"])
            if not found["metadata"]["annotations"]:
                del found["metadata"]["annotations"]
        if isinstance(found.get("status"), dict):
            found["status"].pop("kopf", None)
            if not found["status"]:
                del found["status"]
    return _foreign(found)


def _foreign(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if not _is_own(key, value)}


def _is_own(key: str, value: Any) -> bool:
    if key.endswith(OWN):
        return True
    return isinstance(value, str) and value.startswith('{"') and '"retries":' in value and "/" in key
