"""Each option and variable of `kopf run`, `kopf freeze` and `kopf resume` means to `ctl` what it means to Kopf."""

import logging
import os
from typing import Any

import click
import pytest

from ctl.cli.main import main
from ctl.cli.options import PREFIX
from ctl.runtime.logs import LogFormat


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("CTL_", "KOPF_")):
            monkeypatch.delenv(name)


def understood(command: str, *arguments: str) -> dict[str, Any]:
    """What the command makes of the arguments and the environment, without being run."""
    context = click.Context(main, info_name="ctl", auto_envvar_prefix=PREFIX)
    found = main.get_command(context, command)
    assert found is not None
    return found.make_context(command, list(arguments), parent=context).params


RUN: list[tuple[list[str], str, str, str, object]] = [
    # arguments, variable after the prefix, its value, parameter, what it is
    (["-m", "a", "-m", "b"], "MODULES", "a b", "modules", ("a", "b")),
    (["--module", "a"], "MODULES", "a", "modules", ("a",)),
    (["-A"], "CLUSTERWIDE", "true", "clusterwide", True),
    (["--all-namespaces"], "CLUSTERWIDE", "1", "clusterwide", True),
    (["-n", "a", "--namespace", "b"], "NAMESPACES", "a b", "namespaces", ("a", "b")),
    (["--standalone"], "STANDALONE", "yes", "standalone", True),
    (["--dev"], "DEV", "1", "dev", True),
    (["-L", "http://:80/x"], "LIVENESS_ENDPOINT", "http://:80/x", "liveness_endpoint", "http://:80/x"),
    (["--liveness", "http://:80/"], "LIVENESS_ENDPOINT", "http://:80/", "liveness_endpoint", "http://:80/"),
    (["-P", "mine"], "PEERING", "mine", "peering", "mine"),
    (["--peering", "mine"], "PEERING", "mine", "peering", "mine"),
    (["-p", "5"], "PRIORITY", "5", "priority", 5),
    (["--priority", "5"], "PRIORITY", "5", "priority", 5),
]
FREEZE: list[tuple[list[str], str, str, str, object]] = [
    (["-n", "a"], "NAMESPACES", "a", "namespaces", ("a",)),
    (["-A"], "CLUSTERWIDE", "1", "clusterwide", True),
    (["-i", "me"], "ID", "me", "id", "me"),
    (["--id", "me"], "ID", "me", "id", "me"),
    (["--dev"], "DEV", "1", "dev", True),
    (["-p", "5"], "PRIORITY", "5", "priority", 5),
    (["-m", "why"], "MESSAGE", "why", "message", "why"),
    (["--message", "why"], "MESSAGE", "why", "message", "why"),
    (["-P", "x"], "PEERING", "x", "peering", "x"),
    (["-t", "60"], "LIFETIME", "60", "lifetime", 60),
    (["--lifetime", "60"], "LIFETIME", "60", "lifetime", 60),
]
RESUME = [row for row in FREEZE if row[3] in {"namespaces", "clusterwide", "id", "peering"}]
REQUIRED = {"freeze": {"peering": ["-P", "default"], "lifetime": ["-t", "1"]}, "resume": {"peering": ["-P", "default"]}}
TABLE = [("run", *row) for row in RUN] + [("freeze", *row) for row in FREEZE] + [("resume", *row) for row in RESUME]


def required(command: str, parameter: str) -> list[str]:
    return [word for name, words in REQUIRED.get(command, {}).items() if name != parameter for word in words]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: " ".join((row[0], *row[1])))
@pytest.mark.parametrize("way", ["arguments", "CTL", "KOPF"])
def test_options_and_variables(
    row: tuple[str, list[str], str, str, str, object], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, arguments, variable, text, parameter, expected = row
    if way != "arguments":
        monkeypatch.setenv(f"{way}_{command.upper()}_{variable}", text)
        arguments = []
    assert understood(command, *required(command, parameter), *arguments)[parameter] == expected


@pytest.mark.parametrize("command", ["run", "freeze", "resume"])
@pytest.mark.parametrize(
    ("arguments", "variable", "text", "parameter", "expected"),
    [
        (["-v"], "VERBOSE", "1", "verbose", True),
        (["--debug"], "DEBUG", "1", "debug", True),
        (["-q"], "QUIET", "1", "quiet", True),
        (["--log-format=JSON"], "LOG_FORMAT", "json", "log_format", LogFormat.JSON),
        (["--log-format=plain"], "LOG_FORMAT", "plain", "log_format", LogFormat.PLAIN),
        (["--log-refkey=ref"], "LOG_REFKEY", "ref", "log_refkey", "ref"),
        (["--log-prefix"], "LOG_PREFIX", "true", "log_prefix", True),
        (["--no-log-prefix"], "LOG_PREFIX", "false", "log_prefix", False),
    ],
)
def test_logging_options(
    command: str,
    arguments: list[str],
    variable: str,
    text: str,
    parameter: str,
    expected: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = required(command, "")
    assert understood(command, *needed, *arguments)[parameter] == expected
    monkeypatch.setenv(f"KOPF_{command.upper()}_{variable}", text)
    assert understood(command, *needed)[parameter] == expected


def test_the_defaults_are_those_of_kopf() -> None:
    given = understood("run", "main.py")
    assert given["paths"] == ("main.py",)
    assert {name: given[name] for name in ("clusterwide", "dev", "modules", "namespaces", "log_format")} == {
        "clusterwide": False,
        "dev": False,
        "modules": (),
        "namespaces": (),
        "log_format": LogFormat.FULL,
    }
    nothing = ("standalone", "liveness_endpoint", "peering", "priority", "log_refkey", "log_prefix")
    assert {given[name] for name in nothing} == {None}


@pytest.mark.parametrize(
    ("variable", "text", "parameter", "expected"),
    [
        ("KOPF_RUN_NAMESPACE", "a", "namespaces", ("a",)),
        ("KOPF_RUN_ALL_NAMESPACES", "1", "clusterwide", False),  # as observed with Kopf
        ("KOPF_RUN_LIVENESS", "http://:80/", "liveness_endpoint", None),  # the same
        ("CTL_RUN_ALL_NAMESPACES", "1", "clusterwide", True),
        ("CTL_RUN_LIVENESS", "http://:80/", "liveness_endpoint", "http://:80/"),
        ("CTL_RUN_NAMESPACE", "a b", "namespaces", ("a", "b")),
        ("CTL_RUN_HTTP", "9090", "http", "9090"),
    ],
)
def test_names_that_differ(
    variable: str, text: str, parameter: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    assert understood("run")[parameter] == expected


@pytest.mark.parametrize("command", ["freeze", "resume"])
def test_what_is_required(command: str) -> None:
    for missing in REQUIRED[command]:
        with pytest.raises(click.MissingParameter, match=missing):
            understood(command, *required(command, missing))


def test_our_variables_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    level = logging.getLogger().level
    monkeypatch.setenv("KOPF_RUN_PRIORITY", "1")
    assert understood("run")["priority"] == 1
    monkeypatch.setenv("CTL_RUN_PRIORITY", "2")
    assert understood("run")["priority"] == 2
    assert understood("run", "-p", "3")["priority"] == 3
    assert logging.getLogger().level == level, "what is understood is not done yet"
