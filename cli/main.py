"""The `ctl` command brings its sub-commands together."""

import click

from .._version import VERSION
from .controls import CLIControls
from .options import PREFIX
from .run import run
from .sandbox import sandbox


@click.group(
    name="ctl",
    context_settings={"auto_envvar_prefix": PREFIX, "help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(VERSION, prog_name="ctl")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run Kubernetes operators written in Python.

    Each option can be set in the environment as well: CTL_RUN_NAMESPACES for --namespace of `ctl run`, and so on;
    the KOPF_* names of the same options are honoured where those are not set.
    """
    ctx.ensure_object(CLIControls)


main.add_command(run)
main.add_command(sandbox)
