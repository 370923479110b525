"""Filters: what a handler's labels, annotations and fields are compared with.

A criterion is a literal, PRESENT, ABSENT or a callback; callbacks are combined by `all_`, `any_`, `none_` and `not_`.
"""

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from ...client.selectors import Operator, Requirement
from ..causes.causes import Cause
from .signatures import require_kwargs


class MetaFilterToken(enum.Enum):
    """Criteria that compare no value, but ask whether there is one."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


PRESENT: Final = MetaFilterToken.PRESENT
"""Any value, the empty one included."""
ABSENT: Final = MetaFilterToken.ABSENT
"""No value."""

MetaFilterFn: TypeAlias = Callable[..., object]
"""Called with the value or None, and with the keyword arguments of the cause; must accept `**kwargs`. Its truth counts."""
WhenFilterFn: TypeAlias = Callable[..., object]
"""Called with the keyword arguments of the cause; must accept `**kwargs`. Its truth counts."""
MetaFilter: TypeAlias = Mapping[str, str | MetaFilterToken | MetaFilterFn]
"""Criteria for labels or annotations by their names."""
Criterion: TypeAlias = Any
"""A literal, PRESENT, ABSENT or a callback of the value; None is no criterion."""
MetaCriteria: TypeAlias = tuple[tuple[str, Criterion], ...]
"""Criteria for labels or annotations, in the order in which they are checked."""


class Missing(enum.Enum):
    """The value of a field that is absent. None would not do: a field can be null."""

    VALUE = enum.auto()


MISSING: Final = Missing.VALUE


def not_(fn: Callable[..., Any]) -> Callable[..., bool]:
    """Fulfilled when the callback is not."""
    (fn,) = _checked([fn])
    return lambda *args, **kwargs: not fn(*args, **kwargs)


def all_(fns: Collection[Callable[..., Any]]) -> Callable[..., bool]:
    """Fulfilled when all callbacks are; called in order until one is not."""
    checked = _checked(fns)
    return lambda *args, **kwargs: all(fn(*args, **kwargs) for fn in checked)


def any_(fns: Collection[Callable[..., Any]]) -> Callable[..., bool]:
    """Fulfilled when at least one callback is; called in order until one is."""
    checked = _checked(fns)
    return lambda *args, **kwargs: any(fn(*args, **kwargs) for fn in checked)


def none_(fns: Collection[Callable[..., Any]]) -> Callable[..., bool]:
    """Fulfilled when no callback is; called in order until one is."""
    return not_(any_(fns))


def _checked(fns: Iterable[Callable[..., Any]]) -> list[Callable[..., Any]]:
    checked = list(fns)
    for fn in checked:
        require_kwargs(fn, "filter", positional=1)
    return checked


def compile_meta(criteria: MetaFilter | None) -> MetaCriteria:
    """Order label or annotation criteria so that callbacks come last."""
    return tuple(sorted((criteria or {}).items(), key=lambda item: callable(item[1])))


def match_meta(criteria: MetaCriteria, values: Mapping[str, str], cause: Cause | None) -> bool:
    """Tell whether labels or annotations fulfil their criteria. Without a cause, callbacks count as fulfilled."""
    for key, criterion in criteria:
        if criterion is PRESENT:
            fulfilled = key in values
        elif criterion is ABSENT:
            fulfilled = key not in values
        elif callable(criterion):
            fulfilled = cause is None or bool(criterion(values.get(key), **cause.kwargs))
        else:
            fulfilled = key in values and values[key] == criterion
        if not fulfilled:
            return False
    return True


def match_value(criterion: Criterion, value: Any, cause: Cause) -> bool:
    """Tell whether a field's value, or MISSING, fulfils a criterion. No criterion is the same as PRESENT."""
    if criterion is None or criterion is PRESENT:
        return value is not MISSING
    if criterion is ABSENT:
        return value is MISSING
    if callable(criterion):
        return bool(criterion(None if value is MISSING else value, **cause.kwargs))
    return value is not MISSING and bool(value == criterion)


_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def narrow_labels(criteria: Iterable[MetaCriteria]) -> str:
    """The label selector that an object fulfils if it matches the label criteria of any handler; empty when there is none.

    Only for resources that are indexed and nothing else: there, an object that ceases to match is removed, as if it were
    deleted. To other handlers it would look deleted. Criteria that a label selector cannot express, such as callbacks, are
    left to the filters.
    """
    wanted = [{found for key, one in each if (found := _requirement(key, one)) is not None} for each in criteria]
    common = set.intersection(*wanted) if wanted else set()
    return ",".join(sorted(map(str, common)))


def _requirement(key: str, criterion: Criterion) -> Requirement | None:
    if not _LABEL_KEY.fullmatch(key):
        return None
    if criterion is PRESENT:
        return Requirement(key, Operator.EXISTS)
    if criterion is ABSENT:
        return Requirement(key, Operator.ABSENT)
    if isinstance(criterion, str) and _LABEL_VALUE.fullmatch(criterion):
        return Requirement(key, Operator.IN, (criterion,))
    return None
