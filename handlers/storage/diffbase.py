"""The diff-base is the essence of an object as its handlers last saw it; changes are detected against it.

Formats and keys are Kopf's to the byte: an object that was handled by Kopf is known here, and the other way round.
"""

import json
from abc import ABCMeta, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from ...client.patches import copy
from ..causes.fields import FieldPath, FieldSpec, ensure, parse_field, remove, resolve
from ..causes.patch import Patch
from ..causes.views import Body, BodyEssence
from .naming import DEFAULT_PREFIX, KeyForming, KeyMarking, StanzaCleaning, annotations_of, decoded

_SYSTEM = frozenset({"apiVersion", "kind", "metadata", "status"})
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ABSENT = object()
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class DiffBaseStorage(KeyMarking, StanzaCleaning, metaclass=ABCMeta):
    """Where the essences of objects are kept. Inherit from it to keep them elsewhere."""

    # Also for those storages of users that do not call this constructor.
    ignored_fields: Iterable[FieldSpec] = ()

    def __init__(self, ignored_fields: Iterable[FieldSpec] | None = None) -> None:
        """Take fields whose changes are of no interest; they are in no essence."""
        self.ignored_fields = _listed(ignored_fields)

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        """The essence of a body: everything but what the system writes.

        Left out are the status, and of the metadata all but labels and annotations (those of operators and of `kubectl
        apply` are left out too). Extra fields are taken in as they are. Shares nothing with the body.
        """
        raw = body._data if type(body) is Body else body
        essence: BodyEssence = {key: copy(value) for key, value in raw.items() if key not in _SYSTEM}
        metadata = raw.get("metadata") or {}
        kept = {key: copy(metadata[key]) for key in ("labels", "annotations") if metadata.get(key)}
        if kept:
            essence["metadata"] = kept
        if "annotations" in kept:
            annotations = kept["annotations"]
            marked = self.detect_marked_prefixes(annotations)
            foreign = {key for key in annotations if "/" in key and key.split("/", 1)[0] in marked}
            self.remove_annotations(essence, foreign | {_LAST_APPLIED})
        for spec in _listed(extra_fields):
            path = parse_field(spec)
            value = resolve(body, path, _ABSENT)
            if path and value is not _ABSENT:
                ensure(essence, path, copy(value))
        self.remove_empty_stanzas(essence)
        for spec in _listed(self.ignored_fields):
            remove(essence, parse_field(spec))
        return essence

    @abstractmethod
    def fetch(self, *, body: Body) -> BodyEssence | None:
        """The essence that was stored last; None when there is none: the object was never handled."""

    @abstractmethod
    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        """Remember an essence, usually by a change in the patch."""


class AnnotationsDiffBaseStorage(KeyForming, DiffBaseStorage):
    """Keeps the essence in an annotation, as JSON with a line feed after it."""

    def __init__(
        self,
        *,
        prefix: str = DEFAULT_PREFIX,
        key: str = "last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
        v1: bool = True,
    ) -> None:
        """Take the prefix and the name of the annotation. Raises ValueError for an empty prefix."""
        KeyForming.__init__(self, prefix=prefix, v1=v1)
        DiffBaseStorage.__init__(self, ignored_fields=ignored_fields)
        self.key = key

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        """As everywhere, without the essence itself."""
        essence = super().build(body=body, extra_fields=extra_fields)
        if annotations_of(essence):
            self.remove_annotations(essence, self.make_keys(self.key, body=body))
            self.remove_empty_stanzas(essence)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        """The essence in the annotation. Raises StoredStateError when that is no JSON object."""
        annotations = annotations_of(body)
        if not annotations:
            return None
        for key in self.usable_keys(self.key, body=body):
            text = annotations.get(key)
            if text is not None:
                essence = decoded(text, body, f"the annotation {key!r}")
                if essence is not None:
                    return essence
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        """Put the annotation into the patch, whatever the object has now."""
        text = _ENCODER.encode(essence) + "\n"
        for key in self.usable_keys(self.key, body=body):
            ensure(patch, ("metadata", "annotations", key), text)
        self.store_marker(prefix=self.prefix, body=body, patch=patch)


class NamedField:
    """A field of an object in which a storage keeps something: set as users write fields, with `{name}` for the storage's name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = f"_{name}"

    def __get__(self, storage: Any, owner: type | None = None) -> FieldPath:
        found: FieldPath = getattr(storage, self._attribute)
        return found

    def __set__(self, storage: Any, field: FieldSpec) -> None:
        path = parse_field(field.replace("{name}", storage._name) if isinstance(field, str) else field)
        if not path:
            raise ValueError("A storage needs a field of its own, such as 'status.my-operator'; got none.")
        setattr(storage, self._attribute, path)


class StatusDiffBaseStorage(DiffBaseStorage):
    """Keeps the essence in a field, of the status usually, as a string of JSON. The resource's schema must allow it."""

    field = NamedField()

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
    ) -> None:
        """Take the field, in which `{name}` stands for the name of the operator."""
        super().__init__(ignored_fields=ignored_fields)
        self._name = name
        self.field = field

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        """As everywhere, without the essence itself."""
        essence = super().build(body=body, extra_fields=extra_fields)
        remove(essence, self.field)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        """The essence in the field. Raises StoredStateError when that is no JSON object."""
        stored = resolve(body, self.field)
        return None if stored is None else decoded(stored, body, f"the field {'.'.join(self.field)!r}")

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        """Put the field into the patch, whatever the object has now."""
        ensure(patch, self.field, _ENCODER.encode(essence))


class MultiDiffBaseStorage(DiffBaseStorage):
    """Keeps the essence in several storages at once, for the move from one to another: the first that has it is read."""

    def __init__(self, storages: Collection[DiffBaseStorage]) -> None:
        """Take the storages, the one to read first first."""
        super().__init__()
        self.storages = storages

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        """What every storage considers essential."""
        essence = super().build(body=body, extra_fields=extra_fields)
        for storage in self.storages:
            essence = storage.build(body=Body(essence), extra_fields=extra_fields)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        """The essence in the first storage that has one."""
        for storage in self.storages:
            essence = storage.fetch(body=body)
            if essence is not None:
                return essence
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        """Remember the essence in all storages."""
        for storage in self.storages:
            storage.store(body=body, patch=patch, essence=essence)


def _listed(fields: Iterable[FieldSpec] | None) -> Iterable[FieldSpec]:
    return () if fields is None else [fields] if isinstance(fields, str) else fields
