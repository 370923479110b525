"""The API for reconcilers: reads come from the caches, which show own writes at once; what is as wanted is not written."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ...client.discovery import Discovery
from ...client.errors import AlreadyExists
from ...client.objects import Object
from ...client.patches import merge_patch
from ...client.resources import Key, Resource
from ...client.rest import Client, ListOptions, PatchKind
from ...informers.factory import SharedInformerFactory
from ...informers.lister import Lister
from ...runtime import clock
from . import desired
from .cache import ResourceCache
from .conditions import Condition, merged
from .desired import Sent
from .writes import GuardedWrites, Outdated

_logger = logging.getLogger("ctl.controller")

APPLIED = 10_000
"""How many applied bodies are remembered."""

Where = str | Resource
"""A resource, or its name: `plural.group`, `plural.version.group`, or the plural alone in the core group."""
Mutate = Callable[[dict[str, Any]], object]
"""Changes a body in place; called again with a newer body when the object has changed meanwhile."""


class UnknownResource(LookupError):
    """The server does not serve a resource that a controller is told to look at; the message names both."""


class Change(Enum):
    """What a write has come to."""

    CREATED = "created"
    PATCHED = "patched"
    UNCHANGED = "unchanged"
    """Nothing was sent."""


class WriteResult(NamedTuple):
    """The object as the server has it now, and what has become of it."""

    object: Object
    change: Change


class CachedClient:
    """The client of one controller.

    Reads come from the caches, of the resources that the controller watches or reads (LookupError for others); those called live ask the
    server. Writes go to any resource. When a write returns, all readers of the caches see its answer, and its echo triggers nothing in
    this controller, though it does in others. (Where resource versions are not decimal, a write returns when the watch has told of
    it, or after five seconds.)

    `ensure`, `change`, `set_status` and the finalizers compare first, and send only what is missing. When the object has changed meanwhile,
    they compare again, ten times, and raise KeepsChanging. Every method that asks the server raises what `Client` raises, unless it says otherwise.
    """

    def __init__(self, client: Client, factory: SharedInformerFactory, *, author: str) -> None:
        self.client = client
        """For everything else. What is written with it is seen when the watch delivers it."""
        self.author = author
        """The field manager, where none is named."""
        self._factory = factory
        self._discovery = Discovery(client)
        self._caches: dict[str, ResourceCache] = {}
        self._resources: dict[str, Resource] = {}
        self._applied: OrderedDict[tuple[object, ...], tuple[bytes, str, str]] = OrderedDict()
        self._remembered = desired.Remembered()
        self._warned: set[tuple[Resource, str]] = set()

    def look(self, name: str, cache: ResourceCache) -> None:
        """Let a resource be read from a cache, under this name; the first cache of a name stays."""
        self._caches.setdefault(name, cache)

    def _writes(self, resource: Resource) -> GuardedWrites:
        return GuardedWrites(self.client, resource, self._factory.informers, author=self.author)

    # Reads from the caches.

    def cache(self, where: Where) -> ResourceCache:
        """The cache of a resource. Raises LookupError with the names that there are."""
        for name, cache in self._caches.items():
            if where in {name, cache.resource}:
                return cache
        raise LookupError(
            f"This controller does not look at {str(where)!r}, only at {', '.join(self._caches)}; "
            "add .owns(), .watches() or .reads()."
        )

    def get(self, where: Where, key: Key) -> Object | None:
        """One object, or None."""
        return self.cache(where).get(key)

    def lister(self, where: Where) -> Lister:
        """Reads by namespace, selector, index, or into types of your own."""
        return self.cache(where).lister

    # Reads from the server.

    async def resource(self, where: Where) -> Resource:
        """The resource of a name. Raises UnknownResource."""
        if isinstance(where, Resource):
            return where
        if where in self._caches:
            return self._caches[where].resource
        if where not in self._resources:
            self._resources |= await resolve(self._discovery, [where])
        return self._resources[where]

    async def get_live(self, where: Where, key: Key) -> Object | None:
        """One object as the server has it now, or None; the caches see it too. Needs the right to list, not to get."""
        return await self._writes(await self.resource(where)).read(key)

    async def list_live(self, where: Where, namespace: str | None = None, selector: str | None = None) -> list[Object]:
        """The objects of a namespace (None: of all) as the server has them now."""
        return await self.client.list(await self.resource(where), namespace, ListOptions(label_selector=selector))

    # Single writes.

    async def create(self, where: Where, body: Mapping[str, Any]) -> Object:
        """Create an object. Raises AlreadyExists, Invalid."""
        resource = await self.resource(where)
        return await self._writes(resource).show(await self.client.create(resource, typed(body, resource)))

    async def replace(self, where: Where, body: Mapping[str, Any], *, subresource: str | None = None) -> Object:
        """Replace the object by a body. Raises Conflict when the body's version is not the newest."""
        resource, key = await self.resource(where), key_of(body)
        request = self.client.replace(resource, body, namespace=key.namespace, name=key.name, subresource=subresource)
        return await self._writes(resource).send(key, request, Sent(body, whole=True))

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
        return await self._writes(await self.resource(where)).patch(key, patch, kind=kind, subresource=subresource)

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
        stored = await self._writes(resource).patch(
            key, body, kind=PatchKind.APPLY, subresource=subresource, manager=manager, force=force or None
        )
        self._applied[place] = (wish, stored.uid, stored.resource_version)
        if len(self._applied) > APPLIED:
            self._applied.popitem(last=False)
        return stored

    async def delete(
        self, where: Where, obj: Object, *, propagation: str | None = None, grace_period: int | None = None
    ) -> None:
        """Delete this object, by its uid; nothing happens when it is gone. An object that its finalizers keep is seen as marked for deletion.

        Raises Conflict when the deletion is refused for anything but the uid, as admission webhooks may do.
        """
        writes = self._writes(await self.resource(where))
        await writes.delete(obj, propagation=propagation, grace_period=grace_period)

    # What is wanted.

    async def ensure(self, where: Where, wanted: Mapping[str, Any]) -> WriteResult:
        """Create the object, or patch what differs from the wanted state (see `desired.missing`); nothing is sent when nothing differs.

        The body has a name (ValueError). A wanted `status` is written to the subresource where there is one. What the server stores in
        another form (defaults, quantities, pruned fields) is not sent again and again.
        """
        resource, key = await self.resource(where), key_of(wanted)
        writes, change = self._writes(resource), Change.UNCHANGED

        async def attempt(current: Object | None) -> WriteResult:
            nonlocal change
            if current is None:
                current, change = await self._create(writes, wanted), Change.CREATED
            for subresource, patch in _parts(resource, desired.missing(current.body(), wanted)):
                if self._is_settled(resource, current, patch, subresource):
                    continue
                versioned = subresource is not None or desired.joins_lists(patch)
                current = await self._merge(writes, current, patch, subresource, versioned=versioned)
                change = Change.PATCHED if change is Change.UNCHANGED else change
            return WriteResult(current, change)

        return await writes.until_taken(await self._known(writes, key), attempt)

    async def change(
        self, where: Where, key: Key, mutate: Mutate, *, subresource: str | None = None
    ) -> WriteResult | None:
        """Read the object, have a function change its body in place, and write the difference; None when there is no such object.

        No other change is ever lost: the write holds for the version that was read, and when the object has changed since, the function is
        called again, with the newest body. Nothing is sent when it changes nothing.
        """
        return await self._change(await self.resource(where), key, None, mutate, subresource)

    async def _change(
        self, resource: Resource, key: Key, uid: str | None, mutate: Mutate, subresource: str | None
    ) -> WriteResult | None:
        writes = self._writes(resource)

        async def attempt(current: Object | None) -> WriteResult | None:
            if current is None or uid not in {None, current.uid}:
                return None
            before, body = current.body(), current.body()
            mutate(body)
            patch = desired.changed(before, body)
            if self._is_settled(resource, current, patch, subresource):
                return WriteResult(current, Change.UNCHANGED)
            return WriteResult(await self._merge(writes, current, patch, subresource, versioned=True), Change.PATCHED)

        return await writes.until_taken(await self._known(writes, key), attempt)

    async def set_status(
        self,
        where: Where,
        obj: Object,
        status: Mapping[str, Any] | None = None,
        conditions: Iterable[Condition] = (),
        *,
        generation: int | None = None,
    ) -> WriteResult | None:
        """Merge values into the status of this object, and update its conditions; None when the object is gone.

        Nothing is sent when nothing differs. `generation` is that of the reconciled spec, for the conditions' `observedGeneration`; it is left
        out where the status is no subresource, since there each status raises the generation. Fields that are not in the schema of the
        resource, and that the server drops therefore, are named in a warning, once, and are not sent again.
        """
        resource = await self.resource(where)
        subresource = "status" if "status" in resource.subresources else None
        observed = generation if subresource else None
        wanted = tuple(conditions)

        def mutate(body: dict[str, Any]) -> None:
            new: dict[str, Any] = merge_patch(body.get("status") or {}, status or {})
            if wanted:
                new["conditions"] = merged(new.get("conditions"), wanted, now=clock.now(), generation=observed)
            if new:
                body["status"] = new

        return await self._change(resource, obj.key, obj.uid, mutate, subresource)

    async def add_finalizer(self, where: Where, obj: Object, finalizer: str) -> Object | None:
        """Add a finalizer to this object, at the end; gives the newest version, None when the object is gone.

        An object that is marked for deletion accepts none: it is given back without.
        """
        writes = self._writes(await self.resource(where))
        known = await self._known(writes, obj.key)
        return await writes.add_finalizer(known, finalizer) if known and known.uid == obj.uid else None

    async def remove_finalizer(self, where: Where, obj: Object, finalizer: str) -> Object | None:
        """Remove a finalizer from this object; gives the newest version, None when the object is gone."""
        writes = self._writes(await self.resource(where))
        known = await self._known(writes, obj.key)
        return await writes.remove_finalizer(known, finalizer) if known and known.uid == obj.uid else None

    async def _known(self, writes: GuardedWrites, key: Key) -> Object | None:
        """The object as the caches have it, or, where they would not have it, as the server has it."""
        found = self._cached(writes.resource, key)
        caches = self._caches.values()
        if found is not None or any(cache.resource == writes.resource and cache.tells_of(key) for cache in caches):
            return found
        return await writes.read(key)

    def _cached(self, resource: Resource, key: Key) -> Object | None:
        found = (cache.get(key) for cache in self._caches.values() if cache.resource == resource)
        return next((obj for obj in found if obj is not None), None)

    async def _create(self, writes: GuardedWrites, wanted: Mapping[str, Any]) -> Object:
        try:
            stored = await self.create(resource := writes.resource, wanted)
        except AlreadyExists as exc:
            raise Outdated(await writes.read(key_of(wanted)), exc) from exc
        # What it lacks now are the server's own words.
        self._remember(resource, stored, *_parts(resource, desired.missing(stored.body(), wanted))[0])
        return stored

    async def _merge(
        self, writes: GuardedWrites, base: Object, patch: Mapping[str, Any], subresource: str | None, *, versioned: bool
    ) -> Object:
        stored = await writes.merge(base, patch, subresource, versioned=versioned)
        body = stored.body()
        self._remember(writes.resource, stored, subresource, desired.changed(body, merge_patch(body, patch)))
        self._warn(writes.resource, desired.lost(body, patch))
        return stored

    def _remember(self, resource: Resource, stored: Object, subresource: str | None, left: Mapping[str, Any]) -> None:
        self._remembered.note((resource, stored.uid, subresource), left, stored.body() if left else {})

    def _is_settled(
        self, resource: Resource, current: Object, patch: Mapping[str, Any], subresource: str | None
    ) -> bool:
        if not patch:
            return True
        return self._remembered.knows((resource, current.uid, subresource), patch, current.body())

    def _warn(self, resource: Resource, paths: list[str]) -> None:
        for path in paths:
            if (resource, path) not in self._warned:
                self._warned.add((resource, path))
                _logger.warning(
                    "The server does not keep %s of %r, which %s writes: expected the schema of the resource to know the field, found "
                    "it dropped. Add it to the CRD (or write it to the right subresource).",
                    path,
                    resource,
                    self.author,
                )


def _parts(resource: Resource, patch: Mapping[str, Any]) -> list[tuple[str | None, dict[str, Any]]]:
    """What of a merge patch goes to which endpoint: the main one, and the status where it is a subresource."""
    if "status" not in resource.subresources:
        return [(None, dict(patch))]
    main = {key: value for key, value in patch.items() if key != "status"}
    return [(None, main), ("status", {key: value for key, value in patch.items() if key == "status"})]


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


async def resolve(discovery: Discovery, names: Iterable[str]) -> dict[str, Resource]:
    """The resource of each name: `plural.group`, `plural.version.group`, or the plural alone in the core group.

    Without a version it is the one that the server prefers. Raises UnknownResource, and what the client raises.
    """
    wanted = list(names)
    served = await discovery.resources({part for name in wanted for part in _groups(name)}) if wanted else []
    found: dict[str, Resource] = {}
    for name in wanted:
        matching = [resource for resource in served if name in {resource.name, repr(resource)}]
        best = next((resource for resource in matching if resource.preferred), matching[0] if matching else None)
        if best is None:
            unknown = f" Unknown for now: {', '.join(sorted(discovery.failures))}" if discovery.failures else ""
            raise UnknownResource(
                f"The server serves no resource {name!r}; expected plural.group (or the plural alone in the core group) of something that "
                f"is installed.{unknown}"
            )
        found[name] = best
    return found


def _groups(name: str) -> tuple[str, ...]:
    """Which groups a name may mean: what follows the plural, or the version; the core group for a plural, with or without a version."""
    rest = name.partition(".")[2]
    return rest, rest.partition(".")[2], ""
