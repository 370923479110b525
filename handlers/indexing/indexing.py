"""Keep the indices filled: call the index functions for each event of an object, and put what they give where handlers see it.

What becomes of each outcome stands in `indices.Indices`. Failures are remembered in the process only, by uid: a function that
failed for good is never called for the object again; one that is to be retried is left alone until its delay is over, and
called again then, or with the first event after that.
"""

from collections.abc import Container

from ...client.objects import Object
from ...client.resources import Resource
from ...informers.deltas import Delta, DeltaKind
from ...runtime import clock
from ..causes.causes import IndexingCause
from ..causes.patch import Patch
from ..causes.views import Body
from ..declaration.specs import HandlerId, IndexingSpec
from ..environment.environment import Environment
from ..errors import ErrorsMode
from ..execution.attempts import Call, attempt
from ..execution.progression import SHORTEST, Progress
from ..loggers import TerseObjectLogger


class Indexing:
    """The index functions of one operator. Called from the task of the object's key: never twice at once for an object."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        # By uid; objects whose functions have never failed, or have succeeded since, have none.
        self._failed: dict[str, dict[HandlerId, Progress]] = {}

    @property
    def failing(self) -> int:
        """How many objects have an index function that has failed last."""
        return len(self._failed)

    async def take(self, delta: Delta, resource: Resource) -> None:
        """Index an object as an event shows it, or remove it when it is gone. Raises what callbacks in filters raise."""
        if delta.kind is DeltaKind.DELETED:
            self.forget(delta.object)
        else:
            await self._index(delta.object, resource, listed=delta.wire_type is None)

    async def retry(self, obj: Object, resource: Resource) -> float | None:
        """Call the functions whose delay is over; gives the seconds until the next one's is, None when none waits."""
        now = clock.now()
        due = {
            handler_id
            for handler_id, progress in self._failed.get(obj.identity, {}).items()
            if progress.delayed is not None and progress.due(now)
        }
        if due:
            await self._index(obj, resource, only=due)
        now = clock.now()
        delays = [progress.delayed for progress in self._failed.get(obj.identity, {}).values()]
        # Without a delay it is the next event's turn: at once would be for ever and ever.
        waits = [(when - now).total_seconds() for when in delays if when is not None and when > now]
        return max(SHORTEST, min(waits)) if waits else None

    def waits(self, obj: Object) -> bool:
        """Whether a function of the object is to be called again without any event."""
        return any(progress.delayed is not None for progress in self._failed.get(obj.identity, {}).values())

    def forget(self, obj: Object) -> None:
        """Remove an object from all indices: it is gone, or not served any more."""
        self._env.indices.discard(obj.identity)
        self._failed.pop(obj.identity, None)

    async def _index(
        self, obj: Object, resource: Resource, *, listed: bool = False, only: Container[HandlerId] | None = None
    ) -> None:
        registry, indices = self._env.registry, self._env.indices
        cause = self._cause(obj, resource, listed=listed)
        matching = registry.indexing(cause)
        for unmatched in {spec.id for spec in registry.indexing_specs(resource)} - {spec.id for spec in matching}:
            indices.discard(obj.identity, unmatched)
        wanted = [spec for spec in matching if only is None or spec.id in only]
        for number, spec in enumerate(wanted):
            if number:
                # Nested values are real dicts: each function gets its own, so that no mutation reaches a neighbour.
                cause = self._cause(obj, resource)
            await self._call(spec, cause, obj.identity)

    async def _call(self, spec: IndexingSpec, cause: IndexingCause, uid: str) -> None:
        failed = self._failed.get(uid, {})
        known, now = failed.get(spec.id), clock.now()
        if known is not None and not known.due(now):
            return
        progress = known or Progress(started=now)
        outcome = await attempt(Call(spec, cause, progress, ErrorsMode.IGNORED), self._env.settings)
        if outcome.exception is None:
            self._env.indices.replace(spec.id, uid, outcome.result)
            failed.pop(spec.id, None)
            if not failed:
                self._failed.pop(uid, None)
            return
        self._env.indices.discard(uid, spec.id)
        self._failed.setdefault(uid, failed)[spec.id] = progress.after(outcome, clock.now())

    def _cause(self, obj: Object, resource: Resource, *, listed: bool = False) -> IndexingCause:
        env, body = self._env, Body(obj.body())
        return IndexingCause(
            logger=TerseObjectLogger(body=body, settings=env.settings),
            memo=env.memories.memo(obj.identity, env.memo),
            indices=env.indices,
            resource=resource,
            patch=Patch(),
            body=body,
            size=len(obj.raw),
        )
