"""What all public names are: functions with their parameters and defaults, classes with their bases, values."""

import enum
import inspect

import kopf
from recording import record

# These are shown by use: who declares handlers with all options, and who runs operators.
DECORATORS = {"daemon", "timer", "index", "subhandler", "register", "operator", "run", "spawn_tasks"}


def default(value):
    if value is inspect.Parameter.empty:
        return "(none)"
    if isinstance(value, (type(None), bool, int, float, str)):
        return repr(value)
    return "(something)"


def parameters(fn):
    found = [one for one in inspect.signature(fn).parameters.values() if one.name != "self"]
    # Kopf names its private ones so that no caller can.
    told = [f"{one.name}: {one.kind.name} = {default(one.default)}" for one in found if "__" not in one.name]
    return sorted(told) if all(one.kind is one.KEYWORD_ONLY for one in found) else told


def described(name, value):
    if isinstance(value, enum.EnumMeta):
        return (
            {member.name: repr(member.value) for member in value}
            if name != "LogFormat"
            else [one.name for one in value]
        )
    if inspect.isclass(value) and issubclass(value, Exception):
        return sorted(base.__name__ for base in value.__mro__)
    if inspect.isfunction(value) and name not in DECORATORS:
        return {"async": inspect.iscoroutinefunction(value), "parameters": parameters(value)}
    return "a name"


for name in sorted([*kopf.__all__, "harmonize_naming", "adjust_namespace"]):
    if not name.startswith("Webhook"):
        record(name, {}, is_=described(name, getattr(kopf, name)))
for name in ("all_at_once", "one_by_one", "randomized", "shuffled", "asap"):
    record(f"lifecycles.{name}", {}, is_=callable(getattr(kopf.lifecycles, name)))
for cls in (kopf.ConnectionInfo, kopf.AiohttpSession, kopf.Patch, kopf.DiffItem):
    record(f"class.{cls.__name__}", {}, is_=parameters(cls))
METHODS = ("fetch", "store", "purge", "touch", "clear", "flush", "build")
for cls in (
    kopf.AnnotationsProgressStorage,
    kopf.StatusProgressStorage,
    kopf.SmartProgressStorage,
    kopf.MultiProgressStorage,
    kopf.AnnotationsDiffBaseStorage,
    kopf.StatusDiffBaseStorage,
    kopf.MultiDiffBaseStorage,
):
    methods = {method: parameters(getattr(cls, method)) for method in METHODS if hasattr(cls, method)}
    record(f"class.{cls.__name__}", {}, is_=parameters(cls), methods=methods)
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
