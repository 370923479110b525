"""`ctl version` prints the versions of the toolkit, of Python, and of the server."""

import json
import platform
from typing import Any, Final

import click

from .._version import VERSION
from ..client.errors import AccessError, APIError, RequestError
from ..client.rest import Client
from .options import cluster_options, option
from .process import new_loop, with_client

ANSWER_SECONDS: Final = 3.0
"""How long the server may take to answer."""


@click.command("version")
@option("--client", "is_alone", is_flag=True, help="Do not ask the server.")
@cluster_options
def version(*, is_alone: bool, kubeconfig: str | None, context: str | None) -> None:
    """Print the versions of ctl, of Python, and of the server.

    If the server does not answer within a few seconds, the command still succeeds.
    """
    click.echo(f"ctl {VERSION}")
    loop = new_loop()
    kind = type(loop).__module__.partition(".")[0]
    loop.close()
    click.echo(f"Python {platform.python_version()} ({platform.system()} {platform.machine()}), loop of {kind}")
    if not is_alone:
        click.echo(_server(kubeconfig, context))


def _server(kubeconfig: str | None, context: str | None) -> str:
    async def ask(client: Client) -> tuple[str, Any]:
        address = (await client.access()).shown
        answer = await client.request("GET", "/version", retry=False, timeout=ANSWER_SECONDS)
        return address, json.loads(answer)

    try:
        address, answer = with_client(kubeconfig, context, ask)
        return f"Kubernetes {answer['gitVersion']} at {address}"
    except AccessError as exc:
        return f"Kubernetes unknown: {exc}"
    except (APIError, RequestError, TimeoutError, ValueError, LookupError, TypeError) as exc:
        return f"Kubernetes unknown: the server does not tell its version: {exc}"
