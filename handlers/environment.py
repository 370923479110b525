"""What every part of one running operator shares."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..client.objects import Object
from ..client.resources import Resource
from ..client.rest import Client
from .background.memories import Memories
from .declaration.registry import OperatorRegistry
from .declaration.specs import ChangingSpec
from .settings import OperatorSettings

Lifecycle = Callable[..., Sequence[ChangingSpec]]


@dataclass(frozen=True, slots=True)
class Environment:
    """The declared handlers, the settings, the way to the server, and what is remembered.

    `memo` is the operator's; each object's is a copy of it. `indices` are given to every handler by name.
    """

    registry: OperatorRegistry
    settings: OperatorSettings
    client: Client
    lifecycle: Lifecycle
    memo: Any
    memories: Memories = field(default_factory=Memories)
    indices: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one object lives for the process: its resource, and the cached copy of it.

    `latest` gives the newest known version, own writes included (None: there is no such object); `seen` is told of
    each answer of the server.
    """

    resource: Resource
    latest: Callable[[], Object | None]
    seen: Callable[[Object], None]
