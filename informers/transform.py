"""Transforms change objects before they are stored, usually to save memory.

A transform gets every object that comes from the server: listed, watched and deleted ones, and the responses to own writes. It must depend
on the object alone, may get its own result again, and must keep name, namespace, uid and version. If it raises, the object is stored
unchanged, and the error is counted.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..client.deep_json import outline
from ..client.objects import Object

Transform = Callable[[Object], Object]

_encode = msgspec.json.Encoder().encode
_MEMBER = b'"managedFields"'


class _Managed(msgspec.Struct, gc=False, rename="camel"):
    managed_fields: Raw | UnsetType = UNSET


class _Object(msgspec.Struct, gc=False):
    metadata: _Managed


class _Skeleton(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    api_version: Raw | UnsetType = UNSET
    kind: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET


_decode_managed = msgspec.json.Decoder(_Object).decode
_decode_skeleton = msgspec.json.Decoder(_Skeleton).decode


def drop_managed_fields(obj: Object) -> Object:
    """Remove `metadata.managedFields`, which can be half of an object and which controllers do not need.

    They are cut out of the JSON; the other bytes stay.
    """
    try:
        return _without(obj)
    except RecursionError:
        flat, parts = outline(obj.raw)
        return with_raw(obj, parts.restore(_without(with_raw(obj, flat)).raw))


def _without(obj: Object) -> Object:
    raw = obj.raw
    begin = raw.find(_MEMBER)
    if begin < 0:
        return obj
    fields = _decode_managed(raw).metadata.managed_fields
    if fields is UNSET:
        return obj  # another field of that name
    value = bytes(fields)
    start = begin + len(_MEMBER) + 1
    end = start + len(value)
    # Long needles are slow to find, so the short one is, and what follows it is compared. A second one, or other spacing, is
    # left to a full decoding.
    if (
        raw[start - 1] != ord(":")
        or not raw.startswith(value, start)
        or raw[begin - 1] not in b"{,"
        or raw.find(_MEMBER, end) >= 0
    ):
        return _without_managed_fields(obj)
    after = raw[end : end + 1]
    if after == b",":
        end += 1
    elif after == b"}":
        begin -= raw[begin - 1] == ord(b",")
    else:
        return _without_managed_fields(obj)
    return with_raw(obj, raw[:begin] + raw[end:])


def _without_managed_fields(obj: Object) -> Object:
    body = obj.body()
    del body["metadata"]["managedFields"]
    return with_raw(obj, _encode(body))


def metadata_only(obj: Object) -> Object:
    """Keep `apiVersion`, `kind`, and `metadata` without the managed fields."""
    return drop_managed_fields(with_raw(obj, _encode(_decode_skeleton(obj.raw))))


def drops_managed_fields(transform: Transform | None) -> bool:
    """Whether a transform removes the managed fields, so that the server need not send them."""
    return transform in {drop_managed_fields, metadata_only}


def with_raw(obj: Object, raw: bytes) -> Object:
    """The same object with other JSON."""
    return Object(raw, obj.namespace, obj.name, obj.uid, obj.resource_version)


IDENTITY = ("apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion")


def project(*paths: str | tuple[str, ...]) -> Transform:
    """Make a transform that keeps the named paths and the object's identity, and nothing else.

    A path is dotted (`spec.replicas`) or, for names with dots, a tuple (`("metadata", "labels", "app.kubernetes.io/name")`).
    Missing fields are left out. Lists are kept whole or not at all.
    """
    tree: dict[str, Any] = {}
    for path in (*IDENTITY, *paths):
        _plant(tree, tuple(path.split(".")) if isinstance(path, str) else path)
    decode = msgspec.json.Decoder(_shape(tree)).decode

    def transform(obj: Object) -> Object:
        try:
            return with_raw(obj, _encode(decode(obj.raw)))
        except msgspec.ValidationError:
            # A part of a path is not a map in this object: that path is left out.
            return with_raw(obj, _encode(_pick(obj.body(), tree)))

    return transform


def _plant(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    if not path or not all(path):
        raise ValueError(f"A path to keep must name fields, as in 'spec.replicas'; got {path!r}.")
    *way, leaf = path
    for name in way:
        branch = tree.setdefault(name, {})
        if branch is None:
            return  # kept as a whole
        tree = branch
    tree[leaf] = None


def _shape(tree: Mapping[str, Any]) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for number, (name, branch) in enumerate(tree.items()):
        field = f"f{number}"
        names[field] = name
        fields.append((field, (Raw if branch is None else _shape(branch)) | UnsetType, UNSET))
    return msgspec.defstruct("Projection", fields, rename=names, omit_defaults=True)


def _pick(body: Mapping[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, branch in tree.items():
        value = body.get(name, UNSET)
        if branch is None:
            if value is not UNSET:
                found[name] = value
        elif isinstance(value, Mapping):
            found[name] = _pick(value, branch)
    return found


def on_body(function: Callable[[dict[str, Any]], dict[str, Any]]) -> Transform:
    """Make a transform of a function from body to body. Each object is decoded and encoded as a whole."""

    def transform(obj: Object) -> Object:
        return with_raw(obj, _encode(function(obj.body())))

    return transform


def chain(transforms: Iterable[Transform]) -> Transform:
    """Join transforms, in their order."""
    steps = tuple(transforms)

    def transform(obj: Object) -> Object:
        for step in steps:
            obj = step(obj)
        return obj

    return transform
