"""The page on filters: which objects and changes reach a handler."""

from collections.abc import Callable
from typing import Any

import pytest

import ctl

from ..handlers.world import KEX, Calls, World, messages, rest

pytestmark = pytest.mark.virtual_time

Options = dict[str, Any]
ALL = ["create", "update", "resume", "delete", "event", "timer", "daemon"]


def declare(calls: Calls, kind: str, **options: Any) -> None:
    """A handler of a kind that notes for which objects it is called."""

    async def fn(name: str, **_: Any) -> None:
        calls(name, {})

    if kind == "timer":
        ctl.timer(KEX.plural, interval=3600, **options)(fn)
    elif kind == "daemon":
        ctl.daemon(KEX.plural, **options)(fn)
    else:
        getattr(ctl.on, kind)(KEX.plural, **options)(fn)


async def live(world: World, kind: str, objects: dict[str, Any]) -> None:
    """Let objects live so that a handler of this kind has its chance with each."""
    if kind == "resume":
        ctl.on.create(KEX.plural, id="keep-in-scope")(lambda **_: None)
        async with world.running():
            for name, metadata in objects.items():
                await world.create(name, **metadata)
            await rest(2)
        async with world.running():
            await rest(2)
        return
    if kind == "update":
        ctl.on.create(KEX.plural, id="keep-in-scope")(lambda **_: None)
    async with world.running():
        for name, metadata in objects.items():
            await world.create(name, **metadata)
        await rest(2)
        for name in objects:
            if kind == "update":
                await world.patch({"spec": {"field": "other"}}, name)
            if kind == "delete":
                await world.delete(name)
        await rest(2)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        ("x", {"exact"}),
        (ctl.PRESENT, {"exact", "empty", "other"}),
        (ctl.ABSENT, {"absent"}),
        (lambda value, **_: value is None or value == "y", {"absent", "other"}),
        (lambda value, /, name, **_: name == "exact", {"exact"}),
    ],
)
@pytest.mark.parametrize("what", ["labels", "annotations"])
async def test_metadata(world: World, calls: Calls, kind: str, criterion: Any, expected: set[str], what: str) -> None:
    declare(calls, kind, **{what: {"some": criterion}})
    values: list[tuple[str, Options]] = [
        ("exact", {"some": "x", "more": "z"}),
        ("empty", {"some": ""}),
        ("other", {"some": "y"}),
        ("absent", {}),
    ]
    await live(world, kind, {name: {what: metadata} for name, metadata in values})
    assert set(calls.names) == expected


async def test_all_criteria_must_hold(world: World, calls: Calls) -> None:
    declare(
        calls,
        "create",
        labels={"a": "1", "b": ctl.PRESENT},
        annotations={"c": ctl.ABSENT},
        field="spec.field",
        value="value",
        when=lambda name, **_: name != "unwanted",
    )
    good: Options = {"labels": {"a": "1", "b": ""}}
    async with world.running():
        await world.create("good", **good)
        await world.create("unwanted", **good)
        await world.create("label", labels={"a": "1"})
        await world.create("annotation", **good, annotations={"c": ""})
        await world.create("field", {"field": "other"}, **good)
        await rest(2)
    assert calls.names == ["good"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"value": "world"}, {"world"}),
        ({"value": ctl.PRESENT}, {"world", "empty", "other"}),
        ({}, {"world", "empty", "other"}),
        ({"value": lambda value, **_: value == "world"}, {"world"}),
    ],
)
@pytest.mark.parametrize("kind", ["create", "delete", "event", "timer", "daemon"])
async def test_fields_as_they_are(world: World, calls: Calls, kind: str, options: Options, expected: set[str]) -> None:
    declare(calls, kind, field="spec.field", **options)
    specs: dict[str, Options] = {
        "world": {"field": "world"},
        "empty": {"field": ""},
        "other": {"field": {"deep": 1}},
        "absent": {"no": 1},
    }
    async with world.running():
        for name, spec in specs.items():
            await world.create(name, spec)
        await rest(2)
        if kind == "delete":
            assert {name for name in specs if world.get(name)["metadata"].get("finalizers")} == expected
            for name in specs:
                await world.delete(name)
            await rest(2)
    assert set(calls.names) == expected


@pytest.mark.parametrize("value", [ctl.ABSENT, lambda value, **_: value is None])
async def test_in_a_creation_each_field_was_absent_before(world: World, calls: Calls, value: Any) -> None:
    """The manual says otherwise; Kopf takes both sides of every change, and operators may have come to rely on that."""
    declare(calls, "create", field="spec.field", value=value)
    async with world.running():
        await world.create("present")
        await world.create("absent", {"no": 1})
        await rest(2)
    assert sorted(calls.names) == ["absent", "present"]


@pytest.mark.parametrize("value", [ctl.ABSENT, lambda value, **_: value is None])
async def test_a_deletion_is_told_to_who_asks_for_objects_without_a_field(
    world: World, calls: Calls, value: Any
) -> None:
    declare(calls, "delete", field="spec.field", value=value)
    async with world.running():
        await world.create("present")
        await world.create("absent", {"no": 1})
        await rest(2)
        assert world.get("absent")["metadata"]["finalizers"]
        await world.delete("present")
        await world.delete("absent")
        await rest(2)
    assert calls.names == ["absent"]


@pytest.mark.parametrize("kind", ["event", "timer", "daemon"])
async def test_absent_fields_of_objects_as_they_are(world: World, calls: Calls, kind: str) -> None:
    declare(calls, kind, field="spec.field", value=ctl.ABSENT)
    async with world.running():
        await world.create("present")
        await world.create("absent", {"no": 1})
        await rest(2)
    assert set(calls.names) == {"absent"}


CHANGES: dict[str, tuple[Options, Options]] = {
    "edited": ({"field": "x"}, {"field": "y"}),
    "to x": ({"field": "a"}, {"field": "x"}),
    "added": ({}, {"field": "x"}),
    "removed": ({"field": "x"}, {"field": None}),
    "elsewhere": ({"field": "x"}, {"other": 1}),
    "neither": ({"field": "a"}, {"field": "b"}),
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"edited", "to x", "added", "removed", "neither"}),
        ({"value": "x"}, {"edited", "to x", "added", "removed"}),
        ({"value": ctl.PRESENT}, {"edited", "to x", "added", "removed", "neither"}),
        ({"value": ctl.ABSENT}, {"added", "removed"}),
        ({"value": lambda value, **_: value == "y"}, {"edited"}),
        ({"old": "x", "new": "y"}, {"edited"}),
        ({"old": ctl.ABSENT, "new": ctl.PRESENT}, {"added"}),
        ({"old": ctl.PRESENT, "new": ctl.ABSENT}, {"removed"}),
        ({"new": "x"}, {"to x", "added"}),
        ({"old": "x"}, {"edited", "removed"}),
        ({"old": None, "new": "x"}, {"to x", "added"}),
        ({"old": lambda value, **_: value is None}, {"added"}),
    ],
)
@pytest.mark.parametrize("decorator", ["update", "field"])
async def test_changes_of_a_field(
    world: World, calls: Calls, decorator: str, options: Options, expected: set[str]
) -> None:
    def fn(name: str, reason: str, **_: Any) -> None:
        if reason == "update":
            calls(name, {})

    getattr(ctl.on, decorator)(KEX.plural, field="spec.field", **options)(fn)
    ctl.on.update(KEX.plural, field="spec.none")(lambda **_: None)  # what the page advises for objects to be in scope
    ctl.on.create(KEX.plural, id="keep-in-scope")(lambda **_: None)
    names = {name: name.replace(" ", "-") for name in CHANGES}
    async with world.running():
        for name, (before, _) in CHANGES.items():
            await world.create(names[name], {"kept": 1, **before})
        await rest(3)
        for name, (_, change) in CHANGES.items():
            await world.patch({"spec": change}, names[name])
        await rest(3)
    assert sorted(calls.names) == sorted(names[name] for name in expected)


async def test_unrelated_changes_are_for_when(world: World, calls: Calls) -> None:
    declare(calls, "update", when=lambda spec, **_: spec.get("field") == "value")
    ctl.on.create(KEX.plural, id="keep-in-scope")(lambda **_: None)
    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"other": 1}})
        await world.handled()
        assert len(calls) == 1
        await world.patch({"spec": {"field": "else"}})
        await world.handled()
    assert len(calls) == 1


async def test_daemons_run_as_long_as_the_field_matches(world: World, calls: Calls) -> None:
    @ctl.daemon(KEX.plural, field="spec.field", value="on")
    async def daemon(stopped: Any, **_: Any) -> None:
        calls("begin", {})
        await stopped.wait()
        calls("end", {"reason": stopped.reason})

    async with world.running():
        await world.create(spec={"field": "off"})
        await rest(2)
        assert calls.names == []
        await world.patch({"spec": {"field": "on"}})
        await rest(2)
        assert calls.names == ["begin"]
        await world.patch({"spec": {"other": 1}})
        await rest(2)
        assert calls.names == ["begin"]
        await world.patch({"spec": {"field": "off"}})
        await rest(2)
        assert calls.names == ["begin", "end"]


async def test_one_function_for_several_fields_is_called_for_each_with_its_values(world: World, calls: Calls) -> None:
    @ctl.on.update(KEX.plural, field="spec.field", param="fld")
    @ctl.on.update(KEX.plural, field="spec.items", param="itm")
    def fn(old: Any, new: Any, param: str, **_: Any) -> None:
        calls(param, {"old": old, "new": new})

    ctl.on.create(KEX.plural, id="keep-in-scope")(lambda **_: None)
    async with world.running():
        await world.create(spec={"field": "a"})
        await world.handled()
        await world.patch({"spec": {"field": "b", "items": [1]}})
        await world.handled()
    assert sorted(calls.names) == ["fld", "itm"]
    assert calls.of("fld") == [{"old": "a", "new": "b"}]
    assert calls.of("itm") == [{"old": None, "new": [1]}]


async def test_a_resuming_and_creating_function_of_one_field_is_called_once(world: World, calls: Calls) -> None:
    @ctl.on.resume(KEX.plural, field="spec.field")
    @ctl.on.create(KEX.plural, field="spec.field")
    def fn(name: str, **_: Any) -> None:
        calls(name, {})

    await world.create("before")
    async with world.running():
        await world.create("after")
        await rest(2)
    assert sorted(calls.names) == ["after", "before"]


@pytest.mark.parametrize("options", [{"old": 1}, {"new": 1}, {"value": 1}])
def test_values_need_a_field(options: Options) -> None:
    with pytest.raises(TypeError):
        ctl.on.update(KEX.plural, **options)(lambda **_: None)


@pytest.mark.parametrize("options", [{"old": 1}, {"new": 1}, {"old": 1, "new": 2}])
def test_a_value_excludes_both_sides(options: Options) -> None:
    with pytest.raises(TypeError):
        ctl.on.update(KEX.plural, field="spec", value=0, **options)(lambda **_: None)


def starts(name: str, **_: Any) -> bool:
    return name.startswith("kopf-")


def has_value(spec: ctl.Spec, **_: Any) -> bool:
    return bool(spec.get("field") == "value")


def some(value: str | None, **_: Any) -> bool:
    return bool(value and value.startswith("some"))


def label(value: str | None, **_: Any) -> bool:
    return bool(value and value.endswith("label"))


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (ctl.all_, {"kopf-both"}),
        (ctl.any_, {"kopf-both", "kopf-first", "second"}),
        (ctl.none_, {"neither"}),
        (lambda fns: ctl.not_(ctl.any_(fns)), {"neither"}),
    ],
)
async def test_combined_callbacks_of_objects(
    world: World, calls: Calls, combine: Callable[..., Any], expected: set[str]
) -> None:
    declare(calls, "create", when=combine([starts, has_value]))
    async with world.running():
        await world.create("kopf-both")
        await world.create("kopf-first", {"field": "else"})
        await world.create("second")
        await world.create("neither", {"field": "else"})
        await rest(2)
    assert set(calls.names) == expected


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (ctl.all_, {"some-label"}),
        (ctl.any_, {"some-label", "some-other", "a-label"}),
        (ctl.none_, {"other", "absent"}),
    ],
)
async def test_combined_callbacks_of_values(
    world: World, calls: Calls, combine: Callable[..., Any], expected: set[str]
) -> None:
    declare(calls, "create", labels={"l": combine([some, label])})
    async with world.running():
        for value in ("some-label", "some-other", "a-label", "other"):
            await world.create(value, labels={"l": value})
        await world.create("absent")
        await rest(2)
    assert set(calls.names) == expected


async def test_callbacks_may_look_at_the_reason_and_the_memo(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural)
    def remember(memo: ctl.Memo, name: str, **_: Any) -> None:
        memo.wanted = name == "one"

    @ctl.on.create(KEX.plural, when=lambda memo, reason, **_: memo.get("wanted") and reason == "create")
    def fn(name: str, **_: Any) -> None:
        calls(name, {})

    async with world.running():
        await world.create("one")
        await world.create("two")
        await rest(2)
    assert calls.names == ["one"]


async def test_filters_of_sub_handlers(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural)
    def parent(**_: Any) -> None:
        for number in ("1", "2"):

            @ctl.subhandler(id=number, labels={"n": number}, when=lambda name, **_: name != "unwanted")
            def child(name: str, number: str = number, **_: Any) -> None:
                calls(f"{name} {number}", {})

    async with world.running():
        await world.create("one", labels={"n": "1"})
        await world.create("two", labels={"n": "2"})
        await world.create("unwanted", labels={"n": "1"})
        await rest(2)
    assert sorted(calls.names) == ["one 1", "two 2"]


async def test_an_object_that_matches_nothing_is_not_touched_and_is_new_when_it_matches(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    ctl.on.create(KEX.plural, labels={"some": "label"})(lambda **_: calls("create", {}) and None)
    ctl.on.update(KEX.plural, labels={"some": "label"})(lambda **_: calls("update", {}) and None)
    async with world.running():
        version = (await world.create())["metadata"]["resourceVersion"]
        await rest(3)
        assert world.get()["metadata"]["resourceVersion"] == version
        assert messages(caplog.records) == []
        await world.patch({"metadata": {"labels": {"some": "label"}}})
        await world.handled()
    assert calls.names == ["create"]


@pytest.mark.parametrize(
    ("field", "expected"),
    # Kopf's manual advises a field that does not exist, but neither Kopf nor ctl takes an object for its sake.
    [("spec", "update"), ("spec.does-not-exist", "create")],
)
async def test_a_handler_without_filters_keeps_objects_in_scope(
    world: World, calls: Calls, field: str, expected: str
) -> None:
    ctl.on.create(KEX.plural, labels={"some": "label"})(lambda **_: calls("create", {}) and None)
    ctl.on.update(KEX.plural, labels={"some": "label"})(lambda **_: calls("update", {}) and None)
    ctl.on.update(KEX.plural, field=field, id="dummy")(lambda **_: calls("dummy", {}) and None)
    async with world.running():
        await world.create()
        await rest(2)
        assert bool(world.last()) == (expected == "update")
        await world.patch({"metadata": {"labels": {"some": "label"}}})
        await world.handled()
    assert calls.names == [expected]
