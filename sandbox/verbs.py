"""The write verbs change the store by the API server's rules: create, replace, patch, delete."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from . import (
    bodies,
    checks,
    conversion,
    defaults,
    definitions,
    deletion,
    managing,
    metadata,
    ownership,
    patching,
    status,
    updating,
)
from .deletion import DeleteOptions
from .history import Stored
from .ownership import Writer
from .patterns import Patience
from .resources import Resource, object_key
from .store import Store, seal

_FOREIGN_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"
_NAME_LIMIT: Final = 63 - 5
_ATTEMPTS: Final = 8


@dataclass(frozen=True)
class Call:
    """What a write takes from the world: the second it happens in, sources of identity, and whose it is.

    `manager` is the name under which fields are managed (None: nobody keeps book); `through` is the subresource
    that is named there when it is not the target's. `patience` is the time for patterns of schemas. `force` takes fields from others in an apply.
    """

    now: str
    uid: Callable[[], str]
    suffix: Callable[[], str]
    patience: Patience
    dry_run: bool = False
    manager: str | None = "sandbox"
    through: str = ""
    force: bool = False
    reading: bodies.Reading = bodies.PLAIN

    def writer(self, target: "Target") -> Writer | None:
        """Who the managed fields of a write belong to."""
        if self.manager is None:
            return None
        return Writer(self.manager, target.resource.group_version, self.through or target.subresource, self.now)


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
        return self._create(target, bodies.bare(target.resource, body, call.reading), call)

    def _create(
        self, target: Target, new: dict[str, Any], call: Call, managers: ownership.Managers | None = None
    ) -> Stored:
        """Store a new object with the managed fields that follow, unless they are given."""
        resource = target.resource
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
        if managers is not None:
            managing.keep_entries(new, managers)
        elif (writer := call.writer(target)) is not None:
            managing.created(resource, new, writer)
        defaults.fill(resource, new)
        causes = metadata.problems(resource, new["metadata"])
        causes += updating.schema_problems(resource, new, call.patience)
        causes += checks.problems(resource, new)
        if causes:
            raise status.invalid(resource.subject, name, causes)
        if self._store.get(resource, target.namespace, name) is not None:
            raise status.already_exists(resource.subject, name)
        return self._put(resource, new, call)

    def replace(self, target: Target, body: Mapping[str, Any], call: Call) -> tuple[Stored, bool]:
        """Store the given state (PUT); also tells whether the object is new (some kinds are created by PUT)."""
        resource = target.resource
        new = bodies.bare(resource, body, call.reading)
        _named(target, new)
        if new["metadata"].get("namespace", target.namespace) != target.namespace:
            raise status.bad_request(_FOREIGN_NAMESPACE)
        stored = self._store.get(resource, target.namespace, target.name)
        if stored is None:
            if not resource.traits.create_on_update or target.subresource:
                raise status.not_found(resource.subject, target.name)
            if uid := new["metadata"].get("uid"):
                raise status.conflict(resource.subject, target.name, _uid_mismatch(target, uid, ""))
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
            bodies.check_custom(resource, patched)
        try:
            new = bodies.bare(resource, patched, call.reading)
        except status.Mistyped as fault:
            shown = msgspec.json.encode(patched).decode()
            raise status.invalid(status.Subject("", "", ""), "", [status.wrong("patch", shown, fault.words)]) from None
        return self._update(target, stored, new, call)

    def apply(self, target: Target, given: Any, call: Call) -> tuple[Stored, bool]:
        """Server-side apply of a decoded configuration; also tells whether the object is new.

        Raises a 409 that names the fields of others which would change, unless the call has `force`.
        """
        resource = target.resource
        stored = self._store.get(resource, target.namespace, target.name)
        if stored is None and target.subresource:
            raise status.not_found(resource.subject, target.name)
        config = managing.check_config(resource, given)
        head = {"apiVersion": resource.group_version, "kind": resource.kind}
        live = {} if stored is None else {**head, **conversion.outward(resource, stored.decode())}
        writer = Writer(call.manager or "", resource.group_version, call.through or target.subresource, call.now)
        found = managing.applied(resource, live, config, writer, force=call.force)
        new = bodies.bare(resource, {**found.body, **head}, replace(bodies.PLAIN, applied=True))
        if stored is not None:
            return self._update(target, stored, new, call, found.managers), False
        name = _named(target, new)
        if uid := new["metadata"].get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise status.conflict(resource.subject, name, why)
        new["metadata"].pop("resourceVersion", None)
        return self._create(target, new, call, found.managers), True

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

    def edit(
        self,
        resource: Resource,
        stored: Stored,
        change: Callable[[dict[str, Any]], None],
        writer: Writer | None = None,
    ) -> Stored:
        """Change an object as the server's own controllers do: no checks, but deletion when it is due."""
        body = stored.decode()
        change(body)
        if writer is not None:
            given = managing.take_entries(body)
            managing.updated(resource, stored.decode(), body, given, writer)
        if deletion.due(resource, body):
            return self._store.remove(resource, stored)
        return stored if body == stored.decode() else self._store.put(resource, body)

    def _update(
        self,
        target: Target,
        stored: Stored,
        new: dict[str, Any],
        call: Call,
        managers: ownership.Managers | None = None,
    ) -> Stored:
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
        given = managing.take_entries(new)
        found = updating.prepare(resource, old, new, target.subresource)
        updating.check(resource, old, found, call.patience, target.subresource)
        managing.take_entries(found)
        if managers is not None:
            managing.keep_entries(found, managers)
        elif (writer := call.writer(target)) is not None:
            managing.updated(resource, old, found, given, writer)
        else:
            managing.keep_entries(found, ownership.managers_of(old["metadata"].get(ownership.ENTRIES) or ()))
        if "deletionTimestamp" in old["metadata"] and deletion.due(resource, found):
            # Watchers see the last stored state; the answer shows the one without finalizers.
            if not call.dry_run:
                self._store.remove(resource, stored)
            return seal(resource, found, stored.version)
        if _same(old, found):
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
    defaults.complete(resource, new)


def _named(target: Target, body: Mapping[str, Any]) -> str:
    """The name of a body, which must be that of the target. Raises a 400."""
    given: str = body["metadata"].get("name", "")
    if not given:
        words = f"the name of the object ({target.name} based on URL) was undeterminable"
        raise status.bad_request(f"{words}: name must be provided")
    if given != target.name:
        message = f"the name of the object ({given}) does not match the name on the URL ({target.name})"
        raise status.bad_request(message)
    return given


def _same(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether two states differ in nothing but the times of their managed fields."""
    if not managing.same_but_for_time(old, new):
        return False
    fields = [{**body, "metadata": {**body["metadata"], ownership.ENTRIES: None}} for body in (old, new)]
    # Python takes True for 1: what seems to be equal is looked at again.
    return fields[0] == fields[1] and msgspec.json.encode(fields[0], order="sorted") == msgspec.json.encode(
        fields[1], order="sorted"
    )


def _uid_mismatch(target: Target, given: str, found: str) -> str:
    resource = target.resource
    path = f"/registry/{resource.group}/{resource.plural}" if resource.custom else f"/registry/{resource.plural}"
    key = f"{path}/{object_key(target.namespace, target.name)}"
    why = f"Precondition failed: UID in precondition: {given}, UID in object meta: {found}"
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
