"""A controller is put together by a sentence.

control("kopfexamples.kopf.dev").owns("configmaps").concurrently(4).reconciles(reconcile)

async def reconcile(key: Key, context: Context) -> Result | None: ...
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..client.discovery import Discovery
from ..client.resources import Key, Resource
from ..client.rest import Client
from ..informers.factory import Factory
from ..informers.informer import Informer
from ..runtime.metrics import Sample
from ..workqueue import Limiter, RateLimitingQueue
from . import triggers
from .context import OWNERS, Context, World, owner_uids
from .controller import Controller, Explanation
from .gating.gates import Gate
from .predicates import Predicate
from .reconciler import Attempt
from .result import Result
from .triggers import Trigger

Reconciles = Callable[[Key, Context], Awaitable[Result | None]]


class UnknownResource(LookupError):
    """The server does not serve a resource that a controller is told to look at; the message names both."""


@dataclass(frozen=True, slots=True)
class Look:
    """One thing to look at: a resource by name, and which keys its changes ask for (None: those of the owners)."""

    name: str
    trigger: Trigger[Key] | None
    predicate: Predicate | None
    controller_only: bool = True


@dataclass(frozen=True, slots=True)
class Options:
    """How a controller works; see the methods of `Blueprint`."""

    name: str
    concurrency: int | None = 1
    timeout: float | None = None
    limiter: Limiter[Key] | None = None
    namespace: str | None = None
    selector: str | None = None
    urgent: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A controller that is not built yet. Each method gives another blueprint and leaves this one as it is.

    Resources are named `plural.group`, `plural.version.group`, or by the plural alone in the core group.
    """

    primary: Look
    options: Options
    looks: tuple[Look, ...] = ()

    def owns(self, resource: str, *, when: Predicate | None = None, controller_only: bool = True) -> "Blueprint":
        """Reconcile an object when one that it owns changes; by default, that it controls."""
        return replace(self, looks=(*self.looks, Look(resource, None, when, controller_only)))

    def watches(self, resource: str, trigger: Trigger[Key], *, when: Predicate | None = None) -> "Blueprint":
        """Reconcile the keys that a trigger says (see `ctl.controller.triggers`) when an object of another resource changes."""
        return replace(self, looks=(*self.looks, Look(resource, trigger, when)))

    def when(self, predicate: Predicate) -> "Blueprint":
        """Let only some changes of the object itself count, such as `predicates.generation_changed()`."""
        return replace(self, primary=replace(self.primary, predicate=predicate))

    def urgently_when(self, predicate: Predicate) -> "Blueprint":
        """Do not let a failing object wait for the end of its back-off for such a change of itself."""
        return replace(self, options=replace(self.options, urgent=predicate))

    def named(self, name: str) -> "Blueprint":
        """Under which name it appears in logs and metrics; otherwise that of the resource."""
        return replace(self, options=replace(self.options, name=name))

    def concurrently(self, count: int | None) -> "Blueprint":
        """How many objects are in work at once; None: no limit."""
        return replace(self, options=replace(self.options, concurrency=count))

    def within(self, seconds: float) -> "Blueprint":
        """How long an attempt may take."""
        return replace(self, options=replace(self.options, timeout=seconds))

    def limited(self, limiter: Limiter[Key]) -> "Blueprint":
        """How long a failing object waits (see `ctl.workqueue`)."""
        return replace(self, options=replace(self.options, limiter=limiter))

    def only(self, *, namespace: str | None = None, selector: str | None = None) -> "Blueprint":
        """Look at one namespace, or at labelled objects of the primary resource, alone; the server leaves out the others.

        An object that loses its label looks deleted.
        """
        return replace(self, options=replace(self.options, namespace=namespace, selector=selector))

    def reconciles(self, function: Reconciles) -> "Assembly":
        """The sentence's end: what brings one object into the state that it asks for."""
        return Assembly(self, function)


def control(resource: str) -> Blueprint:
    """Begin the sentence with the resource whose objects are reconciled."""
    return Blueprint(Look(resource, triggers.itself(), None), Options(resource))


@dataclass(frozen=True, slots=True)
class Assembly:
    """A controller that is complete but for the cluster."""

    blueprint: Blueprint
    function: Reconciles

    def on(self, client: Client, factory: Factory, *, gate: Gate | None = None) -> "BuiltController":
        """Give it a cluster: a component for a `Manager`. Informers are shared with whoever uses the same factory."""
        return BuiltController(self, client, factory, gate)


class BuiltController:
    """A controller on a cluster. No attempt begins before everything it looks at is in the caches."""

    def __init__(self, assembly: Assembly, client: Client, factory: Factory, gate: Gate | None) -> None:
        options = assembly.blueprint.options
        self.name = options.name
        self._assembly = assembly
        self._client = client
        self._factory = factory
        self._informers: list[Informer] = []
        self._world: World | None = None
        queue: RateLimitingQueue[Key] = RateLimitingQueue(options.name, limiter=options.limiter)
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
        blueprint = self._assembly.blueprint
        looks = (blueprint.primary, *blueprint.looks)
        found = await _resolve(Discovery(self._client), [look.name for look in looks])
        options, primary = blueprint.options, found[blueprint.primary.name]
        informers: dict[str, Informer] = {}
        for look in looks:
            resource = found[look.name]
            informer = self._factory.informer(
                resource,
                options.namespace if resource.namespaced else None,
                options.selector if look is blueprint.primary else None,
            )
            self._informers.append(informer)
            informers.setdefault(look.name, informer)
            trigger = look.trigger
            if trigger is None:
                trigger = triggers.owner(primary, controller_only=look.controller_only)
            if OWNERS not in informer.store.indexers:
                informer.add_indexer(OWNERS, owner_uids)
            urgent = options.urgent if look is blueprint.primary else None
            self.controller.watch(informer, trigger, predicate=look.predicate, urgent=urgent, wait=True)
        self._world = World(self._client, informers[blueprint.primary.name], informers)
        await self.controller.start()

    async def stop(self, grace: float) -> None:
        """End the attempts and look at nothing any more."""
        await self.controller.stop(grace)
        informers, self._informers = self._informers, []
        for informer in informers:
            await self._factory.release(informer)

    async def _reconcile(self, key: Key, attempt: Attempt[Any]) -> Result | None:
        assert self._world is not None
        return await self._assembly.function(key, Context(self._world, attempt))

    def explain(self, key: Key) -> Explanation:
        """Where a key stands, and why."""
        return self.controller.explain(key)

    def explain_text(self, key: str) -> Explanation:
        """The same for a key as people write it: `namespace/name`, or the name of a cluster-scoped object."""
        namespace, _, name = key.rpartition("/")
        return self.explain(Key(namespace or None, name))

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment (a source for `ctl.runtime.metrics`)."""
        return self.controller.samples()


async def _resolve(discovery: Discovery, names: list[str]) -> dict[str, Resource]:
    served = await discovery.resources({part for name in names for part in _groups(name)})
    found: dict[str, Resource] = {}
    for name in names:
        matching = [resource for resource in served if name in {resource.name, repr(resource)}]
        best = next((resource for resource in matching if resource.preferred), matching[0] if matching else None)
        if best is None:
            raise UnknownResource(
                f"The server serves no resource {name!r}; expected plural.group (or the plural alone in the core group) of something that "
                f"is installed. {'Unknown for now: ' + ', '.join(sorted(discovery.failures)) if discovery.failures else ''}".rstrip()
            )
        found[name] = best
    return found


def _groups(name: str) -> tuple[str, ...]:
    """Which groups a name may mean: what follows the plural, or the version; the core group for a plural, with or without a version."""
    rest = name.partition(".")[2]
    return rest, rest.partition(".")[2], ""
