"""The handlers' controller: what is declared by decorators runs as a component like any built controller."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from ...controller.kernel.controller import Controller
from ...controller.leader.gate import Turn
from ...controller.peering.gate import Peering
from ...runtime.tasks import Tasks
from ..cycle.reconciler import ObjectKey, ObjectReconciler
from ..declaration.survey import Survey
from ..environment.environment import Environment
from ..execution.attempts import born_in_handlers
from .observation import Cluster, Observation

NAME = "operator"
"""Its name, in metrics and in explanations."""
CROWDED_SECONDS = 0.1
"""How long at most attempts of a backlog wait to begin, a few at a time, while requests queue for connections: a server that does not
answer slows them down, and stops none."""


class HandlersController:
    """Observes the resources that handlers are declared for, and calls the handlers; a component.

    `peering` hears where peering objects can be (None: there are no peers); `found` what the first look at the cluster has found.
    """

    name = NAME

    def __init__(
        self,
        env: Environment,
        cluster: Cluster,
        peering: Peering | None = None,
        found: Callable[[Survey], None] | None = None,
    ) -> None:
        settings = env.settings
        self._gate = cluster.gate
        self._indices = env.indices
        self._exit_timeout = settings.queueing.exit_timeout
        self._tasks = Tasks("handlers")
        self._unsubscribe: Callable[[], None] = lambda: None
        self.reconciler = ObjectReconciler(
            env,
            lambda key, priority: self.controller.queue.add(key, priority=priority),
            cluster.gate,
            lambda: self.controller.attempts,
        )
        self.controller: Controller[ObjectKey] = Controller(
            NAME, self.reconciler.reconcile, concurrency=settings.queueing.worker_limit, gate=cluster.gate
        )
        # Handlers that are called now would wait for a connection later, and hold on to their objects meanwhile.
        self.controller.pace(lambda: cluster.client.room(CROWDED_SECONDS))
        self.observation = Observation(
            env.registry, cluster, self.controller, self.reconciler, settings.watching, peering, found
        )

    async def start(self) -> None:
        """Look at the cluster and serve what is there. Raises the client's errors when the server cannot be asked."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop, self._exit_timeout)
            # The reconciler hears of a turn of the gate before the controller, which subscribes in its start.
            self._unsubscribe = self._gate.subscribe(self._turned)
            await self.reconciler.start()
            await self.controller.start()
            await self.observation.start()
            undo.pop_all()

    async def stop(self, grace: float) -> None:
        """End daemons and timers within their limits, then the attempts within `grace` seconds.

        Daemons come first: what they leave is written where their objects are still known.
        """
        async with AsyncExitStack() as stops:
            # In the reverse of this order, each of them even if another one fails.
            stops.push_async_callback(self._tasks.stop, 0.0)
            stops.callback(self._unsubscribe)
            stops.push_async_callback(self.reconciler.stop)
            stops.push_async_callback(self.controller.stop, grace)
            stops.push_async_callback(self.observation.stop)
            stops.push_async_callback(self.reconciler.background.stop)

    def acting(self) -> dict[asyncio.Task[Any], str]:
        """The tasks in which handlers run now, and those that handlers have started, and what the log calls them."""
        return {**self.reconciler.running, **born_in_handlers(self._indices)}

    def _turned(self, turn: Turn) -> None:
        background = self.reconciler.background
        if turn is Turn.OPENED:
            background.resume()
            return
        self.reconciler.closed()
        if turn is Turn.CLOSED:
            self._tasks.spawn(background.pause(), name="pause")
        else:
            background.cut()
