"""The command itself."""

import platform
import re
from pathlib import Path

import click
import pytest

import ctl
from ctl.cli.main import main
from ctl.sandbox import Sandbox

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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum"], "No such command 'rum'. Did you mean 'run'"),
        (["finalizer"], "Did you mean 'finalizers'?"),
        (["xyz"], "No such command 'xyz'."),
        (["run", "--namespce", "x"], "'--namespace'"),
        (["--versio"], "Did you mean '--version'?"),
    ],
)
async def test_what_does_not_exist_is_answered_with_what_looks_like_it(arguments: list[str], said: str) -> None:
    async with command(*arguments) as run:
        assert await run.end() == 2
    assert said in run.output
    assert "Usage: ctl" in run.output


async def test_versions_without_a_server() -> None:
    async with command("version") as run:
        assert await run.end() == 0
    ours, python, server = run.lines
    assert ours == f"ctl {ctl.__version__}"
    assert python.startswith(f"Python {platform.python_version()} (")
    assert server.startswith("Kubernetes unknown: No way to a Kubernetes server was found")
    async with command("version", "--client") as run:
        assert await run.end() == 0
    assert run.lines == [ours, python]


async def test_the_version_of_a_server_that_answers_and_of_one_that_does_not(tmp_path: Path) -> None:
    async with Sandbox() as sandbox:
        kubeconfig = sandbox.kubeconfig(tmp_path / "kubeconfig")
        async with command("version", "--kubeconfig", kubeconfig) as run:
            assert await run.end() == 0
        assert re.fullmatch(rf"Kubernetes v1\.\S+ at {re.escape(sandbox.url)}", run.lines[-1])
    async with command("version", "--kubeconfig", kubeconfig) as run:
        assert await run.end() == 0
    assert run.lines[-1].startswith("Kubernetes unknown: the server does not tell its version: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_is_printed_and_completes(shell: str) -> None:
    async with command("completion", shell) as run:
        assert await run.end() == 0
    assert "_CTL_COMPLETE" in run.output
    words = {"_CTL_COMPLETE": f"{shell}_complete", "COMP_WORDS": "ctl run --lease", "COMP_CWORD": "2"}
    if shell == "fish":
        words["COMP_CWORD"] = "--lease"
    async with command(env=words) as run:
        assert await run.end() == 0
    assert "--lease-name" in run.output
    assert "--lease-namespace" in run.output
