"""What a reconciler of a built controller works with: the caches, and writes that the caches show at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..client.objects import Object
from ..client.resources import Key
from ..client.rest import Client, PatchKind
from ..informers.informer import Informer
from ..informers.lister import Lister
from .reconciler import Attempt

OWNERS = "ctl/owners"
"""The index of owned objects by the uids of their owners."""


def owner_uids(obj: Object) -> list[str]:
    """The uids of an object's owners (an index function)."""
    return [reference.uid for reference in obj.metadata().owner_references or ()]


@dataclass(frozen=True, slots=True)
class World:
    """What the controller knows of: its client, and an informer for each name by which it was told to look at something."""

    client: Client
    primary: Informer
    informers: Mapping[str, Informer]

    def find(self, name: str) -> Informer:
        """The informer of this name. Raises LookupError with the names that there are."""
        informer = self.informers.get(name)
        if informer is None:
            raise LookupError(
                f"This controller does not look at {name!r}, only at {', '.join(self.informers)}; add .owns() or .watches()."
            )
        return informer


class Context:
    """One attempt of one key.

    Reads come from the caches and never ask the server. Writes go to the server, and their answers are in the caches when the method
    returns: a later read sees them, in this attempt and all others, and their echoes trigger nothing.
    """

    __slots__ = ("_world", "attempt", "client", "key")

    def __init__(self, world: World, attempt: Attempt[Key]) -> None:
        self._world = world
        self.attempt = attempt
        """Why, and for the how manieth time."""
        self.key = attempt.key
        self.client = world.client
        """For live reads and everything else. What is written with it is seen when the watch delivers it."""

    @property
    def object(self) -> Object | None:
        """The object to be reconciled, as the cache has it; None: it is gone."""
        return self._world.primary.store.get(self.key)

    def lister(self, name: str) -> Lister:
        """Reads of a resource by the name that was given to `owns` or `watches`."""
        return self._world.find(name).lister

    def owned(self, name: str) -> list[Object]:
        """The objects of a resource that the reconciled object owns, by uid; none when it is gone."""
        obj = self.object
        return [] if obj is None else self._world.find(name).store.by_index(OWNERS, obj.uid)

    async def create(self, name: str, body: Mapping[str, Any]) -> Object:
        """Create an object. Raises what `Client.create` raises."""
        informer = self._world.find(name)
        return self._seen(informer, await self.client.create(informer.resource, body))

    async def replace(self, name: str, body: Mapping[str, Any]) -> Object:
        """Put a body in the place of what is there; Conflict when its version is not the newest."""
        informer, metadata = self._world.find(name), body["metadata"]
        stored = await self.client.replace(
            informer.resource, body, namespace=metadata.get("namespace"), name=metadata["name"]
        )
        return self._seen(informer, stored)

    async def patch(
        self,
        name: str,
        key: Key,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str | None = None,
    ) -> Object:
        """Change parts of an object. Raises what `Client.patch` raises."""
        informer = self._world.find(name)
        stored = await self.client.patch(
            informer.resource, key.name, key.namespace, patch, kind=kind, subresource=subresource
        )
        return self._seen(informer, stored)

    async def apply(self, name: str, body: Mapping[str, Any], *, manager: str, force: bool = False) -> Object:
        """Apply a body on the server as this field manager; Conflict when another one owns a field, unless forced."""
        informer, metadata = self._world.find(name), body["metadata"]
        stored = await self.client.patch(
            informer.resource,
            metadata["name"],
            metadata.get("namespace"),
            body,
            kind=PatchKind.APPLY,
            field_manager=manager,
            force=force or None,
        )
        return self._seen(informer, stored)

    async def delete(self, name: str, obj: Object) -> None:
        """Delete this very object (by its uid); what stays for its finalizers is seen as marked."""
        informer = self._world.find(name)
        left = await self.client.delete(informer.resource, obj.name, obj.namespace, uid=obj.uid)
        if left is None:
            informer.overlay_deleted(obj.key, obj.uid)
        else:
            informer.overlay(left)

    @staticmethod
    def _seen(informer: Informer, obj: Object) -> Object:
        informer.overlay(obj)
        return obj
