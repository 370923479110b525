"""Tables hold what `kubectl get` prints: columns by kind and one row of cells for each object."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from . import definitions
from .history import Stored
from .metadata import ordered
from .resources import Column, Resource
from .store import dig

_NAME: Final = Column("Name", "metadata.name", "string", "name", "Name must be unique within a namespace.")
_AGE: Final = Column("Age", "metadata.creationTimestamp", "date", "", "When the object was created.")

Cell = Callable[[Mapping[str, Any]], Any]


def duration(seconds: float) -> str:
    """A span as kubectl prints it: two units at most, coarser with age."""
    total = max(int(seconds), 0)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if days < 2:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y"


_STEP: Final = re.compile(
    r"""\.?(?:\[\?\(@\.(?P<key>[^=!\s]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]"""
    r"""|\[(?P<index>-?\d+)\]|\[["'](?P<quoted>[^"']+)["']\]|(?P<name>(?:\\.|[^.\[\\])+))"""
)


def json_path(body: Any, path: str) -> Any:
    """The value under the JSON path of a printer column; None where a step is missing.

    Understood are names, quoted names, indices and one-level filters (`[?(@.type=="Ready")]`).
    """
    found = body
    for step in _STEP.finditer(path):
        if isinstance(found, list):
            found = _item(found, step)
        elif isinstance(found, dict) and (name := step["quoted"] or step["name"]):
            found = found.get(re.sub(r"\\(.)", r"\1", name))
        else:
            return None
    return found


def _item(items: list[Any], step: re.Match[str]) -> Any:
    if step["key"]:
        return next((item for item in items if json_path(item, step["key"]) == step["value"]), None)
    index = int(step["index"]) if step["index"] else len(items)
    return items[index] if -len(items) <= index < len(items) else None


def _age(text: Any, now: str) -> str:
    try:
        return duration((datetime.fromisoformat(now) - datetime.fromisoformat(str(text))).total_seconds())
    except (ValueError, TypeError):
        return "<unknown>"


def _length(path: str) -> Cell:
    return lambda body: len(dig(body, path) or {})


def _at(path: str, default: Any = "") -> Cell:
    def cell(body: Mapping[str, Any]) -> Any:
        found = dig(body, path)
        return default if found is None else found

    return cell


def _column(path: str) -> Cell:
    return lambda body: json_path(body, path)


def _ready_pods(body: Mapping[str, Any]) -> str:
    statuses = dig(body, "status.containerStatuses") or []
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{len(dig(body, 'spec.containers') or [])}"


def _restarts(body: Mapping[str, Any]) -> int:
    return sum(int(status.get("restartCount", 0)) for status in dig(body, "status.containerStatuses") or [])


def _pod_status(body: Mapping[str, Any]) -> Any:
    return "Terminating" if dig(body, "metadata.deletionTimestamp") else dig(body, "status.phase") or "Unknown"


def _ready_replicas(body: Mapping[str, Any]) -> str:
    return f"{dig(body, 'status.readyReplicas') or 0}/{dig(body, 'spec.replicas') or 0}"


def _ports(body: Mapping[str, Any]) -> str:
    ports = dig(body, "spec.ports") or []
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _involved(body: Mapping[str, Any]) -> str:
    about = body.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _last_seen(body: Mapping[str, Any]) -> Any:
    series = dig(body, "series.lastObservedTime")
    return series or body.get("lastTimestamp") or body.get("eventTime") or dig(body, "metadata.creationTimestamp")


def _node_status(body: Mapping[str, Any]) -> str:
    conditions = dig(body, "status.conditions") or []
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return "Ready" if ready else "NotReady"


# Between the name and the age: the column's name, its type, and how its cell is found.
_BETWEEN: Final[dict[str, tuple[tuple[str, str, Cell], ...]]] = {
    "pods": (("Ready", "string", _ready_pods), ("Status", "string", _pod_status), ("Restarts", "string", _restarts)),
    "deployments.apps": (
        ("Ready", "string", _ready_replicas),
        ("Up-to-date", "string", _at("status.updatedReplicas", 0)),
        ("Available", "string", _at("status.availableReplicas", 0)),
    ),
    "replicasets.apps": (
        ("Desired", "integer", _at("spec.replicas", 0)),
        ("Current", "integer", _at("status.replicas", 0)),
        ("Ready", "integer", _at("status.readyReplicas", 0)),
    ),
    "statefulsets.apps": (("Ready", "string", _ready_replicas),),
    "services": (
        ("Type", "string", _at("spec.type")),
        ("Cluster-IP", "string", _at("spec.clusterIP", "<none>")),
        ("External-IP", "string", lambda _: "<none>"),
        ("Port(s)", "string", _ports),
    ),
    "configmaps": (("Data", "string", _length("data")),),
    "secrets": (("Type", "string", _at("type")), ("Data", "string", _length("data"))),
    "namespaces": (("Status", "string", _at("status.phase")),),
    "nodes": (("Status", "string", _node_status),),
    "leases.coordination.k8s.io": (("Holder", "string", _at("spec.holderIdentity")),),
    "persistentvolumeclaims": (("Status", "string", _at("status.phase")), ("Volume", "string", _at("spec.volumeName"))),
    "jobs.batch": (
        ("Status", "string", lambda body: "Complete" if dig(body, "status.succeeded") else "Running"),
        (
            "Completions",
            "string",
            lambda body: f"{dig(body, 'status.succeeded') or 0}/{dig(body, 'spec.completions') or 1}",
        ),
    ),
    "cronjobs.batch": (
        ("Schedule", "string", _at("spec.schedule")),
        ("Suspend", "boolean", _at("spec.suspend", False)),
    ),
}
_EVENT: Final[tuple[tuple[str, str, Cell], ...]] = (
    ("Last Seen", "date", _last_seen),
    ("Type", "string", _at("type")),
    ("Reason", "string", _at("reason")),
    ("Object", "string", _involved),
    ("Message", "string", _at("message")),
)


def _layout(resource: Resource) -> list[tuple[Column, Cell]]:
    """The columns of a kind, each with how its cell is found."""
    if resource.bucket == "events":
        return [(Column(name, "", type), cell) for name, type, cell in _EVENT]
    name: tuple[Column, Cell] = (_NAME, _at(_NAME.path))
    if resource.bucket == definitions.BUCKET:
        return [name, (Column("Created At", "", "date"), _at(_AGE.path))]
    if resource.columns:
        return [name, *((column, _column(column.path)) for column in resource.columns)]
    between = [(Column(head, "", type), cell) for head, type, cell in _BETWEEN.get(resource.bucket, ())]
    return [name, *between, (_AGE, _at(_AGE.path))]


def _cell(resource: Resource, column: Column, value: Any, now: str) -> Any:
    if resource.bucket == definitions.BUCKET or value is None:
        return value
    if column.type == "date":
        return _age(value, now)
    return value if isinstance(value, str | int | float | bool) else str(value)


def rows(resource: Resource, items: Sequence[Stored], include: str, now: str) -> list[dict[str, Any]]:
    """The rows of a table; `include` says what each carries beside its cells: Metadata, Object or None."""
    layout = _layout(resource)
    found = []
    for item in items:
        body = item.decode()
        row: dict[str, Any] = {"cells": [_cell(resource, column, cell(body), now) for column, cell in layout]}
        if include == "Object":
            row["object"] = {"kind": resource.kind, "apiVersion": resource.group_version, **body}
        elif include != "None":
            head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = {**head, "metadata": ordered(body["metadata"], item.version)}
        found.append(row)
    return found


def table(resource: Resource, found: Sequence[Mapping[str, Any]], meta: Mapping[str, Any]) -> dict[str, Any]:
    """A meta.k8s.io/v1 Table of given rows."""
    columns = [
        {
            "name": column.name,
            "type": "string" if column.type == "date" and not resource.custom else column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column, _ in _layout(resource)
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(meta),
        "columnDefinitions": columns,
        "rows": list(found),
    }
