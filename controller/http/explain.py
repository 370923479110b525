"""Say of one key where it stands, and how new the copy is by which it is attempted: for people who ask why nothing happens to it."""

from dataclasses import dataclass, field, fields
from typing import Any

from ...client.objects import Object
from ...client.resources import Key
from ...informers.informer import Informer
from ..api.caches import Copy
from ..kernel.controller import Controller
from ..kernel.worker import Explanation


@dataclass(frozen=True, slots=True)
class KeyExplanation(Explanation):
    """Where a key stands, and its object."""

    informer: str = "not started"
    """How the copy is doing."""
    uid: str | None = None
    """None: there is no such object in the copy."""
    cached_version: str | None = None
    """What the watch has delivered."""
    written_version: str | None = None
    """What reconcilers see: later than the cached version if an own write has yet to be delivered."""
    store_version: str | None = None
    """Up to which version of the resource the copy is complete."""
    deleted: bool = False
    """Whether it is marked for deletion."""
    finalizers: list[str] = field(default_factory=list)


def explain(controller: Controller[Any], copy: Copy | None, key: Key) -> KeyExplanation:
    """Ask a controller, and the copy of the resource whose objects it reconciles (None: it has none yet)."""
    told = controller.explain(key)
    known = {one.name: getattr(told, one.name) for one in fields(told)}
    looked_at = [
        informer for informer in (() if copy is None else copy.informers) if informer.namespace in {None, key.namespace}
    ]
    if not looked_at:
        return KeyExplanation(**known, informer="its namespace is not looked at" if copy is not None else "not started")
    informer = looked_at[0]
    state, obj = f"{informer.state}, {len(informer.store)} objects", informer.store.get(key)
    if obj is None:
        return KeyExplanation(**known, informer=state, store_version=informer.store.resource_version)
    return KeyExplanation(**known, informer=state, **of_object(obj, informer))


def of_object(obj: Object, informer: Informer) -> dict[str, Any]:
    """What an explanation tells of an object in the copy, by the names of its fields."""
    metadata, delivered = obj.metadata(), informer.delivered(obj.key)
    return {
        "uid": obj.uid,
        "cached_version": None if delivered is None else delivered.resource_version,
        "written_version": obj.resource_version,
        "store_version": informer.store.resource_version,
        "deleted": metadata.deletion_timestamp is not None,
        "finalizers": list(metadata.finalizers or ()),
    }
