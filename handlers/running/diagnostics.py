"""Show how an operator is doing: metrics, health and explanations on HTTP ports, from its first moment to its last."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

from ...client.config.loading import is_in_cluster
from ...client.metrics import FAMILIES as CLIENT_FAMILIES
from ...client.rest import Client
from ...controller.building.built import BuiltController
from ...controller.building.built import accuse as accuse_reconcilers
from ...controller.http.health import BUILD, READY, of_informers, of_leadership, of_program, without_lists
from ...controller.http.pages import Condition, Pages
from ...controller.http.server import AddressError, HTTPServer
from ...controller.kernel.controller import Controller
from ...controller.kernel.metrics import FAMILIES as CONTROLLER_FAMILIES
from ...controller.leader.election import FAMILIES as ELECTION_FAMILIES
from ...controller.leader.leadership import Leadership
from ...controller.peering.gate import Peering
from ...informers.exposition import FAMILIES as INFORMER_FAMILIES
from ...informers.factory import SharedInformerFactory
from ...runtime.log_limits import FAMILIES as LOG_FAMILIES
from ...runtime.log_limits import shares
from ...runtime.metrics import MetricFamily, Metrics, Sample
from ...runtime.watchdog import FAMILIES as WATCHDOG_FAMILIES
from ...runtime.watchdog import LoopWatchdog
from ...workqueue.metrics import FAMILIES as QUEUE_FAMILIES
from ..causes.causes import Activity
from ..cycle.reconciler import ObjectKey, ObjectReconciler
from ..execution import statistics
from ..execution.activities import Stage
from ..execution.attempts import accuse
from ..kopf.probing import Liveness
from .endpoints import Address, Site, parse_http, parse_liveness, plan
from .explain import EXAMPLE, Explainer

logger = logging.getLogger(__name__)

DAEMONS = MetricFamily("ctl_daemons", "Daemons that run, or will after their delay.", "gauge")
TIMERS = MetricFamily("ctl_timers", "Timers, in a call or between two.", "gauge")
COLLAPSED = MetricFamily(
    "ctl_raw_events_collapsed_total",
    "Raw events that no handler saw, because a later one of the same object came before too many were shown.",
    "counter",
)
PAUSED = MetricFamily("ctl_peering_paused", "1 while this operator does nothing because of a peer.", "gauge")
UNSERVED = MetricFamily(
    "ctl_unserved_resources",
    "1 for each resource that handlers or a controller are declared for and that is not served to them.",
    "gauge",
    ("resource", "reason"),
)
BLOCKERS = MetricFamily("ctl_peering_blockers", "Peers because of which this operator does nothing.", "gauge")


@dataclass(frozen=True, slots=True)
class Engine:
    """The parts of an operator that there are once its startup handlers have succeeded."""

    client: Client
    factory: SharedInformerFactory
    controller: Controller[ObjectKey]
    reconciler: ObjectReconciler
    leadership: Leadership | None = None
    """None: there is no election."""
    peering: Peering | None = None
    """None: no peers are known."""


class Diagnostics:
    """The pages and metrics of one operator; a context in which it lives as a whole.

    An address that was asked for is served from the start, so that a slow start-up can be watched; there, and at the liveness
    address, a port that is taken is an error (AddressTaken; AddressError for other troubles). The default address is taken after the startup handlers: the operator's own code
    comes first, and if it is taken a warning says so. Raises ValueError for addresses that are none.
    """

    def __init__(self, stage: Stage, *, http: str | int | None = None, liveness: str | None = None) -> None:
        self.metrics = Metrics()
        self.pages = Pages(self.metrics, debug=lambda: stage.settings.diagnostics.debug_pages)
        """More checks and sources can be added at any time."""
        self.statistics = statistics.Statistics()
        self._stage = stage
        self._watchdog = LoopWatchdog(
            lambda: stage.settings.diagnostics.loop_block_limit,
            lambda frames: accuse(frames) or accuse_reconcilers(frames),
        )
        self._liveness = Liveness(stage)
        self._sites = plan(parse_http(http, in_cluster=is_in_cluster()), parse_liveness(liveness))
        self._servers: list[HTTPServer] = []
        self._inside = ExitStack()
        self._engine: Engine | None = None
        self._missing = "the startup handlers have not succeeded yet"
        self._complete = False

    # Life.

    async def __aenter__(self) -> Self:
        self._inside.enter_context(statistics.counting(self.statistics))
        for collector in (GCCollector, PlatformCollector, ProcessCollector):
            collector(registry=self.metrics.registry)
        self.metrics.add_source(lambda: of_program(self._startup()), (BUILD, READY))
        self.metrics.add_source(self.statistics.samples, statistics.FAMILIES)
        self.metrics.add_source(self._watchdog.samples, WATCHDOG_FAMILIES)
        self.metrics.add_source(shares.samples, LOG_FAMILIES)
        self.pages.ready["startup"] = self._startup
        if self._stage.registry.activities(Activity.PROBE):
            self.pages.live["probes"] = self._liveness.check
        self.pages.ready["loop"] = lambda: Condition(ok=True, text=f"lag {self._watchdog.lag:.3f} s")
        self._watchdog.start()
        try:
            await self._serve(early=True)
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        await self._liveness.end()
        await asyncio.gather(*(server.stop(0.0) for server in self._servers))

    def _leave(self) -> None:
        self._watchdog.stop()
        self.statistics.pool.close()
        self._inside.close()

    async def started(self) -> None:
        """The startup handlers have succeeded. Raises AddressTaken for a liveness address that is in use."""
        self._missing = "the cluster has not been looked at yet"
        shares.share = self._stage.settings.diagnostics.log_budget
        self.statistics.pool.patience = self._stage.settings.diagnostics.pool_wait_limit
        self._liveness.begin()
        await self._serve(early=False)

    def attach(self, engine: Engine) -> None:
        """Show these parts too."""
        self._engine = engine
        self.statistics.expect(self._stage.registry.specs())
        self.metrics.add_source(engine.controller.samples, (*CONTROLLER_FAMILIES, *QUEUE_FAMILIES))
        self.metrics.add_source(engine.factory.samples, INFORMER_FAMILIES)
        self.metrics.add_source(engine.client.metrics.samples, CLIENT_FAMILIES)
        self.metrics.add_source(lambda: _background(engine), (DAEMONS, TIMERS, COLLAPSED))
        self.pages.several.append(self._informers)
        self.metrics.add_source(lambda: _gates(engine), (*ELECTION_FAMILIES, PAUSED, BLOCKERS))
        self.pages.ready["leadership"] = lambda: of_leadership(engine.leadership)
        self.pages.ready["peering"] = lambda: _peering(engine.peering)
        explainer = Explainer(engine.reconciler, engine.controller)
        self.pages.explain[engine.controller.name] = explainer.explain
        self.pages.example = EXAMPLE

    def show(self, built: BuiltController) -> None:
        """Show a declared controller too."""
        self.metrics.add_source(built.samples)
        self.pages.explain[built.name] = built.explain_text

    def tell(
        self, conditions: Callable[[], Mapping[str, Condition]], lacking: Callable[[], Sequence[tuple[str, str]]]
    ) -> None:
        """Show further conditions, and what is declared for and not served, by what `lacking` gives: names with a reason each."""
        self.pages.several.append(conditions)
        self.metrics.add_source(lambda: [Sample(UNSERVED, one, 1) for one in dict.fromkeys(lacking())], (UNSERVED,))
        self.pages.ready["resources"] = lambda: _lacks(lacking())

    def complete(self) -> None:
        """The resources of the cluster are being served: ready as soon as each informer has its first list, or cannot have it."""
        self._missing = ""

    async def _serve(self, *, early: bool) -> None:
        for site in self._sites:
            if site.is_early is not early:
                continue
            server = HTTPServer(site.address.host, site.address.port)
            if site.path is not None:
                server.add(site.path, self._liveness.answer)
            if site.pages:
                self.pages.serve(server, without=() if site.path is None else (site.path,))
            await self._listen(server, site)

    async def _listen(self, server: HTTPServer, site: Site) -> None:
        try:
            await server.start()
        except AddressError as error:
            if site.address.explicit:
                raise
            logger.warning(
                "Metrics and health are not served: %s The address is set by --http [HOST:]PORT, or http= of operator(); "
                "--http off is without.",
                error,
            )
            return
        self._servers.append(server)
        logger.info("%s at http://%s.", site, Address(site.address.host, server.port))

    # What is shown.

    def _startup(self) -> Condition:
        """Whether the start-up is finished; once it is, it stays so."""
        if not self._complete and not self._missing and self._engine is not None:
            left = without_lists(self._engine.factory)
            self._complete = not left
            if left:
                return Condition(ok=False, text=f"waiting for the first lists of: {', '.join(left)}")
        return Condition(ok=self._complete, text=self._missing)

    def _informers(self) -> Mapping[str, Condition]:
        assert self._engine is not None
        return of_informers(self._engine.factory, self._stage.settings.diagnostics.stale_limit)


def _gates(engine: Engine) -> Iterator[Sample]:
    if engine.leadership is not None:
        yield from engine.leadership.samples()
    if engine.peering is not None:
        yield Sample(PAUSED, (), int(not engine.peering.is_open))
        yield Sample(BLOCKERS, (), len(engine.peering.blockers))


def _lacks(lacking: Sequence[tuple[str, str]]) -> Condition:
    """Another pod would not have it either."""
    missing = [f"{name} ({reason})" for name, reason in lacking]
    return Condition(ok=True, text=f"not served: {', '.join(missing)}" if missing else "all are served")


def _peering(peering: Peering | None) -> Condition:
    if peering is None:
        return Condition(ok=True, text="no peers")
    if peering.is_open:
        return Condition(ok=True, text="no peer is in the way")
    return Condition(ok=True, text=f"paused for {', '.join(peering.blockers) or 'what is not known yet'}")


def _background(engine: Engine) -> Iterator[Sample]:
    background = engine.reconciler.background
    yield Sample(DAEMONS, (), background.daemons)
    yield Sample(TIMERS, (), background.timers)
    yield Sample(COLLAPSED, (), engine.reconciler.collapsed)
