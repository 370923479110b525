"""Options of the commands: their names in the environment, the ones that several commands share, and `CLIControls`."""

import asyncio
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

import click

from ..client.resources import Resource
from ..handlers.loggers import configure
from ..runtime.logs import LogFormat

PREFIX = "CTL"
LEGACY_PREFIX = "KOPF"
NAMESPACES: Final = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)

_P = ParamSpec("_P")
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass
class CLIControls:
    """Parts of an operator that the invoking program may supply as click's `obj`. The command supplies those that are
    None.
    """

    ready_flag: Any = None
    """Set when the operator has started: a future or an event, of asyncio or of threads."""
    stop_flag: Any = None
    """The operator stops when this is set: as `ready_flag`."""
    vault: Any = None
    """Refused: credentials come from login handlers, from a kubeconfig or from the pod."""
    registry: Any = None
    """The handlers. Files that the command loads register theirs in the default registry all the same."""
    settings: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    """The loop to run in. It stays open; a loop that the command makes is closed."""


class Option(click.Option):
    """An option that `CTL_{COMMAND}_{NAME}` sets as well, and `KOPF_{COMMAND}_{NAME}` where that is absent.

    NAME is Kopf's name of the option, or the option's own: CTL_RUN_CLUSTERWIDE or CTL_RUN_ALL_NAMESPACES. `legacy` are
    further names that Kopf's variable has had. The values of a repeatable option are separated by spaces, and those of
    all its variables add up.
    """

    def __init__(self, *args: Any, legacy: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._legacy = tuple(legacy)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Read our variable, else Kopf's."""
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


def option(*names: str, **settings: Any) -> Callable[[_F], _F]:
    """Add an `Option` to a command."""
    return click.option(*names, cls=Option, **settings)


def joined(*options: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Several options as one decorator; the help shows them in this order."""
    return lambda fn: functools.reduce(lambda command, add: add(command), reversed(options), fn)


def logging_options(fn: Callable[_P, _T]) -> Callable[..., _T]:
    """Add the logging options to a command. They are applied, and not passed to its function."""

    @functools.wraps(fn)
    def with_logging(*args: Any, **kwargs: Any) -> _T:
        configure(**{name: kwargs.pop(name) for name in _LOGGING})
        return fn(*args, **kwargs)

    return joined(*(option(*names, **settings) for names, settings in _LOGGING.values()))(with_logging)


cluster_options = joined(
    option("--kubeconfig", metavar="PATH", help="Use this kubeconfig."),
    option("--context", metavar="NAME", help="Use this context of the kubeconfig."),
)
"""The options that name a kubeconfig and a context."""


def check_namespaces(given: Mapping[str, Any]) -> None:
    """Raise click.UsageError if both --namespace and --all-namespaces are given."""
    if given["namespaces"] and given["clusterwide"]:
        raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")


_LOGGING: Final[dict[str, tuple[tuple[str, ...], dict[str, Any]]]] = {
    "verbose": (("-v", "--verbose"), {"is_flag": True, "help": "Show what the operator does, step by step."}),
    "debug": (("-d", "--debug"), {"is_flag": True, "help": "Show everything, including internals of the event loop."}),
    "quiet": (("-q", "--quiet"), {"is_flag": True, "help": "Show warnings and errors only."}),
    "log_format": (
        ("--log-format",),
        {
            "type": click.Choice(LogFormat, case_sensitive=False),
            "default": LogFormat.FULL.name.lower(),
            "show_default": True,
            "help": "The format of lines.",
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
