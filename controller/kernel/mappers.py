"""Mappers return the keys to reconcile for a delta (controller-runtime: map functions).

Pure functions of one delta. Echoes of own writes have no keys, except for deletions. Where an object refers to its key (by an owner
reference, a label), the key that it referred to before the change is returned too.
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
    """The changed object itself (controller-runtime: EnqueueRequestForObject)."""
    return lambda delta: () if _is_own(delta) else (delta.object.key,)


def for_owner(resource: Resource, *, controller_only: bool = True) -> Mapper[Key]:
    """The owners of the object in the given resource, by default only its controller (controller-runtime: EnqueueRequestForOwner).

    Owner references have a group and a kind, so the resource needs its `kind` (ValueError). The version in the reference does not
    matter. A cluster-scoped owner has no namespace; a namespaced one is in the namespace of the object.
    """
    if resource.kind is None:
        raise ValueError(
            f"Owners are found by their kind; {resource!r} has none. Take the resource from discovery, or set kind=."
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
    """The keys that a function returns for the object and for the object before the change (EnqueueRequestsFromMapFunc)."""

    def mapper(delta: Delta) -> Iterable[K]:
        if _is_own(delta):
            return ()
        found = dict.fromkeys(keys(delta.object))
        if delta.old is not None:
            found.update(dict.fromkeys(keys(delta.old)))
        return tuple(found)

    return mapper


def from_label(label: str, *, namespace_label: str | None = None) -> Mapper[Key]:
    """The key whose name is in a label (and its namespace in another label, else that of the object).

    For objects that cannot have an owner reference, since the owner is in another namespace.
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
    """The same keys for every change: for reconcilers of one thing, such as a configuration."""
    return lambda delta: () if _is_own(delta) else keys
