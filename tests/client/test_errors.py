import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from ctl.client import errors
from ctl.client.errors import APIError, LostAnswer, RequestError, from_status, is_outcome_unknown, is_retriable
from ctl.client.wire.retries import parse_retry_after

from .wireserver import status


@pytest.mark.parametrize(
    ("code", "reason", "name"),
    [
        (400, "BadRequest", "BadRequest"),
        (401, "Unauthorized", "Unauthorized"),
        (403, "Forbidden", "Forbidden"),
        (404, "NotFound", "NotFound"),
        (405, "MethodNotAllowed", "MethodNotAllowed"),
        (406, "NotAcceptable", "NotAcceptable"),
        (409, "AlreadyExists", "AlreadyExists"),
        (409, "Conflict", "Conflict"),
        (409, "", "Conflict"),
        (410, "Gone", "Gone"),
        (410, "Expired", "Expired"),
        (413, "RequestEntityTooLarge", "RequestEntityTooLarge"),
        (415, "UnsupportedMediaType", "UnsupportedMediaType"),
        (422, "Invalid", "Invalid"),
        (429, "TooManyRequests", "TooManyRequests"),
        (500, "InternalError", "InternalError"),
        (500, "ServerTimeout", "ServerTimeout"),
        (503, "ServiceUnavailable", "ServiceUnavailable"),
        (504, "Timeout", "GatewayTimeout"),
        (502, "", "ServerError"),
        (418, "", "APIError"),
        (422, "SomethingNew", "Invalid"),
    ],
)
def test_the_class_tells_the_reason(code: int, reason: str, name: str) -> None:
    error = from_status(code, status(code, reason, "why"), request="GET /x")
    assert type(error) is getattr(errors, name)
    assert str(error) == f"GET /x: {error.reason} ({code}): why"


@pytest.mark.parametrize("body", [None, {}, {"details": None}, {"details": {"retryAfterSeconds": "soon"}}])
def test_an_answer_without_a_status(body: Any) -> None:
    error = from_status(503, body)
    assert (error.reason, error.message, error.details.get("x"), error.retry_after) == (
        "ServiceUnavailable",
        "",
        None,
        None,
    )
    assert "no message" in str(error)


def test_the_header_wins_over_the_details() -> None:
    body = status(429, "TooManyRequests", retryAfterSeconds=7)
    assert from_status(429, body).retry_after == 7
    assert from_status(429, body, 3).retry_after == 3


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("-1", 0.0),
        ("Tue, 01 Jan 2030 00:00:10 GMT", 10.0),
        ("Tue, 01 Jan 2019 00:00:10 GMT", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert parse_retry_after(header, datetime(2030, 1, 1, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("error", "retriable", "unknown"),
    [
        (RequestError("x", sent=False), True, False),
        (RequestError("x", sent=True), True, True),
        (RequestError("x", retriable=False), False, False),
        (LostAnswer("x"), False, True),
        (from_status(429, None, 1), True, False),
        (from_status(500), True, True),
        (from_status(503, None, 1), True, False),
        (from_status(501), False, True),
        (from_status(409), False, False),
        (ValueError(), False, False),
    ],
)
def test_what_may_be_tried_again(error: Exception, retriable: bool, unknown: bool) -> None:
    assert (is_retriable(error), is_outcome_unknown(error)) == (retriable, unknown)


def test_errors_survive_copying_and_pickling() -> None:
    error = from_status(409, status(409, "Conflict", "why"), 2, "GET /x")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert isinstance(twin, APIError)
        assert (type(twin), str(twin), twin.retry_after) == (type(error), str(error), 2)
