"""The description of a controller, and the controller that runs it on a cluster."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import msgspec

from ...client.discovery import Discovery
from ...client.resources import Key, Resource
from ...client.rest import Client
from ...informers.deltas import Delta, DeltaKind
from ...informers.factory import SharedInformerFactory
from ...informers.indexers import IndexFunction
from ...informers.informer import Informer
from ...runtime.log_context import log_context
from ...runtime.metrics import Sample
from ...runtime.watchdog import Blame
from ...workqueue import RateLimiter, RateLimitingQueue
from ..api.access_review import Rights
from ..api.cache import ResourceCache
from ..api.client import CachedClient, resolve
from ..events.event import EventSource
from ..events.recorder import Recorder
from ..http.pages import KeyExplanation, explain
from ..kernel import mappers
from ..kernel.controller import Controller
from ..kernel.mappers import Mapper
from ..kernel.predicates import Predicate
from ..kernel.reconciler import Attempt, Result
from ..kernel.source import Rules, Source
from ..kernel.worker import AttemptLogContext
from ..leader.gate import Gate
from .context import Context, SharedContext

EVENTS_GRACE = 1.0
"""Seconds to write the last events, when the attempts have used up the grace."""
EVENTS_PREFIX = "event-"
"""The prefix of the names of Event objects."""


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """A resource to watch, by name, and the mapper of its changes (None: to the owners)."""

    name: str
    mapper: Mapper[Key] | None
    predicate: Predicate | None
    controller_only: bool = True
    is_read_only: bool = False
    informer: Informer | None = None
    """To be used instead of the factory's."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Another source of keys; see `Builder.watches_source`."""

    name: str
    source: Any
    keys: Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The options of a controller; see the methods of `Builder`."""

    name: str
    concurrency: int | None = 1
    timeout: float | None = None
    rate_limiter: RateLimiter[Key] | None = None
    namespaces: tuple[str, ...] | None = None
    selector: str | None = None
    skips_backoff_on: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a builder describes: everything but the reconciler and the cluster."""

    primary: WatchSpec
    options: ControllerOptions
    watches: tuple[WatchSpec, ...] = ()
    sources: tuple[SourceSpec, ...] = ()
    indexes: tuple[tuple[str, str, IndexFunction], ...] = ()


class NamespacedSources:
    """The informers and sources of one resource: one of each for each namespace, or one for the cluster (None)."""

    def __init__(
        self,
        factory: SharedInformerFactory,
        cache: ResourceCache,
        connect: Callable[[Informer], Source[Key]],
        selector: str | None = None,
    ) -> None:
        """`connect` adds an informer to the controller."""
        self._factory = factory
        self._cache = cache
        self._connect = connect
        self._selector = selector
        self._sources: dict[str | None, tuple[Informer, Source[Key]]] = {}

    def extend(self, namespaces: Collection[str | None]) -> None:
        """Watch these namespaces too."""
        for namespace in namespaces:
            if namespace not in self._sources:
                informer = self._factory.informer(self._cache.resource, namespace, self._selector)
                self._cache.add(informer)
                self._sources[namespace] = (informer, self._connect(informer))

    async def keep(self, namespaces: Collection[str | None]) -> None:
        """Watch no other namespaces. That requests nothing: their objects have not changed."""
        for namespace in [namespace for namespace in self._sources if namespace not in namespaces]:
            self._cache.remove(self._sources[namespace][0])
            await self._leave(namespace)

    async def close(self) -> None:
        """Watch nothing. The cache keeps the last state: an attempt that goes on must not find it empty."""
        for namespace in tuple(self._sources):
            await self._leave(namespace)

    async def _leave(self, namespace: str | None) -> None:
        informer, source = self._sources.pop(namespace)
        await source.stop()
        await self._factory.release(informer)


class BuiltController:
    """A controller on a cluster. No attempt begins before all watched resources are in the caches."""

    def __init__(
        self,
        plan: Plan,
        function: Callable[[Key, Context], Awaitable[Result | None] | Result | None],
        client: Client,
        factory: SharedInformerFactory,
        *,
        gate: Gate | None,
    ) -> None:
        options = plan.options
        self.name = options.name
        self._plan = plan
        self._function = function
        self._client = client
        self._factory = factory
        # Where namespaced resources are watched (None: everywhere); and all that are, except for informers of the user's own.
        self._namespaces = options.namespaces
        self._namespaced: list[tuple[Resource, NamespacedSources]] = []
        self.is_started = False
        """Whether the start has succeeded."""
        self._shared: SharedContext | None = None
        self._recorder: Recorder | None = None
        self.cached = CachedClient(client, factory, author=options.name)
        """Its client, for use outside of attempts; the caches are there after the start."""
        queue: RateLimitingQueue[Key] = RateLimitingQueue(options.name, limiter=options.rate_limiter)
        self.controller: Controller[Key] = Controller(
            options.name,
            self._reconcile,
            queue=queue,
            concurrency=options.concurrency,
            gate=gate,
            timeout=options.timeout,
        )

    async def start(self) -> None:
        """Find the resources, watch them, and begin. Raises UnknownResource and the errors of the client."""
        plan = self._plan
        watches = (plan.primary, *plan.watches)
        names = dict.fromkeys(watch.name for watch in watches if watch.informer is None)
        found = await resolve(Discovery(self._client), names)
        primary = found[plan.primary.name]
        try:
            for watch in watches:
                resource = found[watch.name] if watch.informer is None else watch.informer.resource
                self._watch(watch, resource, primary)
            for name, index, function in plan.indexes:
                self.cached.cache(name).add_indexer(index, function)
            self._recorder = self._make_recorder()
            self._shared = SharedContext(self.cached, self.cached.cache(plan.primary.name), self._recorder)
            for source in plan.sources:
                self._add_source(source)
            await self._recorder.start()
            await self.controller.start()
            self.is_started = True
        except BaseException:
            await self._release()
            raise

    async def stop(self, grace: float) -> None:
        """End the attempts, write the last events, and watch nothing any more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        await self.controller.stop(grace)
        if self._recorder is not None:
            await self._recorder.stop(max(EVENTS_GRACE, deadline - loop.time()))
        await self._release()

    async def set_namespaces(self, namespaces: Collection[str]) -> None:
        """Watch these namespaces from now on; before or after the start. Cluster-scoped resources are watched as before.

        Attempts wait until the objects of new namespaces are in the caches.
        """
        self._namespaces = tuple(sorted(namespaces))
        namespaced = list(self._namespaced)
        for resource, sources in namespaced:
            sources.extend(self._namespaces_of(resource))
        for resource, sources in namespaced:
            await sources.keep(self._namespaces_of(resource))

    def _namespaces_of(self, resource: Resource) -> tuple[str | None, ...]:
        return (None,) if self._namespaces is None or not resource.namespaced else self._namespaces

    async def _release(self) -> None:
        namespaced, self._namespaced = self._namespaced, []
        for _, sources in namespaced:
            await sources.close()

    def _watch(self, watch: WatchSpec, resource: Resource, primary: Resource) -> None:
        cache = ResourceCache(resource)
        self.cached.look(watch.name, cache)
        mapper = watch.mapper
        if watch.is_read_only:
            mapper = mappers.constant()
        elif mapper is None:
            cache.index_owners()
            mapper = mappers.for_owner(primary, controller_only=watch.controller_only)
        is_primary = watch is self._plan.primary
        options = self._plan.options
        rules = Rules(
            _of_author(mapper, self.name),
            predicate=_of_author(watch.predicate, self.name),
            skips_backoff=_of_author(options.skips_backoff_on if is_primary else None, self.name),
        )
        connect = partial(self.controller.watch, mapper=rules, wait=True)
        if watch.informer is not None:
            cache.add(watch.informer)
            connect(watch.informer)
            return
        sources = NamespacedSources(self._factory, cache, connect, options.selector if is_primary else None)
        sources.extend(self._namespaces_of(resource))
        self._namespaced.append((resource, sources))

    def _add_source(self, added: SourceSpec) -> None:
        primary = self.cached.cache(self._plan.primary.name)

        def keys(item: Any) -> Any:
            return primary.keys() if added.keys is None else added.keys(item, self.cached)

        items = added.source() if callable(added.source) else added.source
        self.controller.follow(items, keys, name=added.name, remember=added.keys is not None)

    def _make_recorder(self) -> Recorder:
        instance = os.environ.get("POD_NAME") or socket.gethostname()
        # A component that is too long is refused by the server: 128 characters.
        return Recorder(self._client, EventSource(self.name[:128], instance[:128], EVENTS_PREFIX), Rights(self._client))

    async def _reconcile(self, key: Key, attempt: Attempt[Any]) -> Result | None:
        assert self._shared is not None
        context, current = Context(self._shared, attempt), log_context.get()
        if isinstance(current, AttemptLogContext):
            current.about = context.reference
        returned = self._function(key, context)
        # A function that is not async has done its work.
        return returned if returned is None or isinstance(returned, Result) else await returned

    def explain(self, key: Key) -> KeyExplanation:
        """Return the state of a key and of its object in the cache."""
        return explain(self.controller, None if self._shared is None else self._shared.primary, key)

    def explain_text(self, key: str) -> KeyExplanation:
        """The same for a key as text: `namespace/name`, or the name of a cluster-scoped object.

        Raises LookupError for an unknown key.
        """
        namespace, _, name = key.rpartition("/")
        found = self.explain(Key(namespace or None, name))
        if found.uid is None and found.state == "at rest" and found.last_error is None:
            raise LookupError(f"The controller {self.name} has no key {key!r}; its cache: {found.informer}.")
        return found

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment (a source for `ctl.runtime.metrics`)."""
        return self.controller.samples()


def accuse(frames: Sequence[FrameType]) -> Blame | None:
    """Find the attempt that a stack of the loop's thread belongs to, by controller and key."""
    frame = next((frame for frame in frames if frame.f_code is BuiltController._reconcile.__code__), None)
    if frame is None:
        return None
    name, key = frame.f_locals["self"].name, frame.f_locals["key"]
    return Blame(name, f"the reconciler of {name} for {key}")


F = TypeVar("F", Mapper[Key], Predicate | None)


def _of_author(function: F, author: str) -> F:
    """Have a mapper or a predicate see as echoes the author's own writes, and only those: others' in the process are news."""
    if function is None:
        return function

    def wrapped(delta: Delta) -> Any:
        is_own = delta.author == author and delta.kind is DeltaKind.UPDATED
        return function(delta if delta.echo == is_own else msgspec.structs.replace(delta, echo=is_own))

    return wrapped
