"""Show the raw events of an object to the handlers that asked for them, one after another."""

from typing import Any

from ..client.resources import Resource
from ..informers.deltas import Delta
from ..runtime import clock
from .causation.causes import WatchingCause
from .causation.patch import Patch
from .causation.views import Body
from .environment import Environment
from .errors import ErrorsMode
from .execution.attempts import Call, attempt
from .execution.progression import Progress
from .execution.rounds import deliver
from .loggers import LocalObjectLogger


async def show(delta: Delta, resource: Resource, patch: Patch, env: Environment) -> None:
    """Call every matching `on.event` handler once, in order; an error of one is logged and changes nothing for the next.

    Results and patches go into `patch`, except those of a deletion: there is nothing left to write them to.
    """
    raw = delta.object.body()
    gone = delta.wire_type == "DELETED"
    memory = env.memories.recall(delta.object.uid, initial=delta.wire_type is None)
    cause = _cause(delta, resource, raw, Patch() if gone else patch, memory.memo(env.memo), env)
    for number, spec in enumerate(env.registry.watching(cause)):
        if number:
            # Nested values are real dicts: each handler gets its own, so that no mutation reaches a neighbour.
            cause = _cause(delta, resource, delta.object.body(), cause.patch, cause.memo, env)
        call = Call(spec, cause, Progress(started=clock.now()), ErrorsMode.IGNORED)
        outcome = await attempt(call, env.settings)
        if outcome.result is not None:
            deliver(cause.patch, spec.id, outcome.result)


def _cause(
    delta: Delta, resource: Resource, raw: dict[str, Any], patch: Patch, memo: Any, env: Environment
) -> WatchingCause:
    body = Body(raw)
    return WatchingCause(
        logger=LocalObjectLogger(body=body, settings=env.settings),
        memo=memo,
        indices=env.indices,
        resource=resource,
        patch=patch,
        body=body,
        event={"type": delta.wire_type, "object": raw},
        type=delta.wire_type,
    )
