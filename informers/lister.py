"""Reads from a copy: one object, or those of a namespace, a selector, an index."""

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import msgspec

from ..client.objects import Metadata, Object
from ..client.resources import Key
from ..client.selectors import LabelSelector
from .indexers import by_namespace
from .reader import Reader, Readers

T = TypeVar("T")
# Inside of the classes below, `list` is a method.
Objects: TypeAlias = list[Object]
Several: TypeAlias = list[T]

NAMESPACE = "ctl/namespace"
"""The index by namespace; made when the first reader asks for a namespace of a copy that has several."""


class ObjectView:
    """One version of an object, decoded once for all who hold it.

    `body` is shared: it is read-only at the top, and nothing inside may be changed. For a body of one's own there is
    `object.body()`.
    """

    __slots__ = ("__weakref__", "_body", "_metadata", "object")

    def __init__(self, obj: Object) -> None:
        self.object = obj
        self._body: MappingProxyType[str, Any] | None = None
        self._metadata: Metadata | None = None

    @property
    def body(self) -> MappingProxyType[str, Any]:
        """Everything, decoded when first looked at."""
        if self._body is None:
            self._body = MappingProxyType(self.object.body())
        return self._body

    @property
    def metadata(self) -> Metadata:
        """The part that controllers decide by, decoded when first looked at."""
        if self._metadata is None:
            self._metadata = self.object.metadata()
        return self._metadata


class Lister:
    """Reads of raw objects. They never ask the server; own writes that were overlaid are seen."""

    def __init__(self, reader: Reader | Readers) -> None:
        self._reader = reader
        self._views: WeakValueDictionary[Key, ObjectView] = WeakValueDictionary()

    @classmethod
    def across(cls, readers: Iterable[Reader]) -> "Lister":
        """One lister over the copies (`informer.store`) of several informers, e.g. of a resource in some namespaces."""
        return cls(Readers(readers))

    def get(self, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None."""
        return self._reader.get((namespace, name))

    def list(self, namespace: str | None = None, selector: str | LabelSelector | None = None) -> Objects:
        """The objects of a namespace (None: of all), of those the ones whose labels match a selector.

        Raises `SelectorError` for a selector that is not in the API's syntax.
        """
        return self._matching(self._in(namespace), selector)

    def by_index(self, index: str, value: str) -> Objects:
        """The objects that an indexer finds under a value. Raises KeyError when there is no such indexer."""
        return self._reader.by_index(index, value)

    def view(self, name: str, namespace: str | None = None) -> ObjectView | None:
        """One object with its decoded forms, which are shared and live while somebody holds the view; or None."""
        obj = self.get(name, namespace)
        if obj is None:
            return None
        key = Key(namespace, name)
        view = self._views.get(key)
        if view is None or view.object is not obj:
            view = self._views[key] = ObjectView(obj)
        return view

    def typed(self, model: type[T]) -> "TypedLister[T]":
        """Reads that give structs of msgspec, dataclasses, or whatever else msgspec decodes."""
        return TypedLister(self, msgspec.json.Decoder(model).decode)

    def _in(self, namespace: str | None) -> Iterable[Object]:
        if namespace is None:
            return self._reader.values()
        if NAMESPACE not in self._reader.indexers:
            self._reader.add_indexer(NAMESPACE, by_namespace)
        return self._reader.by_index(NAMESPACE, namespace)

    @staticmethod
    def _matching(objects: Iterable[Object], selector: str | LabelSelector | None) -> Objects:
        if selector is None:
            return [*objects]
        parsed = LabelSelector.parse(selector) if isinstance(selector, str) else selector
        return [obj for obj in objects if parsed.matches(obj.metadata().labels)]


class TypedLister(Generic[T]):
    """Reads of decoded objects, each decoded anew and the caller's own.

    All methods raise msgspec.ValidationError, naming the field, for an object that the model does not fit.
    """

    def __init__(self, lister: Lister, decode: Callable[[bytes], T]) -> None:
        self._lister = lister
        self._decode = decode

    def get(self, name: str, namespace: str | None = None) -> T | None:
        """One object, or None."""
        obj = self._lister.get(name, namespace)
        return None if obj is None else self._decode(obj.raw)

    def list(self, namespace: str | None = None, selector: str | LabelSelector | None = None) -> Several[T]:
        """As `Lister.list`."""
        return [self._decode(obj.raw) for obj in self._lister.list(namespace, selector)]

    def by_index(self, index: str, value: str) -> Several[T]:
        """As `Lister.by_index`."""
        return [self._decode(obj.raw) for obj in self._lister.by_index(index, value)]
