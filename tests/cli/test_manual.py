"""docs/cli.md and the commands say the same."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from ctl.cli.main import main
from ctl.cli.options import PREFIX

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
LOGGING = {"verbose", "debug", "quiet", "log_format", "log_refkey", "log_prefix"}


@dataclass(frozen=True)
class Found:
    name: str
    command: click.Command
    context: click.Context

    def __str__(self) -> str:
        return self.name

    @property
    def options(self) -> list[click.Option]:
        return [one for one in self.command.params if isinstance(one, click.Option)]


def walk(command: click.Command, context: click.Context) -> Iterator[Found]:
    if not isinstance(command, click.Group):
        yield Found(context.command_path.removeprefix("ctl "), command, context)
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from walk(found, click.Context(found, info_name=name, parent=context))


COMMANDS = list(walk(main, click.Context(main, info_name="ctl", auto_envvar_prefix=PREFIX)))


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/cli.md has no section {title}"
    return found[1]


def rows(text: str) -> dict[frozenset[str], str]:
    """The options of a table, with the variables beside them."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`-"):
            found[frozenset(re.findall(r"`(-[^`]+)`", cells[0]))] = cells[2].strip("`")
    return found


def spellings(option: click.Option) -> frozenset[str]:
    return frozenset((*option.opts, *option.secondary_opts))


@pytest.mark.parametrize("found", COMMANDS, ids=str)
def test_the_options_of_the_page_are_those_of_the_command(found: Found) -> None:
    text = section(f"`ctl {found.name}`")
    own = {spellings(one): one for one in found.options if one.name not in LOGGING}
    told = rows(text)
    assert told.keys() == own.keys()
    for names, variable in told.items():
        long = {name.lstrip("-").upper().replace("-", "_") for name in names if name.startswith("--")}
        allowed = {f"{found.context.auto_envvar_prefix}_{name}" for name in {str(own[names].name).upper(), *long}}
        assert variable in allowed
    assert ("[logging options](#logging)" in text) is bool(len(own) < len(found.options))


def test_the_logging_options_of_the_page_are_those_of_the_commands() -> None:
    told = rows(section("Logging"))
    for found in COMMANDS:
        own = {spellings(one) for one in found.options if one.name in LOGGING}
        assert own in ({}, set(), told.keys())
    assert {variable.removeprefix("..._").lower() for variable in told.values()} == LOGGING


@pytest.mark.parametrize("found", COMMANDS, ids=str)
def test_the_list_of_commands_is_complete(found: Found) -> None:
    assert f"[`ctl {found.name}`](#ctl-{found.name.replace(' ', '-')})" in PAGE


def lines() -> Iterator[str]:
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            for part in re.findall(r"(?:^|[(|] *)(ctl [^|)>#]*)", line):
                yield part.strip()


@pytest.mark.parametrize("line", list(lines()))
def test_the_commands_of_the_page_can_be_run(line: str) -> None:
    """As far as click can tell: the commands and options exist, and nothing that is required is missing."""
    words = shlex.split(line)[1:]
    command: click.Command = main
    context = click.Context(main, info_name="ctl", auto_envvar_prefix=PREFIX)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{line}: there is no {name}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    assert command.make_context(str(command.name), words, parent=context.parent) is not None
