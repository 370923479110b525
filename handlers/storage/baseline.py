"""The baseline of an object is the state that its handlers saw last; this is how it is kept, recalled and distrusted.

It is the diff-base of Kopf's format wherever that fits. Where it does not, a digest of it is kept in an annotation of our
own, and the state itself in the memory of the process. The memory also tells what is wrong on the object: a diff-base that
somebody removed, or that came with annotations copied from another object, is no news about this one.
"""

import hashlib
import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...client.objects import BOOKKEEPING, Object
from ..causes.causes import Reason
from ..causes.fields import FieldPath
from ..causes.patch import Patch, compose
from ..causes.views import Body, BodyEssence
from .diffbase import DiffBaseStorage, MultiDiffBaseStorage, StatusDiffBaseStorage
from .naming import DEFAULT_PREFIX, KeyForming, KeyMarking, StanzaCleaning, StoredStateError, annotations_of
from .progress import MultiProgressStorage, ProgressStorage, StatusProgressStorage, discard
from .secrets import Values, seal

# The limits of kube-apiserver (annotations) and of etcd's default configuration (objects), in bytes: beyond them the server refuses.
ANNOTATIONS_LIMIT = 256 * 1024
"""All annotations of an object together, names and values."""
OBJECT_LIMIT = 1536 * 1024 - 64 * 1024
"""A whole object, with some room left for what the server itself notes in it."""
SMALLEST_LIMIT = 512
"""The smallest limit for one annotation under which at least a digest and a short record can be kept."""

DIGEST_KEY = "last-handled-digest"
"""The name of our annotation, with the prefix of the storage of diff-bases before it."""

UID_KEY = "last-handled-uid"
"""The name of the annotation that says whose the diff-base is, where settings ask for it."""

_OURS = "last-handled-"

MARKED = UID_KEY.encode()
"""What the JSON of an object that has one contains."""

RESTORING = (60.0, 3600.0)
"""A diff-base that somebody removes is put back: at once, then after the first of these many seconds, after twice as many,
and so on up to the second. Who removes it each time is met by a write an hour, not by a fight."""

_STOCK = frozenset({DiffBaseStorage.__module__, ProgressStorage.__module__})
"""Where the storages are of which it is known what they look at."""

_VOLATILE = frozenset(("metadata", name) for name in BOOKKEEPING)

_MOST_NAMES = 128
"""For how many sets of annotations it is remembered which of them are ours."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ObjectState:
    """A state of an object, and its digest as records have it, which is made when it is asked for."""

    __slots__ = ("_digest", "essence")

    def __init__(self, essence: BodyEssence, digest: str | None = None) -> None:
        self.essence = essence
        self._digest = digest

    @property
    def digest(self) -> str:
        """A hash that does not depend on the order of keys."""
        if self._digest is None:
            self._digest = digest(self.essence).hex()
        return self._digest


class Known(msgspec.Struct, eq=False, gc=False):
    """What the process knows of one object's baseline, beside what the object says.

    `digest`: of the state handled last. `copied`: what the object says is not about it.
    `created`: its creation was handled by this process; `behind`: it was by the handlers of another served version, and what the
    object says is theirs. `dropped`: a storage that is not one of ours kept nothing of it.
    `thrift`: how much the server has refused as too large: 0 nothing, 1 what was whole, 2 anything of ours. `state`: the state itself, compressed, for an object that holds a digest only.
    """

    digest: bytes | None = None
    state: bytes | None = None
    copied: bool = False
    created: bool = False
    behind: bool = False
    dropped: bool = False
    thrift: int = 0
    _restores: int = 0
    _restorable: float = 0.0

    def learn(self, essence: BodyEssence, *, keep: bool = False, known: bytes | None = None) -> None:
        """Take this for handled last; `keep` it whole, since the object does not. `known` is its digest, if it was made."""
        known = known or digest(essence)
        if keep and (self.state is None or known != self.digest):
            self.state = zlib.compress(_encode(essence), 1)
        elif not keep:
            self.state = None
        self.digest = known
        self.copied = self.behind = False

    def unlearn(self) -> None:
        """Others may have handled the object since: what it says counts."""
        self.digest = None
        self.behind = False

    def until_restored(self, now: float) -> float:
        """How many seconds to wait before a removed diff-base may be put back; 0: that is done now."""
        if now < self._restorable:
            return self._restorable - now
        first, longest = RESTORING
        self._restorable = now + min(longest, first * 2.0 ** min(self._restores, 16))
        self._restores += 1
        return 0.0

    def recalled(self, digest: bytes) -> BodyEssence | None:
        """The kept state if it is the one with this digest."""
        if self.state is None or self.digest != digest:
            return None
        return _decode(zlib.decompress(self.state))


class Room(msgspec.Struct):
    """How much may be remembered on one object: `size` is that of the object now, `largest` limits each annotation."""

    size: int
    largest: int | None = None

    def has(self, body: Mapping[str, Any], patch: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
        """Whether an object takes a patch and what is to be remembered besides, `more`, without growing too large."""
        present = annotations_of(body)
        wanted = annotations_of(more)
        taken = 0
        for name, text in {**present, **annotations_of(patch), **wanted}.items():
            if text is not None:
                taken += _size(name) + _size(text)
        if taken > ANNOTATIONS_LIMIT:
            return False
        if self.largest is not None and any(text and _size(text) > self.largest for text in wanted.values()):
            return False
        grown = _leaves_size(more)
        for name in wanted:
            grown -= _stored_size(present.get(name))
        return self.size + grown <= OBJECT_LIMIT


class Recalled(msgspec.Struct):
    """What an object's handlers saw last; None: it was never handled, empty: it was, and what they saw is not known.

    `misplaced`: what the object says of it is missing or not its own, and should be put right. `compact`: the object holds
    a digest only.
    """

    essence: BodyEssence | None
    misplaced: bool = False
    compact: bool = False


@dataclass(slots=True)
class Baseline:
    """How the objects of one resource remember what was handled; `fields` belong to their essence besides.

    Made once for a resource, of storages that are not changed any more, and not changed itself.
    """

    diffbase: DiffBaseStorage
    progress: ProgressStorage
    fields: frozenset[FieldPath]
    largest: int | None = None
    plain_secrets: bool = False
    marks: bool = False
    values: Values = field(default_factory=Values)
    """What the seals of Secrets stand for."""
    several: bool = False
    """Whether several served versions of the resource have handlers. There is one diff-base for all of them: what the handlers
    of one saw is known to the process, and what the object says counts after a restart only."""
    is_blind_to_status: bool = field(init=False)
    """Whether nothing that servers and controllers write by themselves is a change: the status, and the server's bookkeeping."""
    own_fields: list[FieldPath] = field(init=False)
    """The fields in which storages of ours keep records and baselines; annotations are `own`."""
    record_stanzas: frozenset[str] | None = field(init=False)
    """The stanzas that records are put into; None where only their storage knows."""
    _forming: KeyForming = field(init=False)
    _is_stock: bool = field(init=False)
    _keeps: bool = field(init=False)
    _owned: dict[tuple[str, ...], set[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Look into the storages."""
        self.own_fields = [*fields_of(self.diffbase), *fields_of(self.progress)]
        stanzas = frozenset({"metadata", *(path[0] for path in fields_of(self.progress))})
        self.record_stanzas = stanzas if _is_stock(self.progress) else None
        own, prefix = self.diffbase, _prefix(self.diffbase) or DEFAULT_PREFIX
        self._forming = own if isinstance(own, KeyForming) else KeyForming(prefix=prefix)
        self._keeps = _is_stock(self.diffbase)
        self._is_stock = self._keeps and _is_stock(self.progress)
        self.is_blind_to_status = self._is_stock and all(
            path not in {(), ("metadata",)} and path[0] != "status" and path[:2] not in _VOLATILE
            for path in (*self.fields, *fields_of(self.diffbase))
        )

    def essence(self, body: Body) -> BodyEssence:
        """What of a body is compared to detect changes; the values of a Secret are sealed."""
        return self._comparable(self.diffbase.build(body=body, extra_fields=self.fields), body)

    def recall(self, body: Body, new: BodyEssence, known: Known) -> Recalled:
        """What was handled last of an object whose essence is `new` now.

        What the process itself has handled outweighs what the object says: annotations are removed and copied by others.
        A diff-base of a third state, though, is that of another operator, and believed.
        """
        if self.several and known.digest is not None and not known.copied:
            return Recalled(new if known.digest == digest(new) else known.recalled(known.digest) or {}, compact=True)
        stored = None if known.copied or known.behind else self.diffbase.fetch(body=body)
        if stored is not None:
            old = self._comparable(stored, body)
            if old == new:
                before = known.digest
                known.learn(new, keep=self.several)
                if self.marks and before == known.digest and self.is_copied(body):
                    return Recalled(old, misplaced=True)
            elif known.digest not in {None, digest(old)} and known.digest == digest(new):
                return Recalled(new, misplaced=True)
            return Recalled(old)
        there = None if known.copied or known.behind else self._fetch_digest(body)
        if there is None and known.digest is None:
            return Recalled(None)
        now = digest(new)
        if there == now:
            known.learn(new, keep=True)
            return Recalled(new, compact=True)
        if known.digest == now:
            return Recalled(new, misplaced=not known.dropped)
        if known.dropped:
            return Recalled(None)
        old = known.recalled(there or known.digest or b"") or {}
        return Recalled(old, compact=there is not None)

    def recall_of_several(
        self, body: Body, new: BodyEssence, known: Known, left: Collection[Reason | None]
    ) -> Recalled:
        """The same for one of several served versions of which the process does not know what its handlers saw last.

        The diff-base is that of the version that was done first. Records of handlers that are to be called again, for the reasons
        that are `left`, say that this one is not done, whatever it says.
        """
        if Reason.CREATE in left:
            return Recalled(None)
        recalled = self.recall(body, new, known)
        if Reason.UPDATE in left and recalled.essence == new:
            known.unlearn()
            return Recalled({})
        if Reason.UPDATE in left and recalled.essence:
            # Another one may be done before these are.
            known.learn(recalled.essence, keep=True)
        return recalled

    def keep(self, body: Body, patch: Patch, essence: BodyEssence, room: Room, thrift: int = 0) -> bool:
        """Remember a state in the patch; true when only its digest fits, so that the process has to keep it whole."""
        full = Patch()
        self.diffbase.store(body=body, patch=full, essence=essence)
        present = annotations_of(body)
        if present and (key := self._digest_key(body)) in present:
            full.metadata.annotations[key] = None
        if self.marks:
            full.metadata.annotations[self._own_key(UID_KEY, body)] = body.metadata.uid
        if thrift == 0 and room.has(body, patch, full):
            compose(patch, full)
            return False
        withdraw(full, body, patch)
        if thrift < 2:
            self._store_digest(body, patch, digest(essence))
        return True

    def note(self, body: Body, patch: Patch, known: bytes) -> None:
        """Remember a state of which only the digest is known, in the patch."""
        full = Patch()
        self.diffbase.store(body=body, patch=full, essence={})
        withdraw(full, body, patch)
        self._store_digest(body, patch, known)

    def _store_digest(self, body: Body, patch: Patch, known: bytes) -> None:
        brief = Patch(body=body)
        text = json.dumps({"uid": body.metadata.uid, "digest": known.hex()}, separators=(",", ":"))
        brief.metadata.annotations[self._digest_key(body)] = text
        if Room(0).has(body, patch, brief):
            compose(patch, brief)
            KeyMarking.store_marker(prefix=self._forming.prefix, body=body, patch=patch)

    def disown(self, body: Body, patch: Patch, ids: list[str]) -> None:
        """Remove what was copied from another object: the diff-base, and the records of the handlers."""
        full = Patch()
        self.diffbase.store(body=body, patch=full, essence={})
        for name in (DIGEST_KEY, UID_KEY):
            full.metadata.annotations[self._own_key(name, body)] = ""
        withdraw(full, body, patch)
        for handler_id in ids:
            self.progress.purge(key=handler_id, body=body, patch=patch)

    def is_on(self, body: Body) -> bool:
        """Whether an object says that it was handled, in a legible way."""
        try:
            return self._digest_key(body) in body.metadata.annotations or self.diffbase.fetch(body=body) is not None
        except StoredStateError:
            return False

    def is_dropped(self, obj: Object) -> bool:
        """Whether an object whose state was just given to a storage that is not one of ours says nothing of it."""
        return not self._keeps and not self.is_on(Body(obj.body()))

    def is_copied(self, body: Body) -> bool:
        """Whether an object says itself that what it says of having been handled is about another one."""
        uid = body.metadata.annotations.get(self._own_key(UID_KEY, body))
        return uid is not None and uid != body.metadata.uid

    def own(self, obj: Object, names: Collection[str]) -> set[str]:
        """Which annotations with these names are no part of an object's essence: records, baselines, and what is like them."""
        wanted = tuple(names)
        known = self._owned.get(wanted)
        return self._find_own(obj, wanted) if known is None else known

    def _find_own(self, obj: Object, names: tuple[str, ...]) -> set[str]:
        raw = obj.stub()
        # Storages of ours look at nothing else of an object, but for what tells a ReplicaSet from its Deployment.
        is_stub = self._is_stock and raw.get("kind") != "ReplicaSet"
        if not is_stub:
            raw = obj.body()
        raw["metadata"] = {**raw.get("metadata", {}), "annotations": dict.fromkeys(names, "")}
        kept = (self.essence(Body(raw)).get("metadata") or {}).get("annotations") or {}
        found = {name for name in names if name not in kept}
        if is_stub:
            if len(self._owned) >= _MOST_NAMES:
                self._owned.clear()
            self._owned[names] = found
        return found

    def room(self, size: int) -> Room:
        """How much fits on an object of this size."""
        return Room(size, self.largest)

    def _comparable(self, essence: BodyEssence, body: Body) -> BodyEssence:
        annotations = annotations_of(essence)
        if annotations and any(_OURS in name for name in annotations):
            essence = dict(essence)
            StanzaCleaning.remove_annotations(essence, {self._own_key(name, body) for name in (DIGEST_KEY, UID_KEY)})
            StanzaCleaning.remove_empty_stanzas(essence)
        essence = self.progress.clear(essence=essence)
        return essence if self.plain_secrets else seal(essence, body, self.values)

    def _digest_key(self, body: Body) -> str:
        return self._own_key(DIGEST_KEY, body)

    def _own_key(self, name: str, body: Body) -> str:
        return self._forming.usable_keys(name, body=body)[0]

    def _fetch_digest(self, body: Body) -> bytes | None:
        annotations = annotations_of(body)
        if not annotations:
            return None
        key = self._digest_key(body)
        text = annotations.get(key)
        if text is None:
            return None
        try:
            found = json.loads(text)
            return bytes.fromhex(found["digest"]) if found["uid"] == body.metadata.uid else None
        except (TypeError, ValueError, KeyError) as exc:
            raise StoredStateError(body, f"the annotation {key!r}", "it is no uid with a digest", text) from exc


def digest(essence: BodyEssence) -> bytes:
    """A hash of an essence that does not depend on the order of its keys."""
    return hashlib.blake2b(_encode(essence), digest_size=16).digest()


def fields_of(storage: DiffBaseStorage | ProgressStorage) -> list[FieldPath]:
    """Where a storage, or a part of it, keeps what it does not keep in annotations."""
    if isinstance(storage, (MultiDiffBaseStorage, MultiProgressStorage)):
        return [found for part in storage.storages for found in fields_of(part)]
    if isinstance(storage, StatusDiffBaseStorage):
        return [storage.field]
    return [storage.field, storage.touch_field] if isinstance(storage, StatusProgressStorage) else []


def _is_stock(storage: DiffBaseStorage | ProgressStorage) -> bool:
    parts = storage.storages if isinstance(storage, (MultiDiffBaseStorage, MultiProgressStorage)) else ()
    return type(storage).__module__ in _STOCK and all(_is_stock(part) for part in parts)


def _prefix(storage: DiffBaseStorage) -> str | None:
    if isinstance(storage, MultiDiffBaseStorage):
        return next((found for inner in storage.storages if (found := _prefix(inner))), None)
    return storage.prefix if isinstance(storage, KeyForming) else None


def withdraw(remembered: Mapping[str, Any], body: Mapping[str, Any], patch: Patch) -> None:
    """Let a patch not set what `remembered` (another patch) would set, and delete it where the object has it."""
    for path in _leaves(remembered):
        discard(path, body, patch)


def _leaves(patch: Mapping[str, Any], path: FieldPath = ()) -> list[FieldPath]:
    found: list[FieldPath] = []
    for key, value in patch.items():
        found += _leaves(value, (*path, key)) if isinstance(value, (dict, Mapping)) else [(*path, key)]
    return found


def _leaves_size(patch: Mapping[str, Any]) -> int:
    size = 0
    for key, value in patch.items():
        size += len(key) + (_leaves_size(value) if isinstance(value, (dict, Mapping)) else _stored_size(value))
    return size


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _stored_size(value: Any) -> int:
    """As etcd has it: JSON in a string of JSON."""
    return _size(value) + value.count('"') + value.count("\\") if isinstance(value, str) else 8
