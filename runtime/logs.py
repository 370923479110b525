"""Logs go to standard error in one of three formats, through the standard `logging` machinery.

What a record is about (an object, a peer, a shard) is not known here: a `Subject` says how to show it. Everything works
with the standard library's loggers, so an embedding program that configures logging itself loses nothing.
"""

import contextlib
import copy
import enum
import logging
import os
import sys
from collections.abc import Hashable, Iterable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO, TypeAlias

from pythonjsonlogger.json import JsonFormatter

from .log_context import current_fields
from .log_limits import Omitted, RepeatFilter, shortened_traceback

Logger: TypeAlias = logging.Logger | logging.LoggerAdapter[Any]
"""What handlers get and helpers take: anything of the standard library that logs."""

_SEVERITIES = ((logging.CRITICAL, "fatal"), (logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"))
_COLOURS = ((logging.ERROR, 31), (logging.WARNING, 33))
"""Red and yellow, of ANSI terminals; other lines have none."""


_WHOLE_BODIES = ("kubernetes.client.rest", "kubernetes_asyncio.client.rest")


class LogFormat(enum.Enum):
    """The formats of the command line; `configure` takes any %-style format string as well."""

    PLAIN = "%(message)s"
    FULL = "[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s"
    JSON = "json"


class Subject(Protocol):
    """Shows the object that a record is about."""

    reserved: frozenset[str]
    """The record attributes that carry it, and so are no fields of their own in JSON."""

    def prefix(self, record: logging.LogRecord) -> str:
        """What to put before the message, or an empty string."""

    def reference(self, record: logging.LogRecord) -> tuple[str, Mapping[str, Any]] | None:
        """The JSON field that identifies it, by name and value, or None when the record is about nothing in particular."""


@dataclass(frozen=True)
class Style:
    """How records are written."""

    format: LogFormat | str = LogFormat.FULL
    subject: Subject | None = None
    """Shows the objects of records; None: they are not shown."""
    prefix: bool = False
    """Whether the subject's prefix stands before each message."""


@dataclass(frozen=True)
class Verbosity:
    """How much is written: warnings when quiet, everything when verbose or debugging, else from INFO up."""

    verbose: bool = False
    debug: bool = False
    quiet: bool = False

    @property
    def level(self) -> int:
        """The root logger's level. Being verbose wins over being quiet."""
        if self.debug or self.verbose:
            return logging.DEBUG
        return logging.WARNING if self.quiet else logging.INFO


class _Formatter(logging.Formatter):
    """Shows no more of a traceback than its beginning and its end, if it is long."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is the base class's
        return shortened_traceback(super().formatException(ei))


class TextFormatter(_Formatter):
    """One line for each record (and a traceback where there is one), after the subject's prefix if asked for."""

    def __init__(self, style: Style, *, coloured: bool = False) -> None:
        super().__init__(style.format.value if isinstance(style.format, LogFormat) else style.format)
        self._subject = style.subject if style.prefix else None
        self._coloured = coloured

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the base class's
        """Put the prefix before the message; the rest as usual."""
        if self._subject is not None:
            # Every formatter sets `message` anew before it comes here, so other handlers see no prefix of ours.
            record.message = self._subject.prefix(record) + record.message
        text = super().formatMessage(record)
        colour = next((code for level, code in _COLOURS if record.levelno >= level), None) if self._coloured else None
        return text if colour is None else f"\033[{colour}m{text}\033[0m"


class JSONFormatter(_Formatter, JsonFormatter):
    """One JSON object for each record.

    Fields: `message`, the record's extras, `exc_info` if any, `timestamp` (ISO-8601 with an offset, UTC), the subject's
    reference, `severity` (debug, info, warn, error or fatal: what log collectors expect), and the fields of the log
    context that the record does not have.
    """

    def __init__(self, style: Style) -> None:
        subject = style.subject
        self._subject = subject
        self._prefixed = style.prefix
        self._own: frozenset[str] = subject.reserved if subject is not None else frozenset()
        super().__init__(reserved_attrs=[*_standard_attributes(), *self._own])

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Add what a collector looks for to the message and its extras."""
        super().add_fields(log_data, record, message_dict)
        log_data["timestamp"] = datetime.fromtimestamp(record.created, tz=UTC).isoformat()
        log_data["severity"] = severity(record.levelno)
        if self._subject is not None:
            if self._prefixed and "message" in log_data:
                log_data["message"] = self._subject.prefix(record) + str(log_data["message"])
            if reference := self._subject.reference(record):
                name, value = reference
                log_data[name] = dict(value)
        for name, value in current_fields().items():
            if name not in self._own:
                log_data.setdefault(name, value)


class _OwnHandler(logging.StreamHandler[Any]):
    """A handler that `configure` made, and so may replace. Failures that repeat are counted (see `log_limits`)."""

    def __init__(self, stream: TextIO, subject: Subject | None) -> None:
        super().__init__(stream)
        self._subject = subject
        self._repeats = RepeatFilter()
        self._last: dict[Hashable, tuple[logging.LogRecord, Context]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, after what was counted before it; called under the handler's lock."""
        self._tell(self._repeats.due(record.created))
        if record.levelno < logging.WARNING:
            super().emit(record)
            return
        try:
            about = self._subject.prefix(record) if self._subject is not None else ""
            key = (record.name, record.levelno, about, record.getMessage())
        except Exception:  # arguments that do not fit: that is told by the stream handler, with the place
            super().emit(record)
            return
        if self._repeats.take(key, record.created):
            super().emit(record)
        else:
            # Its count is written later, in the log context that it had.
            self._last[key] = record, copy_context()

    def close(self) -> None:
        """Write what was counted, and end."""
        with self.lock or contextlib.nullcontext():
            found = list(self._repeats.rest())
            # The program may have closed its standard error.
            if not self.stream.closed:
                self._tell(found)
        super().close()

    def _tell(self, found: Iterable[Omitted]) -> None:
        for omitted in found:
            last, context = self._last.pop(omitted.key)
            summed = copy.copy(last)
            summed.msg, summed.args = f"{last.getMessage()} [{omitted.count} more times since then]", None
            # Its traceback was written with those before it.
            summed.exc_info = summed.exc_text = summed.stack_info = None
            context.run(super().emit, summed)


def configure(verbosity: Verbosity, style: Style) -> None:
    """Write the records of all loggers to standard error, in this style and from this level up.

    Of equal warnings and errors about one subject REPEATS are written within WINDOW seconds, and then a count of the others (see `log_limits`).
    Replaces what an earlier call set up and leaves all other handlers alone. The `asyncio` logger is kept to warnings
    unless debugging: its other messages say nothing to a user. Client libraries that write whole answers at DEBUG, Secrets included, are
    kept to INFO unless their loggers have a level of their own.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _OwnHandler)]:
        root.removeHandler(handler)
        handler.close()
    handler = _OwnHandler(sys.stderr, style.subject)
    if style.format is LogFormat.JSON:
        handler.setFormatter(JSONFormatter(style))
    else:
        handler.setFormatter(TextFormatter(style, coloured=may_colour(sys.stderr, os.environ)))
    root.addHandler(handler)
    root.setLevel(verbosity.level)
    logging.getLogger("asyncio").setLevel(logging.NOTSET if verbosity.debug else logging.WARNING)
    for name in _WHOLE_BODIES:
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.INFO)


def may_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether lines may have colours: on a terminal that has some, unless NO_COLOR is set to anything (no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def severity(level: int) -> str:
    """The word for a level, in the vocabulary of log collectors."""
    return next((word for threshold, word in _SEVERITIES if level >= threshold), "debug")


def _standard_attributes() -> set[str]:
    """What every record has; anything else was added by the one who logged."""
    return {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
