"""What one program shows of itself: metrics, health and explanations, at one address or several."""

import logging
import platform
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

from ..._version import VERSION
from ...client.metrics import FAMILIES as CLIENT_FAMILIES
from ...client.rest import Client
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ...informers.metrics import FAMILIES as INFORMER_FAMILIES
from ...informers.reflector_state import Phase
from ...runtime.log_limits import FAMILIES as LOG_FAMILIES
from ...runtime.log_limits import shares
from ...runtime.metrics import MetricFamily, Metrics, Sample
from ...runtime.watchdog import FAMILIES as WATCHDOG_FAMILIES
from ...runtime.watchdog import LoopWatchdog
from ...workqueue.metrics import FAMILIES as QUEUE_FAMILIES
from ..kernel.metrics import FAMILIES as CONTROLLER_FAMILIES
from ..leader.election import FAMILIES as ELECTION_FAMILIES
from ..leader.leadership import Leadership
from .addresses import Address, Site
from .pages import CheckResult, Explain, Pages
from .server import AddressError, HTTPServer, Page

_logger = logging.getLogger("ctl.controller")

BUILD = MetricFamily("ctl_build_info", "Always 1; the labels say what runs.", "gauge", ("version", "python"))
READY = MetricFamily("ctl_ready", "1 when the start-up is finished.", "gauge")

STALE = 90.0
"""After how many seconds of silence a stream that once worked makes a program not ready."""


class Diagnostics:
    """The metrics and pages of one program, and the watchdog of its loop; a component, to be started first and stopped last.

    `progress` names what the start-up waits for; empty: nothing. A program is ready when it is, each informer has its first list
    or cannot have it, and no stream is silent for more than `stale_limit` seconds. Once the start-up is finished it stays so.
    """

    name = "diagnostics"

    def __init__(
        self,
        watchdog: LoopWatchdog,
        progress: Callable[[], str],
        *,
        debug_pages: Callable[[], bool | None],
        stale_limit: Callable[[], float] = lambda: STALE,
    ) -> None:
        self.metrics = Metrics()
        self.pages = Pages(self.metrics, debug=debug_pages)
        """More checks, sources and explanations can be added at any time."""
        self._watchdog = watchdog
        self._progress = progress
        self._stale_limit = stale_limit
        self._factory: SharedInformerFactory | None = None
        self._complete = False
        for collector in (GCCollector, PlatformCollector, ProcessCollector):
            collector(registry=self.metrics.registry)
        self.metrics.add_source(self._program, (BUILD, READY))
        self.metrics.add_source(watchdog.samples, WATCHDOG_FAMILIES)
        self.metrics.add_source(shares.samples, LOG_FAMILIES)
        self.pages.ready["startup"] = self._startup
        self.pages.ready["loop"] = lambda: CheckResult(ok=True, text=f"lag {watchdog.lag:.3f} s")

    async def start(self) -> None:
        """Watch the loop."""
        self._watchdog.start()

    async def stop(self, grace: float) -> None:
        """Watch it no more."""
        self._watchdog.stop()

    def server(self, site: Site, liveness: Page | None = None) -> "PageServer":
        """The component that serves the pages at one address."""
        return PageServer(site, self.pages, liveness)

    def show_cluster(self, client: Client, factory: SharedInformerFactory, leadership: Leadership | None) -> None:
        """Show the client, the informers and the leadership (None: there is no election)."""
        self._factory = factory
        self.metrics.add_source(client.metrics.samples, CLIENT_FAMILIES)
        self.metrics.add_source(factory.samples, INFORMER_FAMILIES)
        self.pages.several.append(lambda: _of_informers(factory, self._stale_limit()))
        self.pages.ready["leadership"] = lambda: _of_leadership(leadership)
        if leadership is not None:
            self.metrics.add_source(leadership.samples, ELECTION_FAMILIES)

    def show_controller(self, name: str, samples: Callable[[], Iterable[Sample]], explain: Explain) -> None:
        """Show a controller."""
        self.metrics.add_source(samples, (*CONTROLLER_FAMILIES, *QUEUE_FAMILIES))
        self.pages.explain[name] = explain

    def _program(self) -> Iterator[Sample]:
        yield Sample(BUILD, (VERSION, platform.python_version()), 1)
        yield Sample(READY, (), int(self._startup().ok))

    def _startup(self) -> CheckResult:
        if not self._complete:
            text = self._progress()
            if not text and self._factory is not None and (left := _without_lists(self._factory)):
                text = f"waiting for the first lists of: {', '.join(left)}"
            if text:
                return CheckResult(ok=False, text=text)
            self._complete = True
        return CheckResult(ok=True)


class PageServer:
    """The pages of a program at one address, as a component. `liveness` answers at the site's path for liveness probes.

    A default port that is in use is a warning, and nothing is served there.
    """

    def __init__(self, site: Site, pages: Pages, liveness: Page | None = None) -> None:
        self._site = site
        self._server = HTTPServer(site.address.host, site.address.port)
        if site.path is not None and liveness is not None:
            self._server.add(site.path, liveness)
        if site.pages:
            pages.serve(self._server, without=() if site.path is None else (site.path,))

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return self._server.name

    async def start(self) -> None:
        """Listen. Raises AddressTaken when a port that was asked for is in use, and AddressError for other troubles with the address."""
        try:
            await self._server.start()
        except AddressError as error:
            if self._site.address.explicit:
                raise
            _logger.warning(
                "Metrics and health are not served: %s The address is set by http=, or --http, as [HOST:]PORT; 'off' serves "
                "nothing.",
                error,
            )
            return
        _logger.info("%s at http://%s.", self._site, Address(self._site.address.host, self._server.port))

    async def stop(self, grace: float) -> None:
        """Listen no more."""
        await self._server.stop(grace)


def _without_lists(factory: SharedInformerFactory) -> list[str]:
    """The informers whose first lists are still to come. One that is parked waits for people and is not waited for."""
    return [
        _shown(informer)
        for informer in factory.informers
        if not informer.has_synced and informer.state.phase is not Phase.PARKED
    ]


def _of_informers(factory: SharedInformerFactory, limit: float) -> dict[str, CheckResult]:
    """A check for each informer; one that is silent for longer than the limit is not ok."""
    found: dict[str, CheckResult] = {}
    for informer in factory.informers:
        state = informer.state
        stale = state.is_stale(limit)
        text = f"{state}, {len(informer.store)} objects" + (f"; silent for more than {limit:g} s" if stale else "")
        found[f"informer {_shown(informer)}"] = CheckResult(ok=not stale, text=text)
    return found


def _of_leadership(leadership: Leadership | None) -> CheckResult:
    """A standby is as ready as a leader: it could act at once."""
    if leadership is None:
        return CheckResult(ok=True, text="no election")
    if leadership.alone is not None:
        return CheckResult(
            ok=True, text=f"acting without an election, as every replica does, until it is allowed: {leadership.alone}"
        )
    if leadership.is_open:
        return CheckResult(ok=True, text=f"leading, for {leadership.left():.1f} s without another renewal")
    return CheckResult(ok=True, text=f"standby, the leader is {leadership.holder or 'nobody'}")


def _shown(informer: Informer) -> str:
    return f"{informer.resource!r} {informer.selection}".rstrip()
