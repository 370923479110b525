"""Most deltas on a busy kind are for no handler: they are told from the others before a body is decoded or a key is queued."""

import logging

import msgspec

from ...client.objects import BOOKKEEPING, Object
from ...client.resources import Resource
from ...informers.deltas import DELETED, UPDATED, Delta
from ..daemons.background import Background
from ..declaration.registry import Interest
from ..environment.environment import Environment

_objects = logging.getLogger("kopf.objects")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_told(delta: Delta, interest: Interest) -> bool:
    """Whether an echo tells of anything: an own write does not, where nobody looks at the events themselves, daemons included."""
    looks = interest.watching or interest.indexing or interest.spawning
    return looks or delta.kind is DELETED or _ends(delta)


def _ends(delta: Delta) -> bool:
    """Whether the object is marked for deletion by now.

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


def settle(obj: Object, env: Environment) -> None:
    """Note that there is nothing to do about this version of an object."""
    env.memories.keep_settled(env.registry.revision)
    env.memories.recall(obj.identity).settled = obj.resource_version


def is_settled(obj: Object, resource: Resource, env: Environment) -> bool:
    """Whether an attempt found nothing to do about this version of an object, or one that differs in nothing that handlers of changes see."""
    memory = env.memories.find(obj.identity)
    if memory is None or memory.settled is None:
        return False
    env.memories.keep_settled(env.registry.revision)
    return memory.settled == obj.resource_version and memory.is_quiet and env.is_blind_to_status(resource)


def stays_settled(delta: Delta, resource: Resource, env: Environment) -> bool:
    """Whether there is nothing to do after a change, since there was not before it and only others' own business has changed.

    That is the status above all: it is what changes most. Who debugs is shown each attempt.
    """
    old, new = delta.old, delta.object
    if delta.kind is not UPDATED or old is None or not is_settled(old, resource, env):
        return False
    if _objects.isEnabledFor(logging.DEBUG) or not _is_same_but_status(old.raw, new.raw):
        return False
    settle(new, env)
    return True


def _is_same_but_status(old: bytes, new: bytes) -> bool:
    try:
        was, now = _members(old), _members(new)
    except RecursionError:
        return False
    for members in (was, now):
        members.pop("status", None)
    was_metadata, now_metadata = _members(was.pop("metadata")), _members(now.pop("metadata"))
    for metadata in (was_metadata, now_metadata):
        for name in BOOKKEEPING:
            metadata.pop(name, None)
    return was == now and was_metadata == now_metadata
