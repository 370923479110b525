"""Say of one object where it stands and why: for people who ask why nothing happens to it, or why so much does."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ...client.objects import Object
from ...client.resources import Key, Resource
from ...controller.http.explain import of_object
from ...controller.kernel.controller import Controller
from ...informers.informer import Informer
from ...runtime import clock
from ..causes.views import Body
from ..cycle.reconciler import ObjectKey, ObjectReconciler
from ..daemons.daemons import Spawned
from ..daemons.timers import Timer
from ..environment.memories import Memory
from ..execution.progression import Progress, from_record

EXAMPLE = "kopfexamples.kopf.dev/default/my-object"
"""A key as it is asked for."""


@dataclass(frozen=True, slots=True)
class HandlerExplanation:
    """Where one handler stands. Times are seconds from now or ago."""

    id: str
    kind: str
    state: str
    """`due`, `delayed`, `succeeded` or `failed` in the unfinished cycle; `running`, `waiting` or `ending` for daemons and timers."""
    attempts: int = 0
    last_error: str | None = None
    next_in: float | None = None
    started_ago: float | None = None


@dataclass(frozen=True, slots=True)
class ObjectExplanation:
    """Where one object stands. Times are seconds from now or ago."""

    key: str
    state: str
    """`in work`, `waiting`, `delayed`, `in back-off` or `at rest`."""
    reason: str | None
    """Which trigger asked for the next attempt, and the object and change it named."""
    priority: int | None
    waited: float | None
    next_in: float | None
    acting: bool
    """Whether this operator may act at all: it leads, and no peer pauses it."""
    indexed: bool
    """Whether everything is indexed that handlers wait for."""
    failures: int
    """Consecutive attempts that ended with an error that was no handler's: the server's, or ours."""
    last_error: str | None
    last_error_ago: float | None
    events: int
    """Raw events that wait to be shown to handlers."""
    informer: str
    """How the copy of the resource is doing."""
    uid: str | None = None
    """None: there is no such object in the copy."""
    cached_version: str | None = None
    """What the watch has delivered."""
    written_version: str | None = None
    """What handlers see: later than the cached version if an own write has yet to be delivered."""
    store_version: str | None = None
    """Up to which version of the resource the copy is complete."""
    deleted: bool = False
    """Whether it is marked for deletion."""
    finalizers: list[str] = field(default_factory=list)
    handlers: list[HandlerExplanation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Explainer:
    """Answers for one operator."""

    reconciler: ObjectReconciler
    controller: Controller[ObjectKey]

    def explain(self, text: str) -> ObjectExplanation:
        """Explain an object by its key: `RESOURCE/NAMESPACE/NAME`, or `RESOURCE/NAME` without a namespace.

        The resource is named as handlers name it: by plural, singular, kind or short name, with a version and group or without.
        Raises ValueError for what is no key, LookupError for a resource that is not served, and for an object nobody knows of.
        """
        key, informer = self._find(text)
        told = self.controller.explain(key)
        obj = informer.store.get(Key(key.namespace, key.name))
        if obj is None and told.state == "at rest" and told.last_error is None:
            raise LookupError(
                f"There is no {key.name!r} in the copy of {key.resource!r}"
                + (f" in the namespace {key.namespace!r}" if key.namespace else "")
                + f": it holds {len(informer.store)} objects ({informer.state})."
            )
        memory = None if obj is None else self.reconciler._env.memories.find(obj.identity)
        backlog = self.reconciler._backlogs.get(key)
        return ObjectExplanation(
            key=str(key),
            state="in back-off" if memory is not None and memory.failures and told.state == "delayed" else told.state,
            reason=told.reason,
            priority=told.priority,
            waited=told.waited,
            next_in=told.next_in,
            acting=told.gate_open,
            indexed=self.reconciler.barrier.is_open,
            failures=told.failures if memory is None else max(memory.failures, told.failures),
            last_error=memory.error if memory is not None and memory.error is not None else told.last_error,
            last_error_ago=told.last_error_ago,
            events=0 if backlog is None else len(backlog),
            informer=str(informer.state),
            **({} if obj is None else of_object(obj, informer)),
            handlers=[] if obj is None else [*self._changing(obj, informer.resource, memory), *self._daemons(obj)],
        )

    def _find(self, text: str) -> tuple[ObjectKey, Informer]:
        parts = text.strip("/").split("/")
        if len(parts) not in {2, 3} or not all(parts):
            raise ValueError(f"A key is RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME, such as {EXAMPLE}; got {text!r}.")
        name, namespace, wanted = parts[-1], parts[1] if len(parts) == 3 else None, parts[0]
        served = self.reconciler._informers.values()
        known = sorted({informer.resource for informer in served}, key=repr)
        found = [resource for resource in known if wanted.lower() in _names(resource)]
        if not found:
            there = ", ".join(map(repr, known)) or "nothing"
            raise LookupError(f"No handler of this operator is for {wanted!r}; served are: {there}.")
        if len(found) > 1:
            raise ValueError(f"{wanted!r} can be {', '.join(map(repr, found))}: say which.")
        resource = found[0]
        if resource.namespaced is not (namespace is not None):
            how = "RESOURCE/NAMESPACE/NAME" if resource.namespaced else "RESOURCE/NAME"
            scope = "namespaced" if resource.namespaced else "cluster-scoped"
            raise ValueError(f"{resource!r} is {scope}: its keys are {how}; got {text!r}.")
        key = ObjectKey(resource, namespace, name)
        informer = self.reconciler._informer(key)
        if informer is None:
            places = ", ".join(sorted(str(known.namespace) for known in served if known.resource == resource))
            raise LookupError(f"{resource!r} is not served in the namespace {namespace!r}, only in: {places}.")
        return key, informer

    def _changing(self, obj: Object, resource: Resource, memory: Memory | None) -> Iterable[HandlerExplanation]:
        """The records of the unfinished cycle, as the object or the process has them."""
        env, now = self.reconciler._env, clock.now()
        storage = env.settings.persistence.progress_storage
        body = Body(obj.body())
        remembered = {} if memory is None else memory.progress
        ids = dict.fromkeys([*(str(spec.id) for spec in env.registry.changing_specs(resource)), *remembered])
        for handler_id in ids:
            record = storage.fetch(key=handler_id, body=body)
            stored = None if record is None else from_record(record)
            known = remembered.get(handler_id)
            progress = known if stored is None or (known is not None and known.retries > stored.retries) else stored
            if progress is None:
                continue
            state = "succeeded" if progress.success else "failed" if progress.failure else "delayed"
            if not progress.finished and progress.due(now):
                state = "due"
            next_in = None if progress.finished else max(0.0, ((progress.delayed or now) - now).total_seconds())
            yield _with_progress(HandlerExplanation(handler_id, "change", state, next_in=next_in), progress)

    def _daemons(self, obj: Object) -> Iterable[HandlerExplanation]:
        known = self.reconciler.background._objects.get(obj.identity)
        loop_time = asyncio.get_running_loop().time()
        for one in () if known is None else known.spawned.values():
            due = one.due if isinstance(one, Timer) else None
            told = HandlerExplanation(
                str(one.spec.id),
                "timer" if isinstance(one, Timer) else "daemon",
                _daemon_state(one),
                next_in=None if due is None else max(0.0, due - loop_time),
            )
            yield told if one.progress is None else _with_progress(told, one.progress)
        for exited in () if known is None else sorted(known.exited):
            yield HandlerExplanation(str(exited), "daemon", "ended by itself")


def _with_progress(told: HandlerExplanation, progress: Progress) -> HandlerExplanation:
    ago = (clock.now() - progress.started).total_seconds()
    return replace(told, attempts=progress.retries, last_error=progress.message, started_ago=ago)


def _daemon_state(one: Spawned[Any]) -> str:
    if one.stopper.is_set():
        return "abandoned" if one.abandoned else "ending"
    return "running" if one.running else "waiting"


def _names(resource: Resource) -> set[str]:
    simple = {resource.plural, resource.singular or "", resource.kind or "", *resource.shortcuts}
    plain = {name.lower() for name in simple if name}
    full = (
        {f".{resource.group}", f".{resource.version}.{resource.group}"} if resource.group else {f".{resource.version}"}
    )
    return plain | {name + suffix for name in plain for suffix in full}
