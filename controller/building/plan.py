"""What a controller is to look at and how it is to work, as the builder's sentence has said it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...client.resources import Key
from ...informers.indexers import IndexFunction
from ...informers.informer import Informer
from ...workqueue import Limiter
from ..kernel.mappers import Trigger
from ..kernel.predicates import Predicate


@dataclass(frozen=True, slots=True)
class Look:
    """One thing to look at: a resource by name, and which keys its changes ask for (None: those of the owners)."""

    name: str
    trigger: Trigger[Key] | None
    predicate: Predicate | None
    controller_only: bool = True
    is_read_only: bool = False
    informer: Informer | None = None
    """One that is there already, to be used instead of the factory's."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One source of items that ask for keys; see `Blueprint.follows`."""

    name: str
    source: Any
    keys: Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class Options:
    """How a controller works; see the methods of `Blueprint`."""

    name: str
    concurrency: int | None = 1
    timeout: float | None = None
    limiter: Limiter[Key] | None = None
    namespaces: tuple[str, ...] | None = None
    selector: str | None = None
    urgent: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole sentence."""

    primary: Look
    options: Options
    looks: tuple[Look, ...] = ()
    feeds: tuple[Feed, ...] = ()
    indexes: tuple[tuple[str, str, IndexFunction], ...] = ()
