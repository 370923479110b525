"""A context variable tells log lines what the process is doing.

Whoever begins something says so with one `situation.set(...)`; what it is in words is asked for only when a JSON line is written.
"""

import itertools
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

_PROCESS: Final = secrets.token_hex(4)


class Situation(Protocol):
    """What is being done."""

    def told(self) -> Mapping[str, Any]:
        """The fields of the JSON lines that are written meanwhile; called in whatever thread writes one."""


situation: Final[ContextVar[Situation | None]] = ContextVar("situation", default=None)
"""What is being done in this task, or in the thread that runs a part of it; None when nobody has said."""


def told() -> Mapping[str, Any]:
    """The fields of what is being done now, none when nobody has said."""
    now = situation.get()
    return {} if now is None else now.told()


number: Final = itertools.count(1).__next__
"""Gives a number for what begins now, of which `identity` makes a name."""


def identity(numbered: int) -> str:
    """What a number is known by: other processes have other names for theirs."""
    return f"{_PROCESS}-{numbered}"
