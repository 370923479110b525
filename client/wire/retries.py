"""After a failed attempt of a request: whether another one follows, when, and with which credentials."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Sized
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import msgspec
import tenacity

from ...runtime import clock
from ...runtime.texts import redacted
from ..config.access import Access, AccessSource, Authentication
from ..errors import APIError, LostAnswer, RequestError, from_status, is_outcome_unknown, is_retriable
from ..fence import Crossing, NotLeading
from ..metrics import ClientMetrics
from ..settings import ClientSettings
from .outage import Outage
from .request import Request, Response

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_LOGINS = 5
"""How many answers 401 one request may get; a source that gives bad credentials for ever is an error."""


class Login(msgspec.Struct):
    """The access and the credentials of one exchange."""

    # The fields may hold secrets.
    __repr__ = object.__repr__

    access: Access
    authentication: Authentication


class Logins:
    """Logs requests in; many requests that are refused at once renew the credentials once. Belongs to one loop."""

    def __init__(self, source: AccessSource, period: float, look_again: Callable[[], None]) -> None:
        self._source = source
        self._period = period
        self._look_again = look_again
        self._renewing = asyncio.Lock()

    async def current(self) -> Login:
        """The login to use now."""
        access = await self._source.access()
        return Login(access, await access.credentials.authentication(period=self._period))

    async def renewed(self, refused: Login) -> Login:
        """Renew a login that the server refused; returns an equal one if there is no other."""
        async with self._renewing:
            # The first of many renews, the others find it renewed.
            fresh = await self.current()
            if fresh == refused and self.is_rewritten(refused.access):
                fresh = await self.current()
            if (
                fresh == refused
                and await refused.access.credentials.renew(refused.authentication) == refused.authentication
            ):
                await self._source.refused(refused.access)
            return await self.current()

    def is_rewritten(self, access: Access) -> bool:
        """Look at the files behind an access, certificates included; returns whether they give another access now."""
        self._look_again()
        return access.loader is not None and access.loader.reload() is not access


class Attempts(msgspec.Struct):
    """The attempts of one request so far."""

    request: Request
    crossing: Crossing | None = None
    """The lease that limits the request."""
    login: Login | None = None
    """The login of the last attempt."""
    lost: bool = False
    """Whether an attempt may have been applied although no success came back."""
    refused: int = 0
    """How many were answered 401."""
    futile: int = 0
    """How many of these left no other credentials to try."""

    def failed(self, error: APIError | RequestError) -> None:
        """Note how an attempt failed. Raises LostAnswer where the request may have been applied and must not be repeated."""
        if isinstance(error, NotLeading):
            error.sent = self.lost
            return
        if isinstance(error, APIError):
            error.after_lost_answer = self.lost
        self.lost = self.lost or is_outcome_unknown(error)
        if isinstance(error, RequestError) and error.sent and not self.request.repeatable:
            raise LostAnswer(
                f"{error} The request may have been applied and is not repeated blindly: read the object, then decide."
            ) from error

    def may_retry(self, error: BaseException) -> bool:
        """Whether the error may pass, and a repetition of the request does no harm."""
        request = self.request
        if not request.retry or request.channel == "renewal" or not is_retriable(error):
            return False
        return request.repeatable or not is_outcome_unknown(error)


class RetryPolicy:
    """Which attempts follow a failed one; tenacity asks it what is retried, after how long, and how often.

    - Errors that may pass (no answer, 429, 5xx), where a repetition does no harm: after the pauses of `error_backoffs`, or the longer one
      that the server asks for, until they are used up.
    - 401: at once with other credentials, up to MAX_LOGINS answers; with the same ones after `refused_backoff`, `refused_retries` times.
    - No connection: at once, where the access was written anew, or the server came back since the attempt began.
    """

    def __init__(
        self, attempts: Attempts, settings: ClientSettings, logins: Logins, outage: Outage, metrics: ClientMetrics
    ) -> None:
        self._attempts = attempts
        self._settings = settings
        self._logins = logins
        self._outage = outage
        self._metrics = metrics
        self._error: BaseException | None = None
        # How long to wait; None: the next pause of the settings.
        self._pause: float | None = None
        self._pauses: Iterator[float] | None = None
        self._count = 0
        self._exhausted = False

    def applies(self, error: APIError | RequestError) -> bool:
        """Whether another attempt may follow, as far as the error tells."""
        return _is_refused(error) or _is_unsent(error) or self._attempts.may_retry(error)

    async def resume(self, attempt: Callable[[], Awaitable[T]], error: Exception) -> T:
        """Go on after the first attempt. (tenacity costs a third of a request: it sees only those that have failed.)"""
        first: list[Exception] = [error]

        async def next_attempt() -> T:
            if first:
                raise first.pop()
            return await attempt()

        retrying = tenacity.AsyncRetrying(
            retry=self._is_retried,
            wait=self._wait,
            stop=self._is_over,
            before_sleep=self._note,
            sleep=self._sleep,
            reraise=True,
        )
        return await retrying(next_attempt)

    async def _is_retried(self, state: tenacity.RetryCallState) -> bool:
        error = self._error = state.outcome.exception() if state.outcome is not None else None
        self._pause = None
        if error is None:
            return False
        if _is_refused(error):
            return await self._logs_in_again()
        if isinstance(error, RequestError) and _is_unsent(error):
            login = self._attempts.login
            if (login is not None and self._logins.is_rewritten(login.access)) or self._outage.is_over_since(
                error.began
            ):
                self._pause = 0.0
                return True
        return self._attempts.may_retry(error)

    async def _logs_in_again(self) -> bool:
        attempts = self._attempts
        self._metrics.refusals += 1
        attempts.refused += 1
        if attempts.refused > MAX_LOGINS or attempts.login is None:
            return False
        self._pause = 0.0
        if await self._logins.renewed(attempts.login) == attempts.login:
            # Servers refuse good credentials for a moment, e.g. while they reload their own keys.
            attempts.futile += 1
            self._pause = self._settings.refused_backoff
        return attempts.futile <= self._settings.refused_retries

    def _wait(self, state: tenacity.RetryCallState) -> float:
        if self._pause is not None:
            return self._pause
        if self._pauses is None:
            self._pauses = iter(self._settings.backoffs())
        self._count += 1
        pause, asked = next(self._pauses, None), self._asked()
        limit = self._settings.request_timeout
        if pause is None or (asked is not None and limit is not None and asked > limit):
            self._exhausted = True
            return 0.0
        if asked is not None and self._settings.enforce_retry_after:
            return asked
        return max(float(pause), asked or 0.0)

    def _asked(self) -> float | None:
        """The pause that the server asks for."""
        return self._error.retry_after if isinstance(self._error, APIError) else None

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        """Whether the pauses are used up, or the server asked for one that is longer than a request may take."""
        if self._exhausted:
            self._log("escalating")
        return self._exhausted

    def _note(self, state: tenacity.RetryCallState) -> None:
        if self._pause is None:
            code = self._error.code if isinstance(self._error, APIError) else None
            self._metrics.count_retry(code, self._attempts.request.method)
            self._log("will retry")

    async def _sleep(self, seconds: float) -> None:
        if self._pause is None:
            is_told = self._asked() is not None and self._settings.enforce_retry_after
            await self._outage.sleep(seconds, None if is_told else self._error)
        elif seconds > 0:
            await asyncio.sleep(seconds)

    def _log(self, what: str) -> None:
        backoffs, request, error = self._settings.backoffs(), self._attempts.request, self._error
        number = f"#{self._count}" + (f"/{len(backoffs) + 1}" if isinstance(backoffs, Sized) else "")
        # Errors without an answer name the request themselves.
        found = f"{request.method} {request.path} -> {error.summary}" if isinstance(error, APIError) else error
        logger.error("Request attempt %s failed; %s: %s", number, what, found)


def _is_refused(error: BaseException) -> bool:
    return isinstance(error, APIError) and error.code == 401


def _is_unsent(error: BaseException) -> bool:
    return isinstance(error, RequestError) and not error.sent and not isinstance(error, NotLeading)


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


def refusal(response: Response, request: Request, access: Access) -> APIError:
    """The typed error of a response; one that is no Status (a proxy's page) gives its first words as the message, in one line."""
    code, headers, body, origin = response.status, response.headers, response.body, access.origin
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
    return from_status(code, status, retry_after, f"{request.method} {access.shown}{request.path}")
