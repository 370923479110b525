"""Run a program of reconcilers with one call: a client, shared informers, and the controllers, until it is told to stop."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from signal import Signals

from ...client.config.access import Access, AccessSource
from ...client.config.loading import is_in_cluster, load_access
from ...client.rest import Client
from ...client.settings import ClientSettings
from ...informers.factory import SharedInformerFactory
from ...runtime.signals import caught
from ...runtime.watchdog import LIMIT, LoopWatchdog
from ..building.builder import ControllerSpec, refuse_namesakes
from ..building.built import accuse
from ..http.addresses import parse_http
from ..leader.gates import AllOf, Gate
from ..leader.leadership import Leadership, LeadershipSettings
from .diagnostics import Showing
from .manager import Component, Manager, Stage
from .term import LastResort, Term

_logger = logging.getLogger("ctl.controller")


@dataclass(frozen=True, slots=True)
class Serving:
    """How a program of reconcilers is run.

    `access` is the way to the server; None: $KUBECONFIG, the pod's account, or ~/.kube/config. `namespaces` is where those controllers
    look that do not say themselves; None: everywhere. `gate` says when they may act. `grace` is the time for the stop, in seconds.

    `last_resort` is called, with the error, shortly before others may act when leadership was lost and a reconciler ignores its
    cancellation or blocks the event loop; by another thread if the loop is blocked, or has ended, by then. `end_process` is made for
    that. When the event loop has not turned for `loop_block_limit` seconds the log names the reconciler; None: never.

    `debug_pages` says who may see the pages below `/debug`: True for everybody who reaches the port, False for nobody, None for clients
    on this machine (in a pod: by `kubectl port-forward`).
    """

    access: Access | AccessSource | None = None
    namespaces: Collection[str] | None = None
    gate: Gate | None = None
    grace: float = 30.0
    settings: ClientSettings = field(default_factory=ClientSettings)
    last_resort: LastResort | None = None
    loop_block_limit: float | None = LIMIT
    debug_pages: bool | None = None


async def serve(
    *parts: ControllerSpec | Component,
    access: Access | AccessSource | None = None,
    stop: asyncio.Event | None = None,
    serving: Serving = Serving(),
    leadership: LeadershipSettings | None = None,
    http: str | int | None = None,
) -> None:
    """Run controllers, and other components beside them, until SIGINT or SIGTERM, the event, or a cancellation; then stop gracefully.

    With `leadership` they act only while this process holds that Lease, writes through their clients are fenced by it, and it is given
    back after the last one; other components run on every replica. A reconciler that goes on although it was cancelled when the lease
    was lost ends the whole (StillWorking). `http` is where metrics and health are served: `[HOST:]PORT`, `auto` (8080 in a cluster, nowhere
    else), or `off`, the default.

    Only in the main thread, and only where nobody else handles them, are signals caught. The informers are shared by all. Raises
    UnknownResource when something to look at is not installed, AccessError and the client's errors when the server cannot be reached at
    the start (Forbidden without the rights for the Lease), AddressTaken when a port that was asked for is in use (the default one is
    done without), ValueError for an address that is none and for two controllers of one name, and what makes a component fail.
    """
    refuse_namesakes(part.name for part in parts if isinstance(part, ControllerSpec))
    address = parse_http(http, in_cluster=is_in_cluster())
    wish = asyncio.Event() if stop is None else stop

    def told(signal: Signals) -> None:
        _logger.info("Signal %s is received; the controllers are stopping.", signal.name)
        wish.set()

    watchdog = LoopWatchdog(lambda: serving.loop_block_limit, accuse)
    with caught(told):
        source = access or serving.access or load_access()
        async with Client(source, serving.settings) as client:
            factory = SharedInformerFactory(client)
            leading = None if leadership is None else Leadership(source, leadership, serving.settings)
            showing = None if address is None else Showing(address, client, factory, watchdog, leading)
            both = None if leading is None or serving.gate is None else AllOf(leading, serving.gate)
            if showing is not None:
                showing.debug_pages = serving.debug_pages
            program = _Program(client, factory, both or leading or serving.gate, leading, showing)
            manager = program.managed(parts, serving)
            watchdog.start()
            try:
                await manager.run(wish)
            finally:
                watchdog.stop()
                if both is not None:
                    both.close()
                await factory.stop()


@dataclass(frozen=True, slots=True)
class _Program:
    """What the controllers of one program share."""

    client: Client
    factory: SharedInformerFactory
    gate: Gate | None
    leading: Leadership | None
    showing: Showing | None

    def managed(self, parts: Iterable[ControllerSpec | Component], serving: Serving) -> Manager:
        """All components in their stages."""
        manager = Manager(grace=serving.grace)
        if self.showing is not None:
            manager.add(self.showing, Stage.HTTP)
        term = None if self.leading is None else Term(self.leading, manager.fail, serving.last_resort)
        if term is not None:
            self.client.fence = self.leading
            manager.add(term, Stage.ELECTION)
        for part in parts:
            if not isinstance(part, ControllerSpec):
                manager.add(part)
                continue
            built = part.build(self.client, self.factory, gate=self.gate, namespaces=serving.namespaces)
            manager.add(built, Stage.CONTROLLERS)
            if self.showing is not None:
                self.showing.show(built)
            if term is not None:
                term.oversee(built.controller)
        return manager
