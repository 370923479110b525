"""A controller is put together by a sentence.

control("kopfexamples.kopf.dev").owns("configmaps").concurrently(4).reconciles(reconcile)

async def reconcile(key: Key, context: Context) -> Result | None: ...
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast

from ...client.resources import Key
from ...client.rest import Client
from ...informers.factory import Factory
from ...informers.indexers import IndexFunction
from ...informers.informer import Informer
from ...workqueue import Limiter
from ..api.client import CachedClient
from ..kernel import mappers as triggers
from ..kernel.mappers import Trigger
from ..kernel.predicates import Predicate
from ..kernel.reconciler import as_function
from ..kernel.result import Result
from ..leader.gates import Gate
from .built import BuiltController
from .context import Context
from .plan import Feed, Look, Options, Plan

T = TypeVar("T")

Reconciles = (
    Callable[[Key, Context], Awaitable[Result | None] | Result | None] | Callable[[Key], Awaitable[Result | None]]
)
"""A function that reconciles. One that is not async runs in the event loop as well, and so must not wait for anything."""


class ReconcilesObjects(Protocol):
    """A reconciler as an object, for those that have a state or parts of their own."""

    async def reconcile(self, key: Key, context: Context, /) -> Result | None:
        """Bring the world into the state that the object of the key asks for; see `Reconciler` for what may be relied on."""


Source = AsyncIterable[T] | Callable[[], AsyncIterable[T]]
"""Something that tells items; a function that gives it, where a controller may be built more than once."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A controller that is not built yet. Each method gives another blueprint and leaves this one as it is.

    Resources are named `plural.group`, `plural.version.group`, or by the plural alone in the core group.
    """

    plan: Plan

    def owns(self, resource: str, *, when: Predicate | None = None, controller_only: bool = True) -> "Blueprint":
        """Reconcile an object when one that it owns changes; by default, that it controls."""
        return self._looking(Look(resource, None, when, controller_only=controller_only))

    def watches(self, resource: str | Informer, trigger: Trigger[Key], *, when: Predicate | None = None) -> "Blueprint":
        """Reconcile the keys that a trigger says (see `ctl.controller.kernel.mappers`) when an object of another resource changes.

        An informer of your own (of another cluster, with a selection of its own) may stand in the place of a name; it stays yours to stop.
        """
        if isinstance(resource, Informer):
            return self._looking(Look(repr(resource.resource), trigger, when, informer=resource))
        return self._looking(Look(resource, trigger, when))

    def reads(self, resource: str) -> "Blueprint":
        """Keep a resource in the caches for the reconciler to look at; its changes ask for nothing."""
        return self._looking(Look(resource, None, None, is_read_only=True))

    def indexes(self, resource: str, index: str, function: IndexFunction) -> "Blueprint":
        """Have a resource that is looked at found by more than its name: `context.lister(resource).by_index(index, value)`."""
        return replace(self, plan=replace(self.plan, indexes=(*self.plan.indexes, (resource, index, function))))

    def follows(
        self,
        source: Source[T],
        keys: Callable[[T, CachedClient], Iterable[Key]] | None = None,
        *,
        name: str = "source",
    ) -> "Blueprint":
        """Reconcile the keys that a function says, asked with each item of a source and the caches; None: every object that there is.

        Sources are a `Channel`, a clock (`every(60)`), or whatever else can be iterated asynchronously. `name` is the trigger in reasons
        and metrics. What is asked for while the gate is closed is reconciled when it opens (the 10,000 keys that came last); for a
        source without a function that is every object anyway.
        """
        feed = Feed(name, source, keys)
        return replace(self, plan=replace(self.plan, feeds=(*self.plan.feeds, feed)))

    def when(self, predicate: Predicate) -> "Blueprint":
        """Let only some changes of the object itself count, such as `predicates.generation_changed()`."""
        return replace(self, plan=replace(self.plan, primary=replace(self.plan.primary, predicate=predicate)))

    def urgently_when(self, predicate: Predicate) -> "Blueprint":
        """Do not let a failing object wait for the end of its back-off for such a change of itself."""
        return self._with(urgent=predicate)

    def named(self, name: str) -> "Blueprint":
        """Under which name it appears in logs and metrics; otherwise that of the resource."""
        return self._with(name=name)

    def concurrently(self, count: int | None) -> "Blueprint":
        """How many objects are in work at once; None: no limit."""
        return self._with(concurrency=count)

    def within(self, seconds: float) -> "Blueprint":
        """How long an attempt may take; then it is cancelled, and counts as failed. By default there is no limit."""
        return self._with(timeout=seconds)

    def limited(self, limiter: Limiter[Key]) -> "Blueprint":
        """How long a failing object waits (see `ctl.workqueue`)."""
        return self._with(limiter=limiter)

    def only(
        self, *, namespace: str | None = None, namespaces: Collection[str] = (), selector: str | None = None
    ) -> "Blueprint":
        """Look at some namespaces, or at labelled objects of the primary resource, alone; the server leaves out the others.

        An object that loses its label looks deleted.
        """
        chosen = tuple(dict.fromkeys([*namespaces, *([namespace] if namespace is not None else [])]))
        return self._with(namespaces=chosen or None, selector=selector)

    def reconciles(self, function: Reconciles | ReconcilesObjects) -> "Assembly":
        """The sentence's end: what brings one object into the state that it asks for, a function or an object with `reconcile`.

        Raises TypeError for what cannot be called with a key and a context, nor with a key alone.
        """
        return Assembly(self.plan, as_function(cast("Any", function)))

    def _looking(self, look: Look) -> "Blueprint":
        return replace(self, plan=replace(self.plan, looks=(*self.plan.looks, look)))

    def _with(self, **options: Any) -> "Blueprint":
        return replace(self, plan=replace(self.plan, options=replace(self.plan.options, **options)))


def control(resource: str) -> Blueprint:
    """Begin the sentence with the resource whose objects are reconciled."""
    return Blueprint(Plan(Look(resource, triggers.itself(), None), Options(resource)))


def refuse_namesakes(names: Iterable[str]) -> None:
    """Raise ValueError when two controllers of one process bear the same name.

    A controller knows its own writes by its name, and does not hear of them; and two would count as one in the metrics.
    """
    known: set[str] = set()
    for name in names:
        if name in known:
            raise ValueError(
                f"There are two controllers of the name {name!r}; each needs one of its own, since by it a controller knows its own writes, "
                "and is told apart in metrics. Give one of them another name: .named('...')."
            )
        known.add(name)


@dataclass(frozen=True, slots=True)
class Assembly:
    """A controller that is complete but for the cluster."""

    plan: Plan
    function: Callable[[Key, Any], Awaitable[Result | None] | Result | None]

    @property
    def name(self) -> str:
        """What it is called in logs and metrics."""
        return self.plan.options.name

    def on(
        self, client: Client, factory: Factory, *, gate: Gate | None = None, namespaces: Collection[str] | None = None
    ) -> BuiltController:
        """Give it a cluster: a component for a `Manager`. Informers are shared with whoever uses the same factory.

        `namespaces` is where to look, if the blueprint does not say; None: everywhere.
        """
        plan = self.plan
        if plan.options.namespaces is None and namespaces is not None:
            plan = replace(plan, options=replace(plan.options, namespaces=tuple(namespaces)))
        return BuiltController(plan, self.function, client, factory, gate=gate)
