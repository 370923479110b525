"""Watch the resources that handlers are declared for, in the namespaces that are served, as both come and go."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from ...client.discovery import Discovery
from ...client.errors import AccessError, APIError, RequestError
from ...client.resources import Key, Resource
from ...client.rest import Client
from ...controller.api.access_review import Rights
from ...controller.kernel.controller import Controller
from ...controller.kernel.source import Rules, Source
from ...controller.peering.gate import Peering
from ...controller.peering.rules import GROUPS
from ...controller.program.terms import ProgramGate
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ...runtime.tasks import Tasks
from ..cycle.reconciler import ObjectKey, ObjectReconciler
from ..declaration.filters import narrow_labels
from ..declaration.namespaces import NamespacePattern
from ..declaration.registry import OperatorRegistry
from ..declaration.survey import Survey, survey
from ..settings import WatchingSettings
from .namespaces import Namespaces

logger = logging.getLogger(__name__)

CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
REPORT = 30.0
"""How often the log says why handlers do not begin, in seconds."""
RESCANS = (0.0, 0.3, 1.0, 3.0, 10.0)
"""When to look again after a CRD has changed, in seconds: discovery follows the definition with some delay."""
STOP_GRACE = 5.0
"""How long a look at the cluster may take to end when it is cancelled, in seconds."""
UNTOLD = (5.0, 60.0)
"""How long to wait before looking again where CRDs may not be watched, in seconds: at first, and doubling up to the second. The second is
also for groups that could not be asked."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the controllers of one operator share."""

    client: Client
    factory: SharedInformerFactory
    gate: ProgramGate
    rights: Rights
    patterns: frozenset[NamespacePattern] | None = None
    """The namespaces that are served, beside cluster-scoped objects; None: all."""
    rescan: bool = True
    """Whether to look for namespaces and definitions that come and go (`settings.scanning.disabled`)."""


@dataclass(slots=True)
class _Served:
    informer: Informer
    watched: Source[ObjectKey]


@dataclass(slots=True)
class Observation:
    """Keeps an informer for each resource and namespace that handlers are for, and connects it with the controller."""

    registry: OperatorRegistry
    cluster: Cluster
    controller: Controller[ObjectKey]
    reconciler: ObjectReconciler
    watching: WatchingSettings
    peering: Peering | None = None
    """Is told where peering objects can be; None: there are no peers."""
    tell: Callable[[Survey], None] | None = None
    """Called with what the first look at the cluster has found."""
    moved: Callable[[], Awaitable[None]] | None = None
    """Called when other namespaces are served."""
    _served: dict[tuple[Resource, str | None], _Served] = field(default_factory=dict)
    _namespaces: Namespaces | None = None
    _found: frozenset[Resource] = frozenset()
    _lacking: tuple[tuple[str, str], ...] = ()
    _peerings: frozenset[Resource] = frozenset()
    _applying: asyncio.Lock = field(default_factory=asyncio.Lock)
    _warned: frozenset[str] = frozenset()
    _crds: Informer | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: Tasks = field(default_factory=lambda: Tasks("observation"))
    discovery: Discovery = field(init=False)
    scanned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, at each look at the cluster: what was missing may be there."""

    def __post_init__(self) -> None:
        self.discovery = Discovery(self.cluster.client)

    async def start(self) -> None:
        """Look at the cluster once and serve what is there; then follow its resource definitions and namespaces until stopped.

        Raises the client's errors when the server cannot be asked what it serves.
        """
        cluster = self.cluster
        if cluster.patterns is not None:
            self._namespaces = Namespaces(cluster.patterns, cluster.factory, cluster.rights)
            await self._namespaces.start(self._follow_namespaces, scan=cluster.rescan)
        await self.scan()
        self.reconciler.barrier.complete()
        if not self.reconciler.barrier.is_open:
            self._tasks.spawn(self._report_barrier(), name="what is to be indexed")
        if cluster.rescan:
            await self._follow_definitions()

    async def stop(self) -> None:
        """Serve nothing any more. What is in work goes on; nothing new comes. Handlers that wait for indices are not called."""
        self.reconciler.barrier.abandon()
        # A scan would begin to serve again what is dismissed here.
        await self._tasks.stop(STOP_GRACE)
        if self._crds is not None:
            await self.cluster.factory.release(self._crds)
        if self._namespaces is not None:
            await self._namespaces.stop()
        for place in list(self._served):
            await self._dismiss(place)

    def lacking(self) -> tuple[tuple[str, str], ...]:
        """What handlers are declared for and do not get, with the reason, by the last look at the cluster (see `Survey.lacks`)."""
        return self._lacking

    async def scan(self) -> None:
        """Ask the server which resources it has, and start and stop watches accordingly."""
        resources = await self.discovery.resources(self._groups())
        scanned, self.scanned = self.scanned, asyncio.Event()
        scanned.set()
        found = survey(self.registry, resources)
        self.registry.pass_over(found.passed_over)
        if self.tell is not None:
            tell, self.tell = self.tell, None
            tell(found)
        warnings = found.warnings()
        for text in warnings:
            if text not in self._warned:
                logger.warning("%s", text)
        self._warned = frozenset(warnings)
        # Resources of a group that could not be asked are kept, and so are those with a definition: a server that has just
        # started lists its own groups first.
        missing = {place[0] for place in self._served} - set(resources)
        unknown = {resource for resource in missing if self._is_unknown(resource) or self._is_defined(resource)}
        self._found = found.watched | unknown
        self._lacking = tuple(found.lacks(unknown))
        unknown = {resource for resource in self._peerings if self._is_unknown(resource)}
        self._peerings = frozenset(resource for resource in resources if resource.group in GROUPS) | unknown
        await self._apply()

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces that are served now; None: all."""
        return None if self._namespaces is None else self._namespaces.names

    async def _follow_namespaces(self) -> None:
        await self._apply()
        if self.moved is not None:
            await self.moved()

    async def _apply(self) -> None:
        """Start and stop watches for the resources and namespaces that there are now."""
        async with self._applying:
            if self.peering is not None:
                # First, so that nothing is handled before the peers are known.
                await self.peering.serve(self._peerings, self.namespaces)
            wanted = {(resource, place) for resource in self._found for place in self._places(resource)}
            for place in [place for place in self._served if place not in wanted]:
                informer = self._served[place].informer
                await self._dismiss(place)
                self.reconciler.unindex(informer)
            for resource, namespace in sorted(wanted, key=repr):
                if (resource, namespace) not in self._served:
                    self._serve(resource, namespace)

    def _places(self, resource: Resource) -> Iterable[str | None]:
        """The namespaces to watch a resource in; None is the cluster as a whole."""
        return self.namespaces if resource.namespaced and self.namespaces is not None else (None,)

    def _groups(self) -> set[str] | None:
        groups = {selector.group for selector in self.registry.selectors()}
        if self.peering is not None:
            groups.update(GROUPS)
        return None if None in groups else {group for group in groups if group is not None}

    def _is_unknown(self, resource: Resource) -> bool:
        failures = self.discovery.failures
        return resource.group in failures or resource.api_version in failures

    def _is_defined(self, resource: Resource) -> bool:
        """Whether there is a definition by which a resource is served."""
        name = f"{resource.plural}.{resource.group}"
        found = None if self._crds is None else self._crds.store.get(Key(None, name))
        versions = [] if found is None else found.body().get("spec", {}).get("versions") or []
        return any(version.get("name") == resource.version and version.get("served") for version in versions)

    def _serve(self, resource: Resource, namespace: str | None) -> None:
        logger.debug("Starting the watch-stream for %r %s.", resource, _where(namespace))
        watching, interest = self.watching, self.registry.of(resource).interest
        labels = set(watching.label_selectors.collect(resource))
        if interest.is_only_indexed and (
            narrow := narrow_labels(spec.label_criteria for spec in self.registry.of(resource).indexing.all)
        ):
            labels.add(narrow)
        informer = self.cluster.factory.informer(
            resource,
            namespace,
            ",".join(sorted(labels)),
            ",".join(sorted(set(watching.field_selectors.collect(resource)))),
            shard_selector=next(iter(watching.shard_selectors.collect(resource)), None),
        )
        trigger = self.reconciler.serve(informer, lambda: watched.is_open)
        # For handlers of raw events each listed object is an event, at every list (Kopf behaviour).
        watched = self.controller.watch(informer, Rules(trigger, relisted=interest.watching or interest.indexing))
        self._served[resource, namespace] = _Served(informer, watched)
        barrier = self.reconciler.barrier
        if interest.indexing and not barrier.is_open:
            barrier.expect((resource, namespace))
            watched.tasks.spawn(self._wait_for_list(watched, (resource, namespace)), name="first list")

    async def _dismiss(self, place: tuple[Resource, str | None]) -> None:
        logger.debug("Stopping the watch-stream for %r %s.", place[0], _where(place[1]))
        served = self._served.pop(place)
        self.reconciler.dismiss(served.informer)
        self.reconciler.barrier.told(place)
        await served.watched.stop()
        await self.cluster.factory.release(served.informer)

    # What is to be indexed before handlers run.

    async def _wait_for_list(self, watched: Source[ObjectKey], place: tuple[Resource, str | None]) -> None:
        await watched.synced.wait()
        self.reconciler.barrier.told(place)

    async def _report_barrier(self) -> None:
        barrier = self.reconciler.barrier
        while True:
            await asyncio.sleep(REPORT)
            if barrier.is_open:
                return
            lists = [f"{served.informer!r}" for place, served in self._served.items() if place in barrier.awaited]
            logger.warning(
                "Handlers wait until everything is indexed; missing are the first lists of: %s; and objects: %d.",
                ", ".join(lists) or "none",
                barrier.unindexed,
            )

    # The definitions that come and go.

    async def _follow_definitions(self) -> None:
        if not await self.cluster.rights.have_all(("list", "watch"), CRDS):
            logger.info(
                "The right to list and watch %r is missing: what is defined from now on is noticed within %d seconds.",
                CRDS,
                UNTOLD[1],
            )
            self._tasks.spawn(self._rescan_untold(), name="discovery")
            return
        self._crds = self.cluster.factory.informer(CRDS)
        self._tasks.spawn(self._note_definitions(self._crds), name="resource definitions")
        self._tasks.spawn(self._rescan_on_change(), name="discovery")

    async def _note_definitions(self, crds: Informer) -> None:
        subscription = crds.subscribe(name="discovery")
        async for _ in subscription:
            self._changed.set()

    async def _rescan_on_change(self) -> None:
        while True:
            # No definition says when a group that could not be asked, such as an aggregated API, is back.
            if not await self._changes_within(UNTOLD[1] if self.discovery.failures else None):
                await self._scan_again()
                continue
            # The whole series runs after each change: an answer of discovery does not say whether it includes the change.
            left = deque(RESCANS)
            while left:
                if self._changed.is_set():
                    self._changed.clear()
                    left = deque(RESCANS)
                if not await self._changes_within(left[0]) and (await self._scan_again() or len(left) > 1):
                    # A scan that failed is repeated until it succeeds.
                    left.popleft()

    async def _rescan_untold(self) -> None:
        delay, longest = UNTOLD
        while True:
            await asyncio.sleep(delay)
            before = self._found
            await self._scan_again()
            delay = UNTOLD[0] if self._found != before else min(2 * delay, longest)

    async def _changes_within(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        except TimeoutError:
            return False

    async def _scan_again(self) -> bool:
        """Scan, and return whether the server answered. No error ends the rescans."""
        try:
            await self.scan()
        except Exception as exc:
            known = isinstance(exc, (APIError, RequestError, AccessError))
            logger.warning(
                "What the server serves could not be asked; it will be asked again: %s",
                exc if known else repr(exc),
                exc_info=None if known else exc,
            )
            return False
        return True


def _where(namespace: str | None) -> str:
    return "cluster-wide" if namespace is None else f"in {namespace!r}"
