"""The command itself."""

import click

import ctl
from ctl.cli.main import main

from .processes import command


async def test_the_version() -> None:
    async with command("--version") as run:
        assert await run.end() == 0
    assert run.lines == [f"ctl, version {ctl.__version__}"]


async def test_an_unknown_command_is_a_usage_error() -> None:
    async with command("rum") as run:
        assert await run.end() == 2
    assert "No such command 'rum'" in run.output


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    context = click.Context(main)
    listed = main.get_help(context)
    for name in main.list_commands(context):
        found = main.get_command(context, name)
        assert found is not None
        sentence = (found.help or "").partition("\n")[0]
        assert f"{name} " in listed
        assert sentence in " ".join(listed.split())
