"""Adapters for objects of other libraries: all are read and changed as if they were mappings in the form of the API.

These are dicts and other mutable mappings, `APIObject` of pykube and kr8s, and models of `kubernetes` and `kubernetes_asyncio`.
No library is imported to recognize its objects: models by their attributes and the modules of their classes. Changes are made
in place: existing mappings and lists stay the same objects, since manifests may share them.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any, Final, TypeAlias

from ..causes.fields import FieldPath

AnyObject: TypeAlias = Any
"""A mapping, an object of pykube or kr8s, or a model."""

LABELS: Final = ("metadata", "labels")
OWNERS: Final = ("metadata", "ownerReferences")

_INNER = ("obj", "raw")
"""The attributes with the mappings of pykube's and of kr8s' objects."""
_MODEL_LIBRARIES = frozenset({"kubernetes", "kubernetes_asyncio"})


class Manifest(ABC):
    """One object, its fields named as in the API."""

    @abstractmethod
    def get(self, path: FieldPath) -> Any:
        """The value at a path, None when it is absent; values are the library's own."""

    @abstractmethod
    def set(self, path: FieldPath, value: Any) -> None:
        """Set the value at a path; absent mappings on the way are made."""

    @abstractmethod
    def refer(self, reference: Mapping[str, Any]) -> Any:
        """A reference in the form of those of `owners()`."""

    def labels(self) -> MutableMapping[str, Any]:
        """The labels themselves, to be changed; made if they are absent."""
        return self._made(LABELS, {})  # type: ignore[no-any-return]

    def owners(self) -> MutableSequence[Any]:
        """The owner references themselves, to be changed; made if they are absent."""
        return self._made(OWNERS, [])  # type: ignore[no-any-return]

    def nested(self, path: FieldPath) -> "Iterator[Manifest]":
        """The objects at a path: none when it is absent, one, or those of a list."""
        value = self.get(path)
        return iter(()) if value is None else each(value)

    def _made(self, path: FieldPath, empty: Any) -> Any:
        if self.get(path) is None:
            self.set(path, empty)
        # Read again: some mappings convert their values.
        return self.get(path)


class MappingManifest(Manifest):
    """A manifest over a mapping."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def get(self, path: FieldPath) -> Any:
        """The value at a path, None when it is absent."""
        value: Any = self._data
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def set(self, path: FieldPath, value: Any) -> None:
        """Set the value at a path. Raises TypeError for a read-only mapping."""
        data: Any = self._data
        for key in path[:-1]:
            if data.get(key) is None:
                data[key] = {}
            data = data[key]
        data[path[-1]] = value

    def refer(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference as a dict."""
        return dict(reference)


class ModelManifest(Manifest):
    """A manifest over a model of a library: `kubernetes` or `kubernetes_asyncio`."""

    def __init__(self, model: Any, library: str) -> None:
        self._model = model
        self._library = importlib.import_module(f"{library}.client.models")

    def get(self, path: FieldPath) -> Any:
        """The value at a path, None when it is absent."""
        value = self._model
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else getattr(value, _attribute(value, key), None)
        return value

    def set(self, path: FieldPath, value: Any) -> None:
        """Set the value at a path; absent metadata is made as a model. Raises AttributeError for unknown fields."""
        model = self._model
        for key in path[:-1]:
            attribute = _attribute(model, key)
            if getattr(model, attribute) is None:
                made = self._library.V1ObjectMeta() if key == "metadata" else {}
                setattr(model, attribute, made)
            model = getattr(model, attribute)
        if isinstance(model, MutableMapping):
            model[path[-1]] = value
        else:
            setattr(model, _attribute(model, path[-1]), value)

    def refer(self, reference: Mapping[str, Any]) -> Any:
        """A reference as a model."""
        cls = self._library.V1OwnerReference
        return cls(**{_attribute(cls, key): value for key, value in reference.items()})


def each(objs: AnyObject | Iterable[AnyObject] | None, *, writable: bool = True) -> Iterator[Manifest]:
    """The manifests of one object, or of all in nested iterables; None is skipped.

    Raises TypeError for other values, and, if they must be writable, for read-only views of objects.
    """
    if objs is None:
        return
    if isinstance(objs, MutableMapping) or (isinstance(objs, Mapping) and not writable):
        yield MappingManifest(objs)
    elif (found := _recognized(objs)) is not None:
        yield found
    elif isinstance(objs, Iterable) and not isinstance(objs, (Mapping, str, bytes)):
        for obj in objs:
            yield from each(obj, writable=writable)
    else:
        raise _unsupported(objs)


def read(obj: AnyObject) -> Manifest:
    """The manifest of one object to be read only; may be a view. Raises TypeError for other values."""
    found = MappingManifest(obj) if isinstance(obj, Mapping) else _recognized(obj)
    if found is None:
        raise _unsupported(obj)
    return found


def field_of(value: Any, key: str) -> Any:
    """A field of a mapping or of a model by its name in the API; None when it is absent."""
    return value.get(key) if isinstance(value, Mapping) else getattr(value, _attribute(value, key), None)


def _recognized(obj: Any) -> Manifest | None:
    if hasattr(obj, "attribute_map"):
        # Classes of users may inherit from a model.
        libraries = (base.__module__.partition(".")[0] for base in type(obj).__mro__)
        if (library := next((name for name in libraries if name in _MODEL_LIBRARIES), None)) is not None:
            return ModelManifest(obj, library)
    inner = (getattr(obj, name, None) for name in _INNER)
    return next((MappingManifest(found) for found in inner if isinstance(found, MutableMapping)), None)


def _attribute(model: Any, key: str) -> str:
    names: dict[str, str] = {api_name: attribute for attribute, api_name in getattr(model, "attribute_map", {}).items()}
    return names.get(key, key)


def _unsupported(obj: Any) -> TypeError:
    return TypeError(
        f"K8s object class is not supported: {type(obj)}. "
        "Give a dict, an object of pykube or kr8s, a model of a kubernetes client, or lists of these."
    )
