"""Which decorator takes which options, with values that could be meant."""

import kopf
from recording import record


def fn(**_):
    pass


def sure(*_, **__):
    return True


VALUES = {
    "group": "some.test",
    "version": "v1",
    "kind": "Apple",
    "plural": "apples",
    "singular": "apple",
    "shortcut": "apl",
    "category": "fruits",
    "id": "some",
    "param": 1,
    "errors": kopf.ErrorsMode.PERMANENT,
    "timeout": 1.5,
    "retries": 2,
    "backoff": 0.5,
    "labels": {"a": "b", "c": kopf.PRESENT, "d": kopf.ABSENT, "e": sure},
    "annotations": {"a": "b", "c": kopf.PRESENT, "d": kopf.ABSENT, "e": sure},
    "when": sure,
    "field": ["spec", "field"],
    "value": sure,
    "old": kopf.ABSENT,
    "new": kopf.PRESENT,
    "deleted": True,
    "optional": True,
    "initial_delay": 1,
    "cancellation_backoff": 1,
    "cancellation_timeout": 1,
    "cancellation_polling": 1,
    "interval": 1,
    "sharp": True,
    "idle": 1,
    "registry": None,
    "unknown": 1,
}
NAMED = {"kind", "plural", "singular", "shortcut", "category"}
ACTIVITIES = ("startup", "cleanup", "login", "probe")
RESOURCES = ("event", "index", "create", "resume", "update", "field", "delete", "daemon", "timer")
PARTS = ("subhandler", "register")


def declared(decorator, target, option, value, **more):
    options = {option: value, **more}
    if option in {"value", "old", "new"} or decorator is kopf.on.field:
        options.setdefault("field", "spec.field")
    decorator(*target, **options)(fn)


def taken(name, target, **more):
    found = {}
    for option, value in VALUES.items():
        for meaning, given in (("a value", value), ("None", None)):
            # That these need not be None is said elsewhere.
            if given is None and (name, option) == ("field", "field"):
                continue
            place = () if option in NAMED and given is not None else target
            try:
                declared(getattr(kopf.on, name), place, option, given, **({} if option == "registry" else more))
            except TypeError:
                found[f"{option}: {meaning}"] = "refused"
            else:
                found[f"{option}: {meaning}"] = "taken"
    return found


mine = kopf.get_default_registry()
kopf.set_default_registry(kopf.OperatorRegistry())
for name in ACTIVITIES:
    record(f"on.{name}", {}, options=taken(name, (), registry=kopf.OperatorRegistry()))
for name in RESOURCES:
    record(f"on.{name}", {}, options=taken(name, ("apples",), registry=kopf.OperatorRegistry()))
kopf.set_default_registry(mine)
for name in ("daemon", "timer", "index", "subhandler", "register"):
    record("is the same", {}, name=name, same=getattr(kopf, name) is getattr(kopf.on, name))


@kopf.on.update("apples")
def updated(**_):
    for name in PARTS:
        found = {}
        for option, value in VALUES.items():
            options = {"id": f"{name} {option}", "field": "spec.field", option: value}
            if name == "register":
                options.pop("field") if option != "field" else None
            try:
                kopf.register(fn, **options) if name == "register" else kopf.subhandler(**options)(fn)
            except TypeError:
                found[option] = "refused"
            else:
                found[option] = "taken"
        record(f"part.{name}", {}, options=found)
    raise kopf.PermanentError("the parts are not to be run")


@kopf.on.event("apples")
def event(**kwargs):
    record("event", {"name": kwargs["name"]})
