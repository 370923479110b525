from collections.abc import Callable
from typing import Any

import pytest

from ctl import on
from ctl.client.resources import Resource
from ctl.handlers.causes.causes import Activity, Reason
from ctl.handlers.declaration.filters import PRESENT
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.handlers.declaration.specs import ActivitySpec, ChangingSpec, DaemonSpec, HandlerSpec, TimerSpec, WebhookSpec
from ctl.handlers.declaration.targets import EVERYTHING
from ctl.handlers.errors import ErrorsMode, HandlerSignatureError

RESOURCE_DECORATORS: list[Callable[..., Any]] = [
    on.event,
    on.index,
    on.create,
    on.resume,
    on.update,
    on.delete,
    on.daemon,
    on.timer,
    on.validate,
    on.mutate,
]
ACTIVITY_DECORATORS: list[Callable[..., Any]] = [on.startup, on.cleanup, on.login, on.probe]


class Recording(OperatorRegistry):
    """A registry that also tells what was declared last."""

    def append(self, spec: HandlerSpec) -> None:
        self.last = spec
        super().append(spec)


@pytest.fixture
def registry() -> Recording:
    return Recording()


def fn(**_: Any) -> None: ...


async def afn(**_: Any) -> None: ...


@pytest.mark.parametrize("decorator", [*RESOURCE_DECORATORS, *ACTIVITY_DECORATORS])
@pytest.mark.parametrize("function", [fn, afn, lambda **_: None])
def test_the_function_comes_back_unchanged(registry: Recording, decorator: Any, function: Any) -> None:
    target = () if decorator in ACTIVITY_DECORATORS else ("kex",)
    assert decorator(*target, registry=registry)(function) is function
    assert registry.last.fn is function


@pytest.mark.parametrize("decorator", RESOURCE_DECORATORS)
def test_ids(registry: Recording, decorator: Any) -> None:
    def declared(**options: Any) -> str:
        decorator("kex", registry=registry, **options)(fn)
        return registry.last.id

    suffix = "" if decorator is on.index else "/spec.x"
    assert declared() == "fn"
    assert declared(id="other") == "other"
    assert declared(field="spec.x") == f"fn{suffix}"
    assert declared(id="other", field=("spec", "x")) == f"other{suffix}"
    assert declared(field=["spec", "x.y"]) == ("fn" if decorator is on.index else "fn/spec.x.y")
    assert declared(field=[]) == "fn"


def test_ids_of_activities_and_of_field_handlers(registry: Recording) -> None:
    on.startup(registry=registry)(fn)
    assert registry.last.id == "fn"
    on.field("kex", field="spec", registry=registry)(fn)
    assert registry.last.id == "fn/spec"


def test_stacked_decorators_declare_from_the_bottom_up(registry: Recording) -> None:
    declared = []

    @on.create("kex", id="top", registry=registry)
    @on.update("kex", id="bottom", registry=registry)
    def handler(**_: Any) -> None: ...

    declared = [spec.id for spec in registry.of(Resource("kopf.dev", "v1", "kex")).changing.all]
    assert declared == ["bottom", "top"]


@pytest.mark.parametrize(
    ("decorator", "options", "expected"),
    [
        (on.create, {}, {"reason": Reason.CREATE}),
        (on.update, {}, {"reason": Reason.UPDATE, "field_needs_change": True}),
        (on.update, {"field": "f", "old": 2}, {"reason": Reason.UPDATE, "field_needs_change": True, "old": 2}),
        (on.field, {"field": "f"}, {"reason": None, "field_needs_change": True, "initial": False}),
        (on.resume, {}, {"reason": None, "initial": True, "deleted": False}),
        (on.resume, {"deleted": True}, {"initial": True, "deleted": True}),
        (on.delete, {}, {"reason": Reason.DELETE, "requires_finalizer": True}),
        (on.delete, {"optional": False}, {"requires_finalizer": True}),
        (on.delete, {"optional": True}, {"requires_finalizer": False}),
    ],
)
def test_what_handlers_of_changes_say(registry: Recording, decorator: Any, options: Any, expected: Any) -> None:
    decorator("kex", registry=registry, **options)(fn)
    assert isinstance(registry.last, ChangingSpec)
    found = {name: getattr(registry.last, name) for name in expected}
    assert found == expected


def test_all_options_arrive(registry: Recording) -> None:
    def when(**_: Any) -> bool:
        return True

    on.daemon(
        "kopf.dev",
        "v1",
        "kex",
        id="d",
        param=1,
        errors=ErrorsMode.PERMANENT,
        timeout=1.5,
        retries=2,
        backoff=3,
        initial_delay=4,
        cancellation_backoff=5,
        cancellation_timeout=6,
        cancellation_polling=7,
        labels={"a": "b"},
        annotations={"c": PRESENT},
        when=when,
        field="spec.x",
        value=8,
        registry=registry,
    )(fn)
    spec = registry.last
    assert isinstance(spec, DaemonSpec)
    assert (spec.param, spec.errors, spec.timeout, spec.retries, spec.backoff) == (1, ErrorsMode.PERMANENT, 1.5, 2, 3)
    assert (spec.initial_delay, spec.cancellation_backoff) == (4, 5)
    assert (spec.cancellation_timeout, spec.cancellation_polling) == (6, 7)
    assert spec.labels == {"a": "b"}
    assert spec.annotations == {"c": PRESENT}
    assert spec.when is when
    assert (spec.field, spec.value) == (("spec", "x"), 8)
    on.timer("kex", interval=1, sharp=True, idle=2, initial_delay=lambda **_: 1.0, registry=registry)(fn)
    assert isinstance(registry.last, TimerSpec)
    assert (registry.last.interval, registry.last.sharp, registry.last.idle) == (1, True, 2)


def test_none_is_an_option_not_given(registry: Recording) -> None:
    on.timer("kex", sharp=None, labels=None, when=None, field=None, value=None, registry=registry)(fn)
    assert isinstance(registry.last, TimerSpec)
    assert registry.last.sharp is False
    assert registry.last.is_unfiltered


@pytest.mark.parametrize(
    ("decorator", "activity"),
    [
        (on.startup, Activity.STARTUP),
        (on.cleanup, Activity.CLEANUP),
        (on.login, Activity.AUTHENTICATION),
        (on.probe, Activity.PROBE),
    ],
)
def test_activities(registry: Recording, decorator: Any, activity: Activity) -> None:
    decorator(id="x", param=1, retries=3, registry=registry)(fn)
    assert isinstance(registry.last, ActivitySpec)
    assert (registry.last.activity, registry.last.param, registry.last.retries) == (activity, 1, 3)


class TestWebhooks:
    def test_options(self, registry: Recording) -> None:
        on.validate(
            "kex",
            operations=["UPDATE", "CREATE"],
            subresource="*",
            persistent=True,
            side_effects=True,
            ignore_failures=True,
            registry=registry,
        )(fn)
        spec = registry.last
        assert isinstance(spec, WebhookSpec)
        assert (spec.type, spec.operations, spec.subresource) == ("validating", ("UPDATE", "CREATE"), "*")
        assert (spec.persistent, spec.side_effects, spec.ignore_failures) == (True, True, True)

    def test_the_deprecated_option_is_merged(self, registry: Recording) -> None:
        with pytest.warns(DeprecationWarning, match="operations=") as caught:
            on.mutate("kex", operation="CREATE", operations=["UPDATE"], registry=registry)(fn)
        assert caught[0].filename == __file__
        assert isinstance(registry.last, WebhookSpec)
        assert registry.last.operations == ("UPDATE", "CREATE")

    def test_no_operations_are_a_mistake(self) -> None:
        text: Any = "CREATE"
        with pytest.raises(ValueError, match="must not be empty"):
            on.mutate("kex", operations=[])
        with pytest.raises(TypeError, match=r"\['CREATE'\]"):
            on.mutate("kex", operations=text)


REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (on.create, (), {}, TypeError, "needs a name"),
    (on.create, ("kex",), {"fild": "x"}, TypeError, "@on.create has no option 'fild'. Did you mean 'field'"),
    (on.create, ("kex",), {"retry": 3}, TypeError, "Did you mean 'registry' or 'retries'?"),
    (on.create, ("kex",), {"interval": 1}, TypeError, "@on.create has no option 'interval'"),
    (on.event, ("kex",), {"retries": 1}, TypeError, "@on.event has no option 'retries'"),
    (on.create, ("kex",), {"labels": "app=web"}, TypeError, "labels= takes a mapping of names to values"),
    (on.create, ("kex",), {"backoff": "5"}, TypeError, "@on.create takes a number as 'backoff'; got the text '5'"),
    (on.timer, ("kex",), {"interval": "5"}, TypeError, "@timer takes a number as 'interval'; got the text '5'"),
    (on.validate, ("kex",), {"backoff": 1}, TypeError, "no option 'backoff'"),
    (on.create, ("kex",), {"old": 1}, TypeError, "no option 'old'"),
    (on.startup, (), {"labels": {}}, TypeError, "@on.startup has no option 'labels'"),
    (on.startup, (fn,), {}, TypeError, r"write @on.startup\(\)"),
    (on.create, (fn,), {}, HandlerSignatureError, r"test_on\.py:\d+\) looks like a handler"),
    (on.field, ("kex",), {}, TypeError, "@on.field needs the option 'field'"),
    (on.field, ("kex",), {"field": None}, TypeError, "@on.field needs the option 'field'"),
    (on.create, ("kex",), {"value": 1}, TypeError, "value= is compared with a field"),
    (on.update, ("kex",), {"old": 1}, TypeError, "old= is compared with a field"),
    (on.update, ("kex",), {"new": 1}, TypeError, "new= is compared with a field"),
    (
        on.update,
        ("kex",),
        {"field": "f", "value": 1, "old": 1},
        TypeError,
        "Either value= or old=/new= can be defined, not both",
    ),
    (
        on.update,
        ("kex",),
        {"field": "f", "value": 1, "new": 1},
        TypeError,
        "Either value= or old=/new= can be defined, not both",
    ),
    (on.create, ("kex",), {"field": 5}, ValueError, "Field must be either a str, or a list/tuple. Got 5"),
    (
        on.create,
        ("kex",),
        {"labels": {"a": None}},
        ValueError,
        r"`None` for label filters is not supported; use kopf.PRESENT or kopf.ABSENT. .*labels\['a'\]",
    ),
    (
        on.create,
        ("kex",),
        {"annotations": {"a": None}},
        ValueError,
        r"`None` for annotation filters is not supported; use kopf.PRESENT or kopf.ABSENT. .*annotations\['a'\]",
    ),
    (on.create, ("kex",), {"when": lambda spec: spec}, HandlerSignatureError, "callback in when="),
    (on.create, ("kex",), {"labels": {"a": lambda v: v}}, HandlerSignatureError, r"callback in labels\['a'\]="),
    (on.update, ("kex",), {"field": "f", "new": lambda v: v}, HandlerSignatureError, "callback in new="),
    (on.timer, ("kex",), {"initial_delay": lambda: 1}, HandlerSignatureError, "callback in initial_delay="),
]


@pytest.mark.parametrize(("decorator", "target", "options", "error", "message"), REFUSED)
def test_a_declaration_that_cannot_work_is_refused_at_once(
    decorator: Any, target: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        decorator(*target, **options)


@pytest.mark.parametrize("decorator", [*RESOURCE_DECORATORS, *ACTIVITY_DECORATORS])
def test_a_handler_that_does_not_take_the_rest_is_refused_and_not_declared(registry: Recording, decorator: Any) -> None:
    def narrow(spec: Any) -> None: ...

    target = () if decorator in ACTIVITY_DECORATORS else ("kex",)
    with pytest.raises(HandlerSignatureError, match=r"narrow \(.*test_on\.py:\d+\).*Add `\*\*_`"):
        decorator(*target, registry=registry)(narrow)
    assert not hasattr(registry, "last")


@pytest.mark.parametrize("selector", [lambda resource: True, lambda *_: True, lambda resource, **_: True])
def test_functions_of_the_resource_are_no_handlers(registry: Recording, selector: Any) -> None:
    on.event(selector, registry=registry)(fn)
    assert registry.of(Resource("any", "v1", "things")).interest


def test_everything(registry: Recording) -> None:
    on.event("kopf.dev", EVERYTHING, registry=registry)(fn)
    assert registry.of(Resource("kopf.dev", "v1", "things")).interest
    assert not registry.of(Resource("apps", "v1", "things")).interest
