"""Show the raw events of an object to the handlers that asked for them, one after another, and write what they left."""

from typing import Any

from ...client.objects import Object
from ...client.resources import Resource
from ...informers.deltas import Delta
from ...runtime import clock
from ..causes.causes import WatchingCause
from ..causes.patch import Patch
from ..causes.views import Body
from ..environment.environment import Environment
from ..environment.memories import Memory
from ..errors import ErrorsMode
from ..execution.attempts import Call, attempt
from ..execution.outcomes import deliver
from ..execution.progression import Progress
from ..loggers import LocalObjectLogger
from ..patching.writer import CachedObject, Writer, is_refused_for_good


async def show(delta: Delta, resource: Resource, env: Environment) -> None:
    """Call every matching `on.event` handler once, in order; an error of one is logged and changes nothing for the next.

    Results and patches wait in the object's memory, except those of a deletion: there is nothing left to write them to.
    """
    uid, gone = delta.object.identity, delta.wire_type == "DELETED"
    memory = env.memories.find(uid)
    patch = Patch() if gone or memory is None or memory.unwritten is None else memory.unwritten
    is_new = not gone and (memory is None or memory.unwritten is not patch)
    memo = env.memories.memo(uid, env.memo)
    cause = _cause(delta, resource, patch, memo, env)
    for number, spec in enumerate(env.registry.watching(cause)):
        if number:
            # Nested values are real dicts: each handler gets its own, so that no mutation reaches a neighbour.
            cause = _cause(delta, resource, patch, memo, env)
        call = Call(spec, cause, Progress(clock.now()), ErrorsMode.IGNORED)
        outcome = await attempt(call, env.settings)
        if outcome.result is not None:
            deliver(patch, spec.id, outcome.result, cause.logger)
    if is_new and patch:
        env.memories.recall(uid, initial=delta.wire_type is None).keep_pending(patch)


def _cause(delta: Delta, resource: Resource, patch: Patch, memo: Any, env: Environment) -> WatchingCause:
    raw = delta.object.body()
    body = Body(raw)
    return WatchingCause(
        logger=LocalObjectLogger(body=body, settings=env.settings),
        memo=memo,
        indices=env.indices,
        resource=resource,
        patch=patch,
        body=body,
        size=len(delta.object.raw),
        event={"type": delta.wire_type, "object": raw},
        type=delta.wire_type,
    )


async def write_left(obj: Object, place: CachedObject, memory: Memory, env: Environment) -> None:
    """Write what event handlers left for an object that no change handler is for.

    Raises what the writer raises; what may still be written later waits in the memory then.
    """
    patch = memory.take_pending()
    logger = LocalObjectLogger(body=obj.stub(), settings=env.settings)
    try:
        await Writer(env.client, place, logger).write(obj, patch)
    except Exception as exc:
        if not is_refused_for_good(exc):
            memory.keep_pending(patch)
        raise
