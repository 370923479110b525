"""An object as it came over the wire: raw JSON, the few fields that all callers need, the rest decoded on demand."""

from collections.abc import Mapping
from typing import Any

import msgspec

from .deep_json import mended, outline
from .resources import Key


class OwnerRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `metadata.ownerReferences`."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of `metadata` that controllers decide by; decoded without the body. Absent fields have their defaults."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerRef, ...] | None = None


class Identity(msgspec.Struct, gc=False, rename="camel"):
    """The metadata that identify an object and its version."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""


class Identified(msgspec.Struct, gc=False):
    """An object of which only the identity is decoded."""

    metadata: Identity


class _Born(msgspec.Struct, gc=False, rename="camel"):
    creation_timestamp: str | None = None


class _Known(msgspec.Struct, gc=False, omit_defaults=True):
    name: str = ""
    namespace: str | None = None
    uid: str = ""


class _Named(msgspec.Struct, gc=False, omit_defaults=True):
    metadata: _Known
    apiVersion: str = ""  # noqa: N815 - it is encoded again
    kind: str = ""


class _Unidentified(msgspec.Struct, gc=False, rename="camel"):
    metadata: _Born
    api_version: str = ""
    kind: str = ""


class _Described(msgspec.Struct, gc=False):
    metadata: Metadata


decode_identified = msgspec.json.Decoder(Identified).decode
"""Take the identity from the JSON of an object. Raises msgspec.DecodeError or ValidationError when it is no Kubernetes object."""
_decode_named = msgspec.json.Decoder(_Named).decode
_decode_unidentified = msgspec.json.Decoder(_Unidentified).decode
_decode_metadata = msgspec.json.Decoder(_Described).decode
_decode_body = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class Object(msgspec.Struct, frozen=True, gc=False):
    """One immutable version of one object.

    `raw` is the JSON of the whole object. It can be shared freely between threads and tasks. `body()` and
    `metadata()` decode anew at each call and belong to the caller: changing them changes nothing else.
    """

    raw: bytes
    namespace: str | None
    name: str
    uid: str
    resource_version: str

    def __repr__(self) -> str:
        # The JSON may be that of a Secret.
        return f"Object({str(self.key)!r}, uid={self.uid!r}, resource_version={self.resource_version!r})"

    @classmethod
    def from_raw(cls, raw: bytes) -> "Object":
        """Take an object from its JSON, however deep. Raises msgspec.DecodeError or ValidationError when it is no Kubernetes object."""
        try:
            meta = decode_identified(raw).metadata
        except (RecursionError, msgspec.DecodeError):
            raw = mended(raw)
            meta = decode_identified(outline(raw)[0]).metadata
        return cls(raw, meta.namespace, meta.name, meta.uid, meta.resource_version)

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> "Object":
        """Take an object from its decoded form. Raises as `from_raw` does."""
        return cls.from_raw(_encode(body))

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def identity(self) -> str:
        """The uid; for objects without one (of some aggregated APIs and simple servers) kind, name and creation time."""
        return self.uid or self._place()

    def _place(self) -> str:
        try:
            found = _decode_unidentified(self.raw)
        except RecursionError:
            found = _decode_unidentified(outline(self.raw)[0])
        born = found.metadata.creation_timestamp or ""
        return f"{found.api_version}/{found.kind}/{self.namespace or ''}/{self.name}@{born}"

    def metadata(self) -> Metadata:
        """Decode the metadata alone, however deep the rest: a third of the cost of the body."""
        try:
            return _decode_metadata(self.raw).metadata
        except RecursionError:
            return _decode_metadata(outline(self.raw)[0]).metadata

    def stub(self) -> dict[str, Any]:
        """A body with the apiVersion, kind, name, namespace and uid alone, decoded without the rest, however deep that is."""
        try:
            found = _decode_named(self.raw)
        except RecursionError:
            found = _decode_named(outline(self.raw)[0])
        stub: dict[str, Any] = msgspec.to_builtins(found)
        return stub

    def body(self) -> dict[str, Any]:
        """Decode everything into dicts and lists of the caller's own. Raises RecursionError beyond about 1,000 levels."""
        return _decode_body(self.raw)


BOOKKEEPING = frozenset({"resourceVersion", "generation", "managedFields"})
"""Metadata that the server changes by itself whenever anything else changes."""


def without_bookkeeping(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body without the metadata that the server keeps by itself, to compare two versions. Shares all other values with the body."""
    return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key not in BOOKKEEPING}}


def is_older(obj: Object, other: Object) -> bool:
    """Whether a version of an object is known to be older than another one; false where versions cannot be compared."""
    mine, theirs = version_order(obj.resource_version), version_order(other.resource_version)
    return mine is not None and theirs is not None and mine < theirs


def version_order(version: str) -> tuple[int, str] | None:
    """A sort key for resource versions of one resource, or None when the version is not a decimal number.

    Versions of one resource are comparable integers since Kubernetes 1.35 (KEP-5504): by length, then lexically.
    """
    return (len(version), version) if version.isdecimal() and version[0] != "0" else None
