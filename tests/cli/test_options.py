"""Options come from the command line, from CTL_* variables and from Kopf's, in this order."""

import logging
from collections.abc import Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ctl.cli.options import PREFIX, Option, logging_options


@click.group(context_settings={"auto_envvar_prefix": PREFIX})
def group() -> None:
    """A group as `ctl` is one."""


@group.command()
@click.option("-n", "--namespace", "namespaces", cls=Option, legacy=["NAMESPACE"], multiple=True)
@click.option("--dev", cls=Option, is_flag=True)
@click.option("-p", "--priority", cls=Option, type=int)
@logging_options
def show(**given: Any) -> None:
    """Tell what was understood."""
    click.echo(dict(sorted(given.items())))
    logging.getLogger("test").debug("a debug line")
    logging.getLogger("test").info("an info line")


def understood(*args: str, env: Mapping[str, str] | None = None) -> str:
    result = CliRunner().invoke(group, ["show", *args], env=dict(env or {}), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("args", "env", "expected"),
    [
        ([], {}, {"namespaces": (), "dev": False, "priority": None}),
        (["-n", "a", "-n", "b", "--dev", "-p", "3"], {}, {"namespaces": ("a", "b"), "dev": True, "priority": 3}),
        (
            [],
            {"CTL_SHOW_NAMESPACES": "a b", "CTL_SHOW_DEV": "true", "CTL_SHOW_PRIORITY": "3"},
            {"namespaces": ("a", "b"), "dev": True, "priority": 3},
        ),
        (
            [],
            {"KOPF_SHOW_NAMESPACES": "a b", "KOPF_SHOW_DEV": "1", "KOPF_SHOW_PRIORITY": "3"},
            {"namespaces": ("a", "b"), "dev": True, "priority": 3},
        ),
        (
            [],
            {"KOPF_SHOW_NAMESPACES": "a b", "KOPF_SHOW_NAMESPACE": "c"},
            {"namespaces": ("a", "b", "c"), "dev": False, "priority": None},
        ),
        ([], {"KOPF_SHOW_NAMESPACE": "c"}, {"namespaces": ("c",), "dev": False, "priority": None}),
        (
            [],
            {"CTL_SHOW_NAMESPACES": "ours", "KOPF_SHOW_NAMESPACES": "theirs"},
            {"namespaces": ("ours",), "dev": False, "priority": None},
        ),
        (["-p", "1"], {"CTL_SHOW_PRIORITY": "2"}, {"namespaces": (), "dev": False, "priority": 1}),
    ],
)
def test_sources_in_their_order(args: list[str], env: Mapping[str, str], expected: Mapping[str, Any]) -> None:
    assert understood(*args, env=env) == str(dict(sorted(expected.items())))


@pytest.mark.parametrize(
    ("args", "env", "lines"),
    [
        ([], {}, 1),
        (["-v"], {}, 2),
        (["--debug"], {}, 2),
        (["-q"], {}, 0),
        ([], {"KOPF_SHOW_QUIET": "yes"}, 0),
        ([], {"CTL_SHOW_VERBOSE": "yes"}, 2),
    ],
)
def test_logging_is_set_up_before_the_command_runs(args: list[str], env: Mapping[str, str], lines: int) -> None:
    result = CliRunner().invoke(group, ["show", "--log-format", "plain", *args], env=dict(env), catch_exceptions=False)
    assert result.stderr.splitlines() == ["a debug line", "an info line"][2 - lines :]


@pytest.mark.parametrize("value", ["json", "JSON"])
def test_formats_are_named_in_any_case(value: str) -> None:
    result = CliRunner().invoke(group, ["show", f"--log-format={value}"], catch_exceptions=False)
    assert '"message": "an info line"' in result.stderr


def test_an_unknown_format_is_a_usage_error() -> None:
    result = CliRunner().invoke(group, ["show", "--log-format=xml"])
    assert result.exit_code == 2
    assert "'xml' is not one of 'plain', 'full', 'json'" in result.stderr.lower()
