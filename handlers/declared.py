"""Controllers are declared beside handlers, and run by the same operator: on its client and informers, through its gate."""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..client.errors import APIError, RequestError
from ..client.rest import Client
from ..controller.builder import Assembly
from ..controller.built import BuiltController
from ..controller.controller import Controller
from ..controller.gating.gates import Gate
from ..controller.resolving import UnknownResource
from ..informers.factory import Factory
from ..runtime.tasks import Tasks
from .declaration.namespaces import NamespacePattern, exact_namespaces
from .declaration.registry import OperatorRegistry, get_default_registry

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Assembly)

PATIENCE = 5.0
"""How long it takes to notice that a resource which was missing is installed, in seconds."""

_declared: WeakKeyDictionary[OperatorRegistry, list[Assembly]] = WeakKeyDictionary()


def declare(assembly: T, *, registry: OperatorRegistry | None = None) -> T:
    """Have the operator run a controller beside its handlers, or alone; gives the controller back, so it can be a decorator.

    @ctl.declare
    @ctl.controller("kopfexamples.kopf.dev").owns("configmaps").reconciles
    async def reconcile(key, context): ...

    Without a registry it is the default one, as for handlers. Raises TypeError for what is no complete controller.
    """
    if not isinstance(assembly, Assembly):
        raise TypeError(
            f"Only a complete controller can be declared, as ctl.controller(...).reconciles(function) gives; got {assembly!r}."
        )
    chosen = get_default_registry() if registry is None else registry
    _declared.setdefault(chosen, []).append(assembly)
    return assembly


def declared(registry: OperatorRegistry) -> tuple[Assembly, ...]:
    """The controllers of a registry, in the order of their declaration."""
    return tuple(_declared.get(registry, ()))


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the controllers of one operator share."""

    client: Client
    factory: Factory
    gate: Gate | None = None
    patterns: Collection[NamespacePattern] | None = None
    """The namespaces that are served; None: all."""


@dataclass(slots=True)
class Controllers:
    """The declared controllers of one operator, from its start to its stop."""

    assemblies: tuple[Assembly, ...]
    cluster: Cluster
    on_built: Callable[[BuiltController], None] = lambda _: None
    """Called with each controller before it is started."""
    _running: list[BuiltController] = field(default_factory=list)
    _tasks: Tasks = field(default_factory=lambda: Tasks("declared controllers"))

    def start(self) -> None:
        """Begin to start them, each by itself: one whose resources are not installed yet waits for them and holds up nobody.

        Raises ValueError when the operator serves namespaces by patterns: controllers look at all, or at namespaces with names.
        """
        patterns = self.cluster.patterns
        if patterns is None:
            namespaces = None
        else:
            namespaces = exact_namespaces(patterns)
            if len(namespaces) < len(patterns) and any(one.plan.options.namespaces is None for one in self.assemblies):
                raise ValueError(
                    f"Controllers look at namespaces by their names, and the operator serves {', '.join(map(str, patterns))}; name "
                    "them all, serve all namespaces, or say .only(namespaces=...) to the controllers."
                )
        for assembly in self.assemblies:
            built = assembly.on(
                self.cluster.client, self.cluster.factory, gate=self.cluster.gate, namespaces=namespaces
            )
            self.on_built(built)
            self._tasks.spawn(self._start(built), name=built.name)

    async def _start(self, built: BuiltController) -> None:
        told: str | None = None
        while True:
            try:
                await built.start()
            except (UnknownResource, APIError, RequestError) as exc:
                if told != str(exc):
                    told = str(exc)
                    logger.warning("The controller %s waits to be started: %s", built.name, exc)
                await asyncio.sleep(PATIENCE)
            else:
                self._running.append(built)
                logger.debug("The controller %s is started.", built.name)
                return

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """Those that have been started."""
        return tuple(built.controller for built in self._running)

    async def stop(self, grace: float) -> None:
        """Stop them all at once, within about `grace` seconds."""
        await self._tasks.stop(0.0)
        running, self._running = self._running, []
        await asyncio.gather(*(built.stop(grace) for built in running))
