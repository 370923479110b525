"""Cascades do what the server's controllers do after a write: namespaces, definitions, owners."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from . import definitions, deletion
from .deletion import DeleteOptions
from .history import Change, Stored
from .ownership import Writer
from .registry import Registry
from .resources import Resource
from .store import Store
from .verbs import Call, Target, Verbs


class Streams(Protocol):
    """The open watches, as far as definitions have a say in them."""

    def end_bucket(self, bucket: str) -> None:
        """End all watches of a kind that is no longer served."""

    def restart_bucket(self, bucket: str) -> None:
        """End all watches of a kind whose definition changed; older versions of it are expired for them."""


class Cascades:
    """The follow-up of changes, done by `settle` after each write and before its answer is sent.

    So a client that has its answer finds the consequences done: a definition is served, an emptied
    namespace is gone, dependents of a deleted owner are deleted. On the real server this takes a moment.
    """

    def __init__(self, store: Store, registry: Registry, verbs: Verbs, streams: Streams) -> None:
        self._store = store
        self._registry = registry
        self._verbs = verbs
        self._streams = streams
        self._pending: deque[Change] = deque()
        # Invariant: for each uid the places of the stored objects that name it as an owner.
        self._dependents: dict[str, set[tuple[str, str]]] = {}
        # Invariant: the places of all stored objects by uid.
        self._living: dict[str, tuple[str, str]] = {}
        store.listen(self._note)

    def _note(self, change: Change) -> None:
        self._pending.append(change)
        place = (change.bucket, change.key)
        if change.previous is not None:
            for owner in change.previous.owners:
                found = self._dependents.get(owner, set())
                found.discard(place)
                if not found:
                    self._dependents.pop(owner, None)
        if change.type == "DELETED":
            self._living.pop(change.object.uid, None)
            return
        self._living[change.object.uid] = place
        for owner in change.object.owners:
            self._dependents.setdefault(owner, set()).add(place)

    def settle(self, call: Call) -> None:
        """React to all changes since the last call, and to the changes that this makes."""
        while self._pending:
            self._react(self._pending.popleft(), call)

    def _react(self, change: Change, call: Call) -> None:
        if change.bucket == definitions.BUCKET:
            self._definition(change, call)
        elif change.bucket == "namespaces":
            self._namespace(change.object, call)
        if change.type == "DELETED":
            self._released(change, call)
            self._orphaned(change.object.uid, call)
            return
        if change.type == "MODIFIED":
            self._collect(change.bucket, change.key, call)
        if change.object.owners:
            self._unowned(change, call)

    # Definitions

    def _definition(self, change: Change, call: Call) -> None:
        body = change.object.decode()
        if change.type == "DELETED":
            self._registry.uninstall(change.object.name)
            self._streams.end_bucket(change.object.name)
            return
        self._registry.install(body)
        if change.previous is not None and _respecified(change.previous.decode(), body):
            self._streams.restart_bucket(change.object.name)
        resource = self._registry.of_bucket(definitions.BUCKET)
        current = self._store.get(resource, None, change.object.name)
        if current is None or current.version != change.version:
            return
        if "deletionTimestamp" in body["metadata"]:
            self._empty_definition(resource, current, call)
        elif not definitions.established(body):
            self._verbs.edit(resource, current, lambda found: definitions.establish(found, call.now), _status(call))

    def _empty_definition(self, resource: Resource, stored: Stored, call: Call) -> None:
        """Delete the objects of a definition that is being deleted; when none is left, let it go."""
        custom = next((found for found in self._registry if found.custom and found.bucket == stored.name), None)
        if custom is not None:
            for item in list(self._store.bucket(stored.name).objects.values()):
                self._delete(custom, item, call)
        if not self._store.bucket(stored.name).objects:
            self._drop_finalizer(resource, stored, definitions.CLEANUP)

    # Namespaces

    def _namespace(self, stored: Stored, call: Call) -> None:
        resource = self._registry.of_bucket("namespaces")
        current = self._store.get(resource, None, stored.name)
        if current is None or not current.terminating:
            return
        held = False
        for each in self._registry.storages():
            if each.namespaced:
                for item in self._in_namespace(each, stored.name):
                    held = not self._delete(each, item, call) or held
        if not held:
            self._verbs.edit(resource, current, _finalize)

    def _in_namespace(self, resource: Resource, namespace: str) -> list[Stored]:
        objects = self._store.bucket(resource.bucket).objects
        return [item for item in list(objects.values()) if item.namespace == namespace]

    def _released(self, change: Change, call: Call) -> None:
        """A namespace, definition or owner that waits for its last object may go now."""
        for owner in change.object.owners:
            if owner in self._living:
                self._collect(*self._living[owner], call)
        if change.object.namespace:
            self._namespace(_named(change.object.namespace), call)
        resource = self._registry.of_bucket(definitions.BUCKET)
        definition = self._store.get(resource, None, change.bucket)
        if definition is not None and definition.terminating:
            self._empty_definition(resource, definition, call)

    # Owners

    def _owned(self, uid: str) -> Iterator[tuple[Resource, Stored]]:
        for bucket, key in sorted(self._dependents.get(uid, ())):
            resource = self._registry.of_bucket(bucket)
            stored = self._store.bucket(bucket).objects.get(key)
            if stored is not None:
                yield resource, stored

    def _orphaned(self, uid: str, call: Call) -> None:
        """Delete the objects whose last living owner is gone; others lose the reference to it."""
        for resource, stored in list(self._owned(uid)):
            if any(owner in self._living for owner in stored.owners):
                self._verbs.edit(resource, stored, lambda body: _disown(body, uid), _collector(resource, call))
            else:
                self._delete(resource, stored, call)

    def _unowned(self, change: Change, call: Call) -> None:
        """Delete an object all of whose owners are absent, if they are of kinds that are served."""
        if any(owner in self._living for owner in change.object.owners):
            return
        stored = self._store.bucket(change.bucket).objects.get(change.key)
        if stored is None or stored.version != change.version or stored.terminating:
            return
        references = stored.decode()["metadata"].get("ownerReferences", ())
        if all(self._registry.of_kind(one.get("apiVersion", ""), one.get("kind", "")) for one in references):
            self._delete(self._registry.of_bucket(change.bucket), stored, call)

    def _collect(self, bucket: str, key: str, call: Call) -> None:
        """Serve the finalizers of an object that ask for orphaned or for deleted dependents."""
        stored = self._store.bucket(bucket).objects.get(key)
        if stored is None or not stored.terminating:
            return
        resource = self._registry.of_bucket(bucket)
        finalizers = stored.decode()["metadata"].get("finalizers", ())
        uid = stored.uid
        if deletion.ORPHAN in finalizers:
            for each, item in list(self._owned(uid)):
                self._verbs.edit(each, item, lambda body: _disown(body, uid), _collector(each, call))
            self._drop_finalizer(resource, stored, deletion.ORPHAN)
        elif deletion.FOREGROUND in finalizers:
            held = False
            for each, item in list(self._owned(uid)):
                if self._kept(item, uid):
                    self._verbs.edit(each, item, lambda body: _disown(body, uid), _collector(each, call))
                    continue
                gone = self._delete(each, item, call, "Foreground" if item.uid in self._dependents else None)
                held = held or (not gone and _blocks(item, uid))
            if not held:
                self._drop_finalizer(resource, stored, deletion.FOREGROUND)

    def _kept(self, stored: Stored, uid: str) -> bool:
        """Whether a dependent has another owner that is there to stay."""
        others = [self._living[owner] for owner in stored.owners if owner != uid and owner in self._living]
        found = (self._store.bucket(bucket).objects.get(key) for bucket, key in others)
        return any(owner is not None and not _waits(owner) for owner in found)

    # Means

    def _delete(self, resource: Resource, stored: Stored, call: Call, propagation: str | None = None) -> bool:
        """Delete one object as a controller would; True when it is gone at once."""
        target = Target(resource, stored.namespace or None, stored.name)
        if self._store.get(resource, target.namespace, stored.name) is None:
            return True
        return self._verbs.delete(target, DeleteOptions(propagation=propagation), call).gone

    def _drop_finalizer(self, resource: Resource, stored: Stored, finalizer: str) -> None:
        current = self._store.get(resource, stored.namespace or None, stored.name)
        if current is not None:
            self._verbs.edit(resource, current, lambda body: _without_finalizer(body, finalizer))


def _status(call: Call) -> Writer:
    """The API server itself, which writes the status of definitions."""
    return Writer("kube-apiserver", "apiextensions.k8s.io/v1", "status", call.now)


def _collector(resource: Resource, call: Call) -> Writer:
    """The controller manager, whose garbage collector changes references."""
    return Writer("kube-controller-manager", resource.group_version, "", call.now)


def _waits(stored: Stored) -> bool:
    """Whether an object waits for its dependents to go."""
    return stored.terminating and deletion.FOREGROUND in stored.decode()["metadata"].get("finalizers", ())


def _respecified(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a definition that stays has another spec than before."""
    return bool(before["spec"] != after["spec"]) and "deletionTimestamp" not in after["metadata"]


def _named(name: str) -> Stored:
    return Stored(0, name, "", "", b"{}", {}, {})


def _finalize(body: dict[str, Any]) -> None:
    body["spec"] = {key: value for key, value in body.get("spec", {}).items() if key != "finalizers"}


def _without_finalizer(body: dict[str, Any], finalizer: str) -> None:
    kept = [name for name in body["metadata"].get("finalizers", ()) if name != finalizer]
    body["metadata"].pop("finalizers", None)
    if kept:
        body["metadata"]["finalizers"] = kept


def _blocks(stored: Stored, uid: str) -> bool:
    """Whether a dependent asks its owner to wait for it."""
    owners = stored.decode()["metadata"].get("ownerReferences", ())
    return any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners)


def _disown(body: dict[str, Any], uid: str) -> None:
    kept = [owner for owner in body["metadata"].get("ownerReferences", ()) if owner.get("uid") != uid]
    body["metadata"].pop("ownerReferences", None)
    if kept:
        body["metadata"]["ownerReferences"] = kept
