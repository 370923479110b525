"""Show how a program of reconcilers is doing: metrics, health and explanations on one HTTP port."""

import logging
from collections.abc import Iterator
from itertools import chain

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

from ...client.metrics import FAMILIES as CLIENT_FAMILIES
from ...client.rest import Client
from ...informers.exposition import FAMILIES as INFORMER_FAMILIES
from ...informers.factory import SharedInformerFactory
from ...runtime.log_limits import FAMILIES as LOG_FAMILIES
from ...runtime.log_limits import shares
from ...runtime.metrics import Metrics, Sample
from ...runtime.watchdog import FAMILIES as WATCHDOG_FAMILIES
from ...runtime.watchdog import LoopWatchdog
from ...workqueue.metrics import FAMILIES as QUEUE_FAMILIES
from ..building.built import BuiltController
from ..http.addresses import Address
from ..http.health import BUILD, READY, of_informers, of_leadership, of_program, without_lists
from ..http.pages import Condition, Pages
from ..http.server import AddressError, HTTPServer
from ..kernel.metrics import FAMILIES as CONTROLLER_FAMILIES
from ..leader.election import FAMILIES as ELECTION_FAMILIES
from ..leader.leadership import Leadership

_logger = logging.getLogger("ctl.controller")


class Showing:
    """The pages of one program: /metrics, /livez, /readyz, /debug/explain, as an operator of handlers has them.

    Ready is a program once its controllers have been started and each informer has its first list or cannot have it, as long as no stream
    is stale.
    """

    def __init__(
        self,
        address: Address,
        client: Client,
        factory: SharedInformerFactory,
        watchdog: LoopWatchdog,
        leadership: Leadership | None = None,
    ) -> None:
        self._address = address
        self._server = HTTPServer(address.host, address.port)
        self._factory = factory
        self._controllers: list[BuiltController] = []
        self._complete = False
        metrics = Metrics()
        for collector in (GCCollector, PlatformCollector, ProcessCollector):
            collector(registry=metrics.registry)
        metrics.add_source(lambda: of_program(self._startup()), (BUILD, READY))
        metrics.add_source(watchdog.samples, WATCHDOG_FAMILIES)
        metrics.add_source(shares.samples, LOG_FAMILIES)
        metrics.add_source(client.metrics.samples, CLIENT_FAMILIES)
        metrics.add_source(factory.samples, INFORMER_FAMILIES)
        metrics.add_source(self._samples, (*CONTROLLER_FAMILIES, *QUEUE_FAMILIES))
        if leadership is not None:
            metrics.add_source(leadership.samples, ELECTION_FAMILIES)
        self.debug_pages: bool | None = None
        """Who may see the pages below `/debug`; see `Serving`."""
        self._pages = Pages(metrics, debug=lambda: self.debug_pages)
        self._pages.ready["startup"] = self._startup
        self._pages.ready["loop"] = lambda: Condition(ok=True, text=f"lag {watchdog.lag:.3f} s")
        self._pages.ready["leadership"] = lambda: of_leadership(leadership)
        self._pages.several.append(lambda: of_informers(factory))
        self._pages.serve(self._server)

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return self._server.name

    async def start(self) -> None:
        """Listen. Raises AddressTaken when a port that was asked for is in use, and AddressError for other troubles with the address.

        Of the default port that is a warning, and nothing is served.
        """
        try:
            await self._server.start()
        except AddressError as error:
            if self._address.explicit:
                raise
            _logger.warning(
                "Metrics and health are not served: %s The address is set by http='[HOST:]PORT'; 'off' is without.",
                error,
            )
            return
        _logger.info("Metrics, health and explanations at http://%s.", Address(self._address.host, self._server.port))

    async def stop(self, grace: float) -> None:
        """Serve no more."""
        await self._server.stop(grace)

    def show(self, built: BuiltController) -> None:
        """Show a controller too."""
        self._controllers.append(built)
        self._pages.explain[built.name] = built.explain_text

    def _samples(self) -> Iterator[Sample]:
        return chain.from_iterable(built.samples() for built in self._controllers)

    def _startup(self) -> Condition:
        """Whether the start-up is finished; once it is, it stays so."""
        if not self._complete:
            left = [built.name for built in self._controllers if not built.is_started]
            if left:
                return Condition(ok=False, text=f"not started yet: {', '.join(left)}")
            left = without_lists(self._factory)
            if left:
                return Condition(ok=False, text=f"waiting for the first lists of: {', '.join(left)}")
            self._complete = True
        return Condition(ok=True)
