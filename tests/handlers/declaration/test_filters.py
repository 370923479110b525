from collections.abc import Callable
from typing import Any

import pytest

from ctl.handlers.causes.causes import ChangingCause, SpawningCause, WatchingCause
from ctl.handlers.declaration.filters import ABSENT, PRESENT, all_, any_, none_, not_
from ctl.handlers.declaration.specs import ChangingSpec, DaemonSpec, HandlerId, ResourceSpec, WatchingSpec
from ctl.handlers.declaration.targets import Selector
from ctl.handlers.errors import HandlerSignatureError

Changing = Callable[..., ChangingCause]
Watching = Callable[..., WatchingCause]
Spawning = Callable[..., SpawningCause]


def fn(**_: Any) -> None: ...


def watcher(**filters: Any) -> WatchingSpec:
    return WatchingSpec(id=HandlerId("fn"), fn=fn, selector=Selector.parse("kex"), **filters)


def changer(field: str, **filters: Any) -> ChangingSpec:
    path = tuple(field.split("."))
    return ChangingSpec(id=HandlerId("fn"), fn=fn, selector=Selector.parse("kex"), field=path, **filters)


OBJECT = {
    "metadata": {"name": "x", "labels": {"a": "1", "e": ""}, "annotations": {"a": "1", "e": ""}},
    "spec": {"x": 1, "n": None, "list": [{"x": 1}]},
}
META_CASES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"a": "1"}, True),
    ({"a": "2"}, False),
    ({"a": 1}, False),
    ({"a": PRESENT}, True),
    ({"a": ABSENT}, False),
    ({"b": PRESENT}, False),
    ({"b": ABSENT}, True),
    ({"e": PRESENT}, True),
    ({"e": ABSENT}, False),
    ({"e": ""}, True),
    ({"b": ""}, False),
    ({"a": lambda value, **_: value == "1"}, True),
    ({"b": lambda value, **_: value is None}, True),
    ({"a": "1", "b": ABSENT}, True),
    ({"a": "1", "b": PRESENT}, False),
]


@pytest.mark.parametrize("stanza", ["labels", "annotations"])
@pytest.mark.parametrize(("criteria", "expected"), META_CASES)
def test_labels_and_annotations(watching: Watching, stanza: str, criteria: Any, expected: bool) -> None:
    spec = watcher(**{stanza: criteria})
    assert spec.match(watching(OBJECT)) is expected
    assert spec.prematch(watching(OBJECT)) is expected


def test_an_object_without_labels_has_none(watching: Watching) -> None:
    bare = watching({"metadata": {"name": "x"}})
    assert watcher(labels={"a": ABSENT}).match(bare)
    assert not watcher(labels={"a": PRESENT}).match(bare)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (("spec", "x"), None, True),
        (("spec", "x"), PRESENT, True),
        (("spec", "x"), ABSENT, False),
        (("spec", "x"), 1, True),
        (("spec", "x"), 2, False),
        (("spec", "n"), None, True),
        (("spec", "n"), ABSENT, False),
        (("spec", "no"), None, False),
        (("spec", "no"), PRESENT, False),
        (("spec", "no"), ABSENT, True),
        (("spec", "no"), 1, False),
        (("spec", "x", "deeper"), None, False),
        (("spec", "list", "0"), None, False),
        (("spec", "list"), [{"x": 1}], True),
        (("spec",), PRESENT, True),
        (("spec", "x"), lambda value, **_: value == 1, True),
        (("spec", "no"), lambda value, **_: value is None, True),
    ],
)
def test_a_field_of_the_object_as_it_is(watching: Watching, field: Any, value: Any, expected: bool) -> None:
    assert watcher(field=field, value=value).match(watching(OBJECT)) is expected


# What Kopf 1.45.2 answers for the same change: (match, prematch) of a handler of changes of the field, of one that needs none.
OLD = {"spec": {"x": 1, "z": 5}}
NEW = {"spec": {"x": 2, "y": None}}
CHANGES: list[tuple[str, dict[str, Any], bool, bool, bool]] = [
    ("spec.x", {}, True, True, True),
    ("spec.y", {}, True, True, True),
    ("spec.z", {}, True, True, True),
    ("spec.q", {}, False, False, False),
    ("spec.x", {"value": 1}, True, True, True),
    ("spec.x", {"value": 2}, True, True, True),
    ("spec.x", {"value": 3}, False, False, False),
    ("spec.z", {"value": ABSENT}, True, True, True),
    ("spec.x", {"value": ABSENT}, False, False, False),
    ("spec.q", {"value": ABSENT}, False, True, True),
    ("spec.y", {"value": PRESENT}, True, True, True),
    ("spec.x.y", {}, False, False, False),
    ("spec.x.y", {"value": ABSENT}, False, True, True),
    ("spec.x", {"old": 1}, True, True, True),
    ("spec.x", {"new": 1}, False, True, False),
    ("spec.x", {"old": 1, "new": 2}, True, True, True),
    ("spec.z", {"new": ABSENT}, True, True, True),
    ("spec.z", {"new": PRESENT}, False, True, False),
    ("spec.y", {"old": ABSENT, "new": PRESENT}, True, True, True),
]


@pytest.mark.parametrize(("field", "criteria", "changed", "interesting", "present"), CHANGES)
def test_both_sides_of_a_change(
    changing: Changing, field: str, criteria: Any, changed: bool, interesting: bool, present: bool
) -> None:
    cause = changing(old=OLD, new=NEW)
    assert changer(field, field_needs_change=True, **criteria).match(cause) is changed
    assert changer(field, field_needs_change=True, **criteria).prematch(cause) is interesting
    assert changer(field, **criteria).match(cause) is present


@pytest.mark.parametrize(
    ("field", "criteria", "changed"),
    [
        ("spec.x", {}, True),
        ("spec.y", {}, True),
        ("spec.z", {}, False),
        ("spec.x", {"value": 2}, True),
        ("spec.x", {"value": ABSENT}, True),
        ("spec.z", {"value": ABSENT}, False),
        ("spec.x", {"old": 1}, False),
        ("spec.y", {"old": ABSENT, "new": PRESENT}, True),
    ],
)
def test_a_creation_is_a_change_from_nothing(changing: Changing, field: str, criteria: Any, changed: bool) -> None:
    cause = changing("create", old=None, new=NEW)
    assert changer(field, field_needs_change=True, **criteria).match(cause) is changed


def test_a_field_that_is_the_same_is_no_change(changing: Changing) -> None:
    cause = changing(old={"spec": {"x": 1, "y": 1}}, new={"spec": {"x": 1, "y": 2}})
    assert not changer("spec.x", field_needs_change=True).match(cause)
    assert changer("spec.x", field_needs_change=True).prematch(cause)


def test_daemons_look_at_the_object_even_when_asked_about_a_change(changing: Changing) -> None:
    cause = changing(old={"spec": {"x": 1}}, new={}, body={"metadata": {}, "spec": {}})
    spec = DaemonSpec(id=HandlerId("fn"), fn=fn, selector=Selector.parse("kex"), field=("spec", "x"))
    assert not spec.match(cause)


def test_callbacks_get_none_for_an_absent_value_and_the_arguments_of_the_cause(changing: Changing) -> None:
    seen: list[tuple[Any, Any, Any]] = []

    def callback(value: Any, /, name: str, old: Any, **_: Any) -> bool:
        seen.append((value, name, old))
        return True

    cause = changing(old={"spec": {}}, new={"spec": {"x": 1}}, body={"metadata": {"name": "obj"}, "spec": {"x": 1}})
    assert changer("spec.x", old=callback, new=callback).match(cause)
    assert seen == [(None, "obj", {"spec": {}}), (1, "obj", {"spec": {}})] or seen[-2:] == [
        (None, "obj", {"spec": {}}),
        (1, "obj", {"spec": {}}),
    ]


def test_when_is_asked_last_and_its_truth_counts(watching: Watching) -> None:
    calls: list[str] = []

    def when(name: str, **_: Any) -> Any:
        calls.append(name)
        return ["truthy"]

    assert watcher(when=when).match(watching(OBJECT)) is True
    assert watcher(when=lambda **_: None).match(watching(OBJECT)) is False
    assert calls == ["x"]
    assert not watcher(labels={"a": "2"}, when=when).match(watching(OBJECT))
    assert not watcher(field=("spec", "no"), when=when).match(watching(OBJECT))
    assert calls == ["x"]


def test_cheap_criteria_are_asked_before_callbacks(watching: Watching) -> None:
    def never(*_: Any, **__: Any) -> bool:
        raise AssertionError

    assert not watcher(labels={"a": never, "b": PRESENT}).match(watching(OBJECT))


def test_what_a_callback_raises_passes_through(watching: Watching) -> None:
    def broken(**_: Any) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        watcher(when=broken).match(watching(OBJECT))


def test_without_filters_nothing_of_the_object_is_looked_at() -> None:
    untouched: Any = None
    spec: ResourceSpec = watcher()
    assert spec.match(untouched)
    assert spec.prematch(untouched)


def yes(*_: Any, **__: Any) -> bool:
    return True


def no(*_: Any, **__: Any) -> bool:
    return False


def test_combinations_of_callbacks() -> None:
    assert (not_(yes)(), not_(no)()) == (False, True)
    assert [all_(fns)() for fns in ([], [yes], [no], [yes, no])] == [True, True, False, False]
    assert [any_(fns)() for fns in ([], [yes], [no], [yes, no])] == [False, True, False, True]
    assert [none_(fns)() for fns in ([], [yes], [no], [yes, no])] == [True, False, True, False]


def test_combinations_pass_the_value_and_the_arguments_on(watching: Watching) -> None:
    def starts(value: str | None, /, **_: Any) -> bool:
        return (value or "").startswith("1")

    def named(name: str, **_: Any) -> bool:
        return name == "x"

    assert watcher(labels={"a": all_([starts, not_(no)])}, when=any_([named, no])).match(watching(OBJECT))


def test_combinations_refuse_a_callback_that_takes_no_arguments() -> None:
    def narrow(spec: Any) -> bool:
        return bool(spec)

    for combine in (all_, any_, none_):
        with pytest.raises(HandlerSignatureError, match="narrow"):
            combine([narrow])
    with pytest.raises(HandlerSignatureError, match=r"test_filters\.py"):
        not_(narrow)
