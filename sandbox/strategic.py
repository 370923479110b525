"""A strategic merge patch merges the well-known lists of built-in kinds item by item.

The real server reads the merge keys from its Go types. Here they are known by the name of the list; a
list of another name is replaced whole, as in a JSON merge patch. Directives understood: `$patch`
(`replace`, `delete`, `merge`), `$deleteFromPrimitiveList/...`, `$setElementOrder/...`, `$retainKeys`.
"""

from collections.abc import Mapping
from typing import Any, Final

# The first key that every item of patch and target carries identifies the items.
_MERGE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "ports": ("containerPort", "port"),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
    "webhooks": ("name",),
    "addresses": ("type",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
}
# Lists of plain values that are merged as sets.
_SETS: Final = frozenset({"finalizers"})
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"
_RETAIN: Final = "$retainKeys"


def _merge_key(name: str, *lists: Any) -> str | None:
    for key in _MERGE_KEYS.get(name, ()):
        if all(isinstance(item, dict) and (key in item or "$patch" in item) for items in lists for item in items):
            return key
    return None


def _without_directives(value: Any) -> Any:
    """A value that is new in the target: its nulls and directives have nothing to act on."""
    if isinstance(value, dict):
        if value.get("$patch") == "delete":
            return {}
        plain = {key: item for key, item in value.items() if not key.startswith("$") and item is not None}
        return {key: _without_directives(item) for key, item in plain.items()}
    if isinstance(value, list):
        kept = [item for item in value if not (isinstance(item, dict) and item.get("$patch") in ("delete", "replace"))]
        return [_without_directives(item) for item in kept]
    return value


def _merge_items(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [_without_directives(item) for item in patch if "$patch" not in item]
    found = list(target)
    for item in patch:
        place = next((index for index, old in enumerate(found) if old.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            found = [old for old in found if old.get(key) != item.get(key)]
        elif place is None:
            found.append(_without_directives(item))
        else:
            found[place] = strategic_merge(found[place], item)
    return found


def _ordered(items: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """The items named by the order first, in its order; the others keep their places behind them."""
    wanted = [entry.get(key) if key and isinstance(entry, dict) else entry for entry in order]

    def rank(item: Any) -> int:
        name = item.get(key) if key and isinstance(item, dict) else item
        return wanted.index(name) if name in wanted else len(wanted)

    return sorted(items, key=rank)


def _merge_list(name: str, target: Any, patch: list[Any], order: Any) -> list[Any]:
    old = target if isinstance(target, list) else []
    if name in _SETS:
        merged = [*dict.fromkeys([*old, *patch])]
        return _ordered(merged, order, None) if isinstance(order, list) else merged
    key = _merge_key(name, old, patch)
    if key is None:
        found: list[Any] = _without_directives(patch)
        return found
    merged = _merge_items(old, patch, key)
    return _ordered(merged, order, key) if isinstance(order, list) else merged


def strategic_merge(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with a strategic merge patch laid over it; the arguments stay as they are."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    found = dict(target)
    if isinstance(retain := patch.get(_RETAIN), list):
        found = {key: value for key, value in found.items() if key in retain}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            name = key.removeprefix(_DELETE)
            found[name] = [item for item in found.get(name) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            old = found.get(key)
            found[key] = strategic_merge(old if isinstance(old, Mapping) else {}, value)
        elif isinstance(value, list):
            found[key] = _merge_list(key, found.get(key), value, patch.get(_ORDER + key))
        else:
            found[key] = value
    return found
