"""What the parts of one running operator share: handlers, settings, client, memories; keys and cached objects."""

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from ...client.objects import Object
from ...client.resources import Resource
from ...client.rest import Client
from ...informers.deltas import Delta
from ..causes.causes import ChangingCause
from ..causes.views import Body
from ..declaration.registry import OperatorRegistry
from ..declaration.specs import ChangingSpec, HandlerId
from ..indices import Indices
from ..settings import OperatorSettings
from ..storage.baseline import MARKED, Baseline
from ..storage.outside import OutsideProgressStorage, outside_of
from ..storage.secrets import Values
from .memories import Memories

Lifecycle = Callable[..., Sequence[ChangingSpec]]


@dataclass(frozen=True, slots=True)
class Environment:
    """The declared handlers, the settings, the client, and the memories of objects.

    `memo` is the operator's; each object's is a copy of it. `indices` are arguments of every handler.
    """

    registry: OperatorRegistry
    settings: OperatorSettings
    client: Client
    lifecycle: Lifecycle
    memo: Any
    memories: Memories = field(default_factory=Memories)
    indices: Indices = field(default_factory=Indices)
    values: Values = field(default_factory=Values)
    """The values behind the seals of Secrets."""
    outside: tuple[OutsideProgressStorage, ...] = field(init=False)
    """The storages that keep progress outside of the objects. (Settings are frozen before there is an environment.)"""
    # The served versions of a resource, by group and plural, if there are several.
    _several: dict[tuple[str, str], set[Resource]] = field(default_factory=dict)
    # By resource; made anew when the fields of the filters change.
    _baselines: dict[Resource, Baseline] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outside", tuple(outside_of(self.settings.persistence.progress_storage)))

    def serve(self, resources: Iterable[Resource]) -> None:
        """Set the resources that are served from now on."""
        versions: dict[tuple[str, str], set[Resource]] = {}
        for resource in resources:
            versions.setdefault((resource.group, resource.plural), set()).add(resource)
        self._several.clear()
        self._several.update((kind, found) for kind, found in versions.items() if len(found) > 1)
        self._baselines.clear()

    def has_versions(self, resource: Resource) -> bool:
        """Whether other versions of the resource are served too: each object is an object of all versions."""
        return bool(self._several) and (resource.group, resource.plural) in self._several

    def requires_finalizer(self, cause: ChangingCause, exited: Container[HandlerId], *, present: bool) -> bool:
        """Whether the object is to have the finalizer, for the handlers of this version; `exited` are daemons that are not started again.

        An existing one stays while handlers of another version may need it: their filters may see other fields.
        """
        if self.registry.requires_finalizer(cause.resource, cause, excluded=exited):
            return True
        others = (self.registry.of(other) for other in self._others(cause.resource)) if present else ()
        return any(other.spawning.all or other.guards for other in others)

    def is_for_others(self, cause: ChangingCause) -> bool:
        """Whether a deletion that no handler of this version matches is for handlers of another version."""
        if not self.has_versions(cause.resource) or self.registry.changing(cause):
            return False
        return any(self.registry.changing(cause.but(resource=other)) for other in self._others(cause.resource))

    def ids_beside(self, resource: Resource) -> set[HandlerId]:
        """The ids of the change handlers of the other served versions; a function for several versions has the same id in all."""
        return {found for other in self._others(resource) for found in self.registry.of(other).changing_ids}

    def _others(self, resource: Resource) -> set[Resource]:
        return self._several.get((resource.group, resource.plural), set()) - {resource}

    def is_blind_to_status(self, resource: Resource) -> bool:
        """Whether neither handlers of changes nor the storages of their state look at the status."""
        if self.outside or self.has_versions(resource) or not self.registry.of(resource).is_steady:
            return False
        return self.baseline(resource).is_blind_to_status

    def meet(self, resource: Resource, delta: Delta) -> None:
        """Remember the object of a delta, if it is not known yet.

        Handlers' state on an object that was just created was copied from another object. An object that begins to match a
        selector was not just created. State that names another uid was copied in any case.
        """
        obj = delta.object
        known = self.memories.find(obj.identity)
        if known is not None:
            if self.has_versions(resource) and self.registry.of(resource).interest.changing:
                known.aspect(resource.version)
            return
        watching = self.settings.watching
        selectors = (watching.label_selectors, watching.field_selectors, watching.shard_selectors)
        newborn = delta.wire_type == "ADDED" and not any(
            found for mapping in selectors for found in mapping.collect(resource)
        )
        copied = False
        if (newborn or MARKED in obj.raw) and self.registry.of(resource).interest.changing:
            copied = self._says_what_is_anothers(obj, resource, newborn=newborn)
        self.memories.recall(obj.identity, initial=delta.wire_type is None, copied=copied).aspect(resource.version)

    def _says_what_is_anothers(self, obj: Object, resource: Resource, *, newborn: bool) -> bool:
        baseline = self.baseline(resource)
        try:
            body = Body(obj.body())
        except (msgspec.MsgspecError, RecursionError):
            return False  # no handler will see it: its attempts log the error
        return (newborn and baseline.is_on(body)) or (MARKED in obj.raw and baseline.is_copied(body))

    def disbelieve(self, obj: Object) -> None:
        """Ignore the handlers' state on this new object: it is that of an earlier object of the name."""
        memory = self.memories.recall(obj.identity)
        memory.known.copied, memory.settled = True, None

    async def load(self, obj: Object) -> None:
        """Load the progress of an object from the storages outside of it."""
        for storage in self.outside:
            await storage.load(self.client, Body(obj.body()))

    def is_record(self, obj: Object) -> bool:
        """Whether an object is a record of such a storage: it has no progress itself."""
        return bool(self.outside) and any(storage.is_record(Body(obj.body())) for storage in self.outside)

    def keeper(self) -> Callable[[Object], Awaitable[None]] | None:
        """The function that writes to these storages, to be called when the object is written; None without such storages."""
        if not self.outside:
            return None

        async def keep(obj: Object) -> None:
            body = Body(obj.body())
            for storage in self.outside:
                await storage.commit(self.client, body)

        return keep

    def forget(self, uid: str) -> None:
        """Forget an object that is gone."""
        self.memories.forget(uid)
        self.values.forget(uid)
        for storage in self.outside:
            storage.forget(uid)

    def renew(self) -> None:
        """Forget everything, as at the start of the process: another one has worked on the objects meanwhile."""
        self.memories.renew()
        for storage in self.outside:
            storage.renew()

    def baseline(self, resource: Resource) -> Baseline:
        """The diff-base and progress of the objects of a resource."""
        fields = self.registry.of(resource).fields
        known = self._baselines.get(resource)
        if known is None or known.fields is not fields:
            persistence = self.settings.persistence
            known = self._baselines[resource] = Baseline(
                persistence.diffbase_storage,
                persistence.progress_storage,
                fields,
                largest=persistence.largest_annotation,
                plain_secrets=persistence.plain_secrets,
                marks=persistence.uid_annotation,
                values=self.values,
                several=self.has_versions(resource),
            )
        return known


class ObjectKey(str):
    """The key of one object, as people write it: `plural.version.group namespace/name`.

    A string, whose hash is computed once: a key is looked up some thirty times for each event.
    """

    __slots__ = ("kind", "name", "namespace", "resource")

    resource: Resource
    namespace: str | None
    name: str
    kind: str
    """The resource as text, for look-ups: its hash is computed once, too."""

    def __new__(cls, resource: Resource, namespace: str | None, name: str, kind: str = "") -> Self:
        """Make the key of an object of a resource, whose `repr()` may be given as `kind` to make many keys fast."""
        kind = kind or repr(resource)
        self = str.__new__(cls, f"{kind} {name}" if namespace is None else f"{kind} {namespace}/{name}")
        self.resource, self.namespace, self.name, self.kind = resource, namespace, name, kind
        return self
