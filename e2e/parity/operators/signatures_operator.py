"""What all public names are: functions with their parameters and defaults, classes with their bases, values."""

import enum
import inspect

import kopf
from recording import record


def default(value):
    if value is inspect.Parameter.empty:
        return "(none)"
    if isinstance(value, (type(None), bool, int, float, str, tuple, frozenset)):
        return repr(value)
    return "(something)"


def parameters(fn):
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return "(unknown)"
    return [f"{one.name}: {one.kind.name} = {default(one.default)}" for one in found if one.name != "self"]


def described(value):
    if isinstance(value, enum.EnumMeta):
        return {member.name: repr(member.value) for member in value}
    if inspect.isclass(value) and issubclass(value, Exception):
        return {"bases": sorted(base.__name__ for base in value.__mro__), "parameters": parameters(value)}
    if inspect.isfunction(value):
        return {"async": inspect.iscoroutinefunction(value), "parameters": parameters(value)}
    return "a class" if inspect.isclass(value) else "a value"


LATER = {"Webhook", "Admission"}

for name in sorted(kopf.__all__) + ["harmonize_naming", "adjust_namespace"]:
    if not name.startswith("Webhook"):
        record(name, {}, is_=described(getattr(kopf, name)))
for name in ("startup", "cleanup", "login", "probe", "resume", "create", "update", "delete", "field", "index", "event"):
    record(f"on.{name}", {}, is_=described(getattr(kopf.on, name)))
for name in ("daemon", "timer", "subhandler", "register"):
    record(f"on.{name}", {}, is_=described(getattr(kopf.on, name)))
for name in ("all_at_once", "one_by_one", "randomized", "shuffled", "asap"):
    record(f"lifecycles.{name}", {}, is_=callable(getattr(kopf.lifecycles, name)))
for cls in (kopf.ConnectionInfo, kopf.AiohttpSession, kopf.Resource, kopf.TemporaryError, kopf.Patch, kopf.DiffItem):
    record(f"class.{cls.__name__}", {}, is_=parameters(cls))
for cls in (
    kopf.AnnotationsProgressStorage,
    kopf.StatusProgressStorage,
    kopf.SmartProgressStorage,
    kopf.MultiProgressStorage,
    kopf.AnnotationsDiffBaseStorage,
    kopf.StatusDiffBaseStorage,
    kopf.MultiDiffBaseStorage,
):
    record(
        f"class.{cls.__name__}",
        {},
        is_=parameters(cls),
        methods=sorted(n for n in ("fetch", "store", "purge", "touch", "clear", "flush", "build") if hasattr(cls, n)),
    )
settings = kopf.OperatorSettings()
for group in (
    "process",
    "posting",
    "peering",
    "watching",
    "queueing",
    "scanning",
    "admission",
    "execution",
    "background",
    "networking",
    "persistence",
):
    values = vars(getattr(settings, group))
    record(f"settings.{group}", {}, is_={k: default(v) for k, v in values.items() if not k.startswith("_")})


@kopf.on.event("apples")
def event(**kwargs):
    record("event", {"name": kwargs["name"]})
