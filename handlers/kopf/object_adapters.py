"""Adapters for objects of other libraries: all are read and changed as if they were mappings in the form of the API.

These are dicts and other mutable mappings, `APIObject` of pykube and kr8s, and models of `kubernetes` and `kubernetes_asyncio`.
No library is imported to recognize its objects: models by their attributes and the modules of their classes. Changes are made
in place: existing mappings and lists stay the same objects, since manifests may share them.
"""

import importlib
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


class Manifest:
    """One object, its fields named as in the API."""

    def __init__(self, data: Any, library: str | None = None) -> None:
        """Take a mapping, or a model of a library."""
        self._data = data
        self._models = None if library is None else importlib.import_module(f"{library}.client.models")

    def get(self, path: FieldPath) -> Any:
        """The value at a path, None when it is absent; values are the library's own."""
        value = self._data
        for key in path:
            value = field_of(value, key)
        return value

    def set(self, path: FieldPath, value: Any) -> None:
        """Set the value at a path; absent mappings on the way are made. Raises TypeError for a read-only mapping."""
        data = self._data
        for key in path[:-1]:
            if field_of(data, key) is None:
                made = {} if self._models is None or key != "metadata" else self._models.V1ObjectMeta()
                _set_field(data, key, made)
            data = field_of(data, key)
        _set_field(data, path[-1], value)

    def reference(self) -> dict[str, Any]:
        """A reference to the object; unknown and empty fields are left out."""
        found = {key: self.get((key,)) for key in ("apiVersion", "kind")}
        found |= {key: self.get(("metadata", key)) for key in ("name", "uid", "namespace")}
        return {key: value for key, value in found.items() if value}

    def refer(self, reference: Mapping[str, Any]) -> Any:
        """A reference in the form of those of `owners()`."""
        if self._models is None:
            return dict(reference)
        cls = self._models.V1OwnerReference
        return cls(**{_attribute(cls, key): value for key, value in reference.items()})

    def labels(self) -> MutableMapping[str, Any]:
        """The labels themselves, to be changed; made if they are absent."""
        return self._made(LABELS, {})  # type: ignore[no-any-return]

    def owners(self) -> MutableSequence[Any]:
        """The owner references themselves, to be changed; made if they are absent."""
        return self._made(OWNERS, [])  # type: ignore[no-any-return]

    def _made(self, path: FieldPath, empty: Any) -> Any:
        if self.get(path) is None:
            self.set(path, empty)
        # Read again: some mappings convert their values.
        return self.get(path)


def each(objs: AnyObject | Iterable[AnyObject] | None, *, writable: bool = True) -> Iterator[Manifest]:
    """The manifests of one object, or of all in nested iterables; None is skipped.

    Raises TypeError for other values, and, if they must be writable, for read-only views of objects.
    """
    if objs is None:
        return
    if isinstance(objs, Manifest):
        yield objs
    elif isinstance(objs, MutableMapping) or (isinstance(objs, Mapping) and not writable):
        yield Manifest(objs)
    elif (found := _recognized(objs)) is not None:
        yield found
    elif isinstance(objs, Iterable) and not isinstance(objs, (Mapping, str, bytes)):
        for obj in objs:
            yield from each(obj, writable=writable)
    else:
        raise _unsupported(objs)


def read(obj: AnyObject) -> Manifest:
    """The manifest of one object to be read only; may be a view. Raises TypeError for other values."""
    found = Manifest(obj) if isinstance(obj, Mapping) else _recognized(obj)
    if found is None:
        raise _unsupported(obj)
    return found


def field_of(value: Any, key: str) -> Any:
    """A field of a mapping or of a model by its name in the API; None when it is absent."""
    return value.get(key) if isinstance(value, Mapping) else getattr(value, _attribute(value, key), None)


def _set_field(value: Any, key: str, field: Any) -> None:
    if isinstance(value, Mapping):
        value[key] = field  # type: ignore[index]  # a read-only one refuses
    else:
        setattr(value, _attribute(value, key), field)


def _recognized(obj: Any) -> Manifest | None:
    if hasattr(obj, "attribute_map"):
        # Classes of users may inherit from a model.
        libraries = (base.__module__.partition(".")[0] for base in type(obj).__mro__)
        if (library := next((name for name in libraries if name in _MODEL_LIBRARIES), None)) is not None:
            return Manifest(obj, library)
    inner = (getattr(obj, name, None) for name in _INNER)
    return next((Manifest(found) for found in inner if isinstance(found, MutableMapping)), None)


def _attribute(model: Any, key: str) -> str:
    names: dict[str, str] = {api_name: attribute for attribute, api_name in getattr(model, "attribute_map", {}).items()}
    return names.get(key, key)


def _unsupported(obj: Any) -> TypeError:
    return TypeError(
        f"K8s object class is not supported: {type(obj)}. "
        "Give a dict, an object of pykube or kr8s, a model of a kubernetes client, or lists of these."
    )
