"""Protobuf bodies of Go clients (`kubectl create`) are read into the JSON form of the same object."""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from .protobuf_schema import MESSAGES
from .status import Refused

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
# Optional values that mean something when they are zero; other zeros are Go's unset fields.
_KEPT_ZEROS: Final = frozenset(
    {
        "replicas",
        "gracePeriodSeconds",
        "terminationGracePeriodSeconds",
        "parallelism",
        "completions",
        "backoffLimit",
        "revisionHistoryLimit",
        "automountServiceAccountToken",
        "controller",
        "blockOwnerDeletion",
        "immutable",
        "optional",
        "allowPrivilegeEscalation",
        "readOnlyRootFilesystem",
        "runAsNonRoot",
        "enableServiceLinks",
        "orphanDependents",
        "suspend",
        "value",
    }
)
_NEW_NAMES: Final = {("events.k8s.io/v1", "Event"): "NewEvent"}

Field = tuple[str, str]


def _schema() -> dict[str, dict[int, Field]]:
    found: dict[str, dict[int, Field]] = {}
    fields: dict[int, Field] = {}
    for line in MESSAGES.strip("\n").splitlines():
        words = line.split()
        if not line.startswith(" "):
            fields = found[words.pop(0)] = {}
        for word in words:
            number, name, type = word.split(":")
            fields[int(number)] = (name, type)
    return found


_SCHEMA: Final = _schema()
# The top-level fields of the built-in kinds that are known here.
_TOP_LEVEL: Final = {
    kind: frozenset(name for name, _ in fields.values())
    for kind, fields in _SCHEMA.items()
    if fields.get(1) == ("metadata", "ObjectMeta")
}


def top_level(kind: str) -> frozenset[str] | None:
    """The names of a built-in kind's top-level fields; None when the kind is not known here."""
    return _TOP_LEVEL.get(kind)


class _Malformed(Exception):
    """The bytes are no message, or one with fields that are not known here."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift >= 70:
            raise _Malformed("a number has more than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and raw values of a message's fields."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                if kind != 2:
                    raise _Malformed(f"a field has the wire type {kind}")
                size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise _Malformed("it is cut off")
        yield tag >> 3, value


def _time(data: bytes, *, micro: bool) -> str | None:
    parts = dict(_fields(data))
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or not (seconds or nanos):
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=_signed(seconds), microseconds=nanos // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _either(data: bytes) -> int | str:
    parts = dict(_fields(data))
    text, plain = parts.get(3, b""), parts.get(2, 0)
    if parts.get(1) and isinstance(text, bytes):
        return text.decode()
    return _signed(plain) if isinstance(plain, int) else 0


def _value(type: str, raw: int | bytes) -> Any:
    """One value of a field of a type that is not a list or a map."""
    if isinstance(raw, int):
        return bool(raw) if type == "t" else _signed(raw)
    match type:
        case "s":
            return raw.decode()
        case "b":
            return base64.b64encode(raw).decode()
        case "d":
            return struct.unpack("<d", raw)[0]
        case "T" | "U":
            return _time(raw, micro=type == "U")
        case "Q":
            return "".join(_value("s", value) for _, value in _fields(raw))
        case "I":
            return _either(raw)
    return message(type, raw)


def message(type: str, data: bytes) -> dict[str, Any]:
    """A message as JSON would have it. Raises `_Malformed` for what is not known here."""
    known = _SCHEMA[type]
    found: dict[str, Any] = {}
    for number, raw in _fields(data):
        if number not in known:
            raise _Malformed(f"field {number} of {type} is not known to the sandbox")
        name, kind = known[number]
        if kind.startswith("*"):
            found.setdefault(name, []).append(_value(kind[1:], raw))
        elif kind.startswith("%") and isinstance(raw, bytes):
            entry = dict(_fields(raw))
            found.setdefault(name, {})[_value("s", entry.get(1, b""))] = _value(kind[1:], entry.get(2, b""))
        elif kind.startswith("^") and isinstance(raw, bytes):
            found.update(message(kind[1:], raw))
        elif kind != "-":
            value = _value(kind, raw)
            if value or isinstance(value, dict) or (name in _KEPT_ZEROS and value is not None):
                found[name] = value
    return found


def decode(body: bytes) -> dict[str, Any]:
    """The object of a protobuf body, whole. Raises a 415 for kinds and fields that the sandbox does not read."""
    try:
        if not body.startswith(_MAGIC):
            raise _Malformed("it lacks the k8s prefix")
        envelope = dict(_fields(body[len(_MAGIC) :]))
        meta, raw = envelope.get(1, b""), envelope.get(2, b"")
        if not isinstance(meta, bytes) or not isinstance(raw, bytes):
            raise _Malformed("the envelope is no runtime.Unknown")
        about = {number: value.decode() for number, value in _fields(meta) if isinstance(value, bytes)}
        api_version, kind = about.get(1, ""), about.get(2, "")
        type = _NEW_NAMES.get((api_version, kind), kind)
        if type not in _SCHEMA:
            raise _Malformed(f"the kind {kind} is not among those read as protobuf")
        return {"kind": kind, "apiVersion": api_version, **message(type, raw)}
    except (_Malformed, IndexError, ValueError, KeyError) as fault:
        words = f"the sandbox cannot read this protobuf body ({fault}): send it as application/json"
        raise Refused(415, "UnsupportedMediaType", words) from None
