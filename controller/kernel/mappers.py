"""Triggers turn a delta into the keys that are to be reconciled because of it.

Pure functions of one delta. Echoes of own writes trigger nothing, except for deletions. Where an object points to its key (an
owner, a label), the key that it pointed to before the change is triggered as well.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from ...client.objects import Object
from ...client.resources import Key, Resource
from ...informers.deltas import Delta, DeltaKind

K = TypeVar("K", bound=Hashable)

Mapper = Callable[[Delta], Iterable[K]]


def _is_own(delta: Delta) -> bool:
    return delta.echo and delta.kind is not DeltaKind.DELETED


def for_object() -> Mapper[Key]:
    """The object that changed."""
    return lambda delta: () if _is_own(delta) else (delta.object.key,)


def for_owner(resource: Resource, *, controller_only: bool = True) -> Mapper[Key]:
    """The owners of the object that are of the given resource; by default only the one that controls it.

    Owners are known by their group and kind, so the resource needs its `kind` (ValueError). Which version of the group the reference
    names does not matter. A cluster-scoped owner has no namespace; a namespaced one is in the namespace of the object.
    """
    if resource.kind is None:
        raise ValueError(
            f"Owners are found by their kind; {resource!r} comes without one. Take the resource from discovery, or set kind=."
        )

    def owners(obj: Object) -> Iterable[Key]:
        for reference in obj.metadata().owner_references or ():
            group = reference.api_version.rpartition("/")[0]
            if (
                reference.kind != resource.kind
                or group != resource.group
                or (controller_only and not reference.controller)
            ):
                continue
            yield Key(None if resource.namespaced is False else obj.namespace, reference.name)

    return from_function(owners)


def from_function(keys: Callable[[Object], Iterable[K]]) -> Mapper[K]:
    """What a function says of the object as it is, and of the object as it was before the change."""

    def trigger(delta: Delta) -> Iterable[K]:
        if _is_own(delta):
            return ()
        found = dict.fromkeys(keys(delta.object))
        if delta.old is not None:
            found.update(dict.fromkeys(keys(delta.old)))
        return tuple(found)

    return trigger


def from_label(label: str, *, namespace_label: str | None = None) -> Mapper[Key]:
    """The key whose name stands in a label (and its namespace in another one, or else that of the object).

    For objects that cannot be owned by what they belong to, since that lives in another namespace.
    """

    def keys(obj: Object) -> Iterable[Key]:
        labels = obj.metadata().labels or {}
        if label in labels:
            yield Key(
                labels.get(namespace_label, obj.namespace) if namespace_label is not None else obj.namespace,
                labels[label],
            )

    return from_function(keys)


def constant(*keys: K) -> Mapper[K]:
    """Always the same keys, whatever changed: for reconcilers of one thing, such as a configuration."""
    return lambda delta: () if _is_own(delta) else keys
