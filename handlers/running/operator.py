"""Run an operator: its declared handlers, on one cluster, until it is told to stop."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Unpack

from ..._version import VERSION
from ...client.config.access import Access, AccessSource
from ...client.config.loading import load_access
from ...client.discovery import Discovery
from ...client.errors import AccessError, Forbidden, MethodNotAllowed, NotFound, TooManyRequests
from ...client.rest import Client
from ...controller.api.access_review import Rights
from ...controller.building.builder import refuse_namesakes
from ...controller.kernel.controller import Controller
from ...controller.leader.leadership import Leadership
from ...controller.leader.lease_guard import acting_by
from ...informers.factory import SharedInformerFactory
from ...informers.transform import drop_managed_fields
from ...runtime.tasks import Tasks, alone
from ..causes.causes import Activity
from ..cycle.reconciler import ObjectKey, ObjectReconciler
from ..declaration.registry import get_default_registry
from ..declaration.survey import Survey
from ..environment.environment import Environment, Lifecycle
from ..environment.memories import Memo
from ..execution.activities import Stage
from ..execution.lifecycles import get_default_lifecycle
from ..indices import Indices
from ..kopf.client_libraries import introduce
from ..kopf.connections import LoginSource
from ..kopf.posting import posting
from .authority import Authority
from .declared import Cluster, Controllers, declared
from .diagnostics import Diagnostics, Engine
from .electing import Candidacy, candidate
from .flags import Flag, raise_flag
from .observation import Observation, Scope
from .options import Options, check_options, served_namespaces, settings_with
from .peers import peers_of
from .stopping import Wish
from .tuning import client_settings, informer_settings

__all__ = ["Options", "operator", "run", "run_tasks", "spawn_tasks"]

logger = logging.getLogger(__name__)

CONTROLLER = "operator"
"""The name of the handlers' controller, in metrics and in explanations."""
FIRST_ANSWER_SECONDS = 10.0
"""How long the server may take to say that it is there."""
CROWDED_SECONDS = 0.1
"""How long at most attempts of a backlog wait to begin, a few at a time, while requests queue for connections: a server that does not
answer slows them down, and stops none."""


async def operator(**options: Unpack[Options]) -> None:
    """Run an operator in the running loop until it is stopped by its flag, a signal, or a cancellation.

    Startup handlers run before any request is made; when one fails for good, ActivityError is raised and nothing else
    runs. AccessError or LoginError are raised without usable credentials, the client's errors when the server cannot be
    reached at the start. Later errors of the server never end the operator. Only tasks of its own are cancelled at the end.
    """
    await _assemble(options).run()


def run(*, loop: asyncio.AbstractEventLoop | None = None, **options: Unpack[Options]) -> None:
    """Run an operator in a loop of its own, or in the given one, until it is stopped; see `operator`.

    In a loop of its own, tasks that handlers have begun have 5 s to end by themselves before they are cancelled.
    """
    try:
        if loop is not None:
            loop.run_until_complete(operator(**options))
        else:
            asyncio.run(alone(operator(**options)))
    except asyncio.CancelledError:
        logger.debug("The operator was cancelled from outside.")


async def spawn_tasks(**options: Unpack[Options]) -> Collection[asyncio.Task[None]]:
    """Start an operator beside other tasks of this loop; to be passed to `run_tasks`."""
    coro: Coroutine[Any, Any, None] = _assemble(options).run()
    return [asyncio.create_task(coro, name="operator")]


async def run_tasks(
    root_tasks: Collection[asyncio.Task[Any]], *, ignored: Collection[asyncio.Task[Any]] = frozenset()
) -> None:
    """Wait for what `spawn_tasks` started, and for tasks of the caller's own beside it: the end of one is the end of all.

    A cancellation stops them gracefully. Raises what one of them has failed with. `ignored` is accepted for Kopf's sake.
    (Kopf cancels all tasks of the loop but those in `ignored`; here no others are touched than those that are given.)
    """
    try:
        if root_tasks:
            await asyncio.wait(root_tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in root_tasks:
            task.cancel()
        await asyncio.gather(*root_tasks, return_exceptions=True)
    for task in root_tasks:
        if not task.cancelled():
            task.result()


def _assemble(options: Options) -> "_Operator":
    registry = options.get("registry") or get_default_registry()
    check_options(options, registry)
    refuse_namesakes((CONTROLLER, *(spec.name for spec in declared(registry))))
    namespaces = served_namespaces(options)
    settings = settings_with(options, clusterwide=namespaces is None)
    memo = options.get("memo")
    stage = Stage(registry, settings, Memo() if memo is None else memo, Indices(registry.index_ids()))
    return _Operator(
        stage=stage,
        lifecycle=options.get("lifecycle") or get_default_lifecycle(),
        scope=Scope(namespaces),
        wish=Wish(options.get("stop_flag"), lambda: settings.process.ultimate_exiting_timeout),
        ready_flag=options.get("ready_flag"),
        diagnostics=Diagnostics(stage, http=options.get("http"), liveness=options.get("liveness_endpoint")),
        access=options.get("access"),
        identity=options.get("identity"),
        sources=options.get("sources") or (),
        last_resort=options.get("last_resort"),
        found=options.get("found"),
    )


@dataclass(slots=True)
class _Operator:
    """One operator from its start to its end; `run` is the order of both."""

    stage: Stage
    lifecycle: Lifecycle
    scope: Scope
    wish: Wish
    ready_flag: Flag | None
    diagnostics: Diagnostics
    access: Access | None
    identity: str | None
    sources: Collection[str]
    last_resort: Callable[[Exception], None] | None
    found: Callable[[Survey], None] | None
    _leadership: Leadership | None = None

    async def run(self) -> None:
        """Start in order, wait for the wish to stop, stop in the reverse order."""
        logger.info("Starting ctl %s.", VERSION)
        async with self.wish.heard(), self.diagnostics:
            if await self.wish.until(self.stage.run(Activity.STARTUP)):
                self.stage.settings.freeze()
                await self._serve_and_clean_up()
        if self.wish.error is not None:
            raise self.wish.error

    async def _serve_and_clean_up(self) -> None:
        try:
            await self.diagnostics.started()
            await self._serve()
        finally:
            await self.stage.run(Activity.CLEANUP)

    async def _serve(self) -> None:
        settings = self.stage.settings
        access = self.access or await self._source()
        async with Client(access, client_settings(settings)) as client:
            rights = Rights(client)
            if not await self.wish.until(self._meet(access, client, rights)):
                return
            authority = Authority(self.stage, self.wish, self._leadership, self.last_resort)
            client.fence = self._leadership
            left = None if self._leadership is None else self._leadership.left
            try:
                async with posting(client, settings, rights):
                    with acting_by(left):
                        await self._work(client, rights, authority)
            finally:
                # Everything is written.
                await authority.stop(settings.queueing.exit_timeout)

    async def _meet(self, access: Access | AccessSource, client: Client, rights: Rights) -> None:
        """See whether the server is there, and whether there is to be an election."""
        await _greet(client)
        candidacy = Candidacy(
            self.stage.settings, self.stage.registry, access, self.sources, is_access_chosen=self.access is not None
        )
        self._leadership = await candidate(candidacy, client, rights)

    async def _work(self, client: Client, rights: Rights, authority: Authority) -> None:
        settings, rescan = self.stage.settings, not self.stage.settings.scanning.disabled
        env = Environment(
            self.stage.registry, settings, client, self.lifecycle, self.stage.memo, indices=self.stage.indices
        )
        reconciler = ObjectReconciler(
            env,
            lambda key, priority: controller.queue.add(key, priority=priority),
            authority.gate,
            lambda: controller.attempts,
        )
        tasks = Tasks("operator")
        # What other managers own of an object is of no use to handlers, and can be half of it.
        factory = SharedInformerFactory(client, informer_settings(settings), transform=drop_managed_fields)
        authority.govern(reconciler)
        peering = await peers_of(settings, client, factory, rights, leadership=self._leadership, identity=self.identity)
        if peering is not None:
            authority.heed(peering)
        controller: Controller[ObjectKey] = Controller(
            CONTROLLER, reconciler.reconcile, concurrency=settings.queueing.worker_limit, gate=authority.gate
        )
        # Handlers that are called now would wait for a connection later, and hold on to their objects meanwhile.
        controller.pace(lambda: client.room(CROWDED_SECONDS))
        observation = Observation(
            registry=self.stage.registry,
            scope=self.scope,
            discovery=Discovery(client),
            factory=factory,
            controller=controller,
            reconciler=reconciler,
            watching=settings.watching,
            rights=rights,
            rescan=rescan,
            peering=peering,
            tell=self.found,
        )
        self.diagnostics.attach(Engine(client, factory, controller, reconciler, self._leadership, peering))
        cluster = Cluster(client, factory, authority.gate, self.scope.patterns, rights, rescan=rescan)
        controllers = Controllers(declared(self.stage.registry), cluster, self.diagnostics.show)
        self.diagnostics.tell(controllers.conditions, lambda: (*observation.lacking(), *controllers.lacking()))
        authority.oversee(lambda: controllers.controllers)
        grace = settings.queueing.exit_timeout
        async with AsyncExitStack() as stops:
            # In the reverse of this order, each of them whatever becomes of the others: a handler of the user's may fail among them.
            stops.push_async_callback(factory.stop)
            if peering is not None:
                stops.push_async_callback(peering.stop, grace)
            stops.push_async_callback(authority.retire)
            stops.push_async_callback(tasks.stop, grace)
            stops.push_async_callback(reconciler.stop)
            stops.push_async_callback(_end_attempts, controllers, controller, grace)
            stops.push_async_callback(observation.stop)
            # Daemons first: what they leave is written where their objects are still known.
            stops.push_async_callback(reconciler.background.stop)
            await reconciler.start()
            await controller.start()
            if await self.wish.until(self._begin(authority, observation, controllers, tasks)):
                self.diagnostics.complete()
                raise_flag(self.ready_flag)
                await self.wish.wait()

    async def _begin(
        self, authority: Authority, observation: Observation, controllers: Controllers, tasks: Tasks
    ) -> None:
        await authority.prepare()
        if observation.peering is not None:
            await observation.peering.start()
        await observation.start(tasks)
        controllers.start()
        await authority.start()

    async def _source(self) -> Access | AccessSource:
        registry = self.stage.registry
        if registry.activities(Activity.AUTHENTICATION):
            return LoginSource(lambda: self.stage.run(Activity.AUTHENTICATION))
        access = load_access()
        await introduce()
        return access


async def _end_attempts(controllers: Controllers, controller: Controller[ObjectKey], grace: float) -> None:
    """All attempts have one time together."""
    for ended in await asyncio.gather(controllers.stop(grace), controller.stop(grace), return_exceptions=True):
        if ended is not None:
            raise ended


async def _greet(client: Client) -> None:
    """Ask for the server's version: once, so that a server that is not there, or refuses the credentials, is told of at once."""
    try:
        await client.request("GET", "/version", retry=False, timeout=FIRST_ANSWER_SECONDS)
    except (Forbidden, MethodNotAllowed, TooManyRequests):
        logger.debug("The server does not tell its version; it is asked for its resources all the same.")
    except NotFound as exc:
        if await _serves(client):
            return
        server = (await client.access()).shown
        raise AccessError(
            f"{server} does not look like a Kubernetes API server: expected its version at /version, found {exc.code}. "
            "Check the address in the kubeconfig."
        ) from exc


async def _serves(client: Client) -> bool:
    """Whether a server that knows no version has resources: servers of tests, and gateways that let nothing else through, are like that."""
    try:
        await client.request("GET", "/apis")
    except NotFound:
        return False
    return True
