"""Serve the resources that handlers are declared for, as the cluster begins and ceases to have them."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..client.discovery import Discovery
from ..client.errors import APIError, RequestError
from ..client.resources import Resource
from ..controller.controller import Controller, Watched
from ..informers.factory import Factory
from ..informers.informer import Informer
from ..informers.store import Reader
from ..informers.subscription import Subscription
from ..runtime.tasks import Tasks
from .declaration.registry import OperatorRegistry
from .declaration.survey import survey
from .reconciler import ObjectKey, ObjectReconciler
from .settings import WatchingSettings

logger = logging.getLogger(__name__)

CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
RESCANS = (0.0, 0.3, 1.0, 3.0, 10.0)
"""When to look again after a CRD has changed, in seconds: discovery follows the definition with some delay."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where the operator works: everywhere (`namespaces` is None), or in some namespaces; cluster-scoped objects always."""

    namespaces: frozenset[str] | None = None

    def places(self, resource: Resource) -> Iterable[str | None]:
        """The namespaces to watch a resource in; None is the cluster as a whole."""
        return (None,) if self.namespaces is None or not resource.namespaced else sorted(self.namespaces)


@dataclass(slots=True)
class _Served:
    informer: Informer
    watched: Watched


@dataclass(frozen=True, slots=True)
class _Relisted:
    """An informer as raw event handlers want it: each listed object is an event, at every list (Kopf behaviour)."""

    informer: Informer

    @property
    def resource(self) -> Resource:
        return self.informer.resource

    @property
    def store(self) -> Reader:
        return self.informer.store

    def subscribe(self, *, name: str) -> Subscription:
        return self.informer.subscribe(name, relisted=True)


@dataclass(slots=True)
class Observation:
    """Keeps an informer for each resource and place that handlers are for, and connects it with the controller."""

    registry: OperatorRegistry
    scope: Scope
    discovery: Discovery
    factory: Factory
    controller: Controller[ObjectKey]
    reconciler: ObjectReconciler
    watching: WatchingSettings
    rescan: bool = True
    _served: dict[tuple[Resource, str | None], _Served] = field(default_factory=dict)
    _warned: frozenset[str] = frozenset()
    _crds: Informer | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _following: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self, tasks: Tasks) -> None:
        """Look at the cluster once and serve what is there; then follow its resource definitions until stopped.

        Raises the client's errors when the server cannot be asked what it serves.
        """
        await self.scan()
        if self.rescan:
            self._crds = self.factory.informer(CRDS)
            self._following = [
                tasks.spawn(self._follow_definitions(self._crds), name="resource definitions"),
                tasks.spawn(self._rescan_on_change(), name="discovery"),
            ]

    async def stop(self) -> None:
        """Serve nothing any more. What is in work goes on; nothing new comes."""
        # Who looks at the cluster would begin to serve again what is dismissed here.
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        if self._crds is not None:
            await self.factory.release(self._crds)
        for place in list(self._served):
            await self._dismiss(place)

    async def scan(self) -> None:
        """Ask the server what it has, and begin and cease to serve accordingly."""
        found = survey(self.registry, await self.discovery.resources(self._groups()))
        warnings = found.warnings()
        for text in warnings:
            if text not in self._warned:
                logger.warning("%s", text)
        self._warned = frozenset(warnings)
        wanted = {(resource, place) for resource in found.watched for place in self.scope.places(resource)}
        for place in [place for place in self._served if place not in wanted and not self._is_unknown(place[0])]:
            await self._dismiss(place)
        for resource, namespace in sorted(wanted, key=repr):
            if (resource, namespace) not in self._served:
                self._serve(resource, namespace)

    def _groups(self) -> set[str] | None:
        groups = {selector.group for selector in self.registry.selectors()}
        return None if None in groups else {group for group in groups if group is not None}

    def _is_unknown(self, resource: Resource) -> bool:
        """A group that could not be asked is not a group that is gone."""
        failures = self.discovery.failures
        return resource.group in failures or resource.api_version in failures

    def _serve(self, resource: Resource, namespace: str | None) -> None:
        logger.debug("Starting the watch-stream for %r %s.", resource, _where(namespace))
        watching = self.watching
        informer = self.factory.informer(
            resource,
            namespace,
            ",".join(sorted(set(watching.label_selectors.collect(resource)))),
            ",".join(sorted(set(watching.field_selectors.collect(resource)))),
            shard_selector=next(iter(watching.shard_selectors.collect(resource)), None),
        )
        trigger = self.reconciler.serve(informer)
        interest = self.registry.handles(resource)
        source = _Relisted(informer) if interest.watching or interest.indexing else informer
        self._served[resource, namespace] = _Served(informer, self.controller.watch(source, trigger))

    async def _dismiss(self, place: tuple[Resource, str | None]) -> None:
        logger.debug("Stopping the watch-stream for %r %s.", place[0], _where(place[1]))
        served = self._served.pop(place)
        self.reconciler.dismiss(served.informer)
        await served.watched.stop()
        await self.factory.release(served.informer)

    # The definitions that come and go.

    async def _follow_definitions(self, crds: Informer) -> None:
        subscription = crds.subscribe(name="discovery")
        async for _ in subscription:
            self._changed.set()

    async def _rescan_on_change(self) -> None:
        while True:
            await self._changed.wait()
            # The whole series after each change: whether discovery shows it already cannot be seen from its answer.
            left = deque(RESCANS)
            while left:
                if self._changed.is_set():
                    self._changed.clear()
                    left = deque(RESCANS)
                if not await self._changes_within(left[0]):
                    left.popleft()
                    await self._scan_again()

    async def _changes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        except TimeoutError:
            return False

    async def _scan_again(self) -> None:
        try:
            await self.scan()
        except (APIError, RequestError) as exc:
            logger.warning("What the server serves could not be asked; it will be asked again: %s", exc)


def _where(namespace: str | None) -> str:
    return "cluster-wide" if namespace is None else f"in {namespace!r}"
