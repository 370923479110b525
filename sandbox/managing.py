"""Writes keep the managed fields of their objects, and server-side apply goes by them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from . import conversion, fieldsets, ownership, typed
from .fieldsets import Tree
from .ownership import ENTRIES, Application, Applied, Entry, Writer
from .resources import Resource
from .status import Refused, bad_request
from .typed import Undeclared

KUBECTL: Final = "kubectl"
_LAST: Final = "kubectl.kubernetes.io/last-applied-configuration"
# What writers of /status do not own beside the spec, where the kind has a say in it.
_STATUS_META: Final = {"pods": "f:ownerReferences", "deployments.apps": "f:labels"}


def take_entries(body: Mapping[str, Any]) -> list[Entry]:
    """Remove the managed fields from the metadata of a body and return them."""
    found: list[Entry] = body["metadata"].pop(ENTRIES, None) or []
    return found


def keep_entries(body: Mapping[str, Any], managers: ownership.Managers) -> None:
    """Write managed fields into the metadata of a body; none where nobody is known."""
    if managers:
        body["metadata"][ENTRIES] = ownership.entries_of(managers)


def created(resource: Resource, body: dict[str, Any], writer: Writer) -> None:
    """Write the managed fields of a new object into it, before the server adds what is its own."""
    managers = ownership.given_or_live(take_entries(body), ())
    shown = conversion.outward(resource, body)
    keep_entries(body, ownership.updated(resource.shape, ({}, shown), managers, writer, new=True))


def updated(resource: Resource, old: dict[str, Any], new: dict[str, Any], given: Any, writer: Writer) -> None:
    """Write the managed fields of an update into the new state; both states come with those they had, or none.

    `given` is what the request itself says of them; on subresources it is not asked.
    """
    live = old["metadata"].get(ENTRIES) or []
    managers = ownership.given_or_live(None if writer.subresource else given, live)
    before = {**old, "metadata": {key: value for key, value in old["metadata"].items() if key != ENTRIES}}
    states = (conversion.outward(resource, before), conversion.outward(resource, new))
    keep_entries(new, ownership.updated(resource.shape, states, managers, writer, new=False))


def same_but_for_time(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two states have the same managed fields, whenever they were taken."""
    before, after = old["metadata"].get(ENTRIES) or [], new["metadata"].get(ENTRIES) or []
    return before == after or [_timeless(entry) for entry in before] == [_timeless(entry) for entry in after]


def _timeless(entry: Entry) -> Entry:
    return {key: value for key, value in entry.items() if key != "time"}


def _ignored(resource: Resource, subresource: str, *states: Mapping[str, Any]) -> Tree:
    """The fields that an endpoint does not write, though a configuration may name them."""
    if subresource != "status":
        return {"f:status": _ALL} if resource.has_status else {"f:": {}}
    found: Tree = {f"f:{key}": _ALL for state in states for key in state if key != "status"}
    if not resource.custom and "f:metadata" in found:
        kept = _STATUS_META.get(resource.bucket, "")
        found["f:metadata"] = {kept: _ALL} if kept else {"f:": {}}
    return found


class _Everything(dict[str, Any]):
    """A tree that has every path as a member."""

    def get(self, key: str, default: Any = None) -> Any:
        """The tree below any key."""
        return self

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return self


_ALL: Final[Tree] = _Everything()


def applied(
    resource: Resource, live: dict[str, Any], config: dict[str, Any], writer: Writer, *, force: bool
) -> Applied:
    """The live object (`{}` for none; whole, with its managed fields) with a configuration applied.

    Raises a 409 for conflicts and what the server says to a configuration that does not fit its schema.
    """
    entries = take_entries(live) if live else []
    ignored = _ignored(resource, writer.subresource, config, live)
    yielded = _last_applied(resource, live) if writer.manager == KUBECTL else None
    wanted = Application(resource.shape, config, writer, ignored, force, yielded)
    try:
        found = ownership.applied(wanted, live, ownership.managers_of(entries))
    except Undeclared as error:
        meta = config.get("metadata") or {}
        place = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        words = f"({place}; {resource.group}/{resource.version}, Kind={resource.kind})"
        raise Refused(500, "", f"failed to create typed patch object {words}: {error}") from None
    if writer.manager == KUBECTL and _LAST in _annotations(live):
        _remember(found.body, config)
    return found if resource.custom else Applied(_without_nulls(found.body), found.managers)


def _annotations(body: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = (body.get("metadata") or {}).get("annotations") or {}
    return found


def _last_applied(resource: Resource, live: Mapping[str, Any]) -> Tree | None:
    """The fields that kubectl wrote by its client-side apply and nobody has changed since: it may apply them."""
    try:
        last = msgspec.json.decode(_annotations(live).get(_LAST, "null"))
    except msgspec.DecodeError:
        return None
    if not isinstance(last, dict):
        return None
    try:
        named = typed.fields_of(resource.shape, last, strict=False)
        changed, gone = typed.compare(resource.shape, last, live)
    except Undeclared:
        return None
    return fieldsets.difference(named, fieldsets.union(changed, gone))


def _remember(body: dict[str, Any], config: Mapping[str, Any]) -> None:
    """Write a configuration into the annotation that client-side apply goes by, for whoever still uses that."""
    meta = dict(config.get("metadata") or {})
    kept = {key: value for key, value in (meta.get("annotations") or {}).items() if key != _LAST}
    meta = {key: value for key, value in meta.items() if key != "annotations"} | ({"annotations": kept} if kept else {})
    text = msgspec.json.encode({**config, "metadata": meta}, order="sorted").decode() + "\n"
    own = body["metadata"]
    body["metadata"] = {**own, "annotations": {**(own.get("annotations") or {}), _LAST: text}}


def _without_nulls(value: Any) -> Any:
    """The value as Go's types hold it: a map or list that lost all it had is not there."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def check_config(resource: Resource, config: Any) -> dict[str, Any]:
    """A decoded configuration that is an object of the resource without managed fields. Raises a 400."""
    if not isinstance(config, dict):
        kind = "array" if isinstance(config, list) else "string"
        words = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding patch: error unmarshaling JSON: while decoding JSON: {words}")
    version, kind = config.get("apiVersion", ""), config.get("kind", "")
    if (version, kind) != (resource.group_version, resource.kind):
        raise bad_request(f"invalid object type: {version}, Kind={kind}")
    meta = config.get("metadata")
    if isinstance(meta, dict) and meta.get(ENTRIES) is not None:
        raise bad_request("metadata.managedFields must be nil")
    return config
