"""Deltas: changes of one object, as subscribers receive them."""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from ..client.objects import Object


class DeltaKind(Enum):
    """The kind of a change, in terms of the subscriber's own history."""

    ADDED = "ADDED"
    """The object is new to the subscriber, or was deleted for it."""
    UPDATED = "UPDATED"
    """The object has changed; or it was listed again unchanged, for subscribers that ask for that."""
    DELETED = "DELETED"
    """The object is gone; `object` is its last known state."""
    SYNCED = "SYNCED"
    """Nothing has changed: a periodic resync."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One change of one object.

    For one object and one subscriber deltas come in the order of the object's versions, and a uid never changes without a
    DELETED between. Nothing is promised about the order between objects.
    """

    kind: DeltaKind
    object: Object
    old: Object | None
    """The state that the subscriber last received; None for ADDED and for the deletion of an unknown object."""
    initial: bool
    """The object existed when the subscriber came."""
    wire_type: str | None
    """The type of the watch event, `ADDED`, `MODIFIED` or `DELETED`; None for listed and repeated objects.

    A missed deletion, found by a list, has `DELETED`.
    """
    echo: bool = False
    """Its version is the response to an own write. Only set on UPDATED: a new object is new to everybody."""
    final_state_unknown: bool = False
    """A missed deletion: the last state of the object is unknown, `object` is older."""
    author: str | None = None
    """The author of the own write that its version is the response to (see `Informer.add_own_write`): an echo for that author only."""


ADDED, UPDATED, DELETED, SYNCED = DeltaKind


def collapse(deltas: Sequence[Delta]) -> list[Delta]:
    """Join consecutive updates of one object into the last; everything else stays, in its order.

    The joined update has the first one's old state and the last one's new state, and is an echo only if all were.
    """
    return _join(deltas, forgetful=False)


def annihilate(deltas: Sequence[Delta]) -> list[Delta]:
    """As `collapse`, and leave out objects that came and went within these deltas.

    At most two deltas are left for each object that the subscriber knows or that exists.
    """
    return _join(deltas, forgetful=True)


def _join(deltas: Iterable[Delta], *, forgetful: bool) -> list[Delta]:
    kept: list[Delta | None] = []
    last: dict[tuple[str | None, str], int] = {}
    for delta in deltas:
        obj = delta.object
        key = (obj.namespace, obj.name)
        at = last.get(key)
        before = None if at is None else kept[at]
        if at is not None and before is not None:
            if delta.kind is UPDATED and before.kind is UPDATED:
                kept[at] = None
                delta = _joint(before, delta)  # noqa: PLW2901 - the joint one takes its place
            elif forgetful and before.kind is ADDED:
                kept[at] = None
                if delta.kind is DELETED:
                    del last[key]
                    continue
                delta = msgspec.structs.replace(before, object=obj)  # noqa: PLW2901
            elif forgetful and before.kind is UPDATED and delta.kind is DELETED:
                kept[at] = None
                delta = msgspec.structs.replace(delta, old=before.old)  # noqa: PLW2901
        last[key] = len(kept)
        kept.append(delta)
    return [delta for delta in kept if delta is not None]


def _joint(first: Delta, second: Delta) -> Delta:
    author = first.author if first.author == second.author else None
    return Delta(UPDATED, second.object, first.old, False, second.wire_type, first.echo and second.echo, False, author)
