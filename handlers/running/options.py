"""The options of `operator`, checked before anything is begun; what they and the settings say to the client and the informers."""

import asyncio
import concurrent.futures
import threading
import warnings
from collections.abc import Callable, Collection
from typing import Any, TypedDict

from ...client.config.access import Access
from ...client.settings import ClientSettings
from ...informers.settings import InformerSettings
from ..declaration.namespaces import NamespacePattern
from ..declaration.registry import OperatorRegistry
from ..declaration.survey import Survey
from ..environment.environment import Lifecycle
from ..settings import OperatorSettings

Flag = asyncio.Event | threading.Event | asyncio.Future[Any] | concurrent.futures.Future[Any]

POLLING = 0.1


async def wait_flag(flag: Flag | None) -> Any:
    """Wait until the flag is raised; gives a future's result, and True for an event. None is never raised.

    A thread's event is looked at every tenth of a second: it cannot wake a loop.
    """
    match flag:
        case None:
            return await asyncio.get_running_loop().create_future()
        case asyncio.Event():
            return await flag.wait()
        case asyncio.Future():
            return await asyncio.shield(flag)
        case concurrent.futures.Future():
            return await asyncio.shield(asyncio.wrap_future(flag))
        case threading.Event():
            while not flag.is_set():  # noqa: ASYNC110 - a thread's event has no way to wake a loop
                await asyncio.sleep(POLLING)
            return True


def raise_flag(flag: Flag | None) -> None:
    """Raise the flag from the loop's thread; one that is raised already stays so."""
    if isinstance(flag, asyncio.Event | threading.Event):
        flag.set()
    elif flag is not None and not flag.done():
        flag.set_result(None)


def check_flag(flag: object) -> None:
    """Raise TypeError for what is neither None nor a flag, before anybody waits for it."""
    kinds = (asyncio.Event, asyncio.Future, threading.Event, concurrent.futures.Future)
    if flag is not None and not isinstance(flag, kinds):
        raise TypeError(
            f"Unsupported type of a flag: {flag!r}. A flag is an asyncio.Event, an asyncio.Future, a threading.Event or a "
            f"concurrent.futures.Future; got {type(flag).__name__}."
        )


class OperatorOptions(TypedDict, total=False):
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
    """The peering object by which other operators are known; without it this operator pauses. None: `default`, if there is one."""
    identity: str | None
    """This operator among its peers, unique; None: $POD_ID, else user@host/time/letters."""
    clusterwide: bool
    """Serve all namespaces."""
    namespaces: Collection[NamespacePattern]
    """Serve these namespaces only: names, globs with commas and `!`, or regular expressions for whole names."""
    namespace: str | None
    """Deprecated: one of `namespaces`."""
    leader_elect: bool | None
    """Act only as the leader among the replicas, by a Lease; None: inside a cluster, if that is allowed."""
    lease_name: str | None
    """The Lease; None: `ctl-{service account}-{first file or module}`."""
    lease_namespace: str | None
    """Where the Lease is; None: the namespace of the pod, or of the credentials."""
    sources: Collection[str]
    """The files and modules that declare the handlers: they name the Lease and are told on it; empty: those of the handlers."""
    last_resort: Callable[[Exception], None] | None
    """Called shortly before others may act, when leadership was lost and what cannot be cancelled goes on: to end the process.

    None: the operator stops as fast as it can, and raises.
    """
    stop_flag: Flag | None
    """The operator stops when it is raised."""
    ready_flag: Flag | None
    """Raised when the startup handlers have succeeded and the resources are being served."""
    liveness_endpoint: str | None
    """Where liveness probes are answered: `http://host:port/path`; None: nowhere."""
    http: str | int | None
    """Where metrics and health are shown: `[HOST:]PORT`, `auto` (8080 in a cluster, nowhere else), `off`; None: nowhere."""
    debug_pages: bool | None
    """For which clients the pages below `/debug` are: True: all; False: none; None: those on this machine."""
    found: Callable[[Survey], None] | None
    """Called once, when it is known for the first time which of what is handled the server has."""
    access: Access | None
    """The way to the server; None: login handlers if there are any, else $KUBECONFIG, the pod's account, ~/.kube/config."""


def check_options(options: OperatorOptions, registry: OperatorRegistry) -> None:
    """Refuse unknown options (TypeError) and what is not supported yet (NotImplementedError). None counts as not given."""
    unknown = sorted(
        name for name, value in options.items() if value is not None and name not in OperatorOptions.__annotations__
    )
    if unknown:
        raise TypeError(
            f"operator() does not know {', '.join(unknown)}; it knows {', '.join(OperatorOptions.__annotations__)}."
        )
    check_flag(options.get("stop_flag"))
    check_flag(options.get("ready_flag"))
    webhooks = registry.webhooks()
    if webhooks:
        raise NotImplementedError(
            f"Admission handlers are not served yet, and these are declared: {', '.join(spec.id for spec in webhooks)}. "
            "Remove them, or run this operator with Kopf."
        )


def served_namespaces(options: OperatorOptions) -> frozenset[NamespacePattern] | None:
    """The namespaces to be served; None: all. Raises TypeError for contradictions; warns where nothing is said.

    The warnings point to the user's code, four calls above.
    """
    namespaces = list(options.get("namespaces") or ())
    clusterwide = bool(options.get("clusterwide"))
    single = options.get("namespace")
    if single is not None:
        if namespaces:
            raise TypeError(
                "Either namespaces= or namespace= can be passed. Got both: leave the deprecated namespace= out."
            )
        warnings.warn("namespace= is deprecated; use namespaces=[...].", DeprecationWarning, stacklevel=5)
        namespaces = [single]
    if clusterwide and namespaces:
        raise TypeError(
            "The operator can be either cluster-wide or namespaced, not both. Leave clusterwide=True or namespaces=... out."
        )
    if not clusterwide and not namespaces:
        warnings.warn(
            "Absence of either namespaces or cluster-wide flag will become an error soon. "
            "For now, switching to the cluster-wide mode for backward compatibility.",
            FutureWarning,
            stacklevel=5,
        )
        clusterwide = True
    return None if clusterwide else frozenset(namespaces)


def settings_with(options: OperatorOptions, *, clusterwide: bool) -> OperatorSettings:
    """The settings, with what the options say about them. Startup handlers may say otherwise."""
    settings = options.get("settings") or OperatorSettings()
    peering, leadership = settings.peering, settings.leadership
    peering.clusterwide = clusterwide
    for name, group, setting in (
        ("standalone", peering, "standalone"),
        ("priority", peering, "priority"),
        ("peering_name", peering, "name"),
        ("debug_pages", settings.diagnostics, "debug_pages"),
        ("leader_elect", leadership, "elect"),
        ("lease_name", leadership, "lease_name"),
        ("lease_namespace", leadership, "lease_namespace"),
    ):
        if (value := options.get(name)) is not None:
            setattr(group, setting, value)
    if options.get("peering_name") is not None:
        peering.mandatory = True
    return settings


def informer_settings(settings: OperatorSettings) -> InformerSettings:
    """How resources are listed and watched."""
    watching, known = settings.watching, InformerSettings()
    timeout = watching.server_timeout
    return InformerSettings(
        page_size=watching.chunk_size or known.page_size,
        watch_timeouts=known.watch_timeouts if timeout is None else (timeout, timeout),
        silence_limit=watching.inactivity_timeout,
        stream_limit=watching.client_timeout,
        stream_pause=watching.reconnect_backoff,
    )


def client_settings(settings: OperatorSettings) -> ClientSettings:
    """How requests are made."""
    networking = settings.networking
    return ClientSettings(
        request_timeout=networking.request_timeout,
        connect_timeout=networking.connect_timeout,
        watch_connect_timeout=settings.watching.connect_timeout,
        error_backoffs=networking.error_backoffs,
        enforce_retry_after=networking.enforce_retry_after,
        largest_answer=networking.largest_answer,
        largest_event=networking.largest_event,
        trust_env=networking.trust_env,
    )
