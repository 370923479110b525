"""What is wanted of an object, or was sent to it, is compared with what is there.

What is missing becomes a merge patch, empty when nothing is missing. Pure functions of decoded bodies. A wanted body names the fields that it
is about; all others are left to their owners.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...client.objects import Object, without_bookkeeping
from ...client.patches import PatchError, copy, json_patch, merge_diff, merge_patch
from .conditions import timeless

Body = Mapping[str, Any]

REMEMBERED = 100_000
"""For how many objects the server's form of a wanted state is remembered; the least recently used go first."""

_SERVERS = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields"}
)
"""The fields of the metadata that the server alone sets: they are not compared."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def missing(current: Body, wanted: Body) -> dict[str, Any]:
    """The merge patch after which `current` is as `wanted` says.

    Maps are merged, and None asks for absence, as in merge patches (RFC 7386). Lists are taken whole, but for two that several
    controllers write to: of `metadata.ownerReferences` and `metadata.finalizers` the wanted entries are added or corrected, and others stay.
    `apiVersion`, `kind`, and what the server alone decides of the metadata are not compared.
    """
    goal = {key: value for key, value in wanted.items() if key not in {"apiVersion", "kind"}}
    metadata = dict(goal.get("metadata") or {})
    known = current.get("metadata") or {}
    if metadata.get("ownerReferences") is not None:
        metadata["ownerReferences"] = _joined(known.get("ownerReferences") or (), metadata["ownerReferences"])
    if metadata.get("finalizers") is not None:
        present = list(known.get("finalizers") or ())
        metadata["finalizers"] = [*present, *(name for name in metadata["finalizers"] if name not in present)]
    goal["metadata"] = metadata
    return changed(current, merge_patch(current, goal))


def changed(current: Body, result: Body) -> dict[str, Any]:
    """The merge patch that turns one whole body into another; what the server alone decides of the metadata is left out."""
    patch = merge_diff(current, result)
    metadata = patch.get("metadata")
    if isinstance(metadata, dict):
        for key in _SERVERS & metadata.keys():
            del metadata[key]
        if not metadata:
            del patch["metadata"]
    return patch


def guarded(patch: Body, obj: Object, *, versioned: bool) -> dict[str, Any]:
    """A merge patch that the server refuses for another object of the same name, and, if versioned, for another version."""
    guard = {"uid": obj.uid} if obj.uid else {}
    if versioned:
        guard["resourceVersion"] = obj.resource_version
    return {**patch, "metadata": {**(patch.get("metadata") or {}), **guard}} if guard else {**patch}


def for_version(operations: Sequence[Mapping[str, Any]], version: str) -> list[dict[str, Any]]:
    """A JSON patch that the server refuses for another version."""
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *map(dict, operations)]


def joins_lists(patch: Body) -> bool:
    """Whether a patch of `missing` holds a list into which entries of others were taken, so that it is right for one version only."""
    metadata = patch.get("metadata") or {}
    return any(metadata.get(name) is not None for name in ("ownerReferences", "finalizers"))


def lost(answer: Any, patch: Any, path: str = "") -> list[str]:
    """The paths that a merge patch sets and the answer to it lacks: the schema prunes them."""
    if isinstance(patch, list) and isinstance(answer, list) and len(patch) == len(answer):
        pairs = zip(answer, patch, strict=True)
        return list(dict.fromkeys(name for one, other in pairs for name in lost(one, other, f"{path}[]")))
    if not isinstance(patch, Mapping):
        return []
    found = []
    for key, value in patch.items():
        inner = f"{path}.{key}".lstrip(".")
        if value is None:
            continue
        if not isinstance(answer, Mapping) or key not in answer:
            found.append(inner)
        else:
            found += lost(answer[key], value, inner)
    return found


class Remembered:
    """The server's forms of wanted states, so that a wish which the server never stores literally is not sent again and again.

    Servers add defaults, normalise quantities, and prune fields that are not in the schema: such an object never equals the wish. A wish is
    known when the server has answered it before, and the fields that it is about still have the values of that answer.
    """

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._known: OrderedDict[Hashable, bytes] = OrderedDict()

    def note(self, place: Hashable, patch: Body, answer: Body) -> None:
        """Remember the patch that a wish still needs after the server's answer; nothing is kept if there is none."""
        self._known.pop(place, None)
        if patch:
            self._known[place] = _digest(patch, answer)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)

    def knows(self, place: Hashable, patch: Body, current: Body) -> bool:
        """Whether sending the patch again would change nothing."""
        known = self._known.get(place)
        if known is None:
            return False
        self._known.move_to_end(place)
        return known == _digest(patch, current)


def digest(value: Any) -> bytes:
    """A short stand-in for a JSON value: equal values have equal ones."""
    return hashlib.blake2s(_encode(copy(value)), digest_size=16).digest()


def _digest(patch: Body, body: Body) -> bytes:
    return digest(timeless([patch, _projected(body, patch)]))


def _projected(body: Any, patch: Any) -> Any:
    """What a body has in the places that a patch is about."""
    if isinstance(patch, Mapping) and isinstance(body, Mapping):
        return {key: _projected(body.get(key), value) for key, value in patch.items()}
    return body


def _joined(known: Any, wanted: Any) -> list[dict[str, Any]]:
    by_uid = {reference.get("uid"): reference for reference in known}
    by_uid |= {reference.get("uid"): reference for reference in wanted}
    return [copy(reference) for reference in by_uid.values()]


class Sent(NamedTuple):
    """What a write sends."""

    content: Mapping[str, Any] | Sequence[Any]
    """A body, what is merged into one, or the operations of a JSON patch."""
    whole: bool = False
    """It takes the place of what is there."""


def explains(sent: Sent, before: Object, after: Object) -> bool:
    """Whether everything that is new in an answer was sent, so that no other write has a part in it."""
    old, new = without_bookkeeping(before.body()), without_bookkeeping(after.body())
    if isinstance(sent.content, Mapping):
        return _explains(sent.content, old, new, whole=sent.whole)
    try:
        return _explains(without_bookkeeping(json_patch(before.body(), sent.content)), old, new, whole=True)
    except PatchError:
        return False


def _explains(sent: Any, old: Any, new: Any, *, whole: bool) -> bool:
    """Whether each difference was sent. What the server adds to that (defaults) was there before, or is a difference."""
    if old == new:
        return True
    if isinstance(sent, Mapping) and (new is None or isinstance(new, Mapping)):
        old, new = _mapping(old), _mapping(new)
        return all(
            _explains(sent[key], old.get(key), new.get(key), whole=whole) if key in sent else whole and key not in new
            for key in old.keys() | new.keys()
            if old.get(key) != new.get(key)
        )
    if new == sent:
        return True
    if isinstance(sent, list) and isinstance(old, list) and isinstance(new, list) and len(sent) == len(old) == len(new):
        return all(_explains(*items, whole=whole) for items in zip(sent, old, new, strict=True))
    return False


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
