"""Selectors: which resources a handler is for; and settings that differ by resource.

The notations are Kopf's, which are kubectl's: `name`, `name.group`, `name.version.group`; `group, name`; `group/version, name`;
`v1, name`; `group, version, name`; keywords; `EVERYTHING` instead of the name; a function of the resource. A selector is
written before the cluster is known, and matched with the resources that discovery finds.
"""

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypedDict, TypeVar, Unpack

from ...client.resources import Resource


class Marker(enum.Enum):
    """Words of selectors that are no names."""

    EVERYTHING = enum.auto()


EVERYTHING: Final = Marker.EVERYTHING
"""Instead of a resource's name: every resource (of the group and version, if they are given) but the events of Kubernetes."""

ResourceFn: TypeAlias = Callable[[Resource], bool]
Target: TypeAlias = str | Marker | ResourceFn | None
"""One positional argument of a resource decorator."""


class By(enum.Enum):
    """The part of a resource that the selector's criterion is compared with."""

    ANY_NAME = "name"
    """Kind, plural, singular or any short name."""
    KIND = "kind"
    PLURAL = "plural"
    SINGULAR = "singular"
    SHORTCUT = "shortcut"
    CATEGORY = "category"
    EVERYTHING = "everything"
    FUNCTION = "function"


class Problem(enum.Enum):
    """Why a selector has chosen no resource."""

    UNRESOLVED = "unresolved"
    """The cluster serves no such resource (yet)."""
    AMBIGUOUS = "ambiguous"
    """Resources of several groups have the name, and none is in the core group."""


class TargetOptions(TypedDict, total=False):
    """The keywords that name a resource. Exactly one of the names, or a positional one; group and version narrow it."""

    group: str | None
    """API group; the empty string is the core group; None: any group."""
    version: str | None
    """API version; None: the version the cluster prefers."""
    kind: str | None
    """The kind, as in manifests."""
    plural: str | None
    """The plural, as in URLs."""
    singular: str | None
    """The singular, as kubectl accepts it."""
    shortcut: str | None
    """One of the short names, as kubectl accepts them."""
    category: str | None
    """A category the resource belongs to, for instance `all`."""


_VERSION: Final = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")
_EVENTS: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
_NAMES: Final = (By.KIND, By.PLURAL, By.SINGULAR, By.SHORTCUT, By.CATEGORY)


@dataclass(frozen=True, slots=True)
class Choice:
    """The resources that one selector has chosen in the cluster, or the problem."""

    selector: "Selector"
    resources: frozenset[Resource]
    problem: Problem | None = None
    candidates: frozenset[Resource] = frozenset()
    """The resources between which an ambiguous selector could not choose."""
    passed_over: frozenset[Resource] = frozenset()
    """The resources that have the name and are not meant; handlers of other selectors may mean them."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One criterion, narrowed to a group and a version if they are given. Made by `Selector.parse`."""

    by: By
    criterion: str | ResourceFn | None = None
    """The name to compare with, or the function to call; None for `EVERYTHING`."""
    group: str | None = None
    version: str | None = None

    @classmethod
    def parse(cls, *target: Target, **names: Unpack[TargetOptions]) -> "Selector":
        """Read a selector as it is written in a decorator.

        A positional group or version wins over a keyword. Raises TypeError for no name, several names, an empty name, or too
        many positions.
        """
        given = _positional(target)
        found = [(by, names[by.value]) for by in _NAMES if names.get(by.value) is not None]  # type: ignore[literal-required]
        if given is not None:
            found.append((given.by, given.criterion))
        if not found:
            raise TypeError(
                "Unspecific resource with no names. A resource needs a name: for instance 'kopfexamples', ('kopf.dev', 'v1', 'kopfexamples'), kind='KopfExample', "
                "EVERYTHING, or a function of the resource. Nothing of this was given."
            )
        if len(found) > 1:
            raise TypeError(
                f"Ambiguous resource specification with {[name for _, name in found]!r}. A resource is named once, by one position or one "
                f"keyword; these contradict each other: {', '.join(f'{by.value}={name!r}' for by, name in found)}."
            )
        by, criterion = found[0]
        if criterion == "":
            raise TypeError(
                "Names must not be empty strings; either None or specific strings. Give the name of the resource, or EVERYTHING."
            )
        group, version = (given.group, given.version) if given is not None else (None, None)
        group = names.get("group") if group is None else group
        version = names.get("version") if version is None else version
        return cls(by, criterion, group, version)

    def __str__(self) -> str:
        place = "/".join(part for part in (self.group, self.version) if part is not None)
        match self.by:
            case By.ANY_NAME:
                name = str(self.criterion)
            case By.EVERYTHING:
                name = "EVERYTHING"
            case By.FUNCTION:
                name = getattr(self.criterion, "__qualname__", repr(self.criterion))
            case _:
                name = f"{self.by.value}={self.criterion}"
        return f"{place}/{name}" if place else name

    @property
    def is_specific(self) -> bool:
        """Whether one resource is meant, so that several matches are a mistake."""
        return self.by not in {By.CATEGORY, By.EVERYTHING, By.FUNCTION}

    def check(self, resource: Resource) -> bool:
        """Tell whether the selector matches this resource, whatever else the cluster serves."""
        if self.group is not None and self.group != resource.group:
            return False
        if self.version is not None:
            if self.version != resource.version:
                return False
        elif not resource.preferred and self.by is not By.FUNCTION:
            return False
        return self._names(resource)

    def choose(self, resources: Iterable[Resource]) -> Choice:
        """Choose among all resources of the cluster.

        A selector by name means one resource. One of the core group wins over those of other groups, as in kubectl; if there
        is none and several groups have the name, nothing is chosen rather than the wrong one.
        """
        found = frozenset(resource for resource in resources if self.check(resource))
        if not found:
            return Choice(self, found, Problem.UNRESOLVED)
        if not self.is_specific or len(found) == 1:
            return Choice(self, found)
        core = frozenset(resource for resource in found if not resource.group)
        if core:
            return Choice(self, core, passed_over=found - core)
        return Choice(self, frozenset(), Problem.AMBIGUOUS, found, found)

    def _names(self, resource: Resource) -> bool:
        name = self.criterion
        match self.by:
            case By.ANY_NAME:
                return name in {resource.kind, resource.plural, resource.singular} or name in resource.shortcuts
            case By.SHORTCUT:
                return name in resource.shortcuts
            case By.CATEGORY:
                return name in resource.categories
            case By.KIND | By.PLURAL | By.SINGULAR:
                return bool(getattr(resource, self.by.value) == name)
            case By.EVERYTHING | By.FUNCTION:
                # Handlers post events themselves: handling these as well would never end.
                if (resource.group, resource.plural) in _EVENTS:
                    return False
                return bool(name(resource)) if callable(name) else True


def _positional(target: tuple[Target, ...]) -> Selector | None:
    """Read the positional arguments alone; None when there are none."""
    parts = [part for part in target if part is not None]
    if not parts:
        return None
    if len(parts) > 3:
        raise TypeError(
            f"A resource has at most three positional parts (group, version, name); got {len(parts)}: {target!r}."
        )
    *place, last = parts
    if callable(parts[0]):
        if place:
            raise TypeError(
                f"The callable filter cannot have any other selectors. A function that selects resources is the only positional argument; got {len(parts)}: {target!r}. "
                "Narrow it with group= and version=."
            )
        return Selector(By.FUNCTION, parts[0])
    if not all(isinstance(part, str) for part in place) or not isinstance(last, str | Marker):
        raise TypeError(
            f"The parts of a resource are strings, and only its last part may be EVERYTHING; got {target!r}. "
            "A function stands alone, and a decorator needs its parentheses."
        )
    texts = [str(part) for part in place]
    if isinstance(last, Marker):
        return Selector(By.EVERYTHING, None, *_place(texts))
    if not texts and "/" in last:
        # No notation of Kopf's, where it matches nothing: neither names nor groups have slashes.
        first, _, last = last.rpartition("/")
        texts = [first]
    if texts:
        return Selector(By.ANY_NAME, last, *_place(texts))
    name, *rest = last.split(".", 1)
    if not rest:
        return Selector(By.ANY_NAME, name)
    version, _, group = rest[0].partition(".")
    if _VERSION.fullmatch(version):
        return Selector(By.ANY_NAME, name, group or None, version)
    return Selector(By.ANY_NAME, name, rest[0])


def _place(texts: list[str]) -> tuple[str | None, str | None]:
    """Group and version from the strings before the name: none, `group`, `group/version`, the core's `v1`, or both."""
    match texts:
        case []:
            return None, None
        case ["v1"]:
            return "", "v1"
        case [place] if "/" in place:
            group, _, version = place.rpartition("/")
            return group, version
        case [group]:
            return group, None
        case _:
            return texts[0], texts[1]


_V = TypeVar("_V")

SelectorKey: TypeAlias = Selector | str | tuple[str | Marker, ...] | Marker | ResourceFn
"""A selector, or what `Selector.parse` makes one from: a name, a tuple of two or three parts, EVERYTHING, a function."""


class SelectorMapping(MutableMapping[Any, _V], Generic[_V]):
    """A mapping by resource selectors: different notations of one selector are one key.

    Iteration gives selectors. Raises TypeError for a key that is no selector.
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
