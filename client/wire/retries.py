"""Which attempts of a call are worth another, and when it is due."""

import logging
import math
from collections.abc import Iterator, Mapping, Sized
from datetime import datetime
from email.utils import parsedate_to_datetime

import msgspec
import tenacity

from ...runtime import clock
from ...runtime.texts import redacted
from ..errors import APIError, from_status, is_outcome_unknown, is_retriable
from ..fence import Crossing
from ..settings import ClientSettings
from .request import Call

logger = logging.getLogger(__name__)


class Run:
    """The attempts of one call, as tenacity asks about them: may it be retried, after how long, is it enough."""

    def __init__(self, call: Call, settings: ClientSettings, crossing: Crossing | None = None) -> None:
        self.call = call
        self.crossing = crossing
        """What limits it to a lease."""
        self.lost = False
        """Whether an attempt so far may have been applied although no success came back."""
        self._settings = settings
        self._pauses: Iterator[float] | None = None
        self._exhausted = False

    def may_retry(self, error: BaseException) -> bool:
        """Whether the error may pass, and repeating the call cannot do harm."""
        if not self.call.retry or self.call.channel == "renewal" or not is_retriable(error):
            return False
        return self.call.repeatable or not is_outcome_unknown(error)

    def wait(self, state: tenacity.RetryCallState) -> float:
        """The next pause: the configured one or the one the server asked for, whichever is longer."""
        if self._pauses is None:
            self._pauses = iter(self._settings.backoffs())
        pause = next(self._pauses, None)
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after if isinstance(error, APIError) else None
        limit = self._settings.request_timeout
        if pause is None or (asked is not None and limit is not None and asked > limit):
            self._exhausted = True
            return 0.0
        if asked is not None and self._settings.enforce_retry_after:
            return asked
        return max(float(pause), asked or 0.0)

    def is_asked(self, error: BaseException) -> bool:
        """Whether the server has said when to come again and is to be taken at its word."""
        return isinstance(error, APIError) and error.retry_after is not None and self._settings.enforce_retry_after

    def stop(self, state: tenacity.RetryCallState) -> bool:
        """Whether the pauses are used up, or the server asked for a pause longer than a request may take."""
        if self._exhausted:
            self._log(state, "escalating")
        return self._exhausted

    def log_retry(self, state: tenacity.RetryCallState) -> None:
        """Say that there will be another attempt."""
        self._log(state, "will retry")

    def _log(self, state: tenacity.RetryCallState, what: str) -> None:
        backoffs = self._settings.backoffs()
        number = f"#{state.attempt_number}" + (f"/{len(backoffs) + 1}" if isinstance(backoffs, Sized) else "")
        error = state.outcome.exception() if state.outcome is not None else None
        # Errors without an answer name the request themselves.
        found = f"{self.call.method} {self.call.path} -> {error.summary}" if isinstance(error, APIError) else error
        logger.error("Request attempt %s failed; %s: %s", number, what, found)


def parse_retry_after(header: str, now: datetime) -> float | None:
    """Seconds from a Retry-After header: a number or a date (RFC 9110, 10.2.3); None when it is neither."""
    try:
        seconds = float(header)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
    except (ValueError, TypeError):
        return None


def refusal(code: int, headers: Mapping[str, str], body: bytes, request: str, origin: str) -> APIError:
    """The typed error of an answer; answers that are no Status (a proxy's page) keep their first words as the message, in one line."""
    asked = headers.get("Retry-After")
    retry_after = parse_retry_after(asked, clock.now()) if asked is not None else None
    try:
        status = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError):
        status = {"message": " ".join(body[:300].decode(errors="replace").split())}
    if 300 <= code < 400 and "Location" in headers:
        status["message"] = (
            f"the server sends the request on to {redacted(headers['Location'])[:200]}; only reads are sent on, and to no other origin: "
            f"check its address in {origin}."
        )
    if code == 401:
        said = status.get("message") or "Unauthorized"
        status["message"] = (
            f"{said}: the server refused the credentials of {origin}. Log in again, or check them there."
        )
    return from_status(code, status, retry_after, request)
