"""What a controller is to look at and how it is to work, as the builder's sentence has said it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...client.resources import Key
from ...informers.indexers import IndexFunction
from ...informers.informer import Informer
from ...workqueue import RateLimiter
from ..kernel.mappers import Mapper
from ..kernel.predicates import Predicate


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """One thing to look at: a resource by name, and which keys its changes ask for (None: those of the owners)."""

    name: str
    mapper: Mapper[Key] | None
    predicate: Predicate | None
    controller_only: bool = True
    is_read_only: bool = False
    informer: Informer | None = None
    """One that is there already, to be used instead of the factory's."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source of items that ask for keys; see `Builder.watches_source`."""

    name: str
    source: Any
    keys: Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How a controller works; see the methods of `Builder`."""

    name: str
    concurrency: int | None = 1
    timeout: float | None = None
    rate_limiter: RateLimiter[Key] | None = None
    namespaces: tuple[str, ...] | None = None
    selector: str | None = None
    skips_backoff_on: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole sentence."""

    primary: WatchSpec
    options: ControllerOptions
    watches: tuple[WatchSpec, ...] = ()
    sources: tuple[SourceSpec, ...] = ()
    indexes: tuple[tuple[str, str, IndexFunction], ...] = ()
