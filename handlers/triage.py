"""Most deltas on a busy kind are for no handler: they are told from the others before a body is decoded or a key is queued."""

from ..client.objects import Object
from ..client.resources import Resource
from ..informers.deltas import DELETED, SYNCED, Delta
from .background.background import Background
from .declaration.registry import Interest
from .environment import Environment


def is_told(delta: Delta, interest: Interest) -> bool:
    """Whether a delta tells of anything: an own write does not, where nobody looks at the events themselves, daemons included."""
    if delta.kind is SYNCED:
        return False
    if not delta.echo or delta.kind is DELETED or interest.watching or interest.indexing or interest.spawning:
        return True
    return _ends(delta)


def _ends(delta: Delta) -> bool:
    """Whether the object is marked for deletion by now; asked of echoes.

    The answer to an own write that changes nothing has the version of whoever wrote last, who may have asked for the deletion.
    """
    if b'"deletionTimestamp"' not in delta.object.raw or delta.object.metadata().deletion_timestamp is None:
        return False
    return delta.old is None or delta.old.metadata().deletion_timestamp is None


def is_nobodys(obj: Object, resource: Resource, env: Environment, background: Background, *, raw: bool = True) -> bool:
    """Whether there is nothing to do about an object that is there, by its labels and annotations: it is for no handler, and never was.

    Without `raw`, handlers of raw events and indices are left out. True is certain; the body is not decoded for it. Nothing is left of
    what handlers did when it was for them: no finalizer of ours, no daemon or timer, nothing to be written.
    """
    registry, finalizer = env.registry, env.settings.persistence.finalizer
    if not registry.passes_over(resource, obj, raw=raw) or finalizer.encode() in obj.raw:
        return False
    memory = env.memories.find(obj.identity)
    return (memory is None or memory.is_quiet) and not background.attends(obj.identity)
