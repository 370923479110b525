"""Controllers and components are declared beside handlers, and run by the same operator: controllers on its client and informers, through its gate."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ...client.errors import AccessError, APIError, RequestError
from ...controller.api.client import UnknownResource
from ...controller.building.builder import ControllerSpec
from ...controller.building.built import BuiltController
from ...controller.http.pages import CheckResult
from ...controller.kernel.controller import Controller
from ...controller.program.manager import Component
from ...runtime.tasks import Tasks
from ..declaration.namespaces import exact_namespaces
from ..declaration.registry import OperatorRegistry, get_default_registry
from .observation import Cluster, Observation

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=ControllerSpec | Component)

PATIENCE = 30.0
"""How often to ask for a resource which is missing, in seconds, although the cluster was not looked at anew."""

_declared: WeakKeyDictionary[OperatorRegistry, list[ControllerSpec | Component]] = WeakKeyDictionary()


def declare(part: T, *, registry: OperatorRegistry | None = None) -> T:
    """Have the operator run a controller, or a component of your own, beside its handlers, or alone; gives it back, so it can be a decorator.

    @ctl.declare
    @ctl.controller("kopfexamples.kopf.dev").owns("configmaps").reconciles
    async def reconcile(key, context): ...

    A component has a `name`, `start()` and `stop(grace)`: it is started last, and stopped first, on every replica. Without a registry it
    is the default one, as for handlers. Raises TypeError for what is neither.
    """
    if not isinstance(part, ControllerSpec) and not all(hasattr(part, method) for method in ("name", "start", "stop")):
        raise TypeError(
            "Only a complete controller can be declared, as ctl.controller(...).reconciles(function) gives, or a component with a "
            f"name, start() and stop(grace); got {part!r}."
        )
    chosen = get_default_registry() if registry is None else registry
    _declared.setdefault(chosen, []).append(part)
    return part


def declared(registry: OperatorRegistry) -> tuple[ControllerSpec, ...]:
    """The controllers of a registry, in the order of their declaration."""
    return tuple(part for part in _declared.get(registry, ()) if isinstance(part, ControllerSpec))


def components(registry: OperatorRegistry) -> tuple[Component, ...]:
    """The components of a registry, in the order of their declaration."""
    return tuple(part for part in _declared.get(registry, ()) if not isinstance(part, ControllerSpec))


def is_bare(registry: OperatorRegistry) -> bool:
    """Whether nothing is declared in a registry: no handler of any kind, no controller, and no component."""
    return not registry.specs() and not _declared.get(registry)


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
    observation: Observation
    """Tells when the cluster was looked at anew."""
    _starts: list[_Start] = field(default_factory=list)
    _tasks: Tasks = field(default_factory=lambda: Tasks("declared controllers"))
    name: str = "declared controllers"

    def __post_init__(self) -> None:
        cluster = self.cluster
        namespaces = None if cluster.patterns is None else exact_namespaces(cluster.patterns)
        for spec in self.specs:
            built = spec.build(cluster.client, cluster.factory, gate=cluster.gate, namespaces=namespaces)
            self._starts.append(_Start(built, follows=spec.plan.options.namespaces is None))

    @property
    def built(self) -> tuple[BuiltController, ...]:
        """All of them."""
        return tuple(one.built for one in self._starts)

    async def start(self) -> None:
        """Begin to start them, each by itself: one whose resources are not installed yet waits for them and holds up nobody."""
        self.observation.moved = self._move
        await self._move()
        for one in self._starts:
            self._tasks.spawn(self._start(one), name=one.built.name)

    async def _move(self) -> None:
        """Look in the namespaces that there are now."""
        namespaces = self.observation.namespaces
        for one in self._starts:
            if one.follows and namespaces is not None:
                await one.built.set_namespaces(namespaces)

    async def _start(self, one: _Start) -> None:
        while True:
            scanned = self.observation.scanned
            try:
                await one.built.start()
            except (UnknownResource, AccessError, APIError, RequestError) as exc:
                if one.missing != str(exc):
                    one.missing = str(exc)
                    logger.warning("The controller %s waits to be started: %s", one.built.name, exc)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await scanned.wait()
            else:
                one.missing = ""
                logger.debug("The controller %s is started.", one.built.name)
                return

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """Those that have been started."""
        return tuple(one.built.controller for one in self._starts if not one.missing)

    def conditions(self) -> dict[str, CheckResult]:
        """How each of them is doing. One that waits for what is not installed is as ready as it can be: another pod would wait as well."""
        return {
            f"controller {one.built.name}": CheckResult(
                ok=True, text=f"waits: {one.missing}" if one.missing else "runs"
            )
            for one in self._starts
        }

    def lacking(self) -> tuple[tuple[str, str], ...]:
        """Those that wait, as what is not served."""
        return tuple((f"controller {one.built.name}", "waiting") for one in self._starts if one.missing)

    async def stop(self, grace: float) -> None:
        """Stop them all at once, within about `grace` seconds."""
        self.observation.moved = None
        await self._tasks.stop(0.0)
        running = [one for one in self._starts if not one.missing]
        self._starts = []
        await asyncio.gather(*(one.built.stop(grace) for one in running))
