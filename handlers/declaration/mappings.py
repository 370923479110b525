"""Values by resource selectors: settings that hold for some resources and not for others."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeAlias, TypeVar

from ...client.resources import Resource
from .targets import Marker, ResourceFn, Selector

_V = TypeVar("_V")

SelectorKey: TypeAlias = Selector | str | tuple[str | Marker, ...] | Marker | ResourceFn
"""A selector, or what `Selector.parse` makes one from: a name, a tuple of two or three parts, EVERYTHING, a function."""


class SelectorMapping(MutableMapping[Any, _V], Generic[_V]):
    """A mapping whose keys are read as resource selectors, so that different notations of one resource are one key.

    Iteration gives selectors. Raises TypeError for a key that is none.
    """

    def __init__(self, values: Mapping[Any, _V] | None = None, /) -> None:
        self._values: dict[Selector, _V] = {}
        self.update(values or {})

    def __getitem__(self, key: SelectorKey) -> _V:
        return self._values[_selector(key)]

    def __setitem__(self, key: SelectorKey, value: _V) -> None:
        self._values[_selector(key)] = value

    def __delitem__(self, key: SelectorKey) -> None:
        del self._values[_selector(key)]

    def __iter__(self) -> Iterator[Selector]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({{{', '.join(f'{str(key)!r}: {value!r}' for key, value in self._values.items())}}})"
        )

    def collect(self, resource: Resource) -> list[_V]:
        """The values of all selectors that match the resource, in the order of their declaration."""
        return [value for selector, value in self._values.items() if selector.check(resource)]


def _selector(key: SelectorKey) -> Selector:
    if isinstance(key, Selector):
        return key
    try:
        return Selector.parse(*key) if isinstance(key, tuple) else Selector.parse(key)
    except TypeError as exc:
        raise TypeError(f"Unsupported selector type: {key!r}. {exc}") from exc
