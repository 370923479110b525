"""`ctl run` loads the user's files and runs their operator until it is told to stop."""

import contextlib
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import click

from ..client.access import Access, load_access
from ..client.errors import APIError, NotFound, Unauthorized
from ..client.incluster import is_in_cluster
from ..client.rest import Client
from ..client.settings import ClientSettings
from ..handlers.declaration.registry import get_default_registry
from ..handlers.operator import operator
from .alias import install_as_kopf
from .controls import CLIControls
from .failures import Failure, explained
from .loading import load
from .loops import new_loop, run_in
from .options import Option, logging_options
from .server import Serving, instructions, serving_beside

DEV_PRIORITY = 666
"""What `--dev` means: above any operator that was deployed, as a developer's run should be."""

_PATIENCE = 10.0
"""Seconds that a server has to answer before the run begins."""


@dataclass(frozen=True)
class RunOptions:
    """What was said on the command line and in the environment."""

    paths: tuple[str, ...]
    modules: tuple[str, ...]
    clusterwide: bool
    namespaces: tuple[str, ...]
    standalone: bool | None
    dev: bool
    liveness_endpoint: str | None
    peering: str | None
    priority: int | None
    sandbox: bool
    manifests: tuple[str, ...]
    kubeconfig: str | None
    context: str | None

    def check(self) -> None:
        """Raise click.UsageError for options that contradict each other."""
        if self.namespaces and self.clusterwide:
            raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")
        if not self.paths and not self.modules:
            raise click.UsageError("Nothing to run: name the operator's Python files, or its modules with -m.")
        if self.manifests and not self.sandbox:
            raise click.UsageError("--manifest is for the embedded API server: add --sandbox.")
        if self.sandbox and (self.kubeconfig or self.context):
            raise click.UsageError("--sandbox is a server of its own; --kubeconfig and --context name another one.")
        if self.liveness_endpoint and urlsplit(self.liveness_endpoint).scheme != "http":
            raise click.UsageError(
                f"--liveness expects a URL like http://0.0.0.0:8080/healthz, not {self.liveness_endpoint}."
            )


@click.command("run")
@click.argument("paths", nargs=-1, metavar="FILES...")
@click.option("-m", "--module", "modules", cls=Option, multiple=True, help="Load a module by its name; repeat.")
@click.option("-A", "--all-namespaces", "clusterwide", cls=Option, is_flag=True, help="Serve all namespaces.")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    cls=Option,
    legacy=["NAMESPACE"],
    multiple=True,
    help="Serve this namespace; repeat.",
)
@click.option("--standalone", cls=Option, is_flag=True, default=None, help="Act without asking peers.")
@click.option("--dev", cls=Option, is_flag=True, help=f"Take over from deployed operators (priority {DEV_PRIORITY}).")
@click.option(
    "-L", "--liveness", "liveness_endpoint", cls=Option, metavar="URL", help="Answer liveness probes at this URL."
)
@click.option("-P", "--peering", cls=Option, metavar="NAME", help="Use this peering, and insist on it.")
@click.option("-p", "--priority", cls=Option, type=int, help="Rank among the peers.")
@click.option(
    "--sandbox", cls=Option, is_flag=True, help="Run against an embedded Kubernetes API server, started for this run."
)
@click.option(
    "--manifest",
    "manifests",
    cls=Option,
    multiple=True,
    metavar="FILE",
    help="Create what is in FILE there first; repeat.",
)
@click.option(
    "--kubeconfig",
    cls=Option,
    metavar="PATH",
    help="Use this kubeconfig.  [default: $KUBECONFIG, the pod, ~/.kube/config]",
)
@click.option(
    "--context", cls=Option, metavar="NAME", help="Use this context of the kubeconfig.  [default: the current one]"
)
@logging_options
@click.make_pass_decorator(CLIControls, ensure=True)
def run(controls: CLIControls, **given: Any) -> None:
    """Run the operator in FILES and modules until SIGINT or SIGTERM.

    `import kopf` in the operator's code gives this toolkit.
    """
    options = RunOptions(**given)
    options.check()
    install_as_kopf()
    with contextlib.ExitStack() as stack:
        if options.sandbox:
            kubeconfig = stack.enter_context(serving_beside(Serving(manifests=options.manifests)))
            stack.enter_context(_environment("KUBECONFIG", str(kubeconfig)))
            click.echo(
                f"Running on an embedded Kubernetes API; kubeconfig: {kubeconfig}\n{instructions(kubeconfig)}", err=True
            )
        elif options.kubeconfig:
            # For the operator's own clients: they should talk to the same cluster.
            stack.enter_context(_environment("KUBECONFIG", options.kubeconfig))
        load(options.paths, options.modules)
        stack.enter_context(explained())
        coro = _operate(options, controls)
        if controls.loop is not None:
            controls.loop.run_until_complete(coro)
        else:
            run_in(new_loop(), coro)


async def _operate(options: RunOptions, controls: CLIControls) -> None:
    registry = controls.registry or get_default_registry()
    access = None
    if options.sandbox or options.kubeconfig or options.context or registry.uses_default_login:
        access = load_access(options.kubeconfig, options.context)
        if not is_in_cluster():  # a pod may come up before its server does: there the operator's own retries decide
            await _greet(access)
    await operator(
        access=access,
        registry=controls.registry,
        settings=controls.settings,
        vault=controls.vault,
        stop_flag=controls.stop_flag,
        ready_flag=controls.ready_flag,
        standalone=options.standalone,
        priority=DEV_PRIORITY if options.dev and options.priority is None else options.priority,
        peering_name=options.peering,
        liveness_endpoint=options.liveness_endpoint,
        # An embedded server is the user's alone.
        clusterwide=options.clusterwide or (options.sandbox and not options.namespaces),
        namespaces=options.namespaces,
    )


async def _greet(access: Access) -> None:
    """Ask the server for its version, so that a wrong address or a refused token is known at once and not after retries."""
    settings = ClientSettings(request_timeout=_PATIENCE, error_backoffs=(), refused_retries=0)
    async with Client(access, settings) as client:
        try:
            await client.request("GET", "/version")
        except Unauthorized:
            raise
        except NotFound as exc:
            raise Failure(f"{access.server} answers, but is no Kubernetes API server: {exc}. Check its URL.") from exc
        except APIError:
            return  # it is there and knows us; what it refuses here may be allowed where it matters


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
