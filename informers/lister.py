"""Listers read a store: one object, or those of a namespace, a selector, an index."""

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
# In the classes below `list` is a method.
Objects: TypeAlias = list[Object]
Several: TypeAlias = list[T]

NAMESPACE = "ctl/namespace"
"""The index by namespace; made when it is first needed."""


class ObjectView:
    """One version of an object, decoded once for all its holders.

    `body` is shared: its top level is read-only, and nothing inside may be changed. `object.body()` returns a body of your own.
    """

    __slots__ = ("__weakref__", "_body", "_metadata", "object")

    def __init__(self, obj: Object) -> None:
        self.object = obj
        self._body: MappingProxyType[str, Any] | None = None
        self._metadata: Metadata | None = None

    @property
    def body(self) -> MappingProxyType[str, Any]:
        """The body, decoded at the first access."""
        if self._body is None:
            self._body = MappingProxyType(self.object.body())
        return self._body

    @property
    def metadata(self) -> Metadata:
        """The metadata, decoded at the first access."""
        if self._metadata is None:
            self._metadata = self.object.metadata()
        return self._metadata


class Lister:
    """Reads of raw objects, without requests. Own writes are visible at once."""

    def __init__(self, reader: Reader | Readers) -> None:
        self._reader = reader
        self._views: WeakValueDictionary[Key, ObjectView] = WeakValueDictionary()

    @classmethod
    def across(cls, readers: Iterable[Reader]) -> "Lister":
        """One lister over the stores of several informers, such as those of some namespaces."""
        return cls(Readers(readers))

    def get(self, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None."""
        return self._reader.get((namespace, name))

    def list(self, namespace: str | None = None, selector: str | LabelSelector | None = None) -> Objects:
        """The objects of a namespace (None: of all) whose labels match a selector.

        Raises `SelectorError` for a selector that is not in the API's syntax.
        """
        return self._matching(self._in(namespace), selector)

    def by_index(self, index: str, value: str) -> Objects:
        """The objects that an index has under a value. Raises KeyError for an unknown index."""
        return self._reader.by_index(index, value)

    def view(self, name: str, namespace: str | None = None) -> ObjectView | None:
        """One object with its decoded forms, which are shared while somebody holds the view; or None."""
        obj = self.get(name, namespace)
        if obj is None:
            return None
        key = Key(namespace, name)
        view = self._views.get(key)
        if view is None or view.object is not obj:
            view = self._views[key] = ObjectView(obj)
        return view

    def typed(self, model: type[T]) -> "TypedLister[T]":
        """Reads that return msgspec structs, dataclasses, or other types that msgspec can decode."""
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
    """Reads of decoded objects, each decoded at the call and the caller's own.

    All methods raise msgspec.ValidationError, with the field's name, for an object that does not fit the model.
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
