"""The specs of one kind of handlers, indexed by the resources they are for.

Which specs are for a resource is worked out at the first question and kept until another spec is declared or discovery tells
more about the resource. That nothing is filtered or declared twice is worked out then too, so that the common answer costs a
lookup and a copy of a list.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...client.resources import Resource
from ..causes.causes import ResourceCause
from ..causes.fields import FieldPath
from .filters import match
from .specs import ResourceSpec, Spec
from .targets import Selector

SpecT = TypeVar("SpecT", bound=Spec)
ResourceSpecT = TypeVar("ResourceSpecT", bound=ResourceSpec)


def deduplicated(specs: Iterable[SpecT]) -> list[SpecT]:
    """Each handler once, where it was declared first: the same function under the same id is the same handler."""
    unique: dict[tuple[object, ...], SpecT] = {}
    for spec in specs:
        unique.setdefault(spec.identity, spec)
    return list(unique.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Shelf(Generic[ResourceSpecT]):
    """The specs for one resource, and what is known of all of them."""

    resource: Resource
    specs: tuple[ResourceSpecT, ...]
    fields: frozenset[FieldPath]
    is_unfiltered: bool
    is_unique: bool


class Family(Generic[ResourceSpecT]):
    """Specs of one kind in the order of their declaration."""

    def __init__(self) -> None:
        self._specs: list[ResourceSpecT] = []
        # Bounded by the number of resources in the cluster: a resource that was discovered anew takes its old place.
        self._shelves: dict[Resource, _Shelf[ResourceSpecT]] = {}
        self._passed_over: Mapping[Selector, frozenset[Resource]] = {}

    def __iter__(self) -> Iterator[ResourceSpecT]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def append(self, spec: ResourceSpecT) -> None:
        """Take one more; what was worked out before is forgotten."""
        self._specs.append(spec)
        self._shelves.clear()

    def pass_over(self, passed_over: Mapping[Selector, frozenset[Resource]]) -> None:
        """Take resources, from now on, for none of what these selectors mean, though they match."""
        self._passed_over = passed_over
        self._shelves.clear()

    def selectors(self) -> list[Selector]:
        """The selectors of all specs, each once."""
        return list(dict.fromkeys(spec.selector for spec in self._specs if spec.selector is not None))

    def of(self, resource: Resource) -> tuple[ResourceSpecT, ...]:
        """All specs for a resource, filters and duplicates aside."""
        return self._shelf(resource).specs

    def fields(self, resource: Resource) -> frozenset[FieldPath]:
        """The fields that specs for a resource look at."""
        return self._shelf(resource).fields

    def matching(self, cause: ResourceCause) -> list[ResourceSpecT]:
        """The specs whose filters the cause fulfils, each handler once."""
        shelf = self._shelf(cause.resource)
        specs = list(shelf.specs) if shelf.is_unfiltered else [spec for spec in shelf.specs if match(spec, cause)]
        return specs if shelf.is_unique else deduplicated(specs)

    def _shelf(self, resource: Resource) -> _Shelf[ResourceSpecT]:
        shelf = self._shelves.get(resource)
        # Equal resources can differ in what selectors look at: kind, short names, whether the version is preferred.
        if shelf is None or (shelf.resource is not resource and vars(shelf.resource) != vars(resource)):
            specs = tuple(spec for spec in self._specs if self._means(spec.selector, resource))
            shelf = self._shelves[resource] = _Shelf(
                resource,
                specs,
                fields=frozenset(spec.field for spec in specs if spec.field is not None),
                is_unfiltered=all(spec.is_unfiltered for spec in specs),
                is_unique=len({spec.identity for spec in specs}) == len(specs),
            )
        return shelf

    def _means(self, selector: Selector | None, resource: Resource) -> bool:
        if selector is None:
            return True
        return selector.check(resource) and resource not in self._passed_over.get(selector, ())
