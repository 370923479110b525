from collections.abc import Callable
from typing import Any

import pytest

from ctl.client.objects import Object
from ctl.controller.kernel import predicates as p
from ctl.informers.deltas import Delta, DeltaKind

Make = Callable[..., Object]


def _update(old: Object, new: Object, **kwargs: Any) -> Delta:
    return Delta(DeltaKind.UPDATED, new, old, initial=False, wire_type="MODIFIED", **kwargs)


def _added(obj: Object) -> Delta:
    return Delta(DeltaKind.ADDED, obj, None, initial=False, wire_type="ADDED")


def _deleted(obj: Object) -> Delta:
    return Delta(DeltaKind.DELETED, obj, obj, initial=False, wire_type="DELETED")


CHANGES = [
    (p.generation_changed(), {"generation": 1}, {"generation": 2}),
    (p.labels_changed(), {"labels": {"a": "1"}}, {"labels": {"a": "2"}}),
    (p.annotations_changed(), {}, {"annotations": {"a": "2"}}),
    (p.resource_version_changed(), {"resourceVersion": "1"}, {"resourceVersion": "2"}),
    (p.body_changed(lambda body: body["metadata"].get("labels")), {}, {"labels": {"a": "2"}}),
]


@pytest.mark.parametrize(("predicate", "before", "after"), CHANGES)
def test_a_change_passes_and_its_absence_does_not(predicate: p.Predicate, before: Any, after: Any, obj: Make) -> None:
    old, new = obj("a", **before), obj("a", **after)
    assert predicate(_update(old, new))
    assert not predicate(_update(old, old))
    assert not predicate(Delta(DeltaKind.SYNCED, old, old, initial=False, wire_type=None))
    assert predicate(_added(old))
    assert predicate(_deleted(old))


def test_objects_without_a_generation_always_pass(obj: Make) -> None:
    assert p.generation_changed()(_update(obj("a", 1), obj("a", 2)))


def test_a_deletion_mark_passes_once(obj: Make) -> None:
    alive, marked = obj("a"), obj("a", 2, deletionTimestamp="2031-01-01T00:00:00Z")
    predicate = p.deletion_marked()
    assert predicate(_update(alive, marked))
    assert predicate(_added(marked))
    assert not predicate(_update(marked, marked))
    assert not predicate(_added(alive))


def test_labelled_sees_the_loss_of_a_label_too(obj: Make) -> None:
    with_label, without = obj("a", labels={"app": "web"}), obj("a", 2)
    assert p.labelled({"app": "web"})(_update(with_label, without))
    assert p.labelled({"app": None})(_added(with_label))
    assert not p.labelled({"app": "db"})(_added(with_label))
    assert not p.labelled({"app": "web"})(_added(without))


def test_kinds_and_echoes(obj: Make) -> None:
    assert p.kinds(DeltaKind.DELETED)(_deleted(obj("a")))
    assert not p.kinds(DeltaKind.DELETED)(_added(obj("a")))
    assert not p.not_echo()(_update(obj("a"), obj("a", 2), echo=True))
    assert p.not_echo()(_update(obj("a"), obj("a", 2)))


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_predicates_combine(one: bool, other: bool, obj: Make) -> None:
    delta = _added(obj("a"))
    first, second = (lambda _: one), (lambda _: other)
    assert p.all_of(first, second)(delta) is (one and other)
    assert p.any_of(first, second)(delta) is (one or other)
    assert p.none_of(first, second)(delta) is not (one or other)
