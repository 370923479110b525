"""Objects of other libraries are read and changed here as if all were mappings in the form of the API.

Known are dicts and other mutable mappings, pykube's `APIObject`, and the models of `kubernetes` and `kubernetes_asyncio`. None of
these libraries is imported: a model is recognized by what it is made of, and brings its library with it.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias

from .causation.fields import FieldPath

Foreign: TypeAlias = Any
"""A mapping, a pykube object or a model."""

_MODEL_LIBRARIES = frozenset({"kubernetes", "kubernetes_asyncio"})


class Manifest(Protocol):
    """One object, its fields named as in the API whatever they are called in its library."""

    def get(self, path: FieldPath) -> Any:
        """The value at a path, None when it is absent; values are the library's own."""

    def set(self, path: FieldPath, value: Any) -> None:
        """Set the value at a path; what is absent on the way is made. The value is plain and is converted."""

    def nested(self, path: FieldPath) -> "Iterator[Manifest]":
        """The objects at a path: none when it is absent, one, or those of a list."""


class MappingManifest:
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

    def nested(self, path: FieldPath) -> Iterator[Manifest]:
        """The objects at a path."""
        value = self.get(path)
        return iter(()) if value is None else each(value)


class ModelManifest:
    """A manifest over a model of `kubernetes` or `kubernetes_asyncio`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._library = importlib.import_module(f"{type(model).__module__.partition('.')[0]}.client.models")

    def get(self, path: FieldPath) -> Any:
        """The value at a path, None when it is absent."""
        value = self._model
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else getattr(value, _attribute(value, key), None)
        return value

    def set(self, path: FieldPath, value: Any) -> None:
        """Set the value at a path: metadata and owner references become models. Raises AttributeError for unknown fields."""
        model = self._model
        for key in path[:-1]:
            attribute = _attribute(model, key)
            if getattr(model, attribute) is None:
                made = self._library.V1ObjectMeta() if key == "metadata" else {}
                setattr(model, attribute, made)
            model = getattr(model, attribute)
        if path[-1] == "ownerReferences":
            value = [self._as_reference(item) if isinstance(item, Mapping) else item for item in value]
        if isinstance(model, MutableMapping):
            model[path[-1]] = value
        else:
            setattr(model, _attribute(model, path[-1]), value)

    def nested(self, path: FieldPath) -> Iterator[Manifest]:
        """The objects at a path."""
        value = self.get(path)
        return iter(()) if value is None else each(value)

    def _as_reference(self, reference: Mapping[str, Any]) -> Any:
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
    if type(obj).__module__.partition(".")[0] in _MODEL_LIBRARIES and hasattr(obj, "attribute_map"):
        return ModelManifest(obj)
    inner = getattr(obj, "obj", None)
    return MappingManifest(inner) if isinstance(inner, MutableMapping) else None


def _attribute(model: Any, key: str) -> str:
    names: dict[str, str] = {api_name: attribute for attribute, api_name in getattr(model, "attribute_map", {}).items()}
    return names.get(key, key)


def _unsupported(obj: Any) -> TypeError:
    return TypeError(
        f"K8s object class is not supported: {type(obj)}. "
        "Give a dict, a pykube object, a model of a kubernetes client, or lists of these."
    )
