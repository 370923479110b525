"""Children are tied to their owners: by references, names, namespaces and labels.

All functions change the objects in place, before they are created; nothing is sent. Existing labels and owner references are
added to, not replaced: other objects that share the dict or list see the change (as under Kopf). Objects are dicts, objects of
pykube or kr8s, models of the kubernetes clients, or nested lists of these. In a handler, the default owner is the handled
object; elsewhere, LookupError is raised without an owner.
"""

import enum
import warnings
from collections.abc import Iterable, Mapping, MutableMapping
from itertools import chain
from typing import Any, Final

from ..causes.causes import ResourceCause, current_cause
from ..causes.fields import FieldSpec, parse_field
from ..causes.views import Body, ObjectReference, OwnerReference
from .object_adapters import AnyObject, Manifest, each, field_of, read


class _Unset(enum.Enum):
    TOKEN = enum.auto()


_UNSET: Final = _Unset.TOKEN

Objects = AnyObject | Iterable[AnyObject]
Owner = Body | Mapping[str, Any] | AnyObject
Nested = str | Iterable[FieldSpec] | None


def build_object_reference(body: Owner) -> ObjectReference:
    """A reference to an object; unknown and empty fields are left out."""
    return read(body).reference()  # type: ignore[return-value]


def build_owner_reference(
    body: Owner, *, controller: bool | None = True, block_owner_deletion: bool | None = True
) -> OwnerReference:
    """A reference from a child to its owner; unknown fields and flags that are None are left out."""
    manifest = read(body)
    reference = {
        "controller": controller,
        "blockOwnerDeletion": block_owner_deletion,
        "apiVersion": manifest.get(("apiVersion",)),
        "kind": manifest.get(("kind",)),
        "name": manifest.get(("metadata", "name")),
        "uid": manifest.get(("metadata", "uid")),
    }
    return {key: value for key, value in reference.items() if value is not None}  # type: ignore[return-value]


def append_owner_reference(
    objs: Objects,
    owner: Owner | None = None,
    *,
    controller: bool | None = True,
    block_owner_deletion: bool | None = True,
) -> None:
    """Add the owner to the objects, unless they have it already: the garbage collector deletes them after it."""
    reference = build_owner_reference(_owner(owner), controller=controller, block_owner_deletion=block_owner_deletion)
    for obj in each(objs):
        known = obj.owners()
        if not any(field_of(other, "uid") == reference.get("uid") for other in known):
            known.append(obj.refer(reference))


def remove_owner_reference(objs: Objects, owner: Owner | None = None) -> None:
    """Remove the owner from the objects, by its uid; other owners stay."""
    uid = read(_owner(owner)).get(("metadata", "uid"))
    for obj in each(objs):
        known = obj.owners()
        known[:] = [reference for reference in known if field_of(reference, "uid") != uid]


def label(
    objs: Objects,
    labels: Mapping[str, str | None] | _Unset | None = _UNSET,
    *,
    forced: bool = False,
    nested: Nested = None,
    force: bool | None = None,
) -> None:
    """Put labels on the objects: those given, or the owner's. Existing labels are kept unless it is forced.

    `nested` are fields with objects in them, such as the pod template of a Deployment; absent ones are skipped, and of a list
    each item is labelled. A tuple is several fields, not the keys of one.
    `force` is the old name of `forced`.
    """
    if force is not None:
        warnings.warn(
            "force= is deprecated in kopf.label(); use forced=... It means the same.", DeprecationWarning, stacklevel=2
        )
        forced = force
    if labels is None or isinstance(labels, _Unset):
        labels = read(_owner(None)).get(("metadata", "labels")) or {}
    fields = [nested] if isinstance(nested, str) else list(nested or ())
    for obj in each(objs):
        inner = (each(obj.get(parse_field(path))) for path in fields)
        for target in chain([obj], *inner):
            known = target.labels()
            known.update({key: value for key, value in labels.items() if forced or key not in known})


def harmonize_naming(
    objs: Objects, name: str | _Unset | None = _UNSET, *, forced: bool = False, strict: bool = False
) -> None:
    """Name the objects after their owner, or as given: exactly when it is strict, else by `generateName`.

    Objects with a name or a `generateName` keep it unless it is forced. Raises LookupError when there is no name.
    """
    name = _given(name, ("metadata", "name"))
    if name is None:
        raise LookupError("Name must be set explicitly: couldn't find it automatically.")
    wanted, other = ("name", "generateName") if strict else ("generateName", "name")
    for obj in each(objs):
        if forced or not (_has(obj, "name") or _has(obj, "generateName")):
            _drop(obj, other)
            obj.set(("metadata", wanted), name if strict else f"{name}-")


def adjust_namespace(objs: Objects, namespace: str | _Unset | None = _UNSET, *, forced: bool = False) -> None:
    """Put the objects into their owner's namespace, or the one given. Objects with a namespace keep it unless it is forced."""
    namespace = _given(namespace, ("metadata", "namespace"))
    for obj in each(objs):
        if forced or obj.get(("metadata", "namespace")) is None:
            obj.set(("metadata", "namespace"), namespace)


def adopt(
    objs: Objects,
    owner: Owner | None = None,
    *,
    forced: bool = False,
    strict: bool = False,
    nested: Nested = None,
) -> None:
    """Make the objects children of the owner: reference, name, namespace and labels at once."""
    parent = _owner(owner)
    manifest = read(parent)
    # The objects may come from a generator.
    children = list(each(objs))
    append_owner_reference(children, parent)
    harmonize_naming(children, manifest.get(("metadata", "name")), forced=forced, strict=strict)
    adjust_namespace(children, manifest.get(("metadata", "namespace")), forced=forced)
    label(children, manifest.get(("metadata", "labels")) or {}, forced=forced, nested=nested)


def _owner(owner: Owner | None) -> Owner:
    if owner is not None:
        return owner
    cause = current_cause.get(None)
    if isinstance(cause, ResourceCause):
        return cause.body
    raise LookupError("Owner must be set explicitly, since running outside of a handler.")


def _given(value: str | _Unset | None, path: tuple[str, str]) -> str | None:
    return read(_owner(None)).get(path) if isinstance(value, _Unset) else value


def _has(obj: Manifest, key: str) -> bool:
    metadata = obj.get(("metadata",))
    # In mappings a null counts too: it was set on purpose. Models have all keys.
    return key in metadata if isinstance(metadata, Mapping) else field_of(metadata, key) is not None


def _drop(obj: Manifest, key: str) -> None:
    metadata = obj.get(("metadata",))
    if isinstance(metadata, MutableMapping):
        metadata.pop(key, None)
    elif metadata is not None:
        obj.set(("metadata", key), None)
