"""What an operator shows beside what any program does: its handlers, its peers, and where an object stands and why."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ...client.objects import Object
from ...client.resources import Key, Resource
from ...controller.http.diagnostics import Diagnostics
from ...controller.http.pages import CheckResult, KeyExplanation, of_key
from ...controller.kernel.controller import Controller
from ...controller.peering.gate import Peering
from ...informers.informer import Informer
from ...runtime import clock
from ...runtime.metrics import MetricFamily, Sample
from ..causes.views import Body
from ..cycle.persistence import from_record
from ..cycle.reconciler import ObjectKey, ObjectReconciler
from ..daemons.daemons import Spawned
from ..daemons.timers import Timer
from ..environment.memories import Memory
from ..execution.progression import Progress
from .declared import Controllers
from .observation import Observation

DAEMONS = MetricFamily("ctl_daemons", "Daemons that run, or wait for their initial delay.", "gauge")
TIMERS = MetricFamily("ctl_timers", "Timers, running or waiting.", "gauge")
COLLAPSED = MetricFamily(
    "ctl_raw_events_collapsed_total",
    "Raw events that were dropped because later ones of the same object came faster than handlers took them.",
    "counter",
)
PAUSED = MetricFamily("ctl_peering_paused", "1 while this operator is paused by a peer.", "gauge")
UNSERVED = MetricFamily(
    "ctl_unserved_resources",
    "1 for each resource that handlers or a controller are declared for and that is not served.",
    "gauge",
    ("resource", "reason"),
)
BLOCKERS = MetricFamily("ctl_peering_blockers", "Peers that pause this operator.", "gauge")

EXAMPLE = "kopfexamples.kopf.dev/default/my-object"
"""A key as it is asked for."""


def show_handlers(
    diagnostics: Diagnostics, reconciler: ObjectReconciler, controller: Controller[ObjectKey], peering: Peering | None
) -> None:
    """Show the handlers' controller, and the peers (None: none are known)."""
    background = reconciler.background

    def activity() -> Iterator[Sample]:
        yield Sample(DAEMONS, (), background.daemons)
        yield Sample(TIMERS, (), background.timers)
        yield Sample(COLLAPSED, (), reconciler.collapsed)

    def pauses() -> Iterator[Sample]:
        if peering is not None:
            yield Sample(PAUSED, (), int(not peering.is_open))
            yield Sample(BLOCKERS, (), len(peering.blockers))

    diagnostics.metrics.add_source(activity, (DAEMONS, TIMERS, COLLAPSED))
    diagnostics.metrics.add_source(pauses, (PAUSED, BLOCKERS))
    diagnostics.pages.ready["peering"] = lambda: _of_peering(peering)
    diagnostics.pages.example = EXAMPLE
    diagnostics.show_controller(controller.name, controller.samples, Explainer(reconciler, controller).explain)


def show_declared(diagnostics: Diagnostics, observation: Observation, controllers: Controllers) -> None:
    """Show the declared controllers, and what is declared for and not served. That is ready all the same: another pod would not have it either."""

    def lacking() -> tuple[tuple[str, str], ...]:
        return (*observation.lacking(), *controllers.lacking())

    def check() -> CheckResult:
        missing = [f"{name} ({reason})" for name, reason in lacking()]
        return CheckResult(ok=True, text=f"not served: {', '.join(missing)}" if missing else "all are served")

    for built in controllers.built:
        diagnostics.show_controller(built.name, built.samples, built.explain_text)
    diagnostics.pages.several.append(controllers.conditions)
    diagnostics.metrics.add_source(lambda: [Sample(UNSERVED, one, 1) for one in dict.fromkeys(lacking())], (UNSERVED,))
    diagnostics.pages.ready["resources"] = check


def _of_peering(peering: Peering | None) -> CheckResult:
    if peering is None:
        return CheckResult(ok=True, text="no peers")
    if peering.is_open:
        return CheckResult(ok=True, text="no peer is in the way")
    return CheckResult(ok=True, text=f"paused for {', '.join(peering.blockers) or 'what is not known yet'}")


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
class ObjectExplanation(KeyExplanation):
    """Where one object and its handlers stand. `failures` are attempts in a row that ended with an error that was no handler's."""

    indexed: bool = True
    """Whether everything is indexed that handlers wait for."""
    events: int = 0
    """Raw events that wait to be shown to handlers."""
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
        known = of_key(told, informer, obj)
        if memory is not None:
            known["state"] = "in back-off" if memory.failures and told.state == "delayed" else told.state
            known["failures"] = max(memory.failures, told.failures)
            known["last_error"] = told.last_error if memory.error is None else memory.error
        return ObjectExplanation(
            **known,
            indexed=self.reconciler.barrier.is_open,
            events=0 if backlog is None else len(backlog),
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
        ids = dict.fromkeys([*(str(spec.id) for spec in env.registry.of(resource).changing.all), *remembered])
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
