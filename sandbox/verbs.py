"""The write verbs change the store by the API server's rules: create, replace, patch, delete."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from . import checks, conversion, defaults, definitions, deletion, metadata, patching, protobuf, status, updating
from .deletion import DeleteOptions
from .history import Stored
from .resources import Resource, object_key
from .store import Store, seal

_FOREIGN_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"
_NAME_LIMIT: Final = 63 - 5
_ATTEMPTS: Final = 8


@dataclass(frozen=True)
class Call:
    """What a write takes from the world: the second it happens in, and sources of identity."""

    now: str
    uid: Callable[[], str]
    suffix: Callable[[], str]
    dry_run: bool = False


@dataclass(frozen=True)
class Target:
    """What a write is about: a resource, a namespace (None for cluster-wide kinds), a name, a subresource."""

    resource: Resource
    namespace: str | None
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True)
class Removed:
    """The outcome of a DELETE: the object afterwards, and whether it is gone."""

    stored: Stored
    gone: bool


class Verbs:
    """The rules of writing over a store.

    Every method raises `status.Refused` with the server's answer when the write is not allowed; the store
    is then unchanged. A write that changes nothing makes no version and no event.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, target: Target, body: Mapping[str, Any], call: Call) -> Stored:
        """Store a new object. A missing name is generated; a taken one is a 409."""
        resource = target.resource
        new = _bare(resource, body)
        self._place(target, new["metadata"])
        if not new["metadata"].get("name") and new["metadata"].get("generateName"):
            new["metadata"]["name"] = self._generate(target, new["metadata"]["generateName"], call)
        name = new["metadata"].get("name", "")
        if new["metadata"].get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise status.Refused(500, "", message)
        self._check_namespace(target, name)
        self._check_definition(resource, name)
        _initialise(resource, new, call)
        causes = metadata.problems(resource, new["metadata"])
        causes += checks.problems(resource, new)
        if causes:
            raise status.invalid(resource.subject, name, causes)
        if self._store.get(resource, target.namespace, name) is not None:
            raise status.already_exists(resource.subject, name)
        return self._put(resource, new, call)

    def replace(self, target: Target, body: Mapping[str, Any], call: Call) -> tuple[Stored, bool]:
        """Store the given state (PUT); also tells whether the object is new (some kinds are created by PUT)."""
        resource = target.resource
        new = _bare(resource, body)
        given = new["metadata"].get("name")
        if given != target.name:
            if not given:
                words = f"the name of the object ({target.name} based on URL) was undeterminable"
                raise status.bad_request(f"{words}: name must be provided")
            message = f"the name of the object ({given}) does not match the name on the URL ({target.name})"
            raise status.bad_request(message)
        if new["metadata"].get("namespace", target.namespace) != target.namespace:
            raise status.bad_request(_FOREIGN_NAMESPACE)
        stored = self._store.get(resource, target.namespace, target.name)
        if stored is None:
            if not resource.traits.create_on_update or target.subresource:
                raise status.not_found(resource.subject, target.name)
            new["metadata"].pop("resourceVersion", None)
            return self.create(target, {**new}, call), True
        uid = new["metadata"].get("uid")
        if uid and uid != stored.uid:
            raise status.conflict(resource.subject, target.name, _uid_mismatch(target, uid, stored.uid))
        return self._update(target, stored, new, call), False

    def patch(self, target: Target, patch: bytes, content_type: str, call: Call) -> Stored:
        """Store the patched state. The version the patch asks for, if any, must be the current one."""
        resource = target.resource
        stored = self._store.get(resource, target.namespace, target.name)
        if stored is None:
            # The type of the patch is judged before the object is looked for.
            patching.check_type(content_type.partition(";")[0].strip(), custom=resource.custom)
            raise status.not_found(resource.subject, target.name)
        whole = {"apiVersion": resource.group_version, "kind": resource.kind}
        whole.update(conversion.outward(resource, stored.decode()))
        patched = patching.apply(whole, patch, content_type, custom=resource.custom)
        if resource.custom:
            _check_custom(resource, patched)
        try:
            new = _bare(resource, patched)
        except status.Mistyped as fault:
            shown = msgspec.json.encode(patched).decode()
            raise status.invalid(status.Subject("", "", ""), "", [status.wrong("patch", shown, fault.words)]) from None
        return self._update(target, stored, new, call)

    def delete(self, target: Target, options: DeleteOptions, call: Call) -> Removed:
        """Remove an object, or mark it while finalizers or a grace period hold it."""
        resource = target.resource
        stored = self._store.get(resource, target.namespace, target.name)
        if stored is None:
            raise status.not_found(resource.subject, target.name)
        body = stored.decode()
        deletion.check(resource, body["metadata"], options)
        before = stored.decode()
        free = deletion.mark(resource, body, options, call.now)
        if free:
            if not (options.dry_run or call.dry_run):
                self._store.remove(resource, stored)
            # Pods show the mark that a graceful deletion of zero seconds made; watchers see the state before.
            return Removed(seal(resource, body, stored.version) if resource.bucket == "pods" else stored, True)
        if options.dry_run or call.dry_run:
            return Removed(seal(resource, body, stored.version), False)
        if body == before:
            return Removed(stored, False)
        return Removed(self._store.put(resource, body), False)

    def edit(self, resource: Resource, stored: Stored, change: Callable[[dict[str, Any]], None]) -> Stored:
        """Change an object as the server's own controllers do: no checks, but deletion when it is due."""
        body = stored.decode()
        change(body)
        if deletion.due(resource, body):
            return self._store.remove(resource, stored)
        return stored if body == stored.decode() else self._store.put(resource, body)

    def _update(self, target: Target, stored: Stored, new: dict[str, Any], call: Call) -> Stored:
        resource = target.resource
        updating.check_version(resource, target.name, new["metadata"].get("resourceVersion"), stored.version)
        old = stored.decode()
        name = new["metadata"].setdefault("name", target.name)
        if name != target.name:
            message = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            raise status.bad_request(message)
        if new["metadata"].get("namespace", target.namespace) != target.namespace:
            raise status.bad_request(_FOREIGN_NAMESPACE)
        if target.namespace:
            new["metadata"].setdefault("namespace", target.namespace)
        new["metadata"]["resourceVersion"] = str(stored.version)
        found = updating.prepare(resource, old, new, target.subresource)
        updating.check(resource, old, found)
        if "deletionTimestamp" in old["metadata"] and deletion.due(resource, found):
            # Watchers see the last stored state; the answer shows the one without finalizers.
            if not call.dry_run:
                self._store.remove(resource, stored)
            return seal(resource, found, stored.version)
        if found == old:
            return stored
        if call.dry_run:
            return seal(resource, found, stored.version)
        return self._store.put(resource, found)

    def _put(self, resource: Resource, body: dict[str, Any], call: Call) -> Stored:
        return seal(resource, body, 0) if call.dry_run else self._store.put(resource, body)

    def _generate(self, target: Target, base: str, call: Call) -> str:
        """A free name; as on the real server a few collisions are tried again."""
        for _ in range(_ATTEMPTS):
            name = base[:_NAME_LIMIT] + call.suffix()
            if self._store.get(target.resource, target.namespace, name) is None:
                return name
        return name

    def _place(self, target: Target, meta: dict[str, Any]) -> None:
        """Give the object the namespace of the request; another one is a 400."""
        given = meta.get("namespace")
        if given and given != target.namespace:
            raise status.bad_request(_FOREIGN_NAMESPACE)
        if target.namespace is not None:
            meta["namespace"] = target.namespace

    def _check_definition(self, resource: Resource, name: str) -> None:
        """A definition that is about to go takes no new objects."""
        definition = self._store.bucket(definitions.BUCKET).objects.get(resource.bucket)
        if definition is not None and definition.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise status.forbidden(resource.subject, name, why)

    def _check_namespace(self, target: Target, name: str) -> None:
        """The namespace of a new object must exist and not be about to go."""
        if target.namespace is None:
            return
        spaces = self._store.bucket("namespaces")
        found = spaces.objects.get(object_key(None, target.namespace))
        if found is None:
            raise status.not_found(status.Subject("", "namespaces", "Namespace"), target.namespace)
        if found.terminating:
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {target.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise status.forbidden(target.resource.subject, name, why, [cause])


def _bare(resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body without apiVersion and kind, which must fit, and with clean metadata."""
    _check_kind(resource, body)
    new = {"metadata": metadata.clean(resource, body.get("metadata"))}
    stored = conversion.inward(resource, body)
    # Unknown fields of built-in kinds are dropped, as Go's decoder does (here on the top level only).
    known = None if resource.custom else protobuf.top_level(resource.kind)
    dropped = {"apiVersion", "kind", "metadata"}
    if known is not None:
        dropped |= stored.keys() - known - {"stringData"}
    new.update({key: value for key, value in stored.items() if key not in dropped})
    checks.check_types(resource, new)
    return new


def _check_kind(resource: Resource, body: Mapping[str, Any]) -> None:
    """Raise a 400 when apiVersion or kind are not those of the resource; built-in kinds may leave them out."""
    kind, version = body.get("kind"), body.get("apiVersion")
    if resource.custom:
        if not kind:
            raw = msgspec.json.encode(body).decode()
            words = f"Object 'Kind' is missing in '{raw}' ({raw})"
            raise status.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {words}")
        if version != resource.group_version:
            expected = f"does not match the expected API version ({resource.group_version})"
            raise status.bad_request(f"the API version in the data ({version or ''}) {expected}")
        _check_custom(resource, body)
    problem = None
    if kind is not None and kind != resource.kind:
        internal = f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"
        problem = f"converting ({resource.group_version}.{kind}) to ({internal}): unknown conversion"
    elif version is not None and version != resource.group_version:
        problem = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
    if problem is not None:
        told = str(version or resource.group_version).rpartition("/")[2]
        message = f'{kind} in version "{told}" cannot be handled as a {resource.kind}: {problem}'
        raise status.Mistyped(message, problem)


def _check_custom(resource: Resource, body: Mapping[str, Any]) -> None:
    """Raise a 422 when apiVersion or kind of a custom object are not those of the resource."""
    expected = {"apiVersion": resource.group_version, "kind": resource.kind}
    causes = [
        status.wrong(field, body.get(field), f"must be {value}")
        for field, value in expected.items()
        if body.get(field) != value
    ]
    if causes:
        meta = body.get("metadata")
        name = str(meta.get("name", "")) if isinstance(meta, dict) else ""
        subject = status.Subject(resource.group, resource.plural, str(body.get("kind")))
        raise status.invalid(subject, name, causes)


def _initialise(resource: Resource, new: dict[str, Any], call: Call) -> None:
    """Fill what the system owns in a new object."""
    meta = new["metadata"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        meta.pop(field, None)
    meta["uid"] = call.uid()
    meta["creationTimestamp"] = call.now
    if resource.traits.generation:
        meta["generation"] = 1
    if resource.has_status:
        new.pop("status", None)
    if meta.get("name"):
        defaults.fill(resource, new)


def _uid_mismatch(target: Target, given: str, found: str) -> str:
    resource = target.resource
    path = f"/registry/{resource.group}/{resource.plural}" if resource.custom else f"/registry/{resource.plural}"
    key = f"{path}/{object_key(target.namespace, target.name)}"
    why = f"Precondition failed: UID in precondition: {given}, UID in object meta: {found}"
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
