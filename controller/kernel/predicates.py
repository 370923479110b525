"""Predicates decide which deltas a source maps to keys; they can be combined.

Pure functions of one delta. Except for `labelled`, `kinds` and `deletion_marked` they decide on updates only and accept everything else.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ...client.objects import Object
from ...informers.deltas import Delta, DeltaKind

Predicate = Callable[[Delta], bool]


def _on_update(changed: Callable[[Object, Object], bool]) -> Predicate:
    def predicate(delta: Delta) -> bool:
        if delta.old is None or delta.kind not in {DeltaKind.UPDATED, DeltaKind.SYNCED}:
            return True
        return changed(delta.old, delta.object)

    return predicate


def generation_changed() -> Predicate:
    """The spec changed: `metadata.generation` differs. Objects without a generation are always accepted.

    The mark for deletion changes the generation too. Changes of status, labels and annotations do not.
    """

    def changed(old: Object, new: Object) -> bool:
        generation = new.metadata().generation
        return generation is None or generation != old.metadata().generation

    return _on_update(changed)


def resource_version_changed() -> Predicate:
    """Anything changed: rejects the repetitions of a resync or a new list."""
    return _on_update(lambda old, new: new.resource_version != old.resource_version)


def labels_changed() -> Predicate:
    """The labels changed."""
    return _on_update(lambda old, new: (new.metadata().labels or {}) != (old.metadata().labels or {}))


def annotations_changed() -> Predicate:
    """The annotations changed."""
    return _on_update(lambda old, new: (new.metadata().annotations or {}) != (old.metadata().annotations or {}))


def deletion_marked() -> Predicate:
    """The object was marked for deletion by this change, or was so when it was first seen."""
    return lambda delta: (
        bool(delta.object.metadata().deletion_timestamp)
        and not (delta.old is not None and delta.old.metadata().deletion_timestamp)
    )


def body_changed(project: Callable[[dict[str, Any]], object]) -> Predicate:
    """The result of a function of the body changed, such as `lambda body: body.get("status", {}).get("readyReplicas")`."""
    return _on_update(lambda old, new: project(new.body()) != project(old.body()))


def labelled(wanted: Mapping[str, str | None]) -> Predicate:
    """The object has these labels, or had them before the change; None is any value.

    Both, so that the loss of a label is noticed.
    """

    def matches(labels: Mapping[str, str] | None) -> bool:
        found = labels or {}
        return all(name in found and value in {None, found[name]} for name, value in wanted.items())

    return lambda delta: (
        matches(delta.object.metadata().labels) or (delta.old is not None and matches(delta.old.metadata().labels))
    )


def kinds(*wanted: DeltaKind) -> Predicate:
    """Only deltas of these kinds, such as `kinds(DeltaKind.DELETED)`."""
    return lambda delta: delta.kind in wanted


def not_echo() -> Predicate:
    """The delta is no echo of an own write, or a deletion."""
    return lambda delta: not delta.echo or delta.kind is DeltaKind.DELETED


def all_of(*predicates: Predicate) -> Predicate:
    """Every predicate holds; true without any."""
    return lambda delta: all(predicate(delta) for predicate in predicates)


def any_of(*predicates: Predicate) -> Predicate:
    """At least one predicate holds; false without any."""
    return lambda delta: any(predicate(delta) for predicate in predicates)


def none_of(*predicates: Predicate) -> Predicate:
    """No predicate holds; with one predicate, its negation."""
    return lambda delta: not any(predicate(delta) for predicate in predicates)
