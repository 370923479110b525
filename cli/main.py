"""The `ctl` command: its sub-commands, and its entry points."""

import difflib
import importlib
import signal
from collections.abc import Mapping
from typing import Final

import click
from click.shell_completion import get_completion_class

from .._version import KOPF_VERSION, VERSION
from .options import PREFIX, CLIControls
from .process import Process, end_with

KOPF: Final = "kopf"
"""The name of Kopf's command."""

_COMMANDS: Final[Mapping[str, str]] = {
    "alias": "Make `import kopf` and the command `kopf` ctl's in this environment.",
    "completion": "Print the completion script of a shell.",
    "finalizers": "Show the objects that wait for an operator, or free them.",
    "freeze": "Pause running operators until `ctl resume`, or for SECONDS.",
    "rbac": "Print the least rights that the operator in FILES and modules needs.",
    "resume": "End the pause of `ctl freeze`.",
    "run": "Run the operator in FILES and modules until SIGINT or SIGTERM.",
    "sandbox": "Serve an embedded Kubernetes API, to try operators without a cluster.",
    "version": "Print the versions of ctl, of Python, and of the server.",
}
"""Each command is in the module of its name, or in that of _ELSEWHERE. The sentences stand here so that `ctl --help`
loads no module.
"""
_ELSEWHERE: Final[Mapping[str, str]] = {
    "alias": "aliasing",
    "completion": "main",
    "freeze": "peering",
    "rbac": "rbac.command",
    "resume": "peering",
}


class _Commands(click.Group):
    """A group whose commands are imported when they run: `ctl sandbox` does not load what only `ctl run` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = _ELSEWHERE.get(cmd_name, cmd_name)
        command = getattr(importlib.import_module(f".{module}", __package__), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; for one that does not exist, the error names similar ones."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        alike = difflib.get_close_matches(name, self.list_commands(ctx))
        hint = f" Did you mean {' or '.join(repr(one) for one in alike)}?" if alike else ""
        raise click.UsageError(f"No such command {name!r}.{hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


def _tell_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        is_kopf = ctx.info_name == KOPF
        click.echo(f"kopf, version {KOPF_VERSION} (ctl {VERSION})" if is_kopf else f"ctl, version {VERSION}")
        ctx.exit()


@click.group(
    name="ctl",
    cls=_Commands,
    context_settings={"auto_envvar_prefix": PREFIX, "help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_tell_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run Kubernetes operators written in Python.

    Each option can be set in the environment as well: CTL_RUN_NAMESPACES for --namespace of `ctl run`, and so on;
    the KOPF_* names of the same options are used where those are not set.
    """
    ctx.ensure_object(CLIControls)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> None:
    """Print the completion script of a shell.

    For example, in ~/.bashrc:  source <(ctl completion bash)
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "ctl", "_CTL_COMPLETE").source())


def entry() -> None:
    """Run the command in a process of its own: the console script, and `python -m ctl`."""
    _run("ctl")


def entry_as_kopf() -> None:
    """The same under the name of Kopf's command: for the `kopf` of `ctl alias install`."""
    _run(KOPF)


def _run(name: str) -> None:
    Process.is_ours = True
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell script starts commands with `&` so that they ignore SIGINT. Handle it all the same, as `kopf run` does.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(prog_name=name)
    except SystemExit as exc:
        code = exc.code
        if code is not None and not isinstance(code, int):
            raise
        end_with(code or 0)
