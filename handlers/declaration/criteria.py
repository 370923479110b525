"""Criteria are what filters compare values with: literals, presence, absence, callbacks, and combinations of callbacks."""

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from .signatures import require_kwargs


class MetaFilterToken(enum.Enum):
    """Criteria that look at whether there is a value, not at what it is."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


PRESENT: Final = MetaFilterToken.PRESENT
"""Any value, the empty one too."""
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
MetaCriterion: TypeAlias = tuple[str, Criterion]
Kwargs: TypeAlias = Callable[[], Mapping[str, Any]]


class Missing(enum.Enum):
    """The value of a field that is not there: unlike None, no object can hold it."""

    VALUE = enum.auto()


MISSING: Final = Missing.VALUE


def not_(fn: Callable[..., Any]) -> Callable[..., bool]:
    """Fulfilled when the callback is not."""
    require_kwargs(fn, "filter", positional=1)
    return lambda *args, **kwargs: not fn(*args, **kwargs)


def all_(fns: Collection[Callable[..., Any]]) -> Callable[..., bool]:
    """Fulfilled when all of the callbacks are; asked in order until one is not."""
    chain = _chain(fns)
    return lambda *args, **kwargs: all(fn(*args, **kwargs) for fn in chain)


def any_(fns: Collection[Callable[..., Any]]) -> Callable[..., bool]:
    """Fulfilled when at least one of the callbacks is; asked in order until one is."""
    chain = _chain(fns)
    return lambda *args, **kwargs: any(fn(*args, **kwargs) for fn in chain)


def none_(fns: Collection[Callable[..., Any]]) -> Callable[..., bool]:
    """Fulfilled when none of the callbacks is; asked in order until one is."""
    chain = _chain(fns)
    return lambda *args, **kwargs: not any(fn(*args, **kwargs) for fn in chain)


def _chain(fns: Iterable[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
    chain = tuple(fns)
    for fn in chain:
        require_kwargs(fn, "filter", positional=1)
    return chain


def compile_meta(criteria: MetaFilter | None) -> tuple[MetaCriterion, ...]:
    """Order label or annotation criteria so that callbacks come last."""
    return tuple(sorted((criteria or {}).items(), key=lambda item: callable(item[1])))


def match_meta(criteria: tuple[MetaCriterion, ...], values: Mapping[str, str], kwargs: Kwargs | None) -> bool:
    """Tell whether labels or annotations fulfil their criteria. Without kwargs callbacks count as fulfilled."""
    for key, criterion in criteria:
        if criterion is PRESENT:
            fulfilled = key in values
        elif criterion is ABSENT:
            fulfilled = key not in values
        elif callable(criterion):
            fulfilled = kwargs is None or bool(criterion(values.get(key), **kwargs()))
        else:
            fulfilled = key in values and values[key] == criterion
        if not fulfilled:
            return False
    return True


def fulfilled(criterion: Criterion, value: Any, kwargs: Kwargs) -> bool:
    """Tell whether a field's value, or MISSING, fulfils a criterion. No criterion is the same as PRESENT."""
    if criterion is None or criterion is PRESENT:
        return value is not MISSING
    if criterion is ABSENT:
        return value is MISSING
    if callable(criterion):
        return bool(criterion(None if value is MISSING else value, **kwargs()))
    return value is not MISSING and bool(value == criterion)
