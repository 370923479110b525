"""Run a program of reconcilers with one call: a client, shared informers, and the controllers, until it is told to stop."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from signal import Signals

from ..client.access import load_access
from ..client.endpoint import Access, AccessSource
from ..client.incluster import is_in_cluster
from ..client.rest import Client
from ..client.settings import ClientSettings
from ..informers.factory import Factory
from ..runtime.signals import caught
from .addresses import parse_http
from .builder import Assembly
from .gating.gates import AllOf, Gate
from .gating.leadership import Leadership, LeadershipSettings
from .manager import Component, Manager, Stage
from .showing import Showing
from .term import Term

_logger = logging.getLogger("ctl.controller")


@dataclass(frozen=True, slots=True)
class Serving:
    """How a program of reconcilers is run.

    `access` is the way to the server; None: $KUBECONFIG, the pod's account, or ~/.kube/config. `namespaces` is where those controllers
    look that do not say themselves; None: everywhere. `gate` says when they may act. `grace` is the time for the stop, in seconds.
    """

    access: Access | AccessSource | None = None
    namespaces: Collection[str] | None = None
    gate: Gate | None = None
    grace: float = 30.0
    settings: ClientSettings = field(default_factory=ClientSettings)


async def serve(
    *parts: Assembly | Component,
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
    the start (Forbidden without the rights for the Lease), AddressTaken when the port is in use, ValueError for an address that is none,
    and what makes a component fail.
    """
    address = parse_http(http, in_cluster=is_in_cluster())
    wish = asyncio.Event() if stop is None else stop

    def told(signal: Signals) -> None:
        _logger.info("Signal %s is received; the controllers are stopping.", signal.name)
        wish.set()

    with caught(told):
        source = access or serving.access or load_access()
        async with Client(source, serving.settings) as client:
            factory = Factory(client)
            manager = Manager(grace=serving.grace)
            leading = None if leadership is None else Leadership(source, leadership, serving.settings)
            showing = None if address is None else Showing(address, client, factory, leading)
            if showing is not None:
                manager.add(showing, Stage.HTTP)
            term = None if leading is None else Term(leading, manager.fail)
            if term is not None:
                client.fence = leading
                manager.add(term, Stage.ELECTION)
            gates = [gate for gate in (leading, serving.gate) if gate is not None]
            for part in parts:
                if isinstance(part, Assembly):
                    gate = AllOf(*gates) if len(gates) > 1 else next(iter(gates), None)
                    built = part.on(client, factory, gate=gate, namespaces=serving.namespaces)
                    manager.add(built, Stage.CONTROLLERS)
                    if showing is not None:
                        showing.show(built)
                    if term is not None:
                        term.oversee(built.controller)
                else:
                    manager.add(part)
            try:
                await manager.run(wish)
            finally:
                await factory.stop()
