"""Progress is what is known of each handler of an unfinished cycle, kept on the object in Kopf's formats to the byte.

A restarted operator, or Kopf itself, goes on from there. Storages hand records on as they are: times stay text, in ISO
8601, and whoever reads them takes those without an offset (written by Kopf before 1.37) as UTC.
"""

import json
from abc import ABCMeta, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from ..causes.fields import FieldPath, FieldSpec, ensure, remove, resolve
from ..causes.patch import Patch
from ..causes.views import Body, BodyEssence
from .diffbase import NamedField
from .naming import DEFAULT_PREFIX, KeyForming, KeyMarking, StanzaCleaning, annotations_of, decoded

_ABSENT = object()


class ProgressRecord(TypedDict, total=False):
    """What is stored of one handler. Times are ISO 8601 with microseconds and offset; absent is the same as None."""

    started: str | None
    """The first attempt, or when the handler was first due in this cycle."""
    stopped: str | None
    """When it was done, one way or the other."""
    delayed: str | None
    """The earliest time of the next attempt."""
    purpose: str | None
    """The reason of the cause: create, update, delete, resume; None fits all of them."""
    retries: int | None
    """The attempts made."""
    success: bool | None
    failure: bool | None
    message: str | None
    """The last error."""
    subrefs: Collection[str] | None
    """The ids of all sub-handlers, at all levels, sorted."""
    seen: str
    """The digests of what a finished handler saw of the object's essence, with a space between them. Ours alone: absent where
    there is none, and Kopf ignores it."""


class ProgressStorage(StanzaCleaning, metaclass=ABCMeta):
    """Where the records of handlers are kept. Inherit from it to keep them elsewhere. Keys are the ids of handlers."""

    @abstractmethod
    def fetch(self, *, key: str, body: Body) -> ProgressRecord | None:
        """The record of a handler; None when there is none."""

    @abstractmethod
    def store(self, *, key: str, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Remember a record, usually by a change in the patch."""

    @abstractmethod
    def purge(self, *, key: str, body: Body, patch: Patch) -> None:
        """Forget the record of a handler, both on the object and in the patch; nothing happens when there is none."""

    @abstractmethod
    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Change something without meaning, so that the object's next event comes; None takes it away again."""

    @abstractmethod
    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """An essence without what this storage keeps on the object. The argument may be given back, but not changed."""
        return essence

    def may_hold(self, body: Body) -> bool:
        """Whether there may be a record of any handler: a cheap look before each of them is asked for. False is certain."""
        return True

    def flush(self) -> None:
        """Write what was only gathered so far. By default nothing is gathered."""
        return


class AnnotationsProgressStorage(KeyForming, KeyMarking, ProgressStorage):
    """Keeps each record in an annotation, as JSON; fields that are None are left out unless it is verbose."""

    def __init__(
        self,
        *,
        prefix: str = DEFAULT_PREFIX,
        verbose: bool = False,
        touch_key: str = "touch-dummy",
        v1: bool = True,
    ) -> None:
        """Take the prefix of the annotations. Raises ValueError for an empty one."""
        super().__init__(prefix=prefix, v1=v1)
        self.verbose = verbose
        self.touch_key = touch_key

    def fetch(self, *, key: str, body: Body) -> ProgressRecord | None:
        """The record in the annotation. Raises StoredStateError when that is no JSON object."""
        annotations = annotations_of(body)
        if not annotations:
            return None
        for name in self.usable_keys(key, body=body):
            text = annotations.get(name)
            if text is not None:
                record = decoded(text, body, f"the annotation {name!r}")
                if record is not None:
                    return record  # type: ignore[return-value]
        return None

    def store(self, *, key: str, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Put the annotation into the patch, whatever the object has now."""
        kept = {field: value for field, value in record.items() if self.verbose or value is not None}
        text = json.dumps(kept, separators=(",", ":"), default=list)
        for name in self.usable_keys(key, body=body):
            patch.metadata.annotations[name] = text
        self.store_marker(prefix=self.prefix, body=body, patch=patch)

    def purge(self, *, key: str, body: Body, patch: Patch) -> None:
        """Remove the annotation."""
        if not (patch.get("metadata") or annotations_of(body)):
            return
        for name in self.usable_keys(key, body=body):
            discard(("metadata", "annotations", name), body, patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Set the annotation made for it, or remove it."""
        annotations = annotations_of(body)
        for name in self.usable_keys(self.touch_key, body=body):
            present = annotations.get(name)
            if value is None:
                discard(("metadata", "annotations", name), body, patch)
            elif present != value:
                patch.metadata.annotations[name] = value
            if present != value:
                self.store_marker(prefix=self.prefix, body=body, patch=patch)

    def may_hold(self, body: Body) -> bool:
        """Whether there is any annotation with this prefix but those of what was handled last."""
        own, others = f"{self.prefix}/", f"{self.prefix}/last-handled-"
        return any(name.startswith(own) and not name.startswith(others) for name in annotations_of(body))

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """The essence without all annotations with this prefix."""
        if "metadata" not in essence and "status" not in essence:
            return essence
        cleared = dict(essence)
        annotations = (cleared.get("metadata") or {}).get("annotations") or {}
        own = f"{self.prefix}/"
        self.remove_annotations(cleared, {name for name in annotations if name.startswith(own)})
        self.remove_empty_stanzas(cleared)
        return cleared


class StatusProgressStorage(ProgressStorage):
    """Keeps the records in a field, of the status usually, as a mapping by id. The resource's schema must allow it."""

    field = NamedField()
    touch_field = NamedField()

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.progress",
        touch_field: FieldSpec = "status.{name}.dummy",
    ) -> None:
        """Take the fields, in which `{name}` stands for the name of the operator."""
        super().__init__()
        self._name = name
        self.field = field
        self.touch_field = touch_field

    def fetch(self, *, key: str, body: Body) -> ProgressRecord | None:
        """The record in the field; what is no mapping is not a record."""
        record = resolve(body, (*self.field, key))
        return record if isinstance(record, dict) else None  # type: ignore[return-value]

    def store(self, *, key: str, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Put the record into the patch, whatever the object has now."""
        subrefs = record.get("subrefs")
        kept = {**record, "subrefs": list(subrefs)} if subrefs is not None else dict(record)
        ensure(patch, (*self.field, key), kept)

    def purge(self, *, key: str, body: Body, patch: Patch) -> None:
        """Remove the record from the field."""
        discard((*self.field, key), body, patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Set the field made for it, or remove it."""
        if value is None:
            discard(self.touch_field, body, patch)
        elif resolve(body, self.touch_field) != value:
            ensure(patch, self.touch_field, value)

    def may_hold(self, body: Body) -> bool:
        """Whether the field is there."""
        return resolve(body, self.field) is not None

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """The essence without the field."""
        field = self.field
        if field[0] not in essence and "metadata" not in essence and "status" not in essence:
            return essence
        cleared = _unshared(essence, field)
        remove(cleared, field)
        self.remove_empty_stanzas(cleared)
        return cleared


class _FadingStatusProgressStorage(StatusProgressStorage):
    """Reads and purges what was kept in the status in the past, and writes nothing."""

    def store(self, *, key: str, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Store nothing."""

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Touch nothing."""


class MultiProgressStorage(ProgressStorage):
    """Keeps records in several storages at once, for the move from one to another: the first that has one is read."""

    def __init__(self, storages: Collection[ProgressStorage]) -> None:
        """Take the storages, the one to read first first."""
        super().__init__()
        self.storages = storages

    def fetch(self, *, key: str, body: Body) -> ProgressRecord | None:
        """The record in the first storage that has one."""
        for storage in self.storages:
            record = storage.fetch(key=key, body=body)
            if record is not None:
                return record
        return None

    def store(self, *, key: str, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Remember the record in all storages."""
        for storage in self.storages:
            storage.store(key=key, record=record, body=body, patch=patch)

    def purge(self, *, key: str, body: Body, patch: Patch) -> None:
        """Forget the record in all storages."""
        for storage in self.storages:
            storage.purge(key=key, body=body, patch=patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Touch the object in the way of each storage."""
        for storage in self.storages:
            storage.touch(body=body, patch=patch, value=value)

    def may_hold(self, body: Body) -> bool:
        """Whether any of the storages may hold a record."""
        return any(storage.may_hold(body) for storage in self.storages)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """The essence without what any of the storages keeps."""
        for storage in self.storages:
            essence = storage.clear(essence=essence)
        return essence

    def flush(self) -> None:
        """Let each storage write what it gathered."""
        for storage in self.storages:
            storage.flush()


class SmartProgressStorage(MultiProgressStorage):
    """The default: annotations; what older operators left in the status is read and removed, but not written."""

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.progress",
        touch_key: str = "touch-dummy",
        touch_field: FieldSpec = "status.{name}.dummy",
        prefix: str = DEFAULT_PREFIX,
        v1: bool = True,
        verbose: bool = False,
    ) -> None:
        """Take what the two storages take."""
        super().__init__(
            [
                AnnotationsProgressStorage(prefix=prefix, verbose=verbose, touch_key=touch_key, v1=v1),
                _FadingStatusProgressStorage(name=name, field=field, touch_field=touch_field),
            ]
        )


def discard(path: FieldPath, body: Mapping[str, Any], patch: Patch) -> None:
    """Delete a value where the object has it, and drop what the patch would have set."""
    if resolve(body, path, _ABSENT) is not _ABSENT:
        ensure(patch, path, None)
    elif resolve(patch, path, _ABSENT) is not _ABSENT:
        remove(patch, path)


def _unshared(essence: Mapping[str, Any], path: FieldPath) -> dict[str, Any]:
    """A copy whose mappings on the path are its own."""
    own = dict(essence)
    if path and isinstance(own.get(path[0]), Mapping):
        own[path[0]] = _unshared(own[path[0]], path[1:])
    return own
