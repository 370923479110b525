from collections.abc import Callable
from typing import Any

import pytest

from ctl.client.objects import Object
from ctl.client.resources import Key, Resource
from ctl.controller.kernel import mappers
from ctl.informers.deltas import Delta, DeltaKind

Make = Callable[..., Object]
PARENT = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)


def _reference(
    name: str, *, controller: bool | None = True, kind: str = "KopfExample", version: str = "kopf.dev/v1"
) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


def _update(new: Object, old: Object | None = None, *, echo: bool = False) -> Delta:
    return Delta(
        DeltaKind.UPDATED if old else DeltaKind.ADDED, new, old, initial=False, wire_type="MODIFIED", echo=echo
    )


def test_an_object_triggers_itself_unless_the_change_was_ours(obj: Make) -> None:
    trigger = mappers.for_object()
    assert list(trigger(_update(obj("a", 2), obj("a")))) == [Key("default", "a")]
    assert list(trigger(_update(obj("a", 2), obj("a"), echo=True))) == []
    gone = Delta(DeltaKind.DELETED, obj("a"), obj("a"), initial=False, wire_type="DELETED", echo=True)
    assert list(trigger(gone)) == [Key("default", "a")]


def test_a_child_triggers_its_controller_whatever_the_version_of_the_reference(obj: Make) -> None:
    trigger = mappers.for_owner(PARENT)
    child = obj("c", ownerReferences=[_reference("p", version="kopf.dev/v2"), _reference("q", controller=None)])
    assert list(trigger(_update(child))) == [Key("default", "p")]


def test_owners_of_other_kinds_and_groups_are_not_ours(obj: Make) -> None:
    trigger = mappers.for_owner(PARENT)
    child = obj(
        "c",
        ownerReferences=[
            _reference("p", kind="Other"),
            _reference("q", version="other/v1"),
            _reference("r", version="v1"),
        ],
    )
    assert list(trigger(_update(child))) == []
    assert list(trigger(_update(obj("c")))) == []


def test_every_owner_on_request(obj: Make) -> None:
    child = obj("c", ownerReferences=[_reference("p"), _reference("q", controller=None)])
    trigger = mappers.for_owner(PARENT, controller_only=False)
    assert list(trigger(_update(child))) == [Key("default", "p"), Key("default", "q")]


def test_a_child_that_changes_hands_triggers_both_owners(obj: Make) -> None:
    trigger = mappers.for_owner(PARENT)
    before, after = obj("c", ownerReferences=[_reference("p")]), obj("c", 2, ownerReferences=[_reference("q")])
    assert set(trigger(_update(after, before))) == {Key("default", "p"), Key("default", "q")}


def test_a_cluster_scoped_owner_has_no_namespace(obj: Make) -> None:
    cluster = Resource("kopf.dev", "v1", "clusterkopfexamples", kind="KopfExample", namespaced=False)
    assert list(mappers.for_owner(cluster)(_update(obj("c", ownerReferences=[_reference("p")])))) == [Key(None, "p")]


def test_an_owner_is_known_by_its_kind() -> None:
    with pytest.raises(ValueError, match="kind="):
        mappers.for_owner(Resource("kopf.dev", "v1", "kopfexamples"))


def test_labels_can_point_to_another_namespace(obj: Make) -> None:
    trigger = mappers.from_label("owner", namespace_label="owner-namespace")
    assert list(trigger(_update(obj("c", labels={"owner": "p", "owner-namespace": "other"})))) == [Key("other", "p")]
    assert list(trigger(_update(obj("c", labels={"owner": "p"})))) == [Key("default", "p")]
    assert list(trigger(_update(obj("c")))) == []
    assert list(mappers.from_label("owner")(_update(obj("c", labels={"owner": "p"})))) == [Key("default", "p")]


def test_a_mapping_sees_the_object_before_and_after(obj: Make) -> None:
    trigger = mappers.from_function(lambda obj: (obj.metadata().labels or {}).values())
    assert list(trigger(_update(obj("c", labels={"a": "x", "b": "y"}), obj("c", labels={"a": "x", "b": "z"})))) == [
        "x",
        "y",
        "z",
    ]


def test_constant_keys(obj: Make) -> None:
    assert list(mappers.constant("config")(_update(obj("c")))) == ["config"]
    assert list(mappers.constant("config")(_update(obj("c"), obj("c"), echo=True))) == []
