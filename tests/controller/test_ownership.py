from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.objects import Object
from ctl.controller.api import ownership

OWNER: dict[str, Any] = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {"name": "parent", "namespace": "default", "uid": "uid-parent"},
}
REFERENCE = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "name": "parent",
    "uid": "uid-parent",
    "controller": True,
    "blockOwnerDeletion": True,
}


def _child(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_adopting_a_new_child() -> None:
    child = _child()
    ownership.adopt(child, OWNER)
    assert child["metadata"] == {"namespace": "default", "generateName": "parent-", "ownerReferences": [REFERENCE]}


def test_a_child_with_a_purpose_has_one_name() -> None:
    child = _child()
    ownership.adopt(child, OWNER, suffix="config")
    assert child["metadata"]["name"] == "parent-config"
    named = _child(name="mine", namespace="default")
    ownership.adopt(named, OWNER, suffix="config")
    assert named["metadata"]["name"] == "mine"


def test_owning_twice_changes_nothing_and_a_wrong_entry_is_corrected() -> None:
    child = _child(ownerReferences=[{"uid": "other", "kind": "X", "name": "x"}])
    assert ownership.own(child, OWNER)
    assert not ownership.own(child, OWNER)
    child["metadata"]["ownerReferences"][1]["controller"] = False
    assert ownership.own(child, OWNER)
    assert child["metadata"]["ownerReferences"][1] == REFERENCE


def test_two_controllers_are_refused_by_name() -> None:
    child = _child(name="c", ownerReferences=[{**REFERENCE, "uid": "other", "name": "first"}])
    with pytest.raises(ownership.OwnershipError, match=r"c is controlled by KopfExample 'first'.*default/parent"):
        ownership.own(child, OWNER)
    assert ownership.own(child, OWNER, controller=False)


def test_an_owner_in_another_namespace_is_refused() -> None:
    with pytest.raises(ownership.OwnershipError, match="another namespace"):
        ownership.own(_child(namespace="elsewhere"), OWNER)


def test_an_owner_that_is_not_stored_yet_is_refused() -> None:
    with pytest.raises(ownership.OwnershipError, match="uid"):
        ownership.own(_child(), {**OWNER, "metadata": {"name": "parent"}})


def test_disowning() -> None:
    child = _child(ownerReferences=[REFERENCE])
    assert ownership.disown(child, "uid-parent")
    assert child["metadata"]["ownerReferences"] == []
    assert not ownership.disown(child, "uid-parent")
    assert not ownership.disown(_child(), "uid-parent")


def test_who_controls(obj: Callable[..., Object]) -> None:
    child = obj("c", ownerReferences=[{**REFERENCE, "uid": "other", "controller": None}, REFERENCE]).metadata()
    controller = ownership.controller_of(child)
    assert controller is not None
    assert controller.uid == "uid-parent"
    assert ownership.is_controlled_by(child, "uid-parent")
    assert not ownership.is_controlled_by(child, "other")
    assert ownership.controller_of(obj("c").metadata()) is None


def test_references() -> None:
    assert ownership.object_reference(OWNER) == {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "name": "parent",
        "uid": "uid-parent",
        "namespace": "default",
    }
    assert "controller" not in ownership.owner_reference(OWNER, controller=None)


@given(st.text("abc-.", min_size=1, max_size=260), st.text("abc", min_size=1, max_size=80))
def test_names_of_children_fit_and_stay_different(owner: str, suffix: str) -> None:
    name = ownership.child_name(owner, suffix)
    assert len(name) <= 63
    assert name == ownership.child_name(owner, suffix)
    assert name != ownership.child_name(owner, suffix + "x")
