"""A built controller runs on a cluster what the builder's sentence says."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import Any

import msgspec

from ...client.discovery import Discovery
from ...client.resources import Key, Resource
from ...client.rest import Client
from ...informers.deltas import Delta, DeltaKind
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ...runtime.log_context import log_context
from ...runtime.metrics import Sample
from ...runtime.watchdog import Blame
from ...workqueue import RateLimitingQueue
from ..api.access_review import Rights
from ..api.cache import ResourceCache
from ..api.client import CachedClient, resolve
from ..events.event import Reporter
from ..events.recorder import Recorder
from ..http.pages import KeyExplanation, explain
from ..kernel import mappers
from ..kernel.controller import Controller
from ..kernel.mappers import Mapper
from ..kernel.predicates import Predicate
from ..kernel.reconciler import Attempt, Result
from ..kernel.source import Source
from ..kernel.worker import AttemptLogContext
from ..leader.gates import Gate
from .context import Context, World
from .namespaced import Reach
from .plan import Plan, SourceSpec, WatchSpec

LAST_WORDS = 1.0
"""Seconds that events have to be written at the end, when attempts have taken all of the time."""
EVENTS_PREFIX = "event-"
"""How the names of Event objects begin."""


class BuiltController:
    """A controller on a cluster. No attempt begins before everything it looks at is in the caches."""

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
        # Where resources are looked at that have namespaces; None: everywhere. And all that are looked at, but informers of others.
        self._namespaces = options.namespaces
        self._reaches: list[tuple[Resource, Reach]] = []
        self._is_started = False
        self._world: World | None = None
        self._recorder: Recorder | None = None
        self.cached = CachedClient(client, factory, author=options.name)
        """Its client, for what is outside of attempts; it knows the caches from the start on."""
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
        """Find the resources, look at them, begin. Raises UnknownResource, and what the client raises."""
        plan = self._plan
        looks = (plan.primary, *plan.watches)
        names = dict.fromkeys(look.name for look in looks if look.informer is None)
        found = await resolve(Discovery(self._client), names)
        primary = found[plan.primary.name]
        try:
            for look in looks:
                self._look(look, found[look.name] if look.informer is None else look.informer.resource, primary)
            for name, index, function in plan.indexes:
                self.cached.cache(name).add_indexer(index, function)
            self._recorder = self._make_recorder()
            self._world = World(self.cached, self.cached.cache(plan.primary.name), self._recorder)
            for feed in plan.sources:
                self._follow(feed)
            await self._recorder.start()
            await self.controller.start()
            self._is_started = True
        except BaseException:
            await self._release()
            raise

    async def stop(self, grace: float) -> None:
        """End the attempts, say what is still to be said, and look at nothing any more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        await self.controller.stop(grace)
        if self._recorder is not None:
            await self._recorder.stop(max(LAST_WORDS, deadline - loop.time()))
        await self._release()

    @property
    def is_started(self) -> bool:
        """Whether the start has succeeded."""
        return self._is_started

    async def reach(self, namespaces: Collection[str]) -> None:
        """From now on look in these namespaces; before or after the start. Cluster-scoped resources are looked at as ever.

        Attempts wait until what is new is in the caches.
        """
        self._namespaces = tuple(sorted(namespaces))
        reaches = list(self._reaches)
        for resource, reach in reaches:
            reach.extend(self._places(resource))
        for resource, reach in reaches:
            await reach.keep(self._places(resource))

    def _places(self, resource: Resource) -> tuple[str | None, ...]:
        return (None,) if self._namespaces is None or not resource.namespaced else self._namespaces

    async def _release(self) -> None:
        reaches, self._reaches = self._reaches, []
        for _, reach in reaches:
            await reach.close()

    def _look(self, look: WatchSpec, resource: Resource, primary: Resource) -> None:
        cache = ResourceCache(resource)
        self.cached.look(look.name, cache)
        trigger = look.mapper
        if look.is_read_only:
            trigger = mappers.constant()
        elif trigger is None:
            cache.index_owners()
            trigger = mappers.for_owner(primary, controller_only=look.controller_only)
        connect = partial(self._connect, look, _heard(trigger, self.name))
        if look.informer is not None:
            cache.add(look.informer)
            connect(look.informer)
            return
        reach = Reach(
            self._factory, cache, connect, self._plan.options.selector if look is self._plan.primary else None
        )
        reach.extend(self._places(resource))
        self._reaches.append((resource, reach))

    def _connect(self, look: WatchSpec, trigger: Mapper[Key], informer: Informer) -> Source[Key]:
        skips_backoff = self._plan.options.skips_backoff_on if look is self._plan.primary else None
        return self.controller.watch(
            informer,
            trigger,
            predicate=_judged(look.predicate, self.name),
            skips_backoff=_judged(skips_backoff, self.name),
            wait=True,
        )

    def _follow(self, feed: SourceSpec) -> None:
        primary = self.cached.cache(self._plan.primary.name)

        def keys(item: Any) -> Any:
            return primary.keys() if feed.keys is None else feed.keys(item, self.cached)

        self.controller.follow(
            feed.source() if callable(feed.source) else feed.source,
            keys,
            name=feed.name,
            remember=feed.keys is not None,
        )

    def _make_recorder(self) -> Recorder:
        instance = os.environ.get("POD_NAME") or socket.gethostname()
        # A component that is too long is refused by the server: 128 characters.
        return Recorder(self._client, Reporter(self.name[:128], instance[:128], EVENTS_PREFIX), Rights(self._client))

    async def _reconcile(self, key: Key, attempt: Attempt[Any]) -> Result | None:
        assert self._world is not None
        context, doing = Context(self._world, attempt), log_context.get()
        if isinstance(doing, AttemptLogContext):
            doing.about = context.reference
        returned = self._function(key, context)
        # A plain function has done its work already.
        return returned if returned is None or isinstance(returned, Result) else await returned

    def explain(self, key: Key) -> KeyExplanation:
        """Where a key stands, and why, and how new the copy is by which it is attempted."""
        return explain(self.controller, None if self._world is None else self._world.primary, key)

    def explain_text(self, key: str) -> KeyExplanation:
        """The same for a key as people write it: `namespace/name`, or the name of a cluster-scoped object.

        Raises LookupError when nobody knows of such a key.
        """
        namespace, _, name = key.rpartition("/")
        found = self.explain(Key(namespace or None, name))
        if found.uid is None and found.state == "at rest" and found.last_error is None:
            raise LookupError(f"The controller {self.name} knows of no {key!r}; its copy: {found.informer}.")
        return found

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment (a source for `ctl.runtime.metrics`)."""
        return self.controller.samples()


def accuse(frames: Sequence[FrameType]) -> Blame | None:
    """Find out of the stack of a callback of the loop whose attempt it belongs to: the controller, and the key."""
    frame = next((frame for frame in frames if frame.f_code is BuiltController._reconcile.__code__), None)
    if frame is None:
        return None
    name, key = frame.f_locals["self"].name, frame.f_locals["key"]
    return Blame(name, f"the reconciler of {name} for {key}")


def _as_heard(delta: Delta, author: str) -> Delta:
    """A delta as this controller is to take it: an echo if it is the author's, and news if it is of anybody else in the process."""
    is_own = delta.author == author and delta.kind is DeltaKind.UPDATED
    return delta if delta.echo == is_own else msgspec.structs.replace(delta, echo=is_own)


def _heard(trigger: Mapper[Key], author: str) -> Mapper[Key]:
    return lambda delta: trigger(_as_heard(delta, author))


def _judged(predicate: Predicate | None, author: str) -> Predicate | None:
    return None if predicate is None else lambda delta: predicate(_as_heard(delta, author))
