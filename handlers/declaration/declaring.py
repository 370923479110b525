"""From a decorator's options to a spec in a registry, or to an error at the line of the declaration.

Each option is stated and explained here once. A decorator takes one of the typed dicts as `**options: Unpack[...]`, which
editors and type checkers expand. None is always the same as an option that is not given. Times are seconds.
"""

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Required, TypeAlias, TypedDict, TypeVar

from ..causes.fields import FieldSpec, parse_field
from ..errors import ErrorsMode, HandlerSignatureError
from .filters import MetaFilter, MetaFilterFn, MetaFilterToken, WhenFilterFn
from .registry import OperatorRegistry, SubRegistry, get_default_registry
from .signatures import callable_id, describe, parameters_of, require_kwargs
from .specs import ChangingSpec, DelayFn, HandlerId, HandlerSpec, Operation, ResourceSpec
from .targets import Selector, Target, TargetOptions

ValueFilter: TypeAlias = Any | MetaFilterToken | MetaFilterFn
"""A literal, PRESENT, ABSENT, or a callback of the value (None when absent) and of the keyword arguments of the cause."""


class _Identity(TypedDict, total=False):
    id: str | None
    """The id of the handler instead of the function's name: progress and results are kept under it."""
    param: Any
    """Passed to the function as `param`; distinguishes several declarations of one function."""


class _Place(TypedDict, total=False):
    registry: OperatorRegistry | None
    """Where to declare the handler, instead of the default registry."""


class _Retrying(TypedDict, total=False):
    errors: ErrorsMode | None
    """The effect of an arbitrary exception: a retry (the default for most handlers), failure, or none."""
    timeout: float | None
    """No attempt begins later than so many seconds after the first one."""
    retries: int | None
    """Attempts in total, the first included."""
    backoff: float | None
    """Seconds between attempts after an arbitrary exception (`settings.execution.default_backoff`)."""


class _MetaFiltering(TypedDict, total=False):
    labels: MetaFilter | None
    """Labels that the object must have: name to literal, PRESENT, ABSENT or callback."""
    annotations: MetaFilter | None
    """Annotations that the object must have, as `labels`."""
    when: WhenFilterFn | None
    """A callback that gets the keyword arguments of the cause and tells whether the handler is for it; called last."""


class _Filtering(_MetaFiltering, total=False):
    field: FieldSpec
    """The field that the object must have; a handler of changes gets `old`, `new` and `diff` of this field alone."""
    value: ValueFilter
    """What the field must be; for changes, before or after."""


class _ChangeFiltering(_Filtering, total=False):
    old: ValueFilter
    """What the field must have been before the change. Not together with `value`."""
    new: ValueFilter
    """What the field must be after the change. Not together with `value`."""


class ActivityOptions(_Identity, _Retrying, _Place, total=False):
    """Options of handlers of activities of the operator itself."""


class EventOptions(TargetOptions, _Identity, _Filtering, _Place, total=False):
    """Options of `on.event`, which is never retried."""


class IndexOptions(TargetOptions, _Identity, _Retrying, _Filtering, _Place, total=False):
    """Options of `index`."""


class CreateOptions(TargetOptions, _Identity, _Retrying, _Filtering, _Place, total=False):
    """Options of `on.create`."""


class ResumeOptions(CreateOptions, total=False):
    """Options of `on.resume`."""

    deleted: bool | None
    """Run for an object that is under deletion too."""


class DeleteOptions(CreateOptions, total=False):
    """Options of `on.delete`."""

    optional: bool | None
    """The deletion does not wait for the handler: it needs no finalizer."""


class UpdateOptions(TargetOptions, _Identity, _Retrying, _ChangeFiltering, _Place, total=False):
    """Options of `on.update`."""


class FieldOptions(TargetOptions, _Identity, _Retrying, _ChangeFiltering, _Place, total=False):
    """Options of `on.field`: those of `on.update`, and the field is mandatory."""

    field: Required[FieldSpec]  # type: ignore[misc]


class _Spawning(TargetOptions, _Identity, _Retrying, _Filtering, _Place, total=False):
    initial_delay: float | DelayFn | None
    """Seconds before the start, or a callback that gives them and gets the keyword arguments of the handler."""


class DaemonOptions(_Spawning, total=False):
    """Options of `daemon`."""

    cancellation_backoff: float | None
    """Seconds between the request to stop and the cancellation of the task."""
    cancellation_timeout: float | None
    """Seconds between the cancellation and abandoning the task; None: it is never cancelled."""
    cancellation_polling: float | None
    """Seconds between checks of a task that does not stop (`settings.background.cancellation_polling`)."""


class TimerOptions(_Spawning, total=False):
    """Options of `timer`."""

    interval: float | None
    """Seconds from the end of one call to the next."""
    sharp: bool | None
    """Count the interval from the start of a call: the duration of calls does not shift them."""
    idle: float | None
    """Call only when the object has not changed for so many seconds."""


class WebhookOptions(TargetOptions, _Identity, _Filtering, _Place, total=False):
    """Options of `on.validate` and `on.mutate`."""

    operation: Operation | None
    """One operation; deprecated for `operations`."""
    operations: Collection[Operation] | None
    """The operations, not empty; None: all."""
    subresource: str | None
    """The subresource, `*` for the object and all of them; None: the object alone."""
    persistent: bool | None
    """The webhook stays in the cluster when the operator ends: changes are refused until it runs again."""
    side_effects: bool | None
    """The handler has side effects: the server does not call it in dry runs."""
    ignore_failures: bool | None
    """Changes are allowed when the handler cannot be reached."""


class RegisterOptions(_Identity, _Retrying, _MetaFiltering, total=False):
    """Options of `register`."""


class SubhandlerOptions(_Identity, _Retrying, _ChangeFiltering, total=False):
    """Options of `subhandler`."""


HandlerFn: TypeAlias = Callable[..., Any]
"""Any function, sync or async, that takes the keyword arguments it names and `**kwargs` for the rest.

Its parameters are not typed: a handler names any of them, with any annotations.
"""

_FnT = TypeVar("_FnT", bound=HandlerFn)

_KNOWN_ARGUMENTS = (
    "annotations body diff event labels logger memo meta name namespace new old param patch reason retry runtime settings "
    "spec started status stopped type uid"
)


class Decorator(Protocol):
    """Declares a function and returns it unchanged."""

    def __call__(self, fn: _FnT, /) -> _FnT:
        """Declare the function."""


_NUMBERS = frozenset(
    {"timeout", "retries", "backoff", "initial_delay", "interval", "idle"}
    | {"cancellation_backoff", "cancellation_timeout", "cancellation_polling"}
)
"""Options that are compared with numbers and added to times."""


@dataclass(frozen=True)
class Kind:
    """One decorator: its public name, the class of its specs, its options."""

    name: str
    spec: type[HandlerSpec]
    options: type[Mapping[str, object]]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the spec that this decorator always sets."""
    has_field_in_id: bool = True

    def checked(self, options: Mapping[str, object]) -> dict[str, Any]:
        """The given options. Raises TypeError for an unknown option, for a missing one, and for text instead of a number."""
        known = self.options.__annotations__
        for option in options:
            if option not in known:
                close = difflib.get_close_matches(option, known, n=2)
                hint = f"It has: {', '.join(sorted(known))}."
                if close:
                    hint = f"Did you mean {' or '.join(map(repr, close))}?"
                raise TypeError(f"@{self.name} has no option {option!r}. {hint}")
        given = {option: value for option, value in options.items() if value is not None}
        for option in getattr(self.options, "__required_keys__", ()):
            if option not in given:
                raise TypeError(f"@{self.name} needs the option {option!r}: there is nothing to react to without it.")
        for option in _NUMBERS & given.keys():
            # From an environment variable, usually; it would fail at the first comparison.
            if isinstance(given[option], str):
                raise TypeError(f"@{self.name} takes a number as {option!r}; got the text {given[option]!r}.")
        return given


def declare(kind: Kind, target: tuple[Target, ...], options: Mapping[str, object], **fixed: object) -> Decorator:
    """Make the decorator that declares a function with these options. All but the function is checked here."""
    given = kind.checked(options)
    registry: OperatorRegistry | None = given.pop("registry", None)
    base: str | None = given.pop("id", None)
    if issubclass(kind.spec, ResourceSpec):
        names = {key: given.pop(key) for key in TargetOptions.__annotations__ if key in given}
        if target and callable(target[0]):
            _refuse_missing_parentheses(kind.name, target[0])
        given["selector"] = Selector.parse(*target, **names)
        given |= checked_filters(given)
    elif target:
        raise TypeError(f"@{kind.name} takes no positional arguments; write @{kind.name}() with its parentheses.")
    suffix = f"/{'.'.join(given['field'])}" if kind.has_field_in_id and given.get("field") else ""

    def decorate(fn: _FnT, /) -> _FnT:
        require_kwargs(fn, f"handler of @{kind.name}")
        name = HandlerId(f"{callable_id(fn) if base is None else base}{suffix}")
        spec = kind.spec(id=name, fn=fn, **{**given, **kind.fixed, **fixed})
        (get_default_registry() if registry is None else registry).append(spec)
        return fn

    return decorate


def declare_subhandler(kind: Kind, subregistry: SubRegistry, options: Mapping[str, object]) -> Decorator:
    """Make the decorator that declares a sub-handler of the running handler.

    Raises TypeError when the running handler is no handler of changes, and for filters of old and new under a parent that does
    not react to changes of values.
    """
    parent = subregistry.parent
    if not isinstance(parent, ChangingSpec):
        raise TypeError(
            f"Sub-handlers are only supported for resource-changing handlers (create, update, delete, resume, field); {parent.id!r} "
            "is not one. Call the function directly instead."
        )
    given = kind.checked(options)
    base: str | None = given.pop("id", None)
    if not parent.field_needs_change and ("old" in given or "new" in given):
        raise TypeError(
            f"Filters old=/new= can only be used in update handlers: sub-handlers that have them need an update or field handler as "
            f"the parent; {parent.id!r} is not one."
        )
    given |= checked_filters(given)

    def decorate(fn: _FnT, /) -> _FnT:
        require_kwargs(fn, f"sub-handler of {parent.id!r}")
        name = HandlerId(f"{parent.id}/{callable_id(fn) if base is None else base}")
        changes = parent.field_needs_change
        subregistry.specs.append(ChangingSpec(id=name, fn=fn, selector=None, field_needs_change=changes, **given))
        return fn

    return decorate


def checked_filters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the filters among the options, and return the parsed field.

    Raises ValueError for None as a label or annotation. Raises TypeError for labels or annotations that are no mapping, for
    `value`, `old` and `new` without a field, for `value` together with `old` or `new`, and for callbacks without `**kwargs`.
    """
    for option in ("labels", "annotations"):
        if not isinstance(given.get(option, {}), Mapping):
            raise TypeError(
                f"{option}= takes a mapping of names to values, such as {{'app': 'web'}}; got {given[option]!r}."
            )
        for key, criterion in given.get(option, {}).items():
            if criterion is None:
                raise ValueError(
                    f"`None` for {option[:-1]} filters is not supported; use kopf.PRESENT or kopf.ABSENT. It is at {option}[{key!r}]."
                )
            _check_callback(f"{option}[{key!r}]", criterion, positional=1)
    criteria = [option for option in ("value", "old", "new") if option in given]
    for option in criteria:
        _check_callback(option, given[option], positional=1)
    _check_callback("when", given.get("when"))
    _check_callback("initial_delay", given.get("initial_delay"))
    path = parse_field(given.get("field")) or None
    if criteria and path is None:
        raise TypeError(
            f"Value/old/new filters are specified without a mandatory field. {criteria[0]}= is compared with a field: name it with field='...'."
        )
    if len(criteria) > 1 and "value" in criteria:
        raise TypeError(
            "Either value= or old=/new= can be defined, not both. value= is compared with both sides of a change."
        )
    return {"field": path}


def _check_callback(option: str, fn: object, *, positional: int = 0) -> None:
    if callable(fn):
        require_kwargs(fn, f"callback in {option}=", positional=positional)


def _refuse_missing_parentheses(name: str, fn: Any) -> None:
    """Refuse a handler as the resource: the decorator lacks its parentheses. A function of the resource is allowed."""
    parameters = parameters_of(fn)
    if parameters is None:
        return
    first = next(iter(parameters.values()), None)
    takes_rest = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    takes_resource = first is not None and first.kind in {
        first.POSITIONAL_ONLY,
        first.POSITIONAL_OR_KEYWORD,
        first.VAR_POSITIONAL,
    }
    if takes_rest and (not takes_resource or (first is not None and first.name in _KNOWN_ARGUMENTS.split())):
        raise HandlerSignatureError(
            f"{describe(fn)} looks like a handler, but @{name} was given it instead of a resource. "
            f"Write @{name}('kopfexamples') with parentheses and the resource to be handled."
        )
