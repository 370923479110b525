"""What loggers of handlers put on their records, and when they cost nothing."""

import json
import logging
import timeit
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ctl.handlers.loggers import (
    LocalObjectLogger,
    ObjectLogger,
    TerseObjectLogger,
    configure,
)
from ctl.runtime.logs import LogFormat

BODY = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {"name": "one", "namespace": "here", "uid": "u1", "labels": {"a": "b"}},
}
REF = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "one", "uid": "u1", "namespace": "here"}


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    handler, logger = Records(), logging.getLogger("kopf")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.seen
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize(
    ("factory", "skipped"), [(ObjectLogger, False), (LocalObjectLogger, True), (TerseObjectLogger, True)]
)
def test_records_carry_the_object_and_whether_to_post(
    records: list[logging.LogRecord], factory: type[ObjectLogger], skipped: bool
) -> None:
    settings = object()
    logger = factory(body=BODY, settings=settings)
    logger.warning("hello %s", "world", extra={"mine": 1})
    [record] = records
    assert record.name == "kopf.objects"
    assert record.getMessage() == "hello world"
    assert record.pathname == __file__
    fields: Any = vars(record)
    assert (fields["k8s_ref"], fields["k8s_skip"], fields["settings"], fields["mine"]) == (REF, skipped, settings, 1)


def test_a_cluster_scoped_object_keeps_its_nulls(records: list[logging.LogRecord]) -> None:
    ObjectLogger(body={"kind": "Node", "metadata": {"name": "n"}}).info("x")
    expected = {"apiVersion": None, "kind": "Node", "name": "n", "uid": None, "namespace": None}
    assert vars(records[0])["k8s_ref"] == expected


def test_the_body_is_not_looked_at_unless_something_is_written(records: list[logging.LogRecord]) -> None:
    class Untouchable(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise AssertionError("looked at")

    logger = ObjectLogger(body=Untouchable())
    logger.debug("not written")
    assert records == []


def test_terse_loggers_say_info_only_when_debugging(records: list[logging.LogRecord]) -> None:
    logger = TerseObjectLogger(body=BODY)
    logger.info("succeeded")
    logger.error("failed")
    logging.getLogger("kopf").setLevel(logging.DEBUG)
    logger.info("succeeded in debug mode")
    logger.debug("invoked")
    assert [record.getMessage() for record in records] == ["failed", "succeeded in debug mode"]


@pytest.mark.parametrize(
    ("body", "prefix"),
    [(BODY, "[here/one] "), ({"metadata": {"name": "n"}}, "[n] ")],
)
def test_text_lines_begin_with_the_object_when_asked(
    capsys: pytest.CaptureFixture[str], body: Mapping[str, Any], prefix: str
) -> None:
    configure(log_format=LogFormat.PLAIN, log_prefix=True)
    ObjectLogger(body=body).info("created")
    logging.getLogger("other").info("of no object")
    assert capsys.readouterr().err == f"{prefix}created\nof no object\n"


def test_without_a_word_about_prefixes_text_has_them_and_json_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.PLAIN, log_prefix=None)
    ObjectLogger(body=BODY).info("x")
    configure(log_format=LogFormat.JSON, log_prefix=None)
    ObjectLogger(body=BODY).info("x")
    text, line = capsys.readouterr().err.splitlines()
    assert text == "[here/one] x"
    assert json.loads(line)["message"] == "x"


@pytest.mark.parametrize("refkey", [None, "k8s-obj"])
def test_json_lines_name_the_object_under_the_refkey(capsys: pytest.CaptureFixture[str], refkey: str | None) -> None:
    configure(log_format=LogFormat.JSON, log_refkey=refkey)
    ObjectLogger(body=BODY, settings=object()).info("x")
    line = json.loads(capsys.readouterr().err)
    assert line[refkey or "object"] == REF
    assert set(line) == {"message", "timestamp", "severity", refkey or "object"}


def test_embedded_operators_get_no_prefix_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format=LogFormat.PLAIN)
    ObjectLogger(body=BODY).info("x")
    assert capsys.readouterr().err == "x\n"


def test_making_a_logger_costs_next_to_nothing() -> None:
    """One is made for each event: well under a microsecond on an idle machine, bounded widely here for a busy one."""
    rounds = 20_000
    cost = min(timeit.repeat(lambda: ObjectLogger(body=BODY, settings=None), number=rounds, repeat=5)) / rounds
    assert cost < 20e-6
