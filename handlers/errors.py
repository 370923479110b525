"""Errors by which handlers decide about their next attempt, and errors of declarations.

A handler raises `TemporaryError` or `PermanentError` on purpose; the effect of its other exceptions is set by its
`ErrorsMode`. A declaration that cannot work is refused when it is made.
"""

import enum


class ErrorsMode(enum.Enum):
    """The effect of an exception of a handler that is neither TemporaryError nor PermanentError."""

    IGNORED = 1
    """The handler counts as done; the exception is only logged."""
    TEMPORARY = 2
    """The handler is tried again after its back-off."""
    PERMANENT = 3
    """The handler has failed for good."""


class PermanentError(Exception):
    """The handler has failed for good."""


class TemporaryError(Exception):
    """The handler is tried again after `delay` seconds (None: as soon as possible).

    A delay that is no number, or ends after the last date, is logged and replaced by `settings.execution.default_backoff`.
    """

    def __init__(self, msg: str | None = None, /, delay: float | None = 60) -> None:
        super().__init__(msg)
        self.delay = delay


class HandlerTimeoutError(PermanentError):
    """The handler's `timeout` has passed, or would pass before its next attempt."""


class HandlerRetriesError(PermanentError):
    """The handler's `retries` are used up."""


class AdmissionError(PermanentError):
    """An admission handler refuses the request with this message and HTTP-like code (500 unless given)."""

    def __init__(self, message: str | None = "", code: int | None = 500) -> None:
        super().__init__(message)
        self.code = code


class LoginError(Exception):
    """No usable credentials: the login handlers returned none, or the server accepts none of them."""


class HandlerSignatureError(TypeError):
    """A function declared as a handler or callback does not accept the arguments of its calls."""
