"""Deletion marks an object while finalizers or a grace period hold it, and says when it is due to go."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from . import definitions
from .reading import number
from .resources import Resource
from .status import Subject, bad_request, conflict, forbidden, invalid, unsupported

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
IMMORTAL_NAMESPACES: Final = frozenset({"default", "kube-public", "kube-system"})

_POLICIES: Final = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True)
class DeleteOptions:
    """What a DELETE asks for; see `options_from`."""

    uid: str | None = None
    resource_version: str | None = None
    grace: int | None = None
    propagation: str | None = None
    dry_run: bool = False


def options_from(query: Mapping[str, str], body: Any) -> DeleteOptions:
    """The options of a DELETE from its body, or from the query when there is no body."""
    if body is not None and not isinstance(body, Mapping):
        raise bad_request("decoded object cannot be converted to DeleteOptions")
    given = body or {}
    asked = query.get("gracePeriodSeconds")
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds", None if asked is None else number(asked))
    if grace is not None and not isinstance(grace, int):
        raise bad_request("decoded object cannot be converted to DeleteOptions: gracePeriodSeconds is no number")
    propagation = given.get("propagationPolicy", query.get("propagationPolicy"))
    orphan = given.get("orphanDependents", query.get("orphanDependents"))
    if propagation is None and orphan is not None:
        propagation = "Orphan" if orphan in (True, "true") else "Background"
    if propagation is not None and propagation not in _POLICIES:
        cause = unsupported("propagationPolicy", propagation, ("Foreground", "Background", "Orphan", "nil"))
        raise invalid(Subject("meta.k8s.io", "", "DeleteOptions"), "", [cause])
    return DeleteOptions(
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        grace=None if grace is None else max(grace, 0),
        propagation=propagation,
        dry_run=bool(given.get("dryRun")) or bool(query.get("dryRun")),
    )


def check(resource: Resource, meta: Mapping[str, Any], options: DeleteOptions) -> None:
    """Raise a 409 when a precondition is not met, a 403 for what may never be deleted."""
    name = meta["name"]
    # The server names the kind instead of the plural in these two sentences.
    subject = Subject(resource.group, resource.kind, resource.kind)
    if options.uid is not None and options.uid != meta["uid"]:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']})"
        raise conflict(subject, name, f"{why}. The object might have been deleted and then recreated")
    version = meta["resourceVersion"]
    if options.resource_version is not None and options.resource_version != version:
        why = f"the ResourceVersion in the precondition ({options.resource_version}) does not match"
        raise conflict(
            subject, name, f"{why} the ResourceVersion in record ({version}). The object might have been modified"
        )
    if resource.bucket == "namespaces" and name in IMMORTAL_NAMESPACES:
        raise forbidden(resource.subject, name, "this namespace may not be deleted")


def _grace(resource: Resource, body: Mapping[str, Any], options: DeleteOptions) -> int:
    """Seconds that a pod is given to end; other kinds and pods that never ran go at once."""
    if resource.bucket != "pods":
        return 0
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    return options.grace if options.grace is not None else int(spec.get("terminationGracePeriodSeconds", 30))


def _finalizers(meta: Mapping[str, Any], propagation: str | None) -> list[str]:
    """The finalizers with those that ask the garbage collector for a propagation policy."""
    found = list(meta.get("finalizers", ()))
    if propagation is None:
        return found
    found = [name for name in found if name not in (ORPHAN, FOREGROUND)]
    wanted = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(propagation, [])
    return [*found, *wanted]


def mark(resource: Resource, body: dict[str, Any], options: DeleteOptions, now: str) -> bool:
    """Mark the body for deletion in place; True when nothing holds the object and it may be removed now.

    A marked object stays marked with its first timestamp; a shorter grace period may replace a longer one.
    """
    meta = body["metadata"]
    if resource.bucket == definitions.BUCKET:
        if "deletionTimestamp" not in meta:
            definitions.terminate(body, now)
        return False
    finalizers = _finalizers(meta, options.propagation)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    grace = _grace(resource, body, options)
    held = bool(finalizers) or (resource.bucket == "namespaces" and bool((body.get("spec") or {}).get("finalizers")))
    pending = meta.get("deletionGracePeriodSeconds", 0)
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = _later(now, grace)
        if resource.bucket != "namespaces":
            meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta and (held or grace or resource.bucket == "pods"):
            meta["generation"] += 1
    elif pending and options.grace is not None and options.grace < pending:
        begun = _later(meta["deletionTimestamp"], -pending)
        meta["deletionTimestamp"] = max(_later(begun, options.grace), now)
        grace = meta["deletionGracePeriodSeconds"] = options.grace
    else:
        grace = pending
    if resource.bucket == "namespaces":
        body["status"] = {**(body.get("status") or {}), "phase": "Terminating"}
    return not held and grace == 0


def due(resource: Resource, body: Mapping[str, Any]) -> bool:
    """Whether an updated object that is marked has nothing left to wait for."""
    meta = body["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return not (resource.bucket == "namespaces" and (body.get("spec") or {}).get("finalizers"))


def _later(now: str, seconds: int) -> str:
    moment = datetime.fromisoformat(now) + timedelta(seconds=seconds)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
