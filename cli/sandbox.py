"""`ctl sandbox` serves the Kubernetes API from this process until it is told to stop."""

import click

from .loops import new_loop, run_in, until_signalled
from .options import Option, logging_options
from .server import Serving, instructions, serving


@click.command("sandbox")
@click.option("--port", cls=Option, type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: any]")
@click.option(
    "--manifest", "manifests", cls=Option, multiple=True, metavar="FILE", help="Create what is in FILE; repeat."
)
@click.option(
    "--kubeconfig", cls=Option, metavar="PATH", help="Write the kubeconfig there.  [default: a temporary file]"
)
@logging_options
def sandbox(port: int, manifests: tuple[str, ...], kubeconfig: str | None) -> None:
    """Serve an embedded Kubernetes API, to try operators without a cluster.

    Everything is kept in memory and gone at the end. kubectl and other clients work with the kubeconfig that is printed; nobody
    comes in without its token.
    """

    async def serve() -> None:
        async with serving(Serving(port, manifests, kubeconfig)) as path:

            def tell() -> None:
                click.echo(f"Serving the Kubernetes API; kubeconfig: {path}")
                click.echo(instructions(path))
                click.echo("Stop with Ctrl-C.")

            await until_signalled(tell)

    run_in(new_loop(), serve())
