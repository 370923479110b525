"""Objects of other libraries are read and changed here as if all were mappings in the form of the API.

Known are dicts and other mutable mappings, pykube's and kr8s' `APIObject`, and the models of `kubernetes` and `kubernetes_asyncio`. None
of these libraries is imported: a model is recognized by what it is made of, and brings its library with it.
Everything is changed in place: a mapping or a list that is there stays the same object, since manifests may share it.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any, Final, TypeAlias

from ..causes.fields import FieldPath

Foreign: TypeAlias = Any
"""A mapping, an object of pykube or kr8s, or a model."""

LABELS: Final = ("metadata", "labels")
OWNERS: Final = ("metadata", "ownerReferences")

_INNER = ("obj", "raw")
"""Where objects of pykube, and of kr8s, have their mapping."""
_MODEL_LIBRARIES = frozenset({"kubernetes", "kubernetes_asyncio"})


class Manifest(ABC):
    """One object, its fields named as in the API whatever they are called in its library."""

    @abstractmethod
    def get(self, path: FieldPath) -> Any:
        """The value at a path, None when it is absent; values are the library's own."""

    @abstractmethod
    def set(self, path: FieldPath, value: Any) -> None:
        """Set the value at a path; what is absent on the way is made."""

    @abstractmethod
    def refer(self, reference: Mapping[str, Any]) -> Any:
        """A reference as it stands in `owners()`."""

    def labels(self) -> MutableMapping[str, Any]:
        """The labels themselves, to be changed; made where they are absent."""
        return self._made(LABELS, {})  # type: ignore[no-any-return]

    def owners(self) -> MutableSequence[Any]:
        """The references to the owners themselves, to be changed; made where they are absent."""
        return self._made(OWNERS, [])  # type: ignore[no-any-return]

    def nested(self, path: FieldPath) -> "Iterator[Manifest]":
        """The objects at a path: none when it is absent, one, or those of a list."""
        value = self.get(path)
        return iter(()) if value is None else each(value)

    def _made(self, path: FieldPath, empty: Any) -> Any:
        if self.get(path) is None:
            self.set(path, empty)
        # Read again: some mappings keep what they are given in a form of their own.
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
        """Set the value at a path. Raises TypeError for a mapping that is read-only."""
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
        """Set the value at a path; metadata that is absent becomes a model. Raises AttributeError for unknown fields."""
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


def each(objs: Foreign | Iterable[Foreign] | None, *, writable: bool = True) -> Iterator[Manifest]:
    """The manifests of one object, or of all in an iterable, however deep; None is skipped.

    Raises TypeError for what is no object; and, when they are to be writable, for read-only views of objects.
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


def read(obj: Foreign) -> Manifest:
    """The manifest of one object that is only read; views of bodies will do. Raises TypeError for what is no object."""
    found = MappingManifest(obj) if isinstance(obj, Mapping) else _recognized(obj)
    if found is None:
        raise _unsupported(obj)
    return found


def field_of(value: Any, key: str) -> Any:
    """A field of a mapping or of a model by its name in the API; None when it is absent."""
    return value.get(key) if isinstance(value, Mapping) else getattr(value, _attribute(value, key), None)


def _recognized(obj: Any) -> Manifest | None:
    if hasattr(obj, "attribute_map"):
        # Also of classes that inherit from a model.
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
