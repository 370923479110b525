"""`ctl completion` prints what makes a shell complete the commands and options of ctl."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> None:
    """Print what makes a shell complete the commands and options of ctl.

    For example, in ~/.bashrc:  source <(ctl completion bash)
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "ctl", "_CTL_COMPLETE").source())
