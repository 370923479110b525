"""What every part of one running operator shares."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ..client.objects import Object
from ..client.resources import Key, Resource
from ..client.rest import Client
from ..informers.informer import Informer
from .background.memories import Memories
from .declaration.registry import OperatorRegistry
from .declaration.specs import ChangingSpec
from .indices import Indices
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
    indices: Indices = field(default_factory=Indices)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one object lives for the process: its key in the informer's copy, own writes included."""

    informer: Informer
    key: Key
    patience: float
    """How long to wait for the watch where the copy cannot show an answer of the server by itself, in seconds."""

    @property
    def resource(self) -> Resource:
        """The resource of the object."""
        return self.informer.resource

    def latest(self) -> Object | None:
        """The newest known version; None: there is no such object."""
        return self.informer.store.get(self.key)

    def writing(self) -> AbstractContextManager[None]:
        """While inside, a write is on its way: what the watch tells of the object waits for its answer."""
        return self.informer.writing(self.key)

    async def seen(self, obj: Object) -> None:
        """Let everybody see an answer of the server before the watch tells of it."""
        if not self.informer.overlay(obj):
            await self.informer.wait_for(obj, self.patience)
