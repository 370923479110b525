"""A context variable holds what this task is working on; JSON log lines get fields from it.

The fields are computed only when a line is written.
"""

import itertools
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

_PROCESS: Final = secrets.token_hex(4)


class LogContext(Protocol):
    """Work that log lines are written in."""

    def fields(self) -> Mapping[str, Any]:
        """The fields of the JSON lines that are written during this work; called in any thread that writes one."""


log_context: Final[ContextVar[LogContext | None]] = ContextVar("log context", default=None)
"""The work of this task, or of the thread that runs a part of it; None when it is not known."""


def current_fields() -> Mapping[str, Any]:
    """The fields of the current work; none when it is not known."""
    now = log_context.get()
    return {} if now is None else now.fields()


next_number: Final = itertools.count(1).__next__
"""Numbers pieces of work; `unique_name` makes a name of the number."""


def unique_name(number: int) -> str:
    """The name of numbered work; no other process uses it."""
    return f"{_PROCESS}-{number}"
