"""Controllers are declared beside handlers, and run by the same operator: on its client and informers, through its gate."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ...client.errors import AccessError, APIError, RequestError
from ...client.rest import Client
from ...controller.api.access_review import Rights
from ...controller.api.resolve import UnknownResource
from ...controller.building.builder import ControllerSpec
from ...controller.building.built import BuiltController
from ...controller.http.pages import Condition
from ...controller.kernel.controller import Controller
from ...controller.leader.gates import Gate
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ...runtime.tasks import Tasks
from ..declaration.namespaces import NamespacePattern, exact_namespaces
from ..declaration.registry import OperatorRegistry, get_default_registry
from .namespaces import Namespaces
from .observation import CRDS, RESCANS

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=ControllerSpec)

PATIENCE = 30.0
"""How often to ask for a resource which is missing, in seconds, though no definition has changed: not all resources have one."""

_declared: WeakKeyDictionary[OperatorRegistry, list[ControllerSpec]] = WeakKeyDictionary()


def declare(spec: T, *, registry: OperatorRegistry | None = None) -> T:
    """Have the operator run a controller beside its handlers, or alone; gives the controller back, so it can be a decorator.

    @ctl.declare
    @ctl.controller("kopfexamples.kopf.dev").owns("configmaps").reconciles
    async def reconcile(key, context): ...

    Without a registry it is the default one, as for handlers. Raises TypeError for what is no complete controller.
    """
    if not isinstance(spec, ControllerSpec):
        raise TypeError(
            f"Only a complete controller can be declared, as ctl.controller(...).reconciles(function) gives; got {spec!r}."
        )
    chosen = get_default_registry() if registry is None else registry
    _declared.setdefault(chosen, []).append(spec)
    return spec


def declared(registry: OperatorRegistry) -> tuple[ControllerSpec, ...]:
    """The controllers of a registry, in the order of their declaration."""
    return tuple(_declared.get(registry, ()))


def is_bare(registry: OperatorRegistry) -> bool:
    """Whether nothing is declared in a registry: no handler of any kind, and no controller."""
    return not registry.specs() and not declared(registry)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the controllers of one operator share."""

    client: Client
    factory: SharedInformerFactory
    gate: Gate | None = None
    patterns: frozenset[NamespacePattern] | None = None
    """The namespaces that are served; None: all."""
    rights: Rights | None = None
    """None: they are asked for anew."""
    rescan: bool = True
    """Whether to look for namespaces and definitions that come and go (`settings.scanning.disabled`)."""


@dataclass(slots=True)
class _Start:
    """One controller on its way."""

    built: BuiltController
    follows: bool
    """Whether it looks where the operator does."""
    missing: str = "it waits for its turn"
    """Why it does not run yet; empty when it does."""


@dataclass(slots=True)
class Controllers:
    """The declared controllers of one operator, from its start to its stop.

    They look where the operator does, as namespaces come and go, but those which say themselves where (`only`).
    """

    specs: tuple[ControllerSpec, ...]
    cluster: Cluster
    on_built: Callable[[BuiltController], None] = lambda _: None
    """Called with each controller before it is started."""
    _starts: list[_Start] = field(default_factory=list)
    _namespaces: Namespaces | None = None
    _rights: Rights = field(init=False)
    _definitions: Informer | None = None
    # Set and replaced at each change of the definitions.
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: Tasks = field(default_factory=lambda: Tasks("declared controllers"))

    def __post_init__(self) -> None:
        self._rights = self.cluster.rights or Rights(self.cluster.client)

    def start(self) -> None:
        """Begin to start them, each by itself: one whose resources are not installed yet waits for them and holds up nobody."""
        client, factory, gate, patterns = (
            self.cluster.client,
            self.cluster.factory,
            self.cluster.gate,
            self.cluster.patterns,
        )
        namespaces = None if patterns is None else exact_namespaces(patterns)
        for spec in self.specs:
            built = spec.build(client, factory, gate=gate, namespaces=namespaces)
            self._starts.append(_Start(built, follows=spec.plan.options.namespaces is None))
            self.on_built(built)
        if self._starts:
            self._tasks.spawn(self._begin(), name="start")

    async def _begin(self) -> None:
        patterns = self.cluster.patterns
        if patterns is not None and any(one.follows for one in self._starts):
            self._namespaces = Namespaces(patterns, self.cluster.factory, self._rights)
            await self._namespaces.start(self._move, scan=self.cluster.rescan)
            await self._move()
        for one in self._starts:
            self._tasks.spawn(self._start(one), name=one.built.name)

    async def _move(self) -> None:
        """Look in the namespaces that there are now."""
        assert self._namespaces is not None
        for one in self._starts:
            if one.follows:
                await one.built.reach(self._namespaces.names)

    async def _start(self, one: _Start) -> None:
        pauses: deque[float] = deque()
        while True:
            news = self._news
            try:
                await one.built.start()
            except (UnknownResource, AccessError, APIError, RequestError) as exc:
                if one.missing != str(exc):
                    one.missing = str(exc)
                    logger.warning("The controller %s waits to be started: %s", one.built.name, exc)
                await self._hear_of_definitions()
                if await _happens_within(pauses.popleft() if pauses else PATIENCE, news):
                    # Discovery follows the definition with some delay.
                    pauses = deque(RESCANS[1:])
            else:
                one.missing = ""
                logger.debug("The controller %s is started.", one.built.name)
                return

    async def _hear_of_definitions(self) -> None:
        """Begin to, if that is allowed; else what is missing is asked for from time to time."""
        if self._definitions is not None or not self.cluster.rescan:
            return
        if await self._rights.have_all(("list", "watch"), CRDS) and self._definitions is None:
            self._definitions = self.cluster.factory.informer(CRDS)
            self._tasks.spawn(self._follow(self._definitions), name="resource definitions")

    async def _follow(self, definitions: Informer) -> None:
        async for _ in definitions.subscribe(name="declared controllers"):
            news, self._news = self._news, asyncio.Event()
            news.set()

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """Those that have been started."""
        return tuple(one.built.controller for one in self._starts if not one.missing)

    def conditions(self) -> dict[str, Condition]:
        """How each of them is doing. One that waits for what is not installed is as ready as it can be: another pod would wait as well."""
        return {
            f"controller {one.built.name}": Condition(ok=True, text=f"waits: {one.missing}" if one.missing else "runs")
            for one in self._starts
        }

    def lacking(self) -> tuple[tuple[str, str], ...]:
        """Those that wait, as what is not served."""
        return tuple((f"controller {one.built.name}", "waiting") for one in self._starts if one.missing)

    async def stop(self, grace: float) -> None:
        """Stop them all at once, within about `grace` seconds."""
        if self._namespaces is not None:
            await self._namespaces.stop()
        await self._tasks.stop(0.0)
        if self._definitions is not None:
            await self.cluster.factory.release(self._definitions)
        running = [one for one in self._starts if not one.missing]
        self._starts = []
        await asyncio.gather(*(one.built.stop(grace) for one in running))


async def _happens_within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
