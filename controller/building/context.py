"""The context of a reconciler: one attempt of one key, with reads, writes and events."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...client.objects import Metadata, Object
from ...client.resources import Key
from ...client.rest import Client
from ...informers.lister import Lister
from ..api import ownership
from ..api.cache import ResourceCache
from ..api.client import CachedClient, Mutate, Where, WriteResult
from ..api.conditions import Condition
from ..events.correlator import CorrelatorOptions, SpamLimit
from ..events.event import Event
from ..events.recorder import Recorder
from ..kernel.reconciler import Attempt, Trigger

P = ParamSpec("P")
T = TypeVar("T")

BACKOFFS = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
"""Seconds between the attempts to write an event."""
EVENT_OPTIONS = CorrelatorOptions(BACKOFFS, max_similar=10, spam=SpamLimit(burst=25, refill=300.0))
"""The options of client-go's recorder."""


@dataclass(frozen=True, slots=True)
class SharedContext:
    """The parts that the contexts of one controller share."""

    cached: CachedClient
    primary: ResourceCache
    recorder: Recorder


def _of_client(method: "Callable[Concatenate[CachedClient, P], T]") -> "Callable[Concatenate[Context, P], T]":
    """Make a method of the context that is one of the controller's client."""

    @functools.wraps(method)
    def call(self: "Context", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.cached, *args, **kwargs)

    return call


class Context:
    """One attempt of one key.

    Reads come from the caches and never ask the server. Writes go to the server, and their answers are in the caches when the method
    returns: a later read sees them, in this attempt and all others, and their echoes start no attempts of this controller. The first
    argument of most methods is a resource, by the name that was given to `owns`, `watches` or `reads`, or any other that the server
    has; a `name` without a namespace is in the namespace of the reconciled object.
    """

    __slots__ = ("_seen", "_shared", "attempt", "key")

    def __init__(self, shared: SharedContext, attempt: Attempt[Key]) -> None:
        self._shared = shared
        self._seen = shared.primary.get(attempt.key)
        self.attempt = attempt
        """Its number, trigger, priority and deadline."""
        self.key = attempt.key

    # The reconciled object.

    @property
    def trigger(self) -> Trigger:
        """The source that requested the attempt, with the object and the change: for logs, not for decisions."""
        return self.attempt.trigger

    @property
    def object(self) -> Object | None:
        """The reconciled object, from the cache; None: it is gone."""
        return self._shared.primary.get(self.key)

    def body(self) -> dict[str, Any] | None:
        """Its body, decoded at each call; None: it is gone. The dicts are the caller's own."""
        obj = self.object
        return None if obj is None else obj.body()

    @property
    def metadata(self) -> Metadata | None:
        """Its metadata."""
        obj = self.object
        return None if obj is None else obj.metadata()

    def reference(self) -> dict[str, str | None]:
        """A reference to it as it was when the attempt began: apiVersion, kind, name, uid (None: it was gone) and namespace."""
        resource, seen = self._shared.primary.resource, self._seen
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": self.key.name,
            "uid": None if seen is None else seen.uid,
            "namespace": self.key.namespace,
        }

    @property
    def is_being_deleted(self) -> bool:
        """Whether it is marked for deletion, or gone."""
        metadata = self.metadata
        return metadata is None or metadata.deletion_timestamp is not None

    async def set_status(self, status: Mapping[str, Any] | None = None, *conditions: Condition) -> WriteResult | None:
        """Merge values into its status, and update conditions; nothing is sent when the status has them already.

        `lastTransitionTime` moves with the status of a condition only, `observedGeneration` is the generation at the beginning of the
        attempt. None when the object is gone. See `CachedClient.set_status`.
        """
        seen = self._seen or self.object
        if seen is None:
            return None
        return await self.cached.set_status(
            self._shared.primary.resource, seen, status, conditions, generation=seen.metadata().generation
        )

    async def add_finalizer(self, finalizer: str) -> None:
        """Add a finalizer; nothing happens when the object has it, or is being deleted."""
        if (obj := self.object) is not None:
            await self.cached.add_finalizer(self._shared.primary.resource, obj, finalizer)

    async def remove_finalizer(self, finalizer: str) -> None:
        """Remove a finalizer; nothing happens when the object is gone, or has no such finalizer."""
        if (obj := self.object) is not None:
            await self.cached.remove_finalizer(self._shared.primary.resource, obj, finalizer)

    def own(self, child: dict[str, Any], *, suffix: str | None = None) -> dict[str, Any]:
        """Make a body a child of the reconciled object, in place: with its owner reference, namespace, and its name and a suffix.

        Returns the same body. Raises OwnershipError as `ownership.adopt` does, also when the reconciled object is gone.
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
        """The client of this controller, with more methods than this context."""
        return self._shared.cached

    @property
    def client(self) -> Client:
        """The client without caches. Its writes are seen here when the watch delivers them."""
        return self._shared.cached.client

    def get(self, where: Where, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None."""
        cache = self.cached.cache(where)
        return cache.get(self._key(cache.resource.namespaced, name, namespace))

    def list(self, where: Where, namespace: str | None = None, selector: str | None = None) -> "Sequence[Object]":
        """The objects of a namespace (None: of all watched ones) whose labels match a selector."""
        return self.cached.lister(where).list(namespace, selector)

    def owned(self, where: Where) -> "Sequence[Object]":
        """The objects of a resource that the reconciled object owns; none when it is gone."""
        cache, obj = self.cached.cache(where), self.object
        return () if obj is None else cache.owned(obj)

    def lister(self, where: Where) -> Lister:
        """Other reads: by index, or decoded into types of your own."""
        return self.cached.lister(where)

    async def get_live(self, where: Where, name: str, namespace: str | None = None) -> Object | None:
        """One object as the server has it now, or None."""
        resource = await self.cached.resource(where)
        return await self.cached.get_live(resource, self._key(resource.namespaced, name, namespace))

    # Writes.

    ensure = _of_client(CachedClient.ensure)

    async def change(
        self, where: Where, name: str, mutate: Mutate, *, namespace: str | None = None
    ) -> WriteResult | None:
        """Have a function change a body in place, and write the difference; no change of others is lost. See `CachedClient.change`."""
        resource = await self.cached.resource(where)
        return await self.cached.change(resource, self._key(resource.namespaced, name, namespace), mutate)

    create = _of_client(CachedClient.create)
    replace = _of_client(CachedClient.replace)
    patch = _of_client(CachedClient.patch)
    apply = _of_client(CachedClient.apply)
    delete = _of_client(CachedClient.delete)

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
            self._shared.recorder.add(
                Event(ownership.object_reference(obj.stub()), type, reason, message), EVENT_OPTIONS
            )

    def _key(self, namespaced: bool | None, name: str, namespace: str | None) -> Key:
        return Key(None if namespaced is False else namespace or self.key.namespace, name)
