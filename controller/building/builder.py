"""The builder of controllers, after controller-runtime's.

controller("kopfexamples.kopf.dev").owns("configmaps").concurrency(4).reconciles(reconcile)

async def reconcile(key: Key, context: Context) -> Result | None: ...
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast

from ...client.resources import Key
from ...client.rest import Client
from ...informers.factory import SharedInformerFactory
from ...informers.indexers import IndexFunction
from ...informers.informer import Informer
from ...workqueue import RateLimiter
from ..api.client import CachedClient
from ..kernel import mappers
from ..kernel.mappers import Mapper
from ..kernel.predicates import Predicate
from ..kernel.reconciler import Result, as_function
from ..leader.gate import Gate
from .built import BuiltController, ControllerOptions, Plan, SourceSpec, WatchSpec
from .context import Context

T = TypeVar("T")

Reconciles = (
    Callable[[Key, Context], Awaitable[Result | None] | Result | None] | Callable[[Key], Awaitable[Result | None]]
)
"""A reconciler as a function. One that is not async runs in the event loop as well, so it must not wait for anything."""


class ReconcilesObjects(Protocol):
    """A reconciler as an object, for reconcilers with a state."""

    async def reconcile(self, key: Key, context: Context, /) -> Result | None:
        """Bring the cluster to the state that the object of the key asks for; see `Reconciler` for the promises."""


Items = AsyncIterable[T] | Callable[[], AsyncIterable[T]]
"""A source of items; or a function that returns one, for controllers that are built more than once."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Describes a controller. Each method returns another builder and leaves this one as it is.

    Resources are named `plural.group`, `plural.version.group`, or by the plural alone in the core group.
    """

    plan: Plan

    def owns(self, resource: str, *, predicate: Predicate | None = None, controller_only: bool = True) -> "Builder":
        """Reconcile an object when one that it owns changes; by default only where the owner reference says `controller: true`."""
        return self._watching(WatchSpec(resource, None, predicate, controller_only=controller_only))

    def watches(
        self, resource: str | Informer, mapper: Mapper[Key], *, predicate: Predicate | None = None
    ) -> "Builder":
        """Reconcile the keys that a mapper (see `ctl.mappers`) returns for each change of another resource.

        In the place of a name may stand an informer of yours (of another cluster, with a selector of its own). You stop that yourself.
        """
        if isinstance(resource, Informer):
            return self._watching(WatchSpec(repr(resource.resource), mapper, predicate, informer=resource))
        return self._watching(WatchSpec(resource, mapper, predicate))

    def reads(self, resource: str) -> "Builder":
        """Keep a resource in the caches for the reconciler to read. Its changes start no attempts."""
        return self._watching(WatchSpec(resource, None, None, is_read_only=True))

    def indexes(self, resource: str, index: str, function: IndexFunction) -> "Builder":
        """Add an index to the cache of a resource: `context.lister(resource).by_index(index, value)`."""
        return replace(self, plan=replace(self.plan, indexes=(*self.plan.indexes, (resource, index, function))))

    def watches_source(
        self, source: Items[T], keys: Callable[[T, CachedClient], Iterable[Key]] | None = None, *, name: str = "source"
    ) -> "Builder":
        """Reconcile the keys that a function returns for each item of a source and the caches; None: all objects.

        A source is a `Channel`, a clock (`every(60)`), or any other asynchronous iterable. `name` is the trigger in logs and metrics.
        Keys that arrive while the gate is closed are reconciled when it opens (the last 10,000 of them); a source without a
        function needs no memory for that, since all objects are reconciled then anyway.
        """
        added = SourceSpec(name, source, keys)
        return replace(self, plan=replace(self.plan, sources=(*self.plan.sources, added)))

    def with_predicate(self, predicate: Predicate) -> "Builder":
        """React only to some changes of the reconciled object itself, such as `predicates.generation_changed()`."""
        return replace(self, plan=replace(self.plan, primary=replace(self.plan.primary, predicate=predicate)))

    def skips_backoff_on(self, predicate: Predicate) -> "Builder":
        """Reconcile a failing object at once, not at the end of its back-off, after such a change of itself."""
        return self._with(skips_backoff_on=predicate)

    def named(self, name: str) -> "Builder":
        """Set the name for logs, metrics, events and the field manager; by default that of the resource."""
        return self._with(name=name)

    def concurrency(self, count: int | None) -> "Builder":
        """Set how many objects are reconciled at the same time; None: no limit."""
        return self._with(concurrency=count)

    def timeout(self, seconds: float) -> "Builder":
        """Cancel an attempt after some seconds; it counts as failed. By default there is no limit."""
        return self._with(timeout=seconds)

    def rate_limiter(self, limiter: RateLimiter[Key]) -> "Builder":
        """Set the back-off of failing objects (see `ctl.workqueue`)."""
        return self._with(rate_limiter=limiter)

    def in_namespaces(self, *namespaces: str) -> "Builder":
        """Watch and read these namespaces only; by default those of the operator, or all."""
        return self._with(namespaces=tuple(dict.fromkeys(namespaces)) or None)

    def with_selector(self, selector: str) -> "Builder":
        """Watch only objects of the reconciled resource whose labels match. An object that loses its label looks deleted."""
        return self._with(selector=selector)

    def reconciles(self, function: Reconciles | ReconcilesObjects) -> "ControllerSpec":
        """Set the reconciler, a function or an object with a method `reconcile`, and finish. Can be used as a decorator.

        Raises TypeError for what cannot be called with a key and a context, nor with a key alone.
        """
        return ControllerSpec(self.plan, as_function(cast("Any", function)))

    def _watching(self, watch: WatchSpec) -> "Builder":
        return replace(self, plan=replace(self.plan, watches=(*self.plan.watches, watch)))

    def _with(self, **options: Any) -> "Builder":
        return replace(self, plan=replace(self.plan, options=replace(self.plan.options, **options)))


def controller(resource: str) -> Builder:
    """Begin with the resource whose objects are reconciled."""
    return Builder(Plan(WatchSpec(resource, mappers.for_object(), None), ControllerOptions(resource)))


def refuse_namesakes(names: Iterable[str]) -> None:
    """Raise ValueError when two controllers of one process have the same name.

    A controller ignores the changes that it has written under its name; and metrics tell controllers apart by name.
    """
    known: set[str] = set()
    for name in names:
        if name in known:
            raise ValueError(
                f"There are two controllers of the name {name!r}; each needs one of its own, since it marks the controller's own writes "
                "and its metrics. Give one of them another name: .named('...')."
            )
        known.add(name)


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """The description of a controller, with its reconciler."""

    plan: Plan
    function: Callable[[Key, Any], Awaitable[Result | None] | Result | None]

    @property
    def name(self) -> str:
        """The name in logs and metrics."""
        return self.plan.options.name

    def build(
        self,
        client: Client,
        factory: SharedInformerFactory,
        *,
        gate: Gate | None = None,
        namespaces: Collection[str] | None = None,
    ) -> BuiltController:
        """Build the controller for a cluster: a component for a `Manager`. It shares informers with other users of the factory.

        `namespaces` are watched if the builder was given none; None: all.
        """
        plan = self.plan
        if plan.options.namespaces is None and namespaces is not None:
            plan = replace(plan, options=replace(plan.options, namespaces=tuple(namespaces)))
        return BuiltController(plan, self.function, client, factory, gate=gate)
