"""Indices: look-ups that users' functions fill; read-only for handlers, written by the operator object by object.

An index maps each key to a store: the values of all objects under that key, one of each object, in no promised order. There are
no empty stores: a key without values is absent. Objects are identified by a hashable id (their uid).

Indices and stores may be read from any thread while they are written: an iteration covers the content at its beginning.
"""

from collections.abc import Collection, Hashable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Store(Collection[V_co], Generic[V_co]):
    """The values under one key of an index; true when there are any. It is live while the key is in the index."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Hashable, V_co] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[V_co]:
        return iter(tuple(self._values.values()))

    def __contains__(self, value: object) -> bool:
        return value in tuple(self._values.values())

    def __repr__(self) -> str:
        return repr(list(self))


class Index(Mapping[K, Store[V]], Generic[K, V]):
    """A lookup from keys to the values of all objects under them. Read-only for handlers; true when there are any."""

    def __init__(self) -> None:
        self._stores: dict[K, Store[V]] = {}
        # Invariant: an object's keys here are those of the stores that hold a value of it.
        self._keys: dict[Hashable, tuple[K, ...]] = {}

    def __getitem__(self, key: K) -> Store[V]:
        return self._stores[key]

    def __len__(self) -> int:
        return len(self._stores)

    def __iter__(self) -> Iterator[K]:
        return iter(tuple(self._stores))

    def __contains__(self, key: object) -> bool:
        return key in self._stores

    def __repr__(self) -> str:
        return repr(self._stores.copy())

    def keys(self) -> KeysView[K]:
        """The current keys."""
        return self._stores.copy().keys()

    def values(self) -> ValuesView[Store[V]]:
        """The current stores."""
        return self._stores.copy().values()

    def items(self) -> ItemsView[K, Store[V]]:
        """The current keys and stores."""
        return self._stores.copy().items()

    def _replace(self, obj: Hashable, values: Mapping[K, V]) -> None:
        known = self._keys.get(obj, ())
        for key in known:
            if key not in values:
                self._drop(obj, key)
        for key, value in values.items():
            store = self._stores.get(key)
            if store is None:
                # Filled before readers can find it: there are no empty stores.
                store = Store()
                store._values[obj] = value
                self._stores[key] = store
            else:
                store._values[obj] = value
        if values:
            self._keys[obj] = tuple(values)
        else:
            self._keys.pop(obj, None)

    def _drop(self, obj: Hashable, key: K) -> None:
        store = self._stores[key]
        if len(store) == 1:
            del self._stores[key]
        store._values.pop(obj)


class Indices(Mapping[str, Index[Any, Any]]):
    """All indices of an operator by their names; arguments of handlers. Every index is there from the start.

    The outcome of an index function for an object decides what is written:

    - a result: `replace`; None changes nothing;
    - an ignored error: nothing, the old values stay;
    - a final error, or one that is retried later: `discard` for that index; the old values may be wrong;
    - filters that do not match any more: `discard` for that index;
    - the object is gone: `discard` for all.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._indices: dict[str, Index[Any, Any]] = {name: Index() for name in names}

    def __getitem__(self, name: str) -> Index[Any, Any]:
        return self._indices[name]

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[str]:
        return iter(self._indices)

    def replace(self, name: str, obj: Hashable, result: Any) -> None:
        """Replace the values of an object in one index by a result of the function.

        A mapping (of any class, views too, as in Kopf) has values by keys; an empty one removes the object. None changes
        nothing. Anything else is one value under the key None.
        """
        if result is not None:
            self._indices[name]._replace(obj, result if isinstance(result, Mapping) else {None: result})

    def discard(self, obj: Hashable, name: str | None = None) -> None:
        """Remove an object from one index, or from all of them, if it is there."""
        for index in self._indices.values() if name is None else (self._indices[name],):
            index._replace(obj, {})
