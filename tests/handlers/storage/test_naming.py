import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body
from ctl.handlers.storage.naming import KeyForming, KeyMarking

ANNOTATION_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
OWN = "my-operator.example.com"


@pytest.mark.parametrize(
    ("prefix", "key", "expected"),
    [
        (OWN, "x" * 40, [f"{OWN}/{'x' * 40}", f"{OWN}/{'x' * 32}-tEokcg"]),
        (OWN, "fn" * 323, [f"{OWN}/{'fn' * 28}-Az-r.g", f"{OWN}/{'fn' * 16}-Az-r.g"]),
        (OWN, "a_b.c-d/e", [f"{OWN}/a_b.c-d.e"]),
        ("kopf.zalando.org", "a" * 47, [f"kopf.zalando.org/{'a' * 47}", f"kopf.zalando.org/{'a' * 39}-L2I79Q"]),
        ("kopf.zalando.org", "create_fn/spec.field", ["kopf.zalando.org/create_fn.spec.field"]),
        ("kopf.zalando.org", "<lambda>", ["kopf.zalando.org/_lambda_"]),
    ],
)
def test_known_keys(prefix: str, key: str, expected: list[str]) -> None:
    assert KeyForming(prefix=prefix).make_keys(key) == expected


def test_the_newer_form_of_a_long_key() -> None:
    assert KeyForming(prefix=OWN).make_v2_key("x" * 64) == f"{OWN}/{'x' * 56}-SItAqA"


def test_a_diffbase_under_a_long_prefix() -> None:
    prefix = "a-really-quite-long-operator-name.example.com"
    expected = [f"{prefix}/last-handled-configuration", f"{prefix}/last-handl-a.A3qw"]
    assert KeyForming(prefix=prefix).make_keys("last-handled-configuration") == expected


@pytest.mark.parametrize("prefix", ["", None])
def test_a_prefix_is_required(prefix: Any) -> None:
    with pytest.raises(ValueError, match="must be prefixed"):
        KeyForming(prefix=prefix)


def test_a_prefix_that_leaves_no_place_for_names_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="prefix is too long"):
        KeyForming(prefix="x" * 190)


@given(st.text(min_size=1, max_size=200), st.sampled_from(["kopf.zalando.org", OWN, f"{'q' * 60}.example.com"]))
def test_whatever_the_id_there_is_a_name_that_the_api_accepts(key: str, prefix: str) -> None:
    keys = KeyForming(prefix=prefix).usable_keys(key, body=Body({}))
    assert keys
    for made in keys:
        before, _, name = made.rpartition("/")
        assert before == prefix
        assert ANNOTATION_NAME.fullmatch(name)


@pytest.mark.parametrize("key", ["lambda:/app/main.py:12", "_private", "<lambda>", "ключ"])
def test_ids_that_kopf_cannot_store_get_names_of_their_own(key: str) -> None:
    forming = KeyForming()
    [made] = forming.usable_keys(key, body=Body({}))
    assert made not in forming.make_keys(key)
    assert made != forming.usable_keys(f"{key}2", body=Body({}))[0]


class Shouting(KeyForming):
    """Forms names in a way of its own."""

    @staticmethod
    def make_safe_key(key: str) -> str:
        return key.upper()


def test_whoever_forms_names_otherwise_is_asked_for_them() -> None:
    assert KeyForming(prefix=OWN).usable_keys("fn", body=Body({})) == (f"{OWN}/fn",)
    assert Shouting(prefix=OWN).usable_keys("fn", body=Body({})) == [f"{OWN}/FN"]


def test_a_prefix_may_be_exchanged() -> None:
    forming = KeyForming(prefix="first.example.com")
    before = forming.usable_keys("fn", body=Body({}))
    forming.prefix = "other.example.com"
    assert (*before, *forming.usable_keys("fn", body=Body({}))) == ("first.example.com/fn", "other.example.com/fn")


@pytest.mark.parametrize(
    ("raw", "marked"),
    [
        ({"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "X"}, {"kind": "Deployment"}]}}, True),
        ({"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Rollout"}]}}, False),
        ({"kind": "ReplicaSet", "metadata": {"ownerReferences": None}}, False),
        ({"kind": "ReplicaSet"}, False),
        ({"kind": "Pod", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}}, False),
    ],
)
def test_only_replica_sets_of_deployments_are_told_apart(raw: dict[str, Any], marked: bool) -> None:
    assert KeyForming().mark_key("key", body=Body(raw)) == ("key-ofDRS" if marked else "key")


@pytest.mark.parametrize(("prefix", "marked"), [("my.op", True), ("kopf", True), ("kopf.my.op", False)])
def test_annotations_of_other_prefixes_are_marked_once(prefix: str, marked: bool) -> None:
    marker, patch = f"{prefix}/kopf-managed", Patch()
    KeyMarking.store_marker(prefix=prefix, body=Body({}), patch=patch)
    assert patch == ({"metadata": {"annotations": {marker: "yes"}}} if marked else {})
    again = Patch()
    KeyMarking.store_marker(prefix=prefix, body=Body({"metadata": {"annotations": {marker: "yes"}}}), patch=again)
    assert again == {}


def test_prefixes_of_operators_are_recognized() -> None:
    keys = [
        "my.op/kopf-managed",
        "kopf.zalando.org/a",
        "x.kopf.zalando.org/a",
        "kopf.dev/a",
        "kopf-managed",
        "a/b/kopf-managed",
    ]
    assert KeyMarking.detect_marked_prefixes(keys) == {"my.op", "kopf.zalando.org", "x.kopf.zalando.org"}
