"""Indexers: from a value to the objects that have it."""

from collections.abc import Callable, Iterable, Mapping

from ..client.objects import Object

Name = tuple[str | None, str]
"""Namespace and name: equal to `Key`, and cheaper to make."""
IndexFunction = Callable[[Object], Iterable[str]]
"""Returns the values of an object, any number of them. It must depend on the object alone."""


class Indexer:
    """One index, by namespace and name of the objects.

    The function is called twice for each change of an object (for the old and the new state), so that no values are kept. When it
    raises, the object is left out, and `errors` counts it.
    """

    __slots__ = ("_names", "errors", "function")

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self._names: dict[str, dict[Name, None]] = {}
        self.errors = 0

    def update(self, name: Name, old: Object | None, new: Object | None) -> None:
        """Note a changed, a new (no `old`) or a deleted object (no `new`)."""
        before = () if old is None else self._values(old)
        after = () if new is None else self._values(new)
        if before == after:
            return
        for value in before:
            if value not in after:
                names = self._names.get(value)
                if names is not None:
                    names.pop(name, None)
                    if not names:
                        del self._names[value]
        for value in after:
            self._names.setdefault(value, {})[name] = None

    def add(self, objects: Iterable[tuple[Name, Object]]) -> None:
        """Add new objects."""
        for name, obj in objects:
            for value in self._values(obj):
                self._names.setdefault(value, {})[name] = None

    def fresh(self) -> "Indexer":
        """Return an empty indexer with the same function."""
        twin = Indexer(self.function)
        twin.errors = self.errors
        return twin

    def names(self, value: str) -> list[Name]:
        """The objects with this value, in the order in which they got it."""
        return list(self._names.get(value, ()))

    def has(self, value: str, name: Name) -> bool:
        """Whether an object has this value."""
        return name in self._names.get(value, ())

    def values(self) -> list[str]:
        """All values of all objects."""
        return list(self._names)

    def _values(self, obj: Object) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(self.function(obj)))
        except Exception:
            self.errors += 1
            return ()


def by_namespace(obj: Object) -> tuple[str, ...]:
    """An index function: the namespace; the empty string for cluster-scoped objects."""
    return (obj.namespace or "",)


def by_label(label: str) -> IndexFunction:
    """Make an index function: the value of a label, for objects that have it."""

    def values(obj: Object) -> tuple[str, ...]:
        labels: Mapping[str, str] = obj.metadata().labels or {}
        return (labels[label],) if label in labels else ()

    return values


def by_owner(obj: Object) -> tuple[str, ...]:
    """An index function: the uids of all owners."""
    return tuple(owner.uid for owner in obj.metadata().owner_references or ())
