import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.causes.diffs import DiffItem, DiffOperation
from ctl.handlers.storage.secrets import SEAL, Shown, Values, seal

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"uid": "u1"}}
OTHER = {**SECRET, "metadata": {"uid": "u2"}}

values = st.dictionaries(st.text(max_size=5), st.binary(max_size=20).map(lambda raw: base64.b64encode(raw).decode()))


def test_values_are_hashes_and_names_stay() -> None:
    sealed = seal({"type": "Opaque", "data": {"password": "c2VjcmV0"}}, SECRET)
    assert sealed["type"] == "Opaque"
    assert list(sealed["data"]) == ["password"]
    assert sealed["data"]["password"].startswith(SEAL)
    assert "c2VjcmV0" not in str(sealed)


def test_equal_values_of_two_secrets_are_not_equal_when_sealed() -> None:
    assert seal({"data": {"a": "eA=="}}, SECRET) != seal({"data": {"a": "eA=="}}, OTHER)


@given(values, values)
def test_what_is_sealed_differs_exactly_where_the_values_do(one: dict[str, str], two: dict[str, str]) -> None:
    first, second = seal({"data": one}, SECRET)["data"], seal({"data": two}, SECRET)["data"]
    assert first.keys() == one.keys()
    assert {key for key in one if first.get(key) == second.get(key)} == {key for key in one if one[key] == two.get(key)}


@given(values)
def test_sealing_twice_is_sealing_once_and_changes_no_argument(data: dict[str, str]) -> None:
    essence = {"data": dict(data), "stringData": dict(data)}
    sealed = seal(essence, SECRET)
    assert essence == {"data": data, "stringData": data}
    assert seal(sealed, SECRET) == sealed


def test_other_kinds_and_odd_shapes_stay_as_they_are() -> None:
    essence = {"data": {"a": "b"}}
    assert seal(essence, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}) is essence
    assert seal(essence, {"apiVersion": "my.io/v1", "kind": "Secret", "metadata": {}}) is essence
    odd = {"data": None, "type": "x"}
    assert seal(odd, SECRET) is odd
    assert seal({"data": {"a": None}}, SECRET) == {"data": {"a": None}}


def _secret(uid: str) -> dict[str, object]:
    return {**SECRET, "metadata": {"uid": uid}}


@given(values)
def test_what_was_sealed_can_be_had_again(data: dict[str, str]) -> None:
    known, essence = Values(), {"data": data, "type": "Opaque"}
    sealed = seal(essence, SECRET, known)
    assert known.reveal("u1", sealed) == essence
    assert known.reveal("u2", sealed) == sealed
    assert all(value not in repr(known) for value in data.values() if len(value) > 4)


def test_values_are_kept_for_as_long_as_a_state_has_them() -> None:
    known = Values()
    old, new = (seal({"data": {"a": value}}, SECRET, known) for value in ("old=", "new="))
    known.retain("u1", [old, new])
    assert known.reveal("u1", old) == {"data": {"a": "old="}}
    known.retain("u1", [new])
    assert known.reveal("u1", old) == old
    assert known.reveal("u1", new) == {"data": {"a": "new="}}
    known.forget("u1")
    assert known.reveal("u1", new) == new


def test_so_much_is_kept_and_no_more_but_always_that_of_the_last_object() -> None:
    known = Values(largest=1000)
    sealed = {uid: seal({"data": {"a": uid * 200}}, _secret(uid), known) for uid in ("u1", "u2", "u3")}
    assert known.reveal("u1", sealed["u1"]) == sealed["u1"]
    assert known.reveal("u3", sealed["u3"]) == {"data": {"a": "u3" * 200}}
    known.reveal("u2", sealed["u2"])
    seal({"data": {"a": "u4" * 200}}, _secret("u4"), known)
    assert known.reveal("u3", sealed["u3"]) == sealed["u3"], "what was asked for last goes last"
    assert known.reveal("u2", sealed["u2"]) == {"data": {"a": "u2" * 200}}
    huge = seal({"data": {"a": "x" * 5000}}, _secret("u5"), known)
    assert known.reveal("u5", huge) == {"data": {"a": "x" * 5000}}
    assert known.reveal("u2", sealed["u2"]) == sealed["u2"]


KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            {"kind": "Secret", "data": {"a": "x"}, "stringData": None},
            {"kind": "Secret", "data": {"a": "..."}, "stringData": None},
        ),
        (
            {"metadata": {"name": "n", "annotations": {"b": "c", KUBECTL: "x"}}},
            {"metadata": {"name": "n", "annotations": {"b": "c", KUBECTL: "..."}}},
        ),
        (
            [
                {"op": "add", "path": "/data/a", "value": "x"},
                {"op": "add", "path": "/metadata/finalizers", "value": ["f"]},
            ],
            [
                {"op": "add", "path": "/data/a", "value": "..."},
                {"op": "add", "path": "/metadata/finalizers", "value": ["f"]},
            ],
        ),
        (
            ({"op": "replace", "path": "/data", "value": {"a": "x"}},),
            ({"op": "replace", "path": "/data", "value": {"a": "..."}},),
        ),
        ((("add", ("data", "a"), None, "x"),), (("add", ("data", "a"), None, "..."),)),
        (
            (DiffItem(DiffOperation.CHANGE, ("data",), {"a": "x"}, {"a": "x"}),),
            (("change", ("data",), {"a": "..."}, {"a": "..."}),),
        ),
    ],
)
def test_what_is_shown_of_a_secret(value: object, shown: object) -> None:
    assert repr(Shown(value, is_secret=True)) == repr(shown)
    assert repr(Shown(value, is_secret=False)) == repr(value)
