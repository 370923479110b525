import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ctl import on
from ctl.client.objects import Object
from ctl.client.resources import Resource
from ctl.handlers.causes.causes import Activity, ChangingCause, SpawningCause, WatchingCause
from ctl.handlers.declaration import registry as registry_module
from ctl.handlers.declaration.filters import ABSENT, PRESENT
from ctl.handlers.declaration.registry import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from ctl.handlers.declaration.specs import HandlerId
from ctl.handlers.declaration.targets import Selector

Changing = Callable[..., ChangingCause]
Watching = Callable[..., WatchingCause]
Spawning = Callable[..., SpawningCause]

REASONS = ["create", "update", "delete", "resume", "noop", "free", "gone"]


def fn(**_: Any) -> None: ...


def other(**_: Any) -> None: ...


@pytest.fixture
def registry() -> OperatorRegistry:
    return OperatorRegistry()


def ids(specs: Any) -> list[str]:
    return [spec.id for spec in specs]


# Which handlers Kopf 1.45.2 runs, by reason, for an object that is not initial and for one that is.
@pytest.mark.parametrize(
    ("reason", "later", "initial"),
    [
        ("create", ["create", "field/s"], ["create", "resume", "resume-deleted", "field/s"]),
        ("update", ["update", "field/s"], ["update", "resume", "resume-deleted", "field/s"]),
        ("delete", ["delete", "field/s"], ["delete", "resume-deleted", "field/s"]),
        ("resume", ["field/s"], ["resume", "resume-deleted", "field/s"]),
        ("noop", [], []),
        ("free", [], []),
        ("gone", [], []),
    ],
)
def test_reasons(
    registry: OperatorRegistry, changing: Changing, reason: str, later: list[str], initial: list[str]
) -> None:
    on.create("kex", id="create", registry=registry)(fn)
    on.update("kex", id="update", registry=registry)(fn)
    on.delete("kex", id="delete", registry=registry)(fn)
    on.resume("kex", id="resume", registry=registry)(fn)
    on.resume("kex", id="resume-deleted", deleted=True, registry=registry)(fn)
    on.field("kex", id="field", field="s", registry=registry)(fn)
    assert ids(registry.changing(changing(reason, old={"s": 1}, new={"s": 2}))) == later
    assert ids(registry.changing(changing(reason, old={"s": 1}, new={"s": 2}, initial=True))) == initial


def test_the_order_is_that_of_declaration(registry: OperatorRegistry, changing: Changing) -> None:
    for name in ("c", "a", "b"):
        on.create("kex", id=name, registry=registry)(fn)
    assert ids(registry.changing(changing("create", new={}))) == ["c", "a", "b"]


def test_one_function_under_one_id_is_called_once_as_declared_first(
    registry: OperatorRegistry, changing: Changing
) -> None:
    on.create("kex", param="first", registry=registry)(fn)
    on.create("kopf.dev", "kopfexamples", param="second", registry=registry)(fn)
    on.resume("kex", param="third", registry=registry)(fn)
    on.create("kex", field="spec", registry=registry)(fn)
    on.create("kex", id="fn", param="namesake", registry=registry)(other)
    specs = registry.changing(changing("create", new={"spec": 1}, initial=True))
    assert [(spec.id, spec.fn, spec.param) for spec in specs] == [
        ("fn", fn, "first"),
        ("fn/spec", fn, None),
        ("fn", other, "namesake"),
    ]


def test_a_method_of_one_object_is_one_function(registry: OperatorRegistry, watching: Watching) -> None:
    class Operator:
        def handle(self, **_: Any) -> None: ...

    one, two = Operator(), Operator()
    for instance in (one, one, two):
        on.event("kex", registry=registry)(instance.handle)
    assert [spec.fn for spec in registry.watching(watching())] == [one.handle, two.handle]


def test_other_resources_are_nobodys_business(registry: OperatorRegistry, watching: Watching) -> None:
    on.event("kex", registry=registry)(fn)
    pods = Resource("", "v1", "pods")
    assert registry.watching(watching(resource=pods)) == []
    assert not registry.of(pods).interest


def test_later_declarations_are_seen(registry: OperatorRegistry, watching: Watching) -> None:
    assert registry.watching(watching()) == []
    on.event("kex", registry=registry)(fn)
    assert ids(registry.watching(watching())) == ["fn"]


def test_a_resource_that_is_known_better_is_matched_anew(registry: OperatorRegistry, watching: Watching) -> None:
    on.event("kex", registry=registry)(fn)
    vague = Resource("kopf.dev", "v1", "kopfexamples")
    known = replace(vague, shortcuts=frozenset({"kex"}))
    demoted = replace(known, preferred=False)
    assert vague == known == demoted
    assert ids(registry.watching(watching(resource=vague))) == []
    assert ids(registry.watching(watching(resource=known))) == ["fn"]
    assert ids(registry.watching(watching(resource=demoted))) == []


def test_the_list_of_matches_belongs_to_the_caller(registry: OperatorRegistry, watching: Watching) -> None:
    on.event("kex", registry=registry)(fn)
    registry.watching(watching()).clear()
    assert ids(registry.watching(watching())) == ["fn"]


def test_kinds_of_handlers_of_a_resource(registry: OperatorRegistry, resource: Resource) -> None:
    on.index("kex", registry=registry)(fn)
    interest = registry.of(resource).interest
    assert (interest.watching, interest.indexing, interest.changing, interest.spawning) == (False, True, False, False)
    on.timer("kex", registry=registry)(fn)
    assert registry.of(resource).interest.spawning
    on.validate("kex", registry=registry)(fn)
    assert bool(registry.of(resource).interest)


def test_webhooks_alone_are_no_reason_to_watch(registry: OperatorRegistry, resource: Resource) -> None:
    on.validate("kex", registry=registry)(fn)
    assert not registry.of(resource).interest
    assert registry.selectors() == []
    assert registry.webhook_selectors() == [Selector.parse("kex")]


def test_daemons_timers_and_indices_are_filtered(registry: OperatorRegistry, spawning: Spawning) -> None:
    on.daemon("kex", id="daemon", labels={"a": PRESENT}, registry=registry)(fn)
    on.timer("kex", id="timer", labels={"a": ABSENT}, registry=registry)(fn)
    assert ids(registry.spawning(spawning({"metadata": {"labels": {"a": "1"}}}))) == ["daemon"]
    assert ids(registry.spawning(spawning({"metadata": {"name": "x"}}))) == ["timer"]


class TestPassesOver:
    def passed(self, registry: OperatorRegistry, resource: Resource, **metadata: Any) -> tuple[bool, bool]:
        """As to all handlers, and as to those of changes, daemons and timers."""
        obj = Object.from_body({"metadata": {"name": "x", **metadata}})
        return registry.passes_over(resource, obj), registry.passes_over(resource, obj, raw=False)

    def test_labels_and_annotations_decide(self, registry: OperatorRegistry, resource: Resource) -> None:
        on.event("kex", labels={"a": "1"}, registry=registry)(fn)
        on.create("kex", annotations={"b": PRESENT}, when=lambda **_: False, registry=registry)(fn)
        assert self.passed(registry, resource) == (True, True)
        assert self.passed(registry, resource, labels={"a": "2"}, annotations={"c": "1"}) == (True, True)
        assert self.passed(registry, resource, labels={"a": "1"}) == (False, True)
        assert self.passed(registry, resource, annotations={"b": ""}) == (False, False)

    def test_all_criteria_of_a_handler_count(self, registry: OperatorRegistry, resource: Resource) -> None:
        on.daemon("kex", labels={"a": "1", "b": ABSENT}, annotations={"c": "1"}, registry=registry)(fn)
        assert self.passed(registry, resource, labels={"a": "1"}) == (True, True)
        assert self.passed(registry, resource, labels={"a": "1", "b": ""}, annotations={"c": "1"}) == (True, True)
        assert self.passed(registry, resource, labels={"a": "1"}, annotations={"c": "1"}) == (False, False)

    def test_callbacks_may_say_yes(self, registry: OperatorRegistry, resource: Resource) -> None:
        on.timer("kex", interval=1, labels={"a": lambda value, **_: value == "1"}, registry=registry)(fn)
        assert self.passed(registry, resource) == (False, False)

    @pytest.mark.parametrize("options", [{}, {"field": "spec.x"}, {"when": lambda **_: False}])
    def test_one_handler_without_such_criteria_may_say_yes(
        self, registry: OperatorRegistry, resource: Resource, options: dict[str, Any]
    ) -> None:
        on.update("kex", labels={"a": "1"}, registry=registry)(fn)
        assert self.passed(registry, resource) == (True, True)
        on.index("kex", registry=registry, **options)(fn)
        assert self.passed(registry, resource) == (False, True)
        on.resume("kex", registry=registry, **options)(fn)
        assert self.passed(registry, resource) == (False, False)


class TestPrematch:
    def test_an_object_without_interest(self, registry: OperatorRegistry, changing: Changing) -> None:
        on.update("kex", field="spec.x", registry=registry)(fn)
        assert not registry.prematch(changing(old={"spec": {}}, new={"spec": {}}))
        assert registry.prematch(changing("noop", old={"spec": {"x": 1}}, new={"spec": {"x": 1}}))

    def test_event_handlers_take_no_part(self, registry: OperatorRegistry, changing: Changing) -> None:
        on.event("kex", registry=registry)(fn)
        assert not registry.prematch(changing(new={}))


class TestFinalizer:
    @pytest.mark.parametrize(
        ("declare", "required"),
        [
            (on.delete("kex"), True),
            (on.delete("kex", optional=True), False),
            (on.delete("kex", optional=False), True),
            (on.create("kex"), False),
            (on.daemon("kex"), True),
            (on.timer("kex"), True),
            (on.event("kex"), False),
            (on.delete("kex", labels={"a": PRESENT}), False),
            (on.daemon("kex", labels={"a": PRESENT}), False),
            (on.delete("kex", field="spec.x"), True),
            (on.daemon("kex", field="spec.no"), False),
        ],
    )
    def test_who_needs_it(
        self, changing: Changing, resource: Resource, default: OperatorRegistry, declare: Any, required: bool
    ) -> None:
        declare(fn)
        cause = changing("create", new={"metadata": {"name": "x"}, "spec": {"x": 1}})
        assert default.requires_finalizer(resource, cause) is required

    def test_daemons_that_ended_do_not(
        self, registry: OperatorRegistry, changing: Changing, resource: Resource
    ) -> None:
        on.daemon("kex", registry=registry)(fn)
        assert not registry.requires_finalizer(resource, changing(new={}), excluded={HandlerId("fn")})

    @pytest.fixture
    def default(self) -> Iterator[OperatorRegistry]:
        before, now = get_default_registry(), OperatorRegistry()
        set_default_registry(now)
        yield now
        set_default_registry(before)


def test_fields_that_belong_to_the_essence(registry: OperatorRegistry, resource: Resource) -> None:
    on.field("kex", field="status.x", registry=registry)(fn)
    on.event("kex", field="status.y", registry=registry)(fn)
    on.daemon("kex", field=["status", "dotted.key"], registry=registry)(fn)
    on.index("kex", field="status.not", registry=registry)(fn)
    on.field("pods", field="status.other", registry=registry)(fn)
    on.create("kex", registry=registry)(fn)
    assert registry.of(resource).fields == {("status", "x"), ("status", "y"), ("status", "dotted.key")}


def test_selectors_are_given_once(registry: OperatorRegistry) -> None:
    on.event("kex", registry=registry)(fn)
    on.create("kex", registry=registry)(fn)
    on.index("pods", registry=registry)(fn)
    on.daemon("jobs", registry=registry)(fn)
    assert registry.selectors() == [Selector.parse(name) for name in ("kex", "pods", "jobs")]
    assert registry.patching_selectors() == [Selector.parse(name) for name in ("kex", "jobs")]


def test_index_ids(registry: OperatorRegistry) -> None:
    on.index("kex", field="spec.x", registry=registry)(fn)
    on.index("pods", registry=registry)(fn)
    on.index("pods", id="by-node", registry=registry)(fn)
    assert registry.index_ids() == ["fn", "by-node"]


# Which handlers Kopf 1.45.2 asks.
def test_activities(registry: OperatorRegistry) -> None:
    on.startup(registry=registry)(fn)
    on.login(registry=registry)(other)
    on.startup(registry=registry)(fn)
    assert ids(registry.activities(Activity.STARTUP)) == ["fn"]
    assert ids(registry.activities(Activity.AUTHENTICATION)) == ["other"]
    assert registry.activities(Activity.PROBE) == []


def test_an_unknown_kind_is_refused(registry: OperatorRegistry) -> None:
    nothing: Any = object()
    with pytest.raises(TypeError, match="known kind"):
        registry.append(nothing)


class TestDefault:
    def test_it_is_made_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry_module, "_default", None)
        registry = get_default_registry()
        assert get_default_registry() is registry

    def test_it_can_be_replaced(self, changing: Changing) -> None:
        before, now = get_default_registry(), OperatorRegistry()
        with contextlib.ExitStack() as stack:
            set_default_registry(now)
            stack.callback(set_default_registry, before)
            on.create("kex")(fn)
        assert ids(now.changing(changing("create", new={}))) == ["fn"]
