"""What every part of one running operator shares."""

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from ...client.objects import Object
from ...client.resources import Key, Resource
from ...client.rest import Client
from ...informers.deltas import Delta
from ...informers.informer import Informer
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
    values: Values = field(default_factory=Values)
    """What the seals of Secrets stand for."""
    outside: tuple[OutsideProgressStorage, ...] = field(init=False)
    """The storages that keep progress outside of the objects. (Settings are frozen before there is an environment.)"""
    # The versions of what is served in several, by group and plural.
    _several: dict[tuple[str, str], set[Resource]] = field(default_factory=dict)
    # One for each resource, for as long as the handlers look at the same fields.
    _baselines: dict[Resource, Baseline] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look into the settings."""
        object.__setattr__(self, "outside", tuple(outside_of(self.settings.persistence.progress_storage)))

    def serve(self, resources: Iterable[Resource]) -> None:
        """Know which resources are served, from now on."""
        versions: dict[tuple[str, str], set[Resource]] = {}
        for resource in resources:
            versions.setdefault((resource.group, resource.plural), set()).add(resource)
        self._several.clear()
        self._several.update((kind, found) for kind, found in versions.items() if len(found) > 1)
        self._baselines.clear()

    def has_versions(self, resource: Resource) -> bool:
        """Whether other versions of the resource are served beside it: an object of one is an object of each."""
        return bool(self._several) and (resource.group, resource.plural) in self._several

    def requires_finalizer(self, cause: ChangingCause, exited: Container[HandlerId], *, present: bool) -> bool:
        """Whether the object is to have the finalizer, for the handlers of this version; `exited` are daemons that are not begun again.

        One that is there stays while those of another version may need it: what they make of it, only they know.
        """
        if self.registry.requires_finalizer(cause.resource, cause, excluded=exited):
            return True
        return present and any(self.registry.may_require_finalizer(other) for other in self._others(cause.resource))

    def is_for_others(self, cause: ChangingCause) -> bool:
        """Whether a deletion that no handler of this version is for is one for those of another version."""
        if not self.has_versions(cause.resource) or self.registry.changing(cause):
            return False
        return any(self.registry.changing(cause.but(resource=other)) for other in self._others(cause.resource))

    def ids_beside(self, resource: Resource) -> set[HandlerId]:
        """The ids of the change handlers of the other served versions; a function for several versions has one for all of them."""
        return {found for other in self._others(resource) for found in self.registry.changing_ids(other)}

    def _others(self, resource: Resource) -> set[Resource]:
        return self._several.get((resource.group, resource.plural), set()) - {resource}

    def is_blind_to_status(self, resource: Resource) -> bool:
        """Whether neither handlers of changes nor what remembers their work look at what controllers write by themselves."""
        if self.outside or self.has_versions(resource) or not self.registry.is_steady(resource):
            return False
        return self.baseline(resource).is_blind_to_status

    def meet(self, resource: Resource, delta: Delta) -> None:
        """Remember an object of which a delta tells, if it is not known yet.

        What a newborn says of having been handled was copied from another object: nobody has handled this one yet. Who
        comes into sight by a selector is no newborn. What names another uid was copied, whenever that was.
        """
        obj = delta.object
        known = self.memories.find(obj.identity)
        if known is not None:
            if self.has_versions(resource) and self.registry.handles(resource).changing:
                known.aspect(resource.version)
            return
        watching = self.settings.watching
        selectors = (watching.label_selectors, watching.field_selectors, watching.shard_selectors)
        newborn = delta.wire_type == "ADDED" and not any(
            found for mapping in selectors for found in mapping.collect(resource)
        )
        copied = False
        if (newborn or MARKED in obj.raw) and self.registry.handles(resource).changing:
            copied = self._says_what_is_anothers(obj, resource, newborn=newborn)
        self.memories.recall(obj.identity, initial=delta.wire_type is None, copied=copied).aspect(resource.version)

    def _says_what_is_anothers(self, obj: Object, resource: Resource, *, newborn: bool) -> bool:
        baseline = self.baseline(resource)
        try:
            body = Body(obj.body())
        except (msgspec.MsgspecError, RecursionError):
            return False  # no handler will see it: its attempts say why
        return (newborn and baseline.is_on(body)) or (MARKED in obj.raw and baseline.is_copied(body))

    def disbelieve(self, obj: Object) -> None:
        """What this newborn says of having been handled is about another object, which had its name."""
        memory = self.memories.recall(obj.identity)
        memory.known.copied, memory.settled = True, None

    async def load(self, obj: Object) -> None:
        """Know what is remembered of an object outside of it."""
        for storage in self.outside:
            await storage.load(self.client, Body(obj.body()))

    def is_record(self, obj: Object) -> bool:
        """Whether an object is one in which such things are remembered: nothing is to be remembered of it in turn."""
        return bool(self.outside) and any(storage.is_record(Body(obj.body())) for storage in self.outside)

    def keeper(self) -> Callable[[Object], Awaitable[None]] | None:
        """What writes that, to be called when the object is written; None where nothing is outside."""
        if not self.outside:
            return None

        async def keep(obj: Object) -> None:
            body = Body(obj.body())
            for storage in self.outside:
                await storage.commit(self.client, body)

        return keep

    def forget(self, uid: str) -> None:
        """Drop what is known of an object that is gone."""
        self.memories.forget(uid)
        self.values.forget(uid)
        for storage in self.outside:
            storage.forget(uid)

    def renew(self) -> None:
        """Be as if the process had begun just now: another one has worked on the objects meanwhile."""
        self.memories.renew()
        for storage in self.outside:
            storage.renew()

    def baseline(self, resource: Resource) -> Baseline:
        """How the objects of a resource remember what was handled."""
        fields = self.registry.extra_fields(resource)
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
    """Which object of which resource, as people write it: `plural.version.group namespace/name`.

    A string, since its hash is worked out once: a key is looked up some thirty times for each event.
    """

    __slots__ = ("kind", "name", "namespace", "resource")

    resource: Resource
    namespace: str | None
    name: str
    kind: str
    """The resource as text: what it is looked up by, since its hash is worked out once, too."""

    def __new__(cls, resource: Resource, namespace: str | None, name: str, kind: str = "") -> Self:
        """Make the key of an object of a resource, whose `repr()` may be given as `kind` by who makes many."""
        kind = kind or repr(resource)
        self = str.__new__(cls, f"{kind} {name}" if namespace is None else f"{kind} {namespace}/{name}")
        self.resource, self.namespace, self.name, self.kind = resource, namespace, name, kind
        return self


class CachedObject(msgspec.Struct):
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
