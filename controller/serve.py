"""Run a program of reconcilers with one call: a client, shared informers, and the controllers, until it is told to stop."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from signal import Signals

from ..client.access import load_access
from ..client.endpoint import Access, AccessSource
from ..client.rest import Client
from ..client.settings import ClientSettings
from ..informers.factory import Factory
from ..runtime.signals import caught
from .builder import Assembly
from .gating.gates import Gate
from .manager import Component, Manager, Stage

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
) -> None:
    """Run controllers, and other components beside them, until SIGINT or SIGTERM, the event, or a cancellation; then stop gracefully.

    Only in the main thread, and only where nobody else handles them, are signals caught. The informers are shared by all. Raises
    UnknownResource when something to look at is not installed, AccessError and the client's errors when the server cannot be reached at
    the start, and what makes a component fail. For leadership and metrics, declare the controllers (`ctl.declare`) and use `ctl run`.
    """
    wish = asyncio.Event() if stop is None else stop

    def told(signal: Signals) -> None:
        _logger.info("Signal %s is received; the controllers are stopping.", signal.name)
        wish.set()

    with caught(told):
        async with Client(access or serving.access or load_access(), serving.settings) as client:
            factory = Factory(client)
            manager = Manager(grace=serving.grace)
            for part in parts:
                if isinstance(part, Assembly):
                    built = part.on(client, factory, gate=serving.gate, namespaces=serving.namespaces)
                    manager.add(built, Stage.CONTROLLERS)
                else:
                    manager.add(part)
            try:
                await manager.run(wish)
            finally:
                await factory.stop()
