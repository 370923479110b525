"""Derived lookups are kept in step with a copy: from a value to the objects that have it."""

from collections.abc import Callable, Iterable, Mapping

from ..client.objects import Object

Name = tuple[str | None, str]
"""Namespace and name: equal to `Key`, and cheaper to make."""
IndexFunction = Callable[[Object], Iterable[str]]
"""The values of one object: any number, none included. It must depend on the object alone; an object without a value is not found."""


class Indexer:
    """One lookup. Objects are told apart by namespace and name.

    The function is called twice for each change of an object (for the old state and the new), so that no values are kept.
    What it raises leaves the object out, and counts in `errors`: a mistake in one function must not stop the copy.
    """

    __slots__ = ("_names", "errors", "function")

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self._names: dict[str, dict[Name, None]] = {}
        self.errors = 0

    def update(self, name: Name, old: Object | None, new: Object | None) -> None:
        """An object has changed, come (no old) or gone (no new)."""
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
        """Take in objects that were not there."""
        for name, obj in objects:
            for value in self._values(obj):
                self._names.setdefault(value, {})[name] = None

    def fresh(self) -> "Indexer":
        """An empty one with the same function."""
        twin = Indexer(self.function)
        twin.errors = self.errors
        return twin

    def names(self, value: str) -> list[Name]:
        """Which objects have this value, in the order in which they came to have it."""
        return list(self._names.get(value, ()))

    def values(self) -> list[str]:
        """All values that any object has."""
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
