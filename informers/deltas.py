"""Deltas are what subscribers hear: how the copy of one object changed."""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from ..client.objects import Object


class DeltaKind(Enum):
    """What happened to an object, as the subscriber's own history of it goes."""

    ADDED = "ADDED"
    """The subscriber had not heard of it, or had heard of its deletion."""
    UPDATED = "UPDATED"
    """It has another state now; or it was listed again unchanged, for subscribers that ask for that."""
    DELETED = "DELETED"
    """It is gone; `object` is its last known state."""
    SYNCED = "SYNCED"
    """Nothing happened; it is shown again because the subscriber asked for a periodic resync."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One change of one object.

    For one object and one subscriber deltas come in the order of the object's versions, and a uid never changes without a
    DELETED between. Nothing is promised about the order between objects.
    """

    kind: DeltaKind
    object: Object
    old: Object | None
    """What the subscriber was last told of this object; None for ADDED and for a deletion of something never heard of."""
    initial: bool
    """Part of the state that the subscriber found when it came."""
    wire_type: str | None
    """`ADDED`, `MODIFIED`, `DELETED` as the watch said; None for what was listed or shown again.

    A deletion that was missed and found out by a list has `DELETED`.
    """
    echo: bool = False
    """Its version is the answer of one of our own writes. Only ever set on UPDATED: a new object is news to everyone."""
    final_state_unknown: bool = False
    """A missed deletion: what the object was when it went was never seen, `object` is older."""
    author: str | None = None
    """Whose own write its version is the answer of, if that was shown under a name (`Informer.overlay`): for its author alone an echo."""


ADDED, UPDATED, DELETED, SYNCED = DeltaKind


def collapse(deltas: Sequence[Delta]) -> list[Delta]:
    """Join consecutive updates of one object into the last of them; everything else stays, in its order.

    The joint update reaches from the first one's old state to the last one's new one, and is an echo only if all were.
    """
    return _join(deltas, forgetful=False)


def annihilate(deltas: Sequence[Delta]) -> list[Delta]:
    """As `collapse`, and drop objects that came and went within these deltas altogether.

    What is left is at most two deltas for each object that the subscriber knows or that exists.
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
