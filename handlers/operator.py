"""Run an operator: its declared handlers, on one cluster, until it is told to stop."""

import asyncio
import logging
import warnings
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from .._version import VERSION
from ..client.access import load_access
from ..client.discovery import Discovery
from ..client.endpoint import Access, AccessSource
from ..client.errors import AccessError, Forbidden, NotFound
from ..client.rest import Client
from ..client.settings import ClientSettings
from ..controller.controller import Controller
from ..controller.rights import Rights
from ..informers.factory import Factory
from ..informers.settings import InformerSettings
from ..informers.transform import drop_managed_fields
from ..runtime.tasks import Tasks
from .causation.causes import Activity
from .causation.memos import Memo
from .declaration.namespaces import NamespacePattern
from .declaration.registry import OperatorRegistry, get_default_registry
from .environment import Environment, Lifecycle
from .execution.activities import Stage
from .execution.lifecycles import get_default_lifecycle
from .flags import Flag, check_flag, raise_flag, wait_flag
from .indices import Indices
from .login import LoginSource
from .observation import Observation, Scope
from .posting import posting
from .probing import liveness
from .reconciler import ObjectKey, ObjectReconciler
from .settings import OperatorSettings
from .signals import caught

logger = logging.getLogger(__name__)

FIRST_ANSWER_SECONDS = 10.0
"""How long the server may take to say that it is there."""


class Options(TypedDict, total=False):
    """The keywords of `operator`, `run` and `spawn_tasks`; all optional."""

    lifecycle: Lifecycle | None
    """In which order due handlers are called; None: `get_default_lifecycle()`."""
    registry: OperatorRegistry | None
    """The handlers; None: those of the default registry."""
    settings: OperatorSettings | None
    """None: the defaults, to be changed by startup handlers."""
    memo: Any
    """What startup and cleanup handlers get as `memo`, and of which each object gets a copy; None: an empty Memo."""
    standalone: bool | None
    """Know no other operators."""
    priority: int | None
    """The priority among other operators."""
    peering_name: str | None
    """The peering object by which other operators are known."""
    clusterwide: bool
    """Serve all namespaces."""
    namespaces: Collection[NamespacePattern]
    """Serve these namespaces only: names, globs with commas and `!`, or regular expressions for whole names."""
    namespace: str | None
    """Deprecated: one of `namespaces`."""
    stop_flag: Flag | None
    """The operator stops when it is raised."""
    ready_flag: Flag | None
    """Raised when the startup handlers have succeeded and the resources are being served."""
    liveness_endpoint: str | None
    """Where liveness probes are answered: `http://host:port/path`; None: nowhere."""
    access: Access | None
    """The way to the server; None: login handlers if there are any, else $KUBECONFIG, the pod's account, ~/.kube/config."""


async def operator(**options: Unpack[Options]) -> None:
    """Run an operator in the running loop until it is stopped by its flag, a signal, or a cancellation.

    Startup handlers run before any request is made; when one fails for good, ActivityError is raised and nothing else
    runs. AccessError or LoginError are raised without usable credentials, the client's errors when the server cannot be
    reached at the start. Later errors of the server never end the operator. Only tasks of its own are cancelled at the end.
    """
    await _assemble(options).run()


def run(*, loop: asyncio.AbstractEventLoop | None = None, **options: Unpack[Options]) -> None:
    """Run an operator in a loop of its own, or in the given one, until it is stopped; see `operator`."""
    try:
        if loop is not None:
            loop.run_until_complete(operator(**options))
        else:
            asyncio.run(operator(**options))
    except asyncio.CancelledError:
        logger.debug("The operator was cancelled from outside.")


async def spawn_tasks(**options: Unpack[Options]) -> Collection[asyncio.Task[None]]:
    """Start an operator beside other tasks of this loop; to be passed to `run_tasks`."""
    coro: Coroutine[Any, Any, None] = _assemble(options).run()
    return [asyncio.create_task(coro, name="operator")]


async def run_tasks(root_tasks: Collection[asyncio.Task[None]], *, ignored: Collection[asyncio.Task[Any]] = ()) -> None:
    """Wait for what `spawn_tasks` started; a cancellation stops it gracefully. `ignored` is accepted for Kopf's sake.

    (Kopf cancels all tasks of the loop but those in `ignored`; here nobody's tasks but the operator's own are touched.)
    """
    try:
        await asyncio.gather(*root_tasks)
    finally:
        for task in root_tasks:
            task.cancel()
        await asyncio.gather(*root_tasks, return_exceptions=True)


def _assemble(options: Options) -> "_Operator":
    check_flag(options.get("stop_flag"))
    check_flag(options.get("ready_flag"))
    registry = options.get("registry") or get_default_registry()
    _refuse_unsupported(options, registry)
    settings = options.get("settings") or OperatorSettings()
    namespaces = list(options.get("namespaces") or ())
    clusterwide = bool(options.get("clusterwide"))
    single = options.get("namespace")
    if single is not None:
        if namespaces:
            raise TypeError("Either namespaces= or the deprecated namespace= can be given, not both.")
        warnings.warn("namespace= is deprecated; use namespaces=[...].", DeprecationWarning, stacklevel=4)
        namespaces = [single]
    if clusterwide and namespaces:
        raise TypeError("The operator is either cluster-wide or limited to namespaces; both were asked for.")
    if not clusterwide and not namespaces:
        warnings.warn(
            "Absence of either namespaces or cluster-wide flag will become an error soon. "
            "For now, switching to the cluster-wide mode for backward compatibility.",
            FutureWarning,
            stacklevel=4,
        )
        clusterwide = True
    settings.peering.clusterwide = clusterwide
    if options.get("standalone") is not None:
        settings.peering.standalone = bool(options.get("standalone"))
    if options.get("priority") is not None:
        settings.peering.priority = int(options.get("priority") or 0)
    memo = options.get("memo")
    return _Operator(
        stage=Stage(registry, settings, Memo() if memo is None else memo, Indices(registry.index_ids())),
        lifecycle=options.get("lifecycle") or get_default_lifecycle(),
        scope=Scope(None if clusterwide else frozenset(namespaces)),
        stop_flag=options.get("stop_flag"),
        ready_flag=options.get("ready_flag"),
        liveness_endpoint=options.get("liveness_endpoint"),
        access=options.get("access"),
    )


def _refuse_unsupported(options: Options, registry: OperatorRegistry) -> None:
    """Say at once what would otherwise be missing silently. None is as good as not given."""
    unknown = sorted(
        name for name, value in options.items() if value is not None and name not in Options.__annotations__
    )
    if unknown:
        raise TypeError(
            f"operator() does not know {', '.join(unknown)}; it knows {', '.join(Options.__annotations__)}."
        )
    if options.get("peering_name") is not None:
        raise NotImplementedError("Peering is not there yet; leave peering_name= out to run without peers.")
    webhooks = registry.webhooks()
    if webhooks:
        raise NotImplementedError(
            f"Admission handlers are not served yet, and these are declared: {', '.join(spec.id for spec in webhooks)}. "
            "Remove them, or run this operator with Kopf."
        )


@dataclass(slots=True)
class _Operator:
    """One operator from its start to its end; `run` is the order of both."""

    stage: Stage
    lifecycle: Lifecycle
    scope: Scope
    stop_flag: Flag | None
    ready_flag: Flag | None
    liveness_endpoint: str | None
    access: Access | None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Start in order, wait for the wish to stop, stop in the reverse order."""
        logger.info("Starting ctl %s.", VERSION)
        with caught(self._signalled):
            stopped = asyncio.create_task(self._wait_for_stop(), name="the operator's stop flag")
            try:
                if await self._until_stopped(self.stage.run(Activity.STARTUP), stopped):
                    self.stage.settings.freeze()
                    await self._serve_and_clean_up(stopped)
            finally:
                stopped.cancel()
                await asyncio.gather(stopped, return_exceptions=True)

    async def _serve_and_clean_up(self, stopped: asyncio.Task[None]) -> None:
        try:
            async with liveness(self.stage, self.liveness_endpoint):
                await self._serve(stopped)
        finally:
            await self.stage.run(Activity.CLEANUP)

    async def _serve(self, stopped: asyncio.Task[None]) -> None:
        settings = self.stage.settings
        async with Client(self.access or self._source(), _client_settings(settings)) as client:
            rights = Rights(client)
            async with posting(client, settings, rights):
                await self._work(client, rights, stopped)

    async def _work(self, client: Client, rights: Rights, stopped: asyncio.Task[None]) -> None:
        settings = self.stage.settings
        env = Environment(
            self.stage.registry, settings, client, self.lifecycle, self.stage.memo, indices=self.stage.indices
        )
        reconciler = ObjectReconciler(env, lambda key, priority: controller.queue.add(key, priority=priority))
        tasks = Tasks("operator")
        # What other managers own of an object is of no use to handlers, and can be half of it.
        factory = Factory(client, _informer_settings(settings), transform=drop_managed_fields)
        controller: Controller[ObjectKey] = Controller(
            "operator", lambda key, _: reconciler.reconcile(key), concurrency=settings.queueing.worker_limit
        )
        observation = Observation(
            registry=self.stage.registry,
            scope=self.scope,
            discovery=Discovery(client),
            factory=factory,
            controller=controller,
            reconciler=reconciler,
            watching=settings.watching,
            rights=rights,
            rescan=not settings.scanning.disabled,
        )
        try:
            await controller.start()
            if await self._until_stopped(self._begin(client, observation, tasks), stopped):
                raise_flag(self.ready_flag)
                await stopped
        finally:
            # Daemons first: what they leave at their ends is written where their objects are still known.
            await reconciler.background.stop()
            await observation.stop()
            await controller.stop(settings.queueing.exit_timeout)
            await tasks.stop(settings.queueing.exit_timeout)
            await factory.stop()

    async def _begin(self, client: Client, observation: Observation, tasks: Tasks) -> None:
        # One request without retries: a server that is not there, or credentials that it refuses, are told at once.
        try:
            await client.request("GET", "/version", retry=False, timeout=FIRST_ANSWER_SECONDS)
        except Forbidden:
            logger.debug("The server does not tell its version; it is asked for its resources all the same.")
        except NotFound as exc:
            server = (await client.access()).server
            raise AccessError(
                f"{server} does not look like a Kubernetes API server: expected its version at /version, found {exc.code}. "
                "Check the address in the kubeconfig."
            ) from exc
        await observation.start(tasks)

    def _source(self) -> Access | AccessSource:
        registry = self.stage.registry
        if registry.activities(Activity.AUTHENTICATION):
            return LoginSource(lambda: self.stage.run(Activity.AUTHENTICATION))
        return load_access()

    # The wish to stop.

    async def _until_stopped(self, coro: Coroutine[Any, Any, Any], stopped: asyncio.Task[None]) -> bool:
        """Run something of the start; false when the operator is to stop first (then it is cancelled)."""
        task = asyncio.create_task(coro)
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            return False
        task.result()
        return not stopped.done()

    async def _wait_for_stop(self) -> None:
        flag = asyncio.create_task(wait_flag(self.stop_flag), name="stop flag")
        signalled = asyncio.create_task(self._stopping.wait(), name="signals")
        try:
            await asyncio.wait({flag, signalled}, return_when=asyncio.FIRST_COMPLETED)
            if flag.done():
                value = flag.result()
                text = "raised" if value is None or value is True else f"set to {value!r}"
                logger.info("Stop-flag is %s. Operator is stopping.", text)
        finally:
            flag.cancel()
            signalled.cancel()
            await asyncio.gather(flag, signalled, return_exceptions=True)

    def _signalled(self, signum: Any) -> None:
        logger.info("Signal %s is received. Operator is stopping.", signum.name)
        self._stopping.set()


def _informer_settings(settings: OperatorSettings) -> InformerSettings:
    watching, known = settings.watching, InformerSettings()
    timeout = watching.server_timeout
    return InformerSettings(
        page_size=watching.chunk_size or known.page_size,
        watch_timeouts=known.watch_timeouts if timeout is None else (timeout, timeout),
        silence_limit=watching.inactivity_timeout,
    )


def _client_settings(settings: OperatorSettings) -> ClientSettings:
    networking = settings.networking
    return ClientSettings(
        request_timeout=networking.request_timeout,
        connect_timeout=networking.connect_timeout,
        error_backoffs=networking.error_backoffs,
        enforce_retry_after=networking.enforce_retry_after,
        trust_env=networking.trust_env,
    )
