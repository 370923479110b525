"""Which decorator takes which options: those of Kopf, each by its name, and none besides."""

from collections.abc import Callable
from typing import Any

import pytest

import ctl
from ctl.handlers.declaration.registry import OperatorRegistry, SubRegistry, running_subregistry, set_default_registry

from ..handlers.world import KEX, Calls, World

NAMES = {"group", "version", "kind", "plural", "singular", "shortcut", "category"}
COMMON = {"id", "param"}
RETRYING = {"errors", "timeout", "retries", "backoff"}
META = {"labels", "annotations", "when"}
FILTERS = META | {"field", "value"}
SIDES = {"old", "new"}
RESOURCE = NAMES | COMMON | FILTERS | {"registry"}
ACTIVITY = COMMON | RETRYING | {"registry"}
CHANGE = RESOURCE | RETRYING
SPAWNING = CHANGE | {"initial_delay"}
WEBHOOK = RESOURCE | {"operation", "operations", "subresource", "persistent", "side_effects", "ignore_failures"}

TABLE: dict[str, set[str]] = {
    **dict.fromkeys(["startup", "cleanup", "login", "probe"], ACTIVITY),
    "event": RESOURCE,
    "index": CHANGE,
    "create": CHANGE,
    "resume": CHANGE | {"deleted"},
    "update": CHANGE | SIDES,
    "field": CHANGE | SIDES,
    "delete": CHANGE | {"optional"},
    "daemon": SPAWNING | {"cancellation_backoff", "cancellation_timeout", "cancellation_polling"},
    "timer": SPAWNING | {"interval", "sharp", "idle"},
    "validate": WEBHOOK,
    "mutate": WEBHOOK,
}
PARTS = {"subhandler": COMMON | RETRYING | FILTERS | SIDES, "register": COMMON | RETRYING | META}

VALUES: dict[str, Any] = {
    **dict.fromkeys(NAMES, "kex"),
    "id": "some",
    "param": object(),
    "errors": ctl.ErrorsMode.PERMANENT,
    "timeout": 1.5,
    "retries": 2,
    "backoff": 0.5,
    "labels": {"a": "b"},
    "annotations": {"a": ctl.PRESENT},
    "when": lambda **_: True,
    "field": "spec.field",
    "value": 1,
    "old": ctl.ABSENT,
    "new": lambda value, **_: bool(value),
    "deleted": True,
    "optional": True,
    "initial_delay": lambda **_: 1.0,
    "cancellation_backoff": 1,
    "cancellation_timeout": 2,
    "cancellation_polling": 3,
    "interval": 4,
    "sharp": True,
    "idle": 5,
    "operation": "CREATE",
    "operations": ["CREATE", "DELETE"],
    "subresource": "status",
    "persistent": True,
    "side_effects": True,
    "ignore_failures": True,
}
EVERY = sorted(set(VALUES) | {"registry"})


def declared(name: str, options: dict[str, Any], registry: OperatorRegistry) -> Callable[..., None]:
    """Declare a function with the decorator of this name, with what it cannot do without."""
    needed: dict[str, Any] = {"registry": registry, **options}
    if name == "field" or not {"value", "old", "new"}.isdisjoint(options):
        needed.setdefault("field", "spec.field")
    is_named = any(options.get(name) for name in NAMES - {"group", "version"})
    target = () if TABLE[name] is ACTIVITY or is_named else ("kex",)
    decorator = getattr(ctl.on, name)

    def fn(**_: Any) -> None: ...

    found: object = decorator(*target, **needed)(fn)
    assert found is fn
    return fn


@pytest.mark.filterwarnings("ignore:operation= is deprecated")
@pytest.mark.parametrize("option", EVERY)
@pytest.mark.parametrize("name", TABLE)
def test_options(name: str, option: str) -> None:
    registry = OperatorRegistry()
    options = {} if option == "registry" else {option: VALUES[option]}
    if option in TABLE[name]:
        declared(name, options, registry)
        (spec,) = registry.specs()
        if option in {
            "param",
            "errors",
            "timeout",
            "retries",
            "backoff",
            "value",
            "old",
            "new",
            "when",
            "interval",
            "idle",
        }:
            assert getattr(spec, option) is VALUES[option]
    else:
        with pytest.raises(TypeError, match=f"has no option '{option}'"):
            declared(name, options, registry)
        assert registry.specs() == []


@pytest.mark.filterwarnings("ignore:operation= is deprecated")
@pytest.mark.parametrize("name", TABLE)
def test_none_is_as_good_as_not_given(name: str) -> None:
    registry = OperatorRegistry()
    none = dict.fromkeys(TABLE[name] - {"registry"} - ({"field"} if name == "field" else set()))
    fn = declared(name, none, registry)
    assert fn.__name__ == "fn"
    (spec,) = registry.specs()
    set_default_registry(plain := OperatorRegistry())
    try:
        declared(name, {}, plain)
    finally:
        set_default_registry(OperatorRegistry())
    (other,) = plain.specs()
    assert {key: value for key, value in described(spec).items() if key != "fn"} == {
        key: value for key, value in described(other).items() if key != "fn"
    }


def described(spec: Any) -> dict[str, Any]:
    return {key: getattr(spec, key) for key in spec.__dataclass_fields__}


@pytest.mark.virtual_time
async def test_options_of_sub_handlers(world: World, calls: Calls) -> None:
    def child(**_: Any) -> None: ...

    @ctl.on.update(KEX.plural)
    async def parent(**_: Any) -> None:
        registry = running_subregistry()
        assert isinstance(registry, SubRegistry)
        for name, known in PARTS.items():
            for option in EVERY:
                given = {} if option == "registry" else {option: VALUES[option]}
                if option == "registry":
                    given = {"registry": OperatorRegistry()}
                if option in {"value", "old", "new"} & known:
                    given["field"] = "spec.field"
                given.setdefault("id", f"{name} {option}")
                try:
                    ctl.register(child, **given) if name == "register" else ctl.subhandler(**given)(child)
                except TypeError:
                    calls("refused", {"what": (name, option)})
                else:
                    calls("taken", {"what": (name, option)})

    ctl.on.create(KEX.plural, id="create")(lambda **_: None)
    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"field": "b"}})
        await world.until(lambda: len(calls) >= 2 * len(EVERY))
    for name, known in PARTS.items():
        taken = {kwargs["what"][1] for kwargs in calls.of("taken") if kwargs["what"][0] == name}
        assert taken == known
