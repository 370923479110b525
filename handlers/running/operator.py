"""Run an operator: its declared handlers, controllers and components, on one cluster, until it is told to stop."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Unpack

from ..._version import VERSION
from ...client.config.access import Access, AccessSource
from ...client.config.loading import is_in_cluster, load_access
from ...client.errors import AccessError, Forbidden, MethodNotAllowed, NotFound, TooManyRequests
from ...client.rest import Client
from ...controller.api.access_review import Rights
from ...controller.building.builder import refuse_namesakes
from ...controller.building.built import accuse as accuse_reconcilers
from ...controller.http.addresses import parse_http, parse_liveness, sites
from ...controller.http.diagnostics import Diagnostics
from ...controller.leader.gate import lease_left
from ...controller.leader.leadership import Leadership
from ...controller.peering.gate import Peering
from ...controller.program.manager import Hooks, Manager, Stage, StopError
from ...controller.program.stopping import stopping_on_signals
from ...controller.program.terms import TermHooks, Terms, acting_in, gate_of
from ...informers.factory import SharedInformerFactory
from ...informers.transform import drop_managed_fields
from ...runtime.log_limits import shares
from ...runtime.tasks import alone
from ...runtime.watchdog import LoopWatchdog
from ..causes.causes import Activity
from ..declaration.namespaces import NamespacePattern
from ..declaration.registry import get_default_registry
from ..environment.environment import Environment
from ..environment.memories import Memo
from ..execution.activities import Activities
from ..execution.attempts import accuse
from ..execution.lifecycles import get_default_lifecycle
from ..execution.statistics import FAMILIES, Statistics, counting
from ..indices import Indices
from ..kopf.client_libraries import introduce
from ..kopf.connections import LoginSource
from ..kopf.posting import Posting
from ..kopf.probing import Liveness
from .controller import NAME, HandlersController
from .declared import Controllers, components, declared
from .diagnostics import show_declared, show_handlers
from .election import Candidacy, candidate, peers_of
from .observation import Cluster
from .options import (
    Flag,
    OperatorOptions,
    check_options,
    client_settings,
    informer_settings,
    raise_flag,
    served_namespaces,
    settings_with,
    wait_flag,
)

__all__ = ["OperatorOptions", "operator", "run", "run_tasks", "spawn_tasks"]

logger = logging.getLogger(__name__)

FIRST_ANSWER_SECONDS = 10.0
"""How long the server may take to say that it is there."""


async def operator(**options: Unpack[OperatorOptions]) -> None:
    """Run an operator in the running loop until it is stopped by its flag, a signal, or a cancellation.

    Startup handlers run before any request is made; when one fails for good, ActivityError is raised and nothing else
    runs. AccessError or LoginError are raised without usable credentials, the client's errors when the server cannot be
    reached at the start. Later errors of the server never end the operator. Only tasks of its own are cancelled at the end.
    """
    await _assemble(options).run()


def run(*, loop: asyncio.AbstractEventLoop | None = None, **options: Unpack[OperatorOptions]) -> None:
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


async def spawn_tasks(**options: Unpack[OperatorOptions]) -> Collection[asyncio.Task[None]]:
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


def _assemble(options: OperatorOptions) -> "_Operator":
    registry = options.get("registry") or get_default_registry()
    check_options(options, registry)
    refuse_namesakes((NAME, *(spec.name for spec in declared(registry))))
    namespaces = served_namespaces(options)
    settings = settings_with(options, clusterwide=namespaces is None)
    memo = options.get("memo")
    activities = Activities(registry, settings, Memo() if memo is None else memo, Indices(registry.index_ids()))
    return _Operator(options, activities, namespaces)


class _Operator:
    """Builds the components of one operator: some at once, the others when the startup handlers have succeeded and the server has answered."""

    def __init__(
        self, options: OperatorOptions, activities: Activities, patterns: frozenset[NamespacePattern] | None
    ) -> None:
        self._options = options
        self._activities = activities
        self._patterns = patterns
        self._registry, self._settings = activities.registry, activities.settings
        self._statistics = Statistics()
        self._liveness = Liveness(activities)
        self._waits_for = "the startup handlers have not succeeded yet"
        self._diagnostics = self._make_diagnostics()
        # Handlers end within limits of their own, and cleanup handlers take the time that they need.
        self._manager = Manager("operator", patience=None)
        self._add_first()

    def _make_diagnostics(self) -> Diagnostics:
        known = self._settings.diagnostics
        watchdog = LoopWatchdog(
            lambda: known.loop_block_limit, lambda frames: accuse(frames) or accuse_reconcilers(frames)
        )
        diagnostics = Diagnostics(
            watchdog,
            lambda: self._waits_for,
            debug_pages=lambda: known.debug_pages,
            stale_limit=lambda: known.stale_limit,
        )
        diagnostics.metrics.add_source(self._statistics.samples, FAMILIES)
        if self._registry.activities(Activity.PROBE):
            diagnostics.pages.live["probes"] = self._liveness.check
        return diagnostics

    def _add_first(self) -> None:
        """Add what needs no cluster. A default address is bound after the startup handlers: the operator's own server comes first."""
        options, manager, diagnostics = self._options, self._manager, self._diagnostics
        address = parse_http(options.get("http"), in_cluster=is_in_cluster())
        shown_at = sites(address, parse_liveness(options.get("liveness_endpoint")))
        manager.add(diagnostics, Stage.HTTP)
        late: list[Hooks] = []
        for site in shown_at:
            server = diagnostics.server(site, self._liveness.answer)
            if site.is_early:
                manager.add(server, Stage.HTTP)
            else:
                # It starts after the startup handlers, and answers until the cleanup handlers have ended.
                manager.add(Hooks(server.name, stop=server.stop), Stage.HTTP)
                late.append(Hooks(server.name, server.start))
        for hooks in (Hooks("activities", self._start_up, self._clean_up), *late):
            manager.add(hooks, Stage.STARTUP)
        manager.add(Hooks("connection", self._connect), Stage.STARTUP)

    async def run(self) -> None:
        """Run until a signal, the stop flag, a failure or a cancellation; then stop in the reverse order."""
        logger.info("Starting ctl %s.", VERSION)
        stop = asyncio.Event()
        try:
            with (
                counting(self._statistics),
                stopping_on_signals(stop.set, lambda: self._settings.process.ultimate_exiting_timeout),
            ):
                async with _stopping_on_flag(self._options.get("stop_flag"), stop, self._manager):
                    await self._manager.run(stop)
        except StopError as error:
            if len(error.exceptions) > 1:
                raise
            raise error.exceptions[0] from None
        finally:
            self._statistics.pool.close()
            await self._liveness.end()

    # The components, in the order of their starts.

    async def _start_up(self) -> None:
        await self._activities.run(Activity.STARTUP)
        settings = self._settings
        settings.freeze()
        self._waits_for = "the cluster has not been looked at yet"
        self._manager.grace = settings.queueing.exit_timeout
        shares.share = settings.diagnostics.log_budget
        self._statistics.pool.patience = settings.diagnostics.pool_wait_limit
        self._liveness.begin()

    async def _clean_up(self, grace: float) -> None:
        await self._activities.run(Activity.CLEANUP)

    async def _connect(self) -> None:
        access = self._options.get("access") or await self._source()
        client = Client(access, client_settings(self._settings))
        self._manager.add(Hooks("client", stop=lambda _: client.close()), Stage.STARTUP)
        self._manager.add(Hooks("cluster", lambda: self._meet(access, client)), Stage.STARTUP)

    async def _source(self) -> Access | AccessSource:
        if self._registry.activities(Activity.AUTHENTICATION):
            return LoginSource(lambda: self._activities.run(Activity.AUTHENTICATION))
        access = load_access()
        await introduce()
        return access

    async def _meet(self, access: Access | AccessSource, client: Client) -> None:
        """See whether the server is there, and whether there is an election and peers; then add what needs to know."""
        await _greet(client)
        options, settings, rights = self._options, self._settings, Rights(client)
        candidacy = Candidacy(
            settings,
            self._registry,
            access,
            options.get("sources") or (),
            is_access_chosen=options.get("access") is not None,
        )
        leadership = client.fence = await candidate(candidacy, client, rights)
        # What other managers own of an object is of no use to handlers, and can be half of it.
        factory = SharedInformerFactory(client, informer_settings(settings), transform=drop_managed_fields)
        peering = await peers_of(
            settings, client, factory, rights, leadership=leadership, identity=options.get("identity")
        )
        gate = gate_of(leadership, *(() if peering is None else (peering,)))
        rescan = not settings.scanning.disabled
        cluster = Cluster(client, factory, gate, rights, self._patterns, rescan=rescan)
        self._add_rest(cluster, leadership, peering)

    def _add_rest(self, cluster: Cluster, leadership: Leadership | None, peering: Peering | None) -> None:
        options, manager, diagnostics, activities = self._options, self._manager, self._diagnostics, self._activities
        env = Environment(
            self._registry,
            self._settings,
            cluster.client,
            options.get("lifecycle") or get_default_lifecycle(),
            activities.memo,
            indices=activities.indices,
        )
        handlers = HandlersController(env, cluster, peering, options.get("found"))
        controllers = Controllers(declared(self._registry), cluster, handlers.observation)
        hooks = TermHooks(
            lambda: {**handlers.acting(), **acting_in(controllers.controllers)},
            leading=lambda: activities.run(Activity.LEADING),
            begin=handlers.reconciler.begin_term,
            standby=lambda: activities.run(Activity.STANDBY),
            exit_timeout=lambda: self._settings.queueing.exit_timeout,
        )
        manager.add(Hooks("informers", stop=lambda _: cluster.factory.stop()), Stage.CACHES)
        if leadership is not None:
            lease_left.set(leadership.left)
            manager.add(leadership, Stage.ELECTION)
        manager.add(Posting(cluster.client, self._settings, cluster.rights), Stage.ELECTION)
        if peering is not None:
            manager.add(peering, Stage.ELECTION)
        manager.add(Terms(cluster.gate, hooks, manager.fail, options.get("last_resort")), Stage.ELECTION)
        manager.add(handlers, Stage.CONTROLLERS)
        manager.add(controllers, Stage.CONTROLLERS)
        manager.add(self._components())
        manager.add(Hooks("readiness", self._be_ready))
        diagnostics.show_cluster(cluster.client, cluster.factory, leadership)
        self._statistics.expect(self._registry.specs())
        show_handlers(diagnostics, handlers.reconciler, handlers.controller, peering)
        show_declared(diagnostics, handlers.observation, controllers)

    def _components(self) -> Manager:
        """The user's own components, which are left to themselves when they do not stop in their time."""
        own = Manager("components")
        for component in components(self._registry):
            own.add(component)
        return own

    async def _be_ready(self) -> None:
        self._waits_for = ""
        raise_flag(self._options.get("ready_flag"))


@asynccontextmanager
async def _stopping_on_flag(flag: Flag | None, stop: asyncio.Event, manager: Manager) -> AsyncIterator[None]:
    """While inside, a raised stop flag sets `stop`; an exception of a flag that is a future is a failure of the program."""

    def raised(waiting: asyncio.Task[Any]) -> None:
        if waiting.cancelled():
            logger.info("Stop-flag is cancelled. Operator is stopping.")
        elif (error := waiting.exception()) is not None:
            manager.fail("stop flag", error)
        else:
            value = waiting.result()
            text = "raised" if value is None else f"set to {value!r}"
            logger.info("Stop-flag is %s. Operator is stopping.", text)
        stop.set()

    waiting = asyncio.create_task(wait_flag(flag), name="the operator's stop flag")
    waiting.add_done_callback(raised)
    try:
        yield
    finally:
        waiting.remove_done_callback(raised)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _greet(client: Client) -> None:
    """Ask once for the server's version, so that a missing server or refused credentials are reported at once."""
    try:
        await client.request("GET", "/version", retry=False, timeout=FIRST_ANSWER_SECONDS)
    except (Forbidden, MethodNotAllowed, TooManyRequests):
        logger.debug("The server does not tell its version; it is asked for its resources all the same.")
    except NotFound as exc:
        # Servers of tests and narrow gateways have resources, and no version.
        with contextlib.suppress(NotFound):
            await client.request("GET", "/apis")
            return
        server = (await client.access()).shown
        raise AccessError(
            f"{server} does not look like a Kubernetes API server: expected its version at /version, found {exc.code}. "
            "Check the address in the kubeconfig."
        ) from exc
