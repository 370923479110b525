"""Owner references: who controls an object, and how a child is made to belong to its parent.

Pure functions of decoded bodies; those that change a body say so. The rules are those of the Kubernetes garbage collector: an owner
is in the namespace of its child or cluster-scoped, and at most one of the owners controls.
"""

import hashlib
from collections.abc import Mapping, MutableMapping
from typing import Any

from ...client.objects import Metadata, OwnerRef

Body = Mapping[str, Any]


class OwnershipError(Exception):
    """A child cannot belong to this owner; the message says why."""


def controller_of(metadata: Metadata) -> OwnerRef | None:
    """The reference of the owner that controls the object, if any does."""
    return next((reference for reference in metadata.owner_references or () if reference.controller), None)


def is_controlled_by(metadata: Metadata, uid: str) -> bool:
    """Whether the owner with this uid controls the object."""
    reference = controller_of(metadata)
    return reference is not None and reference.uid == uid


def object_reference(body: Body) -> dict[str, str]:
    """What other objects (Events, for one) name an object by: apiVersion, kind, name, uid, namespace; absent ones are left out."""
    metadata = body.get("metadata") or {}
    found = {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "namespace": metadata.get("namespace"),
    }
    return {name: value for name, value in found.items() if value}


def owner_reference(
    body: Body, *, controller: bool | None = True, block_owner_deletion: bool | None = True
) -> dict[str, Any]:
    """An entry for `metadata.ownerReferences` that names the body as the owner; None leaves a flag out."""
    metadata = body.get("metadata") or {}
    found = {
        "controller": controller,
        "blockOwnerDeletion": block_owner_deletion,
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }
    return {name: value for name, value in found.items() if value is not None}


def own(child: MutableMapping[str, Any], owner: Body, *, controller: bool = True) -> bool:
    """Add the owner to the child, in place, or correct its entry; tells whether anything changed.

    Raises OwnershipError when another owner controls the child, when the owner is in another namespace (the garbage collector would
    delete the child), or when the owner is not stored yet and so has no uid.
    """
    reference = owner_reference(owner, controller=controller)
    _check(child, owner, reference)
    metadata = child.setdefault("metadata", {})
    references: list[dict[str, Any]] = list(metadata.get("ownerReferences") or ())
    for index, known in enumerate(references):
        if known.get("uid") == reference["uid"]:
            if known == reference:
                return False
            references[index] = reference
            break
        if controller and known.get("controller"):
            raise OwnershipError(
                f"{_name(child)} is controlled by {known.get('kind')} {known.get('name')!r} and cannot be controlled by {_name(owner)} as well; "
                "leave it alone, or own it with controller=False."
            )
    else:
        references.append(reference)
    metadata["ownerReferences"] = references
    return True


def _check(child: Body, owner: Body, reference: Mapping[str, Any]) -> None:
    missing = [name for name in ("apiVersion", "kind", "name", "uid") if not reference.get(name)]
    if missing:
        raise OwnershipError(
            f"{_name(owner)} cannot own anything without its {', '.join(missing)}; use the body that the server gave."
        )
    namespace = (owner.get("metadata") or {}).get("namespace")
    theirs = (child.get("metadata") or {}).get("namespace")
    if namespace is not None and theirs is not None and theirs != namespace:
        raise OwnershipError(
            f"{_name(owner)} cannot own {_name(child)} in another namespace: the garbage collector would delete it."
        )


def disown(child: MutableMapping[str, Any], uid: str) -> bool:
    """Remove the owner with this uid from the child, in place; tells whether it was there."""
    metadata = child.get("metadata") or {}
    references = metadata.get("ownerReferences") or ()
    left = [reference for reference in references if reference.get("uid") != uid]
    if len(left) == len(references):
        return False
    metadata["ownerReferences"] = left
    return True


def adopt(child: MutableMapping[str, Any], owner: Body, *, suffix: str | None = None) -> None:
    """Make a new child of the owner, in place: controlled by it, in its namespace, and with a name that says whose it is.

    What the child has already stays. `suffix`: the child of this purpose has one name, `{owner}-{suffix}` (see `child_name`), so that a
    repeated attempt finds it instead of making another; None: `generateName` with the owner's name.
    Raises OwnershipError as `own` does.
    """
    metadata = child.setdefault("metadata", {})
    ours = owner.get("metadata") or {}
    if ours.get("namespace") is not None:
        metadata.setdefault("namespace", ours["namespace"])
    own(child, owner)
    if "name" not in metadata and "generateName" not in metadata:
        if suffix is None:
            metadata["generateName"] = f"{ours['name']}-"
        else:
            metadata["name"] = child_name(ours["name"], suffix)


def child_name(owner: str, suffix: str, *, limit: int = 63) -> str:
    """A name for the child of this owner and purpose: always the same, and never longer than `limit` characters.

    Too long ones are cut and end with a hash of the whole, so that they stay different. 63 fits any label and any Service.
    """
    name = f"{owner}-{suffix}"
    if len(name) <= limit:
        return name
    digest = hashlib.blake2s(name.encode(), digest_size=5).hexdigest()
    return f"{name[: limit - len(digest) - 1].rstrip('-.')}-{digest}"


def _name(body: Body) -> str:
    metadata = body.get("metadata") or {}
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return (
        f"{body.get('kind') or 'object'} {where}{metadata.get('name') or metadata.get('generateName') or '(no name)'}"
    )
