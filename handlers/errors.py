"""The errors by which a handler tells what shall become of it, and those that blame a declaration.

Whose fault an error is decides the next step: a handler raises `TemporaryError` or `PermanentError` on purpose; any other
exception of a handler is judged by its `ErrorsMode`; a declaration that cannot work is refused when it is made.
"""

import enum


class ErrorsMode(enum.Enum):
    """What an arbitrary exception of a handler means (neither TemporaryError nor PermanentError)."""

    IGNORED = 1
    """The handler counts as done; the exception is only logged."""
    TEMPORARY = 2
    """The handler is tried again after its back-off."""
    PERMANENT = 3
    """The handler has failed for good."""


class PermanentError(Exception):
    """The handler has failed and must not be tried again."""


class TemporaryError(Exception):
    """The handler has failed now and shall be tried again after `delay` seconds (None: as soon as possible).

    For a delay that is no number, or ends after the last date, the log says that `settings.execution.default_backoff` is taken.
    """

    def __init__(self, msg: str | None = None, /, delay: float | None = 60) -> None:
        super().__init__(msg)
        self.delay = delay


class HandlerTimeoutError(PermanentError):
    """The handler's `timeout` has passed, or would have passed before its next attempt."""


class HandlerRetriesError(PermanentError):
    """The handler's `retries` are used up."""


class AdmissionError(PermanentError):
    """An admission handler refuses the request with this message and HTTP-like code (500 unless given)."""

    def __init__(self, message: str | None = "", code: int | None = 500) -> None:
        super().__init__(message)
        self.code = code


class LoginError(Exception):
    """No usable credentials: the login handlers gave none, or the server accepts none of them."""


class HandlerSignatureError(TypeError):
    """A function declared as a handler or as a callback cannot be called with the arguments it will be given."""
