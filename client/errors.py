"""The errors of requests to the API server, as exceptions by Kubernetes reason.

`APIError` and its subclasses: the server answered with an error. `RequestError` and its subclasses: no usable answer
came. `AccessError`: no request could be made, because configuration or credentials are missing or wrong. Reasons and
codes are those of `StatusReason` in Kubernetes' apimachinery.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ..runtime.texts import cut

LONGEST_MESSAGE = 2000
"""How many characters of a server's message are shown; `APIError.message` has all of it."""

_SECRETS = re.compile(r"/api/v1/(?:namespaces/[^/?]+/)?secrets(?:[/?]|$)")
# Servers quote from the object that they refuse: a value, or the part around the place where its JSON is broken.
_QUOTED = re.compile(
    r"((?:Invalid|Unsupported|Duplicate) value: |error found in )"
    r'(?:"[^"\\]*(?:\\.[^"\\]*)*"|.*)',
    re.DOTALL,
)


class AccessError(Exception):
    """The access to a server is missing or unusable. The message says what was expected, what was found, and what to do."""


class NoAccessError(AccessError):
    """No access to a server is configured anywhere."""


class APIError(Exception):
    """The server refused a request, or ended a watch with an ERROR event.

    `status` is the server's Status object (empty when the answer was none, e.g. a proxy's page); `request` is the verb
    and URL, when known. `after_lost_answer` is true when the answer to an earlier attempt of the same request was
    lost: that attempt may have succeeded, and be the reason of the refusal (NotFound of a DELETE, AlreadyExists of a POST). A 5xx
    counts as lost.
    """

    default_reason: ClassVar[str] = "Unknown"

    def __init__(
        self,
        code: int,
        status: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        request: str | None = None,
    ) -> None:
        super().__init__(code, status, retry_after, request)
        self.code = code
        self.status: dict[str, Any] = dict(status or {})
        self.retry_after = retry_after
        self.request = request
        self.after_lost_answer = False

    @property
    def reason(self) -> str:
        """The server's machine-readable reason, or the usual one of the code."""
        return str(self.status.get("reason") or self.default_reason)

    @property
    def message(self) -> str:
        """The server's sentence for people; empty when it gave none."""
        return str(self.status.get("message") or "")

    @property
    def details(self) -> dict[str, Any]:
        """The server's details: name, group, kind, causes, retryAfterSeconds; empty when it gave none."""
        details = self.status.get("details")
        return dict(details) if isinstance(details, Mapping) else {}

    @property
    def summary(self) -> str:
        """Reason, code and message, without the request: LONGEST_MESSAGE characters at most, and no values of Secrets."""
        said = cut(_without_secrets(self.request, self.message), LONGEST_MESSAGE)
        return f"{self.reason} ({self.code}): {said or 'the server gave no message'}"

    def __str__(self) -> str:
        return f"{self.request}: {self.summary}" if self.request else self.summary

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class BadRequest(APIError):
    """400: the server does not understand the request."""

    default_reason = "BadRequest"


class Unauthorized(APIError):
    """401: the credentials are missing, expired or refused."""

    default_reason = "Unauthorized"


class Forbidden(APIError):
    """403: the credentials are valid, but the right is missing."""

    default_reason = "Forbidden"


class NotFound(APIError):
    """404: no such object, or no such resource."""

    default_reason = "NotFound"


class MethodNotAllowed(APIError):
    """405: the resource has no such verb."""

    default_reason = "MethodNotAllowed"


class NotAcceptable(APIError):
    """406: none of the asked media types is served."""

    default_reason = "NotAcceptable"


class AlreadyExists(APIError):
    """409 for a name that is taken."""

    default_reason = "AlreadyExists"


class Conflict(APIError):
    """409 for a version or a precondition that no longer holds: read again, then decide again."""

    default_reason = "Conflict"


class Gone(APIError):
    """410: the server no longer has the requested version."""

    default_reason = "Gone"


class Expired(Gone):
    """410 for a resource version or continue token that is too old: list anew."""

    default_reason = "Expired"


class RequestEntityTooLarge(APIError):
    """413: the object or request exceeds the server's limit."""

    default_reason = "RequestEntityTooLarge"


class UnsupportedMediaType(APIError):
    """415: this kind of body or patch is not accepted here."""

    default_reason = "UnsupportedMediaType"


class Invalid(APIError):
    """422: the object would not be valid; `details["causes"]` names the fields."""

    default_reason = "Invalid"


class TooManyRequests(APIError):
    """429: too many requests, or a disruption budget: repeat the request after `retry_after` seconds."""

    default_reason = "TooManyRequests"


class ServerError(APIError):
    """5xx: the server failed. A write may have been applied nevertheless, see `is_outcome_unknown`."""

    default_reason = "InternalError"


class InternalError(ServerError):
    """500: something failed inside of the server or of a webhook that it called."""


class ServerTimeout(ServerError):
    """500 with reason ServerTimeout: the server could not finish in time, and asks for a retry."""

    default_reason = "ServerTimeout"


class ServiceUnavailable(ServerError):
    """503: the server or an aggregated API is not up."""

    default_reason = "ServiceUnavailable"


class GatewayTimeout(ServerError):
    """504: the work took longer than the server waits."""

    default_reason = "Timeout"


_BY_CODE: Mapping[int, type[APIError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Gone,
    413: RequestEntityTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    503: ServiceUnavailable,
    504: GatewayTimeout,
}
_KNOWN: tuple[type[APIError], ...] = (*_BY_CODE.values(), AlreadyExists, Expired, ServerTimeout)
_BY_REASON = {cls.default_reason: cls for cls in _KNOWN}


def from_status(
    code: int, status: Mapping[str, Any] | None = None, retry_after: float | None = None, request: str | None = None
) -> APIError:
    """Make the typed error of an answer.

    The reason decides when it is a known one and fits the code (a Timeout with code 500 is a server error), else the
    code does. `retry_after` is what the header says, in seconds; without it `details.retryAfterSeconds` counts.
    """
    status = status if isinstance(status, Mapping) else {}
    fallback = _BY_CODE.get(code, ServerError if code >= 500 else APIError)
    cls = _BY_REASON.get(str(status.get("reason")), fallback)
    if retry_after is None:
        details = status.get("details")
        seconds = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
        retry_after = float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else None
    return cls(code, status, retry_after, request)


class RequestError(Exception):
    """No usable answer came.

    `sent` is false only when the request provably never reached the server, so that repeating it is safe whatever it
    is. `retriable` is false when trying again cannot help (e.g. a certificate that is not trusted).
    """

    def __init__(self, message: str, *, sent: bool = False, retriable: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        self.retriable = retriable
        self.began: float | None = None
        """When the request was begun, in the time of the client's loop; None: not known."""


class LostAnswer(RequestError):
    """A write that must not be repeated blindly may have been applied: read the object, then decide."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True, retriable=False)


class StreamStalled(RequestError):
    """A watch was silent for longer than its idle limit; watch again from the last version seen."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class StreamBroken(RequestError):
    """A watch delivered data that are no watch event; watch again from the last version seen."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class AnswerTooLarge(StreamBroken):
    """An answer, or an event of a watch, has more bytes than the settings allow; the message names the setting. Not retried."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.retriable = False


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed later without anyone changing anything: no answer, 429, 5xx.

    Whether it is *safe* to repeat is another question: see `is_outcome_unknown`.
    """
    if isinstance(error, RequestError):
        return error.retriable
    return isinstance(error, APIError) and (error.code == 429 or (error.code >= 500 and error.code not in {501, 505}))


def is_outcome_unknown(error: BaseException) -> bool:
    """Whether a write that ended so may have been applied nevertheless.

    True for requests that were sent and not answered, and for 5xx answers (a server that waits too long for etcd answers
    500 or 504 and may commit later), unless the server asked for a retry: then it has not begun.
    """
    if isinstance(error, RequestError):
        return error.sent
    return isinstance(error, APIError) and error.code >= 500 and error.retry_after is None


def in_words(error: Exception) -> str:
    """The error of a failed request, as text for the log: a TimeoutError has no message."""
    return "no answer came in time" if isinstance(error, TimeoutError) else str(error)


def _without_secrets(request: str | None, message: str) -> str:
    """A server's message; for a request about Secrets without the values that it quotes."""
    return _QUOTED.sub(r"\1...", message) if request is not None and _SECRETS.search(request) else message
