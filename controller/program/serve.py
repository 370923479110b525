"""Run a program of reconcilers with one call: a client, shared informers, and the controllers, until it is told to stop."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ...client.config.access import Access, AccessSource
from ...client.config.loading import is_in_cluster, load_access
from ...client.rest import Client
from ...client.settings import ClientSettings
from ...informers.factory import SharedInformerFactory
from ...runtime.watchdog import LIMIT, LoopWatchdog
from ..building.builder import ControllerSpec, refuse_namesakes
from ..building.built import BuiltController, accuse
from ..http.addresses import Site, parse_http, sites
from ..http.diagnostics import Diagnostics
from ..leader.gate import Gate
from ..leader.leadership import Leadership
from ..leader.lease_client import LeaderElectionConfig
from .manager import Component, Hooks, Manager, Stage
from .stopping import LastResort, stopping_on_signals
from .terms import ProgramGate, TermHooks, Terms, acting_in, gate_of


@dataclass(frozen=True, slots=True)
class ServeOptions:
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
    options: ServeOptions = ServeOptions(),
    leadership: LeaderElectionConfig | None = None,
    http: str | int | None = None,
) -> None:
    """Run controllers, and other components beside them, until SIGINT or SIGTERM, the event, or a cancellation; then stop gracefully.

    With `leadership` they act only while this process holds that Lease, writes through their clients are fenced by it, and it is given
    back after the last one; other components run on every replica. A reconciler that goes on although it was cancelled when the lease
    was lost stops the program (StillActing). `http` is where metrics and health are served: `[HOST:]PORT`, `auto` (8080 in a cluster, nowhere
    else), or `off`, the default.

    Signals are caught in the main thread only, and only those that the program does not handle itself. The informers are shared by all. Raises
    UnknownResource when something to look at is not installed, AccessError and the client's errors when the server cannot be reached at
    the start (Forbidden without the rights for the Lease), AddressTaken when a port that was asked for is in use (the default one is
    done without), ValueError for an address that is none and for two controllers of one name, and what makes a component fail.
    """
    refuse_namesakes(part.name for part in parts if isinstance(part, ControllerSpec))
    address = parse_http(http, in_cluster=is_in_cluster())
    wish = asyncio.Event() if stop is None else stop
    with stopping_on_signals(wish.set):
        source = access or options.access or load_access()
        leading = None if leadership is None else Leadership(source, leadership, options.settings)
        async with Client(source, options.settings, fence=leading) as client:
            gate = gate_of(leading, *(() if options.gate is None else (options.gate,)))
            await _program(parts, options, client, gate, sites(address)).run(wish)


def _program(
    parts: Iterable[ControllerSpec | Component],
    options: ServeOptions,
    client: Client,
    gate: ProgramGate,
    shown_at: list[Site],
) -> Manager:
    manager, factory = Manager(grace=options.grace), SharedInformerFactory(client)
    controllers: list[BuiltController] = []

    def progress() -> str:
        left = [built.name for built in controllers if not built.is_started]
        return f"not started yet: {', '.join(left)}" if left else ""

    diagnostics = Diagnostics(
        LoopWatchdog(lambda: options.loop_block_limit, accuse), progress, debug_pages=lambda: options.debug_pages
    )
    diagnostics.show_cluster(client, factory, gate.leadership)
    manager.add(diagnostics, Stage.HTTP)
    for site in shown_at:
        manager.add(diagnostics.server(site), Stage.HTTP)
    manager.add(Hooks("informers", stop=lambda _: factory.stop()), Stage.CACHES)
    if gate.leadership is not None:
        manager.add(gate.leadership, Stage.ELECTION)
    hooks = TermHooks(lambda: acting_in(built.controller for built in controllers))
    manager.add(Terms(gate, hooks, manager.fail, options.last_resort), Stage.ELECTION)
    for part in parts:
        if isinstance(part, ControllerSpec):
            built = part.build(client, factory, gate=gate, namespaces=options.namespaces)
            controllers.append(built)
            diagnostics.show_controller(built.name, built.samples, built.explain_text)
            manager.add(built, Stage.CONTROLLERS)
        else:
            manager.add(part)
    return manager
