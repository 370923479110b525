"""What a reconciler of a built controller works with: one attempt of one key, the caches, the writes, the events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...client.objects import Metadata, Object
from ...client.resources import Key
from ...client.rest import Client, PatchKind
from ...informers.lister import Lister
from ..api import ownership
from ..api.cache import ResourceCache
from ..api.client import CachedClient, Mutate, Where, WriteResult
from ..api.conditions import Condition
from ..events.correlator import Spam, Way
from ..events.event import Post
from ..events.recorder import Recorder
from ..kernel.reconciler import Attempt, Trigger

BACKOFFS = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
"""The pauses between the attempts to post an event, in seconds."""
SAYING = Way(BACKOFFS, similar=10, spam=Spam(burst=25, refill=300.0))
"""How events of reconcilers are treated: with the numbers of client-go's recorder."""


@dataclass(frozen=True, slots=True)
class World:
    """What the attempts of one controller have in common."""

    cached: CachedClient
    primary: ResourceCache
    recorder: Recorder


class Context:
    """One attempt of one key.

    Reads come from the caches and never ask the server. Writes go to the server, and their answers are in the caches when the method
    returns: a later read sees them, in this attempt and all others, and their echoes trigger nothing in this controller. The first
    argument of most methods is a resource, by the name that was given to `owns`, `watches` or `reads`, or any other that the server
    has; a `name` without a namespace is in the namespace of the reconciled object.
    """

    __slots__ = ("_seen", "_world", "attempt", "key")

    def __init__(self, world: World, attempt: Attempt[Key]) -> None:
        self._world = world
        self._seen = world.primary.get(attempt.key)
        self.attempt = attempt
        """The how manieth it is, why it is made, and until when."""
        self.key = attempt.key

    # The reconciled object.

    @property
    def trigger(self) -> Trigger:
        """The source that requested the attempt, with the object and the change: for logs, not for decisions."""
        return self.attempt.trigger

    @property
    def object(self) -> Object | None:
        """The object to be reconciled, as the cache has it; None: it is gone."""
        return self._world.primary.get(self.key)

    def body(self) -> dict[str, Any] | None:
        """The same, decoded anew at each call; the dicts are the caller's own."""
        obj = self.object
        return None if obj is None else obj.body()

    @property
    def metadata(self) -> Metadata | None:
        """Its metadata."""
        obj = self.object
        return None if obj is None else obj.metadata()

    def reference(self) -> dict[str, str | None]:
        """What it is known by, as it was when the attempt began: apiVersion, kind, name, uid (None: it was gone) and namespace."""
        resource, seen = self._world.primary.resource, self._seen
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": self.key.name,
            "uid": None if seen is None else seen.uid,
            "namespace": self.key.namespace,
        }

    @property
    def is_being_deleted(self) -> bool:
        """Whether it is gone, or marked for deletion."""
        metadata = self.metadata
        return metadata is None or metadata.deletion_timestamp is not None

    async def set_status(self, status: Mapping[str, Any] | None = None, *conditions: Condition) -> WriteResult | None:
        """Merge something into its status, and bring conditions up to date; nothing is sent when it says so already.

        `lastTransitionTime` moves with the status of a condition only, `observedGeneration` is the generation at the beginning of the
        attempt. None when the object is gone. See `CachedClient.set_status`.
        """
        seen = self._seen or self.object
        if seen is None:
            return None
        return await self.cached.set_status(
            self._world.primary.resource, seen, status, conditions, generation=seen.metadata().generation
        )

    async def add_finalizer(self, finalizer: str) -> None:
        """Keep it from vanishing until the finalizer is removed; nothing happens when it is leaving already, or has it."""
        if (obj := self.object) is not None:
            await self.cached.add_finalizer(self._world.primary.resource, obj, finalizer)

    async def remove_finalizer(self, finalizer: str) -> None:
        """Let it go; nothing happens when it is gone, or has no such finalizer."""
        if (obj := self.object) is not None:
            await self.cached.remove_finalizer(self._world.primary.resource, obj, finalizer)

    def own(self, child: dict[str, Any], *, suffix: str | None = None) -> dict[str, Any]:
        """Make a body a child of the reconciled object, in place: controlled by it, in its namespace, named after it with a suffix.

        Gives the same body. Raises OwnershipError as `ownership.adopt` does, also when the reconciled object is gone.
        """
        body = self.body()
        if body is None:
            raise ownership.OwnershipError(
                f"{self.key} is gone and cannot own anything; end the attempt without children."
            )
        ownership.adopt(child, body, suffix=suffix)
        return child

    # Reads.

    @property
    def cached(self) -> CachedClient:
        """The client of this controller, by key and for everything that is not offered here."""
        return self._world.cached

    @property
    def client(self) -> Client:
        """The client below. What is written with it is seen when the watch delivers it."""
        return self._world.cached.client

    def get(self, where: Where, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None."""
        cache = self.cached.cache(where)
        return cache.get(self._key(cache.resource.namespaced, name, namespace))

    def list(self, where: Where, namespace: str | None = None, selector: str | None = None) -> "Sequence[Object]":
        """The objects of a namespace (None: of all that are looked at), of those the ones whose labels match a selector."""
        return self.cached.lister(where).list(namespace, selector)

    def owned(self, where: Where) -> "Sequence[Object]":
        """The objects of a resource that the reconciled object owns, by uid; none when it is gone."""
        cache, obj = self.cached.cache(where), self.object
        return () if obj is None else cache.owned(obj)

    def lister(self, where: Where) -> Lister:
        """Other reads: by index, or into types of your own."""
        return self.cached.lister(where)

    async def get_live(self, where: Where, name: str, namespace: str | None = None) -> Object | None:
        """One object as the server has it now, or None."""
        resource = await self.cached.resource(where)
        return await self.cached.get_live(resource, self._key(resource.namespaced, name, namespace))

    # Writes.

    async def ensure(self, where: Where, wanted: Mapping[str, Any]) -> WriteResult:
        """Create an object, or patch what of it is not as wanted; nothing is sent when all is. See `CachedClient.ensure`."""
        return await self.cached.ensure(where, wanted)

    async def change(
        self, where: Where, name: str, mutate: Mutate, *, namespace: str | None = None
    ) -> WriteResult | None:
        """Let a function change a body in place, and write the difference; no change of others is lost. See `CachedClient.change`."""
        resource = await self.cached.resource(where)
        return await self.cached.change(resource, self._key(resource.namespaced, name, namespace), mutate)

    async def create(self, where: Where, body: Mapping[str, Any]) -> Object:
        """Create an object. Raises what `Client.create` raises."""
        return await self.cached.create(where, body)

    async def replace(self, where: Where, body: Mapping[str, Any]) -> Object:
        """Put a body in the place of what is there; Conflict when its version is not the newest."""
        return await self.cached.replace(where, body)

    async def patch(
        self,
        where: Where,
        key: Key,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str | None = None,
    ) -> Object:
        """Change parts of an object. Raises what `Client.patch` raises."""
        return await self.cached.patch(where, key, patch, kind=kind, subresource=subresource)

    async def apply(
        self, where: Where, body: Mapping[str, Any], *, manager: str | None = None, force: bool = False
    ) -> Object:
        """Apply a body on the server as a field manager (this controller); Conflict when another one owns a field, unless forced."""
        return await self.cached.apply(where, body, manager=manager, force=force)

    async def delete(self, where: Where, obj: Object) -> None:
        """Delete this very object (by its uid); what stays for its finalizers is seen as marked."""
        await self.cached.delete(where, obj)

    # Events.

    def info(self, *, reason: str, message: str = "", about: Object | None = None) -> None:
        """Post an event of type Normal about the reconciled object, or another one; returns at once.

        Equal ones are one Event object with a count. Nothing is posted about an object that is gone.
        """
        self.post("Normal", reason, message, about=about)

    def warn(self, *, reason: str, message: str = "", about: Object | None = None) -> None:
        """Post an event of type Warning; see `info`."""
        self.post("Warning", reason, message, about=about)

    def post(self, type: str, reason: str, message: str = "", *, about: Object | None = None) -> None:
        """Post an event of any type (the API takes Normal and Warning from most callers); see `info`."""
        obj = about or self.object or self._seen
        if obj is not None:
            self._world.recorder.add(Post(ownership.object_reference(obj.stub()), type, reason, message), SAYING)

    def _key(self, namespaced: bool | None, name: str, namespace: str | None) -> Key:
        return Key(None if namespaced is False else namespace or self.key.namespace, name)
