"""Protobuf bodies, written here by hand from the wire format."""

import pytest

from ctl.sandbox.protobuf import decode
from ctl.sandbox.status import Refused


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


def test_a_configmap() -> None:
    meta = field(1, "one") + field(2, "") + field(8, b"") + field(11, field(1, "a") + field(2, "b"))
    raw = (
        field(1, meta)
        + field(2, field(1, "key") + field(2, "value"))
        + field(3, field(1, "bin") + field(2, b"\x00\x01"))
    )
    assert decode(envelope("v1", "ConfigMap", raw)) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "one", "labels": {"a": "b"}},
        "data": {"key": "value"},
        "binaryData": {"bin": "AAE="},
    }


def test_times_integers_and_values_that_mean_something_when_zero() -> None:
    spec = field(1, "me") + field(2, 15) + field(4, field(1, 1767225600) + field(2, 5000)) + field(5, 0)
    found = decode(envelope("coordination.k8s.io/v1", "Lease", field(1, field(1, "x")) + field(2, spec)))
    assert found["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.000005Z",
    }
    deployment = decode(
        envelope("apps/v1", "Deployment", field(1, field(1, "x")) + field(2, field(1, 0) + field(7, 0)))
    )
    assert deployment["spec"] == {"replicas": 0}


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"k8s\x00\xff",
        envelope("v1", "Unheard", b""),
        envelope("v1", "ConfigMap", field(99, "x")),
        envelope("v1", "ConfigMap", field(1, b"\x0a\x7f")),
    ],
)
def test_what_is_not_understood_is_refused_and_never_dropped(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        decode(body)
    assert caught.value.code == 415
    assert "application/json" in caught.value.message
