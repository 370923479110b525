"""Formats, levels and what a second configuration replaces."""

import io
import json
import logging
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from ctl.runtime.logs import LogFormat, Style, Verbosity, configure, severity


class Ship:
    """A subject of no Kubernetes kind: this layer knows none."""

    reserved = frozenset({"ship"})

    def prefix(self, record: logging.LogRecord) -> str:
        ship = getattr(record, "ship", None)
        return f"<{ship}> " if ship else ""

    def reference(self, record: logging.LogRecord) -> tuple[str, Mapping[str, Any]] | None:
        ship = getattr(record, "ship", None)
        return ("vessel", {"name": ship, "port": None}) if ship else None


def test_full_format_has_time_name_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style())
    logging.getLogger("a.logger.with.a.rather.long.name").warning("went %s", "by")
    line = capsys.readouterr().err
    assert line.endswith("] a.logger.with.a.rath [WARNING ] went by\n")
    datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").astimezone()


def test_plain_format_is_the_message_alone(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.PLAIN))
    logging.getLogger("x").info("hello")
    assert capsys.readouterr().err == "hello\n"


def test_a_format_string_of_the_users_own(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format="%(levelname)s/%(message)s"))
    logging.getLogger("x").error("hello")
    assert capsys.readouterr().err == "ERROR/hello\n"


def test_the_prefix_stands_in_our_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    others = io.StringIO()
    foreign = logging.StreamHandler(others)
    logging.getLogger().addHandler(foreign)
    configure(Verbosity(), Style(format=LogFormat.PLAIN, subject=Ship(), prefix=True))
    logging.getLogger("x").info("sails", extra={"ship": "Argo"})
    logging.getLogger("x").info("nobody sails")
    assert capsys.readouterr().err == "<Argo> sails\nnobody sails\n"
    assert others.getvalue() == "sails\nnobody sails\n"


def test_json_has_extras_time_severity_and_reference(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.JSON, subject=Ship()))
    logging.getLogger("x").warning("sails %d", 3, extra={"ship": "Argo", "speed": 7})
    line = json.loads(capsys.readouterr().err)
    assert datetime.fromisoformat(line.pop("timestamp")).utcoffset() is not None
    assert line == {
        "message": "sails 3",
        "speed": 7,
        "severity": "warn",
        "vessel": {"name": "Argo", "port": None},
    }


def test_json_keeps_a_traceback_in_one_field_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.JSON, subject=Ship(), prefix=True))
    try:
        raise ValueError("storm")
    except ValueError:
        logging.getLogger("x").exception("sinks", extra={"ship": "Argo"})
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    line = json.loads(written)
    assert line["message"] == "<Argo> sinks"
    assert line["severity"] == "error"
    assert "ValueError: storm" in line["exc_info"]


@pytest.mark.parametrize(
    ("verbosity", "written"),
    [
        (Verbosity(), ["info", "warning"]),
        (Verbosity(quiet=True), ["warning"]),
        (Verbosity(verbose=True), ["debug", "info", "warning"]),
        (Verbosity(debug=True), ["debug", "info", "warning"]),
        (Verbosity(verbose=True, quiet=True), ["debug", "info", "warning"]),
    ],
)
def test_verbosity_decides_the_level(
    capsys: pytest.CaptureFixture[str], verbosity: Verbosity, written: list[str]
) -> None:
    configure(verbosity, Style(format=LogFormat.PLAIN))
    logger = logging.getLogger("x")
    logger.debug("debug")
    logger.info("info")
    logger.warning("warning")
    assert capsys.readouterr().err.split() == written


def test_the_loops_own_chatter_is_for_debugging_but_its_errors_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(verbose=True), Style(format=LogFormat.PLAIN))
    logging.getLogger("asyncio").debug("selector")
    logging.getLogger("asyncio").error("never retrieved")
    configure(Verbosity(debug=True), Style(format=LogFormat.PLAIN))
    logging.getLogger("asyncio").debug("selector in debug mode")
    assert capsys.readouterr().err == "never retrieved\nselector in debug mode\n"


def test_a_second_configuration_replaces_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.PLAIN))
    configure(Verbosity(), Style(format="again: %(message)s"))
    logging.getLogger("x").info("once")
    assert capsys.readouterr().err == "again: once\n"


def test_severities_for_every_level() -> None:
    levels = [0, 10, 15, 20, 25, 30, 40, 50, 99]
    words = ["debug", "debug", "debug", "info", "info", "warn", "error", "fatal", "fatal"]
    assert [severity(level) for level in levels] == words


def test_failures_that_repeat_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.PLAIN))
    logger = logging.getLogger("test.repeats")
    for number in range(13):
        logger.error("It %s.", "fails")
        logger.info("step %d", number // 13)
    configure(Verbosity(), Style(format=LogFormat.PLAIN))
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("It fails.") == 10
    assert lines.count("step 0") == 13
    assert lines[-1] == "It fails. [3 more times since then]"


def test_what_repeats_is_told_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.JSON))
    (handler,) = [one for one in logging.getLogger().handlers if type(one).__name__ == "_OwnHandler"]
    for at in [*range(12), 61]:
        record = logging.makeLogRecord({"name": "x", "levelno": logging.WARNING, "msg": f"message {at // 60}"})
        record.created = 1000.0 + at
        handler.handle(record)
    lines = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["message 0"] * 10 + ["message 0 [2 more times since then]", "message 1"]


def test_messages_of_different_subjects_are_different(capsys: pytest.CaptureFixture[str]) -> None:
    class Numbered:
        reserved = frozenset({"number"})

        def prefix(self, record: logging.LogRecord) -> str:
            return f"[{record.__dict__['number']}] "

        def reference(self, record: logging.LogRecord) -> None:
            return None

    configure(Verbosity(), Style(format=LogFormat.PLAIN, subject=Numbered(), prefix=True))
    for number in range(20):
        logging.getLogger("test.repeats").error("It fails.", extra={"number": number})
    assert len(capsys.readouterr().err.splitlines()) == 20


def test_logging_from_many_threads_does_not_hang(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.PLAIN))

    def work() -> None:
        for number in range(200):
            logging.getLogger("test.threads").warning("one of %d", number % 3)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    configure(Verbosity(), Style(format=LogFormat.PLAIN))
    lines = capsys.readouterr().err.splitlines()
    counted = sum(int(line.partition("[")[2].split()[0]) for line in lines if "[" in line)
    assert counted + sum("[" not in line for line in lines) == 1600


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        ({}, True),
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
    ],
)
def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str], coloured: bool) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    configure(Verbosity(), Style(format=LogFormat.PLAIN))
    logging.getLogger("x").info("quiet")
    logging.getLogger("x").warning("loud")
    assert terminal.getvalue() == ("quiet\n\033[33mloud\033[0m\n" if coloured else "quiet\nloud\n")


def test_files_and_json_have_no_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    configure(Verbosity(), Style(format=LogFormat.PLAIN))
    logging.getLogger("x").error("to a pipe")
    assert capsys.readouterr().err == "to a pipe\n"
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    configure(Verbosity(), Style(format=LogFormat.JSON))
    logging.getLogger("x").error("as JSON")
    assert "\033" not in terminal.getvalue()
