"""Options of the commands: how they are named in the environment, and the ones that several commands share."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

import click

from ..handlers.loggers import configure
from ..runtime.logs import LogFormat

PREFIX = "CTL"
LEGACY_PREFIX = "KOPF"

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Option(click.Option):
    """An option that `CTL_{COMMAND}_{NAME}` sets as well, and `KOPF_{COMMAND}_{NAME}` where that is absent.

    The name is Kopf's for the option; ours may be the option as it is written, too: CTL_RUN_CLUSTERWIDE or CTL_RUN_ALL_NAMESPACES.
    `legacy` are further names that Kopf's variable has had; of an option that can be repeated, the values of all of
    them add up. Values of such options are separated by spaces.
    """

    def __init__(self, *args: Any, legacy: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._legacy = tuple(legacy)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Look at our variable, then at Kopf's."""
        own = super().resolve_envvar_value(ctx)
        if own is not None or not self.name or not (ctx.auto_envvar_prefix or "").startswith(PREFIX):
            return own
        for option in self.opts:
            written = os.environ.get(f"{ctx.auto_envvar_prefix}_{option.lstrip('-').upper().replace('-', '_')}")
            if written and option.startswith("--"):
                return written
        prefix = LEGACY_PREFIX + (ctx.auto_envvar_prefix or "").removeprefix(PREFIX)
        found = [os.environ.get(f"{prefix}_{name}") for name in (self.name.upper(), *self._legacy)]
        values = [value for value in found if value]
        if not values:
            return None
        return " ".join(values) if self.multiple else values[0]


def logging_options(fn: Callable[_P, _T]) -> Callable[..., _T]:
    """Give a command the logging options; logging is set up before its function is called, which does not see them."""

    @functools.wraps(fn)
    def with_logging(*args: Any, **kwargs: Any) -> _T:
        configure(**{name: kwargs.pop(name) for name in _LOGGING})
        return fn(*args, **kwargs)

    command: Callable[..., _T] = with_logging
    for names, settings in reversed(_LOGGING.values()):
        command = click.option(*names, cls=Option, **settings)(command)
    return command


_LOGGING: Final[dict[str, tuple[tuple[str, ...], dict[str, Any]]]] = {
    "verbose": (("-v", "--verbose"), {"is_flag": True, "help": "Show what the operator does, step by step."}),
    "debug": (("-d", "--debug"), {"is_flag": True, "help": "Show everything, the event loop's internals included."}),
    "quiet": (("-q", "--quiet"), {"is_flag": True, "help": "Show warnings and errors only."}),
    "log_format": (
        ("--log-format",),
        {
            "type": click.Choice(LogFormat, case_sensitive=False),
            "default": LogFormat.FULL.name.lower(),
            "show_default": True,
            "help": "How lines look.",
        },
    ),
    "log_refkey": (
        ("--log-refkey",),
        {"metavar": "NAME", "help": "The JSON field that identifies the object.  [default: object]"},
    ),
    "log_prefix": (
        ("--log-prefix/--no-log-prefix",),
        {"default": None, "help": "Begin messages with [namespace/name].  [default: for text, not for JSON]"},
    ),
}
