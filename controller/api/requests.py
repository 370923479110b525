"""Single requests as reconcilers make them: reads come from the caches, and the answers of writes are seen there at once."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ...client.discovery import Discovery
from ...client.errors import Conflict, NotFound
from ...client.objects import Object
from ...client.resources import Key, Resource
from ...client.rest import Client, ListOptions, PatchKind
from ...informers.factory import SharedInformerFactory
from ...informers.lister import Lister
from . import desired
from .caches import Copy
from .own_writes import Echoes, Wish
from .resolve import resolve

_logger = logging.getLogger("ctl.controller")

APPLIED = 10_000
"""How many applied bodies are remembered."""

Where = str | Resource
"""A resource, or its name: `plural.group`, `plural.version.group`, or the plural alone in the core group."""


class Requests:
    """The reads and the single writes of one controller; see `CachedClient`.

    Reads that are not called live come from the caches and never ask the server; they know the resources that the controller looks at
    (LookupError otherwise). Writes go to any resource. When a write returns, all readers of the caches see its answer, and its
    echo triggers nothing in this controller, though it does in others.

    Every method that asks the server raises what `Client` raises, unless it says otherwise.
    """

    def __init__(self, client: Client, factory: SharedInformerFactory, *, author: str) -> None:
        self.client = client
        """For everything else. What is written with it is seen when the watch delivers it."""
        self.author = author
        """The field manager, where none is named."""
        self._discovery = Discovery(client)
        self._echoes = Echoes(factory, author)
        self._copies: dict[str, Copy] = {}
        self._resources: dict[str, Resource] = {}
        self._applied: OrderedDict[tuple[object, ...], tuple[bytes, str, str]] = OrderedDict()

    def look(self, name: str, copy: Copy) -> None:
        """Let a resource be read from a copy, under this name; the first copy of a name stays."""
        self._copies.setdefault(name, copy)

    # Reads from the caches.

    def copy(self, where: Where) -> Copy:
        """The copy of a resource. Raises LookupError with the names that there are."""
        for name, copy in self._copies.items():
            if where in {name, copy.resource}:
                return copy
        raise LookupError(
            f"This controller does not look at {str(where)!r}, only at {', '.join(self._copies)}; "
            "add .owns(), .watches() or .reads()."
        )

    def get(self, where: Where, key: Key) -> Object | None:
        """One object, or None."""
        return self.copy(where).get(key)

    def lister(self, where: Where) -> Lister:
        """Reads by namespace, selector, index, or into types of your own."""
        return self.copy(where).lister

    # Reads from the server.

    async def resource(self, where: Where) -> Resource:
        """The resource of a name. Raises UnknownResource."""
        if isinstance(where, Resource):
            return where
        if where in self._copies:
            return self._copies[where].resource
        if where not in self._resources:
            self._resources |= await resolve(self._discovery, [where])
        return self._resources[where]

    async def get_live(self, where: Where, key: Key) -> Object | None:
        """One object as the server has it now, or None; the caches see it too. Needs the right to list, not to get."""
        resource = await self.resource(where)
        found = await self.client.find(resource, key.name, key.namespace)
        return None if found is None else await self._echoes.read(resource, found)

    async def list_live(self, where: Where, namespace: str | None = None, selector: str | None = None) -> list[Object]:
        """The objects of a namespace (None: of all) as the server has them now."""
        return await self.client.list(await self.resource(where), namespace, ListOptions(label_selector=selector))

    # Single writes.

    async def create(self, where: Where, body: Mapping[str, Any]) -> Object:
        """Create an object. Raises AlreadyExists, Invalid."""
        resource = await self.resource(where)
        return await self._echoes.read(resource, await self.client.create(resource, typed(body, resource)))

    async def replace(self, where: Where, body: Mapping[str, Any], *, subresource: str | None = None) -> Object:
        """Put a body in the place of what is there. Raises Conflict when its version is not the newest."""
        resource, key = await self.resource(where), key_of(body)
        with self._echoes.writing(resource, key, Wish(body, whole=True)) as write:
            stored = await self.client.replace(
                resource, body, namespace=key.namespace, name=key.name, subresource=subresource
            )
            return await write.answered(stored)

    async def patch(
        self,
        where: Where,
        key: Key,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str | None = None,
    ) -> Object:
        """Change parts of an object."""
        resource = await self.resource(where)
        with self._echoes.writing(resource, key, Wish(patch)) as write:
            stored = await self.client.patch(
                resource, key.name, key.namespace, patch, kind=kind, subresource=subresource
            )
            return await write.answered(stored)

    async def apply(
        self,
        where: Where,
        body: Mapping[str, Any],
        *,
        manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
    ) -> Object:
        """Apply a body on the server (server-side apply) as a field manager; by default as `author`.

        The fields that it names become the manager's; those that it named before and no more are removed. Raises Conflict when another
        manager owns one of them, unless forced. Applying the same again while the object stays as it is sends nothing.
        """
        resource, key, manager = await self.resource(where), key_of(body), manager or self.author
        body = typed(body, resource)
        place, wish = (resource, key, manager, force, subresource), desired.digest(body)
        known = self._cached(resource, key)
        if known is not None and self._applied.get(place) == (wish, known.uid, known.resource_version):
            self._applied.move_to_end(place)
            return known
        with self._echoes.writing(resource, key, Wish(body)) as write:
            stored = await self.client.patch(
                resource,
                key.name,
                key.namespace,
                body,
                kind=PatchKind.APPLY,
                subresource=subresource,
                field_manager=manager,
                force=force or None,
            )
            await write.answered(stored)
        self._applied[place] = (wish, stored.uid, stored.resource_version)
        if len(self._applied) > APPLIED:
            self._applied.popitem(last=False)
        return stored

    async def delete(
        self, where: Where, obj: Object, *, propagation: str | None = None, grace_period: int | None = None
    ) -> None:
        """Delete this very object (by its uid); nothing happens when it is gone. What stays for its finalizers is seen as marked.

        Raises Conflict when the deletion is refused for anything but the uid, as admission webhooks may do.
        """
        resource = await self.resource(where)
        try:
            with self._echoes.writing(resource, obj.key, Wish({})) as write:
                left = await self.client.delete(
                    resource, obj.name, obj.namespace, uid=obj.uid, propagation=propagation, grace_period=grace_period
                )
                if left is not None:
                    await write.answered(left)
                    return
        except NotFound:
            _logger.debug("%r %s with uid %s was gone already.", resource, obj.key, obj.uid)
        except Conflict:
            # For the uid, or for a reason of some webhook's: the object itself tells.
            found = await self.get_live(resource, obj.key)
            if found is not None and found.uid == obj.uid:
                raise
            _logger.debug("%r %s has another uid than %s now.", resource, obj.key, obj.uid)
        self._echoes.gone(resource, obj.key, obj.uid)

    def _cached(self, resource: Resource, key: Key) -> Object | None:
        found = (copy.get(key) for copy in self._copies.values() if copy.resource == resource)
        return next((obj for obj in found if obj is not None), None)


def key_of(body: Mapping[str, Any]) -> Key:
    """The key of a body. Raises ValueError when it has no name."""
    metadata = body.get("metadata") or {}
    if not metadata.get("name"):
        raise ValueError(f"The body of a {body.get('kind') or 'object'} needs metadata.name here; found {metadata!r}.")
    return Key(metadata.get("namespace"), metadata["name"])


def typed(body: Mapping[str, Any], resource: Resource) -> dict[str, Any]:
    """The body with its apiVersion and kind, where they are left out."""
    known = {"apiVersion": resource.api_version, **({"kind": resource.kind} if resource.kind else {})}
    return {**known, **body}
