"""`ctl run` loads the user's files and runs their operator until a signal."""

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from ..client.config.loading import load_access
from ..controller.http.addresses import parse_http
from ..handlers.declaration.registry import OperatorRegistry, get_default_registry
from ..handlers.declaration.survey import Survey
from ..handlers.kopf.client_libraries import introduce
from ..handlers.running.operator import operator
from ..runtime.tasks import alone
from .alias import install_as_kopf
from .failures import explained
from .loading import load
from .options import CLIControls, check_namespaces, logging_options, option
from .process import collecting_rarely, last_resort, new_loop, run_in
from .summary import Start, handled, idle, summary

logger = logging.getLogger(__name__)

DEV_PRIORITY = 666
"""The priority of `--dev`: above that of deployed operators."""


@dataclass(frozen=True)
class RunOptions:
    """The options from the command line and the environment."""

    paths: tuple[str, ...]
    modules: tuple[str, ...]
    clusterwide: bool
    namespaces: tuple[str, ...]
    standalone: bool | None
    dev: bool
    liveness_endpoint: str | None
    http: str
    debug_pages: bool | None
    peering: str | None
    priority: int | None
    leader_elect: bool | None
    lease_name: str | None
    lease_namespace: str | None
    sandbox: bool
    manifests: tuple[str, ...]
    kubeconfig: str | None
    context: str | None

    def check(self) -> None:
        """Raise click.UsageError for options that contradict each other."""
        # A program may declare its handlers first, and call the command itself.
        if not self.paths and not self.modules and not get_default_registry().specs():
            raise click.UsageError("Nothing to run: name the operator's Python files, or its modules with -m.")
        if self.manifests and not self.sandbox:
            raise click.UsageError("--manifest is for the embedded API server: add --sandbox.")
        if self.sandbox and (self.kubeconfig or self.context):
            raise click.UsageError("--sandbox is a server of its own; --kubeconfig and --context name another one.")
        if self.liveness_endpoint and not self.liveness_endpoint.startswith("http://"):
            raise click.UsageError(f"--liveness is served as http://HOST:PORT/PATH; got {self.liveness_endpoint!r}.")
        try:
            parse_http(self.http, in_cluster=False)
        except ValueError as exc:
            raise click.UsageError(str(exc)) from exc
        if self.leader_elect is False and (self.lease_name or self.lease_namespace):
            raise click.UsageError("--no-leader-elect needs no lease: leave --lease-name and --lease-namespace out.")


@click.command("run")
@click.argument("paths", nargs=-1, metavar="FILES...")
@option("-m", "--module", "modules", multiple=True, help="Load a module by its name; repeat.")
@option("-A", "--all-namespaces", "clusterwide", is_flag=True, help="Serve all namespaces.")
@option("-n", "--namespace", "namespaces", legacy=["NAMESPACE"], multiple=True, help="Serve this namespace; repeat.")
@option("--standalone", is_flag=True, default=None, help="Act without peering.")
@option("--dev", is_flag=True, help=f"Pause deployed operators (priority {DEV_PRIORITY}).")
@option("-L", "--liveness", "liveness_endpoint", metavar="URL", help="Answer liveness probes at this URL.")
@option(
    "--http",
    metavar="[HOST:]PORT",
    default="auto",
    help="Serve metrics and health there; `off`: nowhere.  [default: 8080 in a cluster, nowhere else]",
)
@option(
    "--debug-pages/--no-debug-pages",
    default=None,
    help="Serve the pages below /debug to all clients, or to none.  [default: to clients on this machine]",
)
@option(
    "-P",
    "--peering",
    legacy=["PEERING_NAME"],
    metavar="NAME",
    help="Use this peering object, and pause while it does not exist.  [default: `default`, if it exists]",
)
@option("-p", "--priority", type=int, help="Priority among the peers.")
@option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Act only as the leader of the replicas.  [default: in a cluster, if allowed]",
)
@option("--lease-name", metavar="NAME", help="The Lease of the election.")
@option("--lease-namespace", metavar="NAME", help="The namespace of the Lease.  [default: the pod's]")
@option("--sandbox", is_flag=True, help="Run against an embedded Kubernetes API server, started for this run.")
@option(
    "--manifest", "manifests", multiple=True, metavar="FILE", help="Create the objects of FILE there first; repeat."
)
@option("--kubeconfig", metavar="PATH", help="Use this kubeconfig.  [default: $KUBECONFIG, the pod, ~/.kube/config]")
@option("--context", metavar="NAME", help="Use this context of the kubeconfig.  [default: the current one]")
@logging_options
@click.make_pass_decorator(CLIControls, ensure=True)
def run(controls: CLIControls, /, **given: Any) -> None:
    """Run the operator in FILES and modules until SIGINT or SIGTERM.

    `import kopf` in the operator's code gives this toolkit.
    """
    check_namespaces(given)
    options = RunOptions(**given)
    options.check()
    if controls.vault is not None:
        raise TypeError(
            "CLIControls(vault=...) is not supported: credentials come from handlers of @on.login, from a kubeconfig, or from "
            "the pod's account. Leave it out, and declare a login handler that gives them."
        )
    install_as_kopf()
    with contextlib.ExitStack() as stack:
        if options.sandbox:
            # Imported only here: an operator in a cluster needs no embedded API server.
            from .sandbox import SandboxOptions, instructions, serving_in_thread

            kubeconfig = stack.enter_context(serving_in_thread(SandboxOptions(manifests=options.manifests)))
            stack.enter_context(_environment("KUBECONFIG", str(kubeconfig)))
            click.echo(
                f"Running on an embedded Kubernetes API; kubeconfig: {kubeconfig}\n{instructions(kubeconfig)}", err=True
            )
        elif options.kubeconfig:
            # The operator's own clients talk to the same cluster.
            stack.enter_context(_environment("KUBECONFIG", options.kubeconfig))
        load(options.paths, options.modules)
        stack.enter_context(explained())
        stack.enter_context(collecting_rarely())
        coro = _operate(options, controls)
        if controls.loop is not None:
            controls.loop.run_until_complete(coro)
        else:
            run_in(new_loop(), alone(coro))


async def _operate(options: RunOptions, controls: CLIControls) -> None:
    everywhere = options.clusterwide or not options.namespaces
    if everywhere and not (options.clusterwide or options.sandbox):  # an embedded server has one user
        logger.warning(
            "Neither --all-namespaces nor --namespace is given: all namespaces are served, as Kopf does. Say which of the "
            "two is meant: a later release will ask for it."
        )
    start = Start(
        options.namespaces,
        os.environ.get("KUBECONFIG") if options.sandbox else options.kubeconfig,
        options.context,
        options.http,
        options.liveness_endpoint,
        options.leader_elect,
    )
    registry = controls.registry or get_default_registry()
    for line in summary(registry, start):
        logger.info("%s", line)
    access = None
    if options.sandbox or options.kubeconfig or options.context:
        access = load_access(options.kubeconfig, options.context)
        await introduce(options.context)
    await operator(
        # None: from login handlers, or from the places that kubectl knows.
        access=access,
        registry=controls.registry,
        settings=controls.settings,
        stop_flag=controls.stop_flag,
        ready_flag=controls.ready_flag,
        liveness_endpoint=options.liveness_endpoint,
        http=options.http,
        debug_pages=options.debug_pages,
        leader_elect=options.leader_elect,
        lease_name=options.lease_name,
        lease_namespace=options.lease_namespace,
        sources=(*options.paths, *options.modules),
        last_resort=last_resort(),
        found=lambda found: _tell(registry, (*options.paths, *options.modules), found),
        standalone=options.standalone,
        peering_name=options.peering,
        priority=DEV_PRIORITY if options.dev and options.priority is None else options.priority,
        clusterwide=everywhere,
        namespaces=options.namespaces,
    )


def _tell(registry: OperatorRegistry, sources: Sequence[str], found: Survey) -> None:
    logger.info("%s", handled(registry, found))
    if (warning := idle(registry, sources)) is not None:
        logger.warning("%s", warning)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Any:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
