"""The command itself."""

import ctl

from .processes import command


async def test_the_version() -> None:
    async with command("--version") as run:
        assert await run.end() == 0
    assert run.lines == [f"ctl, version {ctl.__version__}"]


async def test_the_help_lists_the_commands_in_a_sentence_each() -> None:
    async with command("--help") as run:
        assert await run.end() == 0
    assert "run " in run.output
    assert "sandbox " in run.output


async def test_an_unknown_command_is_a_usage_error() -> None:
    async with command("rum") as run:
        assert await run.end() == 2
    assert "No such command 'rum'" in run.output
