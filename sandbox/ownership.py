"""Managed fields say who owns which fields: kept at every write, asked and enforced by server-side apply.

The entries of `metadata.managedFields` are themselves the state; nothing here changes one in place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from . import fieldsets, typed
from .fieldsets import Tree
from .shapes import Shape
from .status import Refused

Entry = dict[str, Any]
ENTRIES: Final = "managedFields"
APPLY: Final = "Apply"
UPDATE: Final = "Update"
MAX_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"
_FIRST: Final = "before-first-apply"
# What every object has, or what the server writes: nobody owns it.
_NOBODYS: Final[Tree] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{name}": {}
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        },
    },
}


@dataclass(frozen=True)
class Writer:
    """Who writes: the manager's name, the version and the subresource it writes through, and the time."""

    manager: str
    api_version: str
    subresource: str
    now: str


Key = tuple[str, str, str, str]
Managers = dict[Key, Entry]


def _key(entry: Mapping[str, Any]) -> Key:
    """What makes two entries one; appliers are the same whatever version they apply in."""
    operation = entry.get("operation", "")
    version = "" if operation == APPLY else entry.get("apiVersion", "")
    return (entry.get("manager", ""), operation, version, entry.get("subresource", ""))


def managers_of(entries: Iterable[Mapping[str, Any]]) -> Managers:
    """The entries by their owners. An entry that is not understood spoils them all: nothing is known then."""
    found: Managers = {}
    for entry in entries:
        if entry.get("operation") not in (APPLY, UPDATE) or not isinstance(entry.get("fieldsV1"), dict):
            return {}
        found[_key(entry)] = dict(entry)
    return found


def given_or_live(given: Any, live: Sequence[Entry]) -> Managers:
    """The managers to go on with: those of the written object, else those of the stored one; `[{}]` resets."""
    if given == [{}]:
        return {}
    return managers_of(given or ()) or managers_of(live)


def _seconds(entry: Mapping[str, Any]) -> float:
    time = entry.get("time")
    return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else 0.0


def entries_of(managers: Managers) -> list[Entry]:
    """The entries in the server's order: appliers first, the older before the newer."""
    if len(managers) < 2:
        return list(managers.values())
    named = ("manager", "apiVersion", "subresource")
    return sorted(
        managers.values(),
        key=lambda entry: (entry["operation"], _seconds(entry), *(entry.get(name, "") for name in named)),
    )


def _entry(writer: Writer, operation: str, tree: Tree, time: str | None) -> Entry:
    found: Entry = {"manager": writer.manager or "unknown", "operation": operation, "apiVersion": writer.api_version}
    if time is not None:
        found["time"] = time
    found |= {"fieldsType": "FieldsV1", "fieldsV1": tree}
    if writer.subresource:
        found["subresource"] = writer.subresource
    return found


def _stripped(tree: Tree | None) -> Tree | None:
    return fieldsets.difference(tree, _NOBODYS)


def _without(managers: Managers, lost: Tree | None) -> Managers:
    """The managers after a part of their fields went to somebody else, or went altogether."""
    if lost is None:
        return managers
    found: Managers = {}
    for key, entry in managers.items():
        tree = fieldsets.difference(entry["fieldsV1"], lost)
        if tree is not None:
            found[key] = entry if tree == entry["fieldsV1"] else {**entry, "fieldsV1": tree}
    return found


def updated(shape: Shape, states: tuple[Any, Any], managers: Managers, writer: Writer, *, new: bool) -> Managers:
    """The managers after a plain write from one state to another (`new`: a creation).

    An object that nobody manages stays so until somebody applies. What the write changes belongs to its writer
    alone. States that do not fit their shape leave the managers as they are.
    """
    if not managers and not new:
        return managers
    try:
        touched, gone = typed.compare(shape, *states)
    except typed.Undeclared:
        return managers
    if touched is None and gone is None:
        return managers
    found = _without(managers, fieldsets.union(touched, gone))
    taken = _stripped(touched)
    if taken is None:
        return found
    # The scale endpoint of the real server tells no time.
    entry = _entry(writer, UPDATE, taken, None if writer.subresource == "scale" else writer.now)
    before = found.get(_key(entry))
    if before is not None:
        merged = fieldsets.union(taken, before["fieldsV1"])
        assert merged is not None
        entry = {**entry, "fieldsV1": merged}
    found = {**found, _key(entry): entry}
    return _capped(found)


def _capped(managers: Managers) -> Managers:
    """The oldest updaters beyond the limit merged into one for each version."""
    updaters = [key for key, entry in managers.items() if entry["operation"] == UPDATE]
    surplus = len(updaters) - MAX_UPDATERS
    if surplus <= 0:
        return managers
    found = dict(managers)
    first: dict[str, Key] = {}
    for key in sorted(updaters, key=lambda key: (_seconds(managers[key]), key)):
        if surplus <= 0:
            break
        entry = found[key]
        version = entry["apiVersion"]
        if version not in first:
            first[version] = key
            continue
        bucket = (_ANCIENT, UPDATE, version, "")
        if bucket not in found:
            found[bucket] = found.pop(first[version])
        if bucket != key:
            tree = fieldsets.union(found.pop(key)["fieldsV1"], found[bucket]["fieldsV1"])
            bucketed = _entry(Writer(_ANCIENT, version, "", ""), UPDATE, tree or {}, entry.get("time"))
            found[bucket] = bucketed
            surplus -= 1
    return found


@dataclass(frozen=True)
class Applied:
    """The outcome of an apply: the merged object and its managers."""

    body: dict[str, Any]
    managers: Managers


@dataclass(frozen=True)
class Application:
    """A configuration to be applied: by whom, over the conflicts or not, and the fields that it may not own.

    `yielded` are fields that may be taken from their owners without `force`.
    """

    shape: Shape
    config: dict[str, Any]
    writer: Writer
    ignored: Tree
    force: bool = False
    yielded: Tree | None = None


def applied(wanted: Application, live: dict[str, Any], managers: Managers) -> Applied:
    """Lay a configuration over a live object.

    Fields that the applier named before and does not name now go, unless others own them. Raises `Undeclared` for
    a configuration that does not fit, and a 409 where fields of other managers would change.
    """
    shape, writer = wanted.shape, wanted.writer
    if not managers and live:
        first = Writer(_FIRST, writer.api_version, "", writer.now)
        managers = _without(updated(shape, ({}, live), {}, first, new=True), wanted.ignored)
    named = fieldsets.difference(typed.fields_of(shape, wanted.config), wanted.ignored)
    own = _key(_entry(writer, APPLY, {}, None))
    last = managers.get(own)
    merged = typed.merge(shape, live, wanted.config)
    owners = {key: entry for key, entry in managers.items() if key != own}
    if last is not None:
        owned: Tree | None = named
        for entry in owners.values():
            owned = fieldsets.union(owned, entry["fieldsV1"])
        merged = _pruned(shape, merged, last["fieldsV1"], owned)
    touched, gone = typed.compare(shape, live, merged)
    touched = fieldsets.difference(touched, wanted.ignored)
    disputed = fieldsets.difference(touched, wanted.yielded)
    conflicts = {key: tree for key, entry in owners.items() if (tree := _both(entry, disputed)) is not None}
    if conflicts and not wanted.force:
        raise _conflict(conflicts, managers)
    found = _without(owners, fieldsets.union(touched, gone))
    mine = _stripped(named)
    if mine is not None:
        # As on the real server nobody is told when a new owner came without changing anything.
        changed = touched is not None or gone is not None
        time = writer.now if changed else (last or {}).get("time")
        found = {**found, own: _entry(writer, APPLY, mine, time)}
    return Applied(merged, found)


def _both(entry: Entry, touched: Tree | None) -> Tree | None:
    return fieldsets.intersection(entry["fieldsV1"], touched)


def _pruned(shape: Shape, merged: Any, last: Tree, owned: Tree | None) -> Any:
    """The merged object without what the applier named last time and nobody owns now."""
    named = typed.with_named(shape, last)
    assert named is not None
    cut = typed.cut(shape, merged, named)
    present = typed.with_named(shape, typed.fields_of(shape, merged, strict=False))
    kept = typed.with_named(shape, typed.fields_of(shape, cut or {}, strict=False))
    lost = fieldsets.difference(fieldsets.difference(present, kept), typed.with_named(shape, owned))
    # What went with a parent but was never named by the applier stays.
    lost = fieldsets.intersection(lost, named)
    return merged if lost is None else typed.cut(shape, merged, lost)


def _manager(entry: Mapping[str, Any]) -> str:
    shown = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        shown += f' with subresource "{entry["subresource"]}"'
    return shown if entry["operation"] == APPLY else f"{shown} using {entry['apiVersion']}"


def _conflict(conflicts: Mapping[Key, Tree], managers: Managers) -> Refused:
    found = [(_manager(managers[key]), fieldsets.shown(path)) for key in conflicts for path in _paths(conflicts[key])]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in found
    ]
    if len(found) == 1:
        message = f"Apply failed with 1 conflict: conflict with {found[0][0]}: {found[0][1]}"
    else:
        lines = []
        for manager in sorted({manager for manager, _ in found}):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for owner, path in found if owner == manager]
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return Refused(409, "Conflict", message, {"causes": causes})


def _paths(tree: Tree) -> list[tuple[str, ...]]:
    return list(fieldsets.members(tree))
