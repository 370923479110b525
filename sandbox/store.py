"""The store holds every object at its current version and answers for past ones from the history."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from .history import Change, ChangeType, History, Stored
from .metadata import ordered
from .resources import Resource, object_key
from .selecting import Selection
from .status import Refused

# The largest object that the real server's etcd takes, in bytes.
SIZE_LIMIT: Final = 1_536 * 1024
# Field labels that are not the path of the field.
_PATHS: Final = {"source": "source.component"}
_PLAIN = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="sorted")


def encode(resource: Resource, value: Any) -> bytes:
    """JSON with the server's key order: sorted for custom resources, as given for built-in ones."""
    return (_SORTED if resource.custom else _PLAIN).encode(value)


def dig(body: Any, path: str) -> Any:
    """The value under a dotted path, None where a step is missing."""
    for step in path.split("."):
        if not isinstance(body, dict):
            return None
        body = body.get(step)
    return body


def _field_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def seal(resource: Resource, body: dict[str, Any], version: int) -> Stored:
    """Encode a body (without apiVersion and kind) under a version, which is written into its metadata."""
    metadata = body["metadata"] = ordered(body["metadata"], version)
    found = encode(resource, body)
    if len(found) > SIZE_LIMIT:
        raise Refused(500, "", "etcdserver: request is too large")
    return Stored(
        version=version,
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        body=found,
        labels=metadata.get("labels", {}),
        fields={label: _field_text(dig(body, _PATHS.get(label, label))) for label in resource.fields},
        owners=tuple(reference.get("uid", "") for reference in metadata.get("ownerReferences", ())),
    )


class Bucket:
    """The objects of one kind by key, with the keys in the order of lists."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        # Invariant: exactly the keys of `objects`, sorted.
        self.keys: list[str] = []

    def put(self, key: str, stored: Stored) -> None:
        """Store an object, new or not."""
        if key not in self.objects:
            insort(self.keys, key)
        self.objects[key] = stored

    def drop(self, key: str) -> None:
        """Forget an object that is there."""
        del self.objects[key]
        del self.keys[bisect_left(self.keys, key)]


class Store:
    """All objects of the server. Every write is one change in the history and told to the listeners at once.

    The store decides nothing: callers have checked names, versions and rules before they write.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._buckets: dict[str, Bucket] = {}
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` with each change, in order, inside the write."""
        self._listeners.append(listener)

    def bucket(self, name: str) -> Bucket:
        """The objects of one kind (an empty bucket when there are none)."""
        return self._buckets.setdefault(name, Bucket())

    def get(self, resource: Resource, namespace: str | None, name: str) -> Stored | None:
        """The object at its current version, if it exists."""
        return self.bucket(resource.bucket).objects.get(object_key(namespace, name))

    def put(self, resource: Resource, body: dict[str, Any]) -> Stored:
        """Write an object; its metadata gets the new resourceVersion. New or changed follows from what is there."""
        metadata = body["metadata"]
        key = object_key(metadata.get("namespace"), metadata["name"])
        bucket = self.bucket(resource.bucket)
        previous = bucket.objects.get(key)
        type: ChangeType = "ADDED" if previous is None else "MODIFIED"
        change = self.history.record(
            lambda version: Change(version, resource.bucket, key, type, seal(resource, body, version), previous)
        )
        bucket.put(key, change.object)
        self._tell(change)
        return change.object

    def remove(self, resource: Resource, stored: Stored) -> Stored:
        """Delete an object that is there; returns its last state under the deletion's version."""
        key = object_key(stored.namespace, stored.name)
        bucket = self.bucket(resource.bucket)
        previous = bucket.objects[key]
        change = self.history.record(
            lambda version: Change(
                version, resource.bucket, key, "DELETED", stamp(resource, previous, version), previous
            )
        )
        bucket.drop(key)
        self._tell(change)
        return change.object

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)

    def select(self, resource: Resource, selection: Selection) -> list[Stored]:
        """The selected objects at their current versions, in the order of lists."""
        bucket = self.bucket(resource.bucket)
        keys: Iterable[str] = bucket.keys
        if resource.namespaced and selection.namespace:
            start = bisect_left(bucket.keys, f"{selection.namespace}/")
            keys = bucket.keys[start : bisect_right(bucket.keys, f"{selection.namespace}/\U0010ffff")]
        objects = bucket.objects
        return [objects[key] for key in keys if chosen(selection, objects[key])]

    def select_at(self, resource: Resource, selection: Selection, version: int) -> list[Stored]:
        """The selected objects as they were at a past version. Raises 410 when it is forgotten."""
        if version == self.history.current:
            return self.select(resource, selection)
        past = dict(self.bucket(resource.bucket).objects)
        for change in self.history.back(version, resource.bucket):
            if change.previous is None:
                past.pop(change.key, None)
            else:
                past[change.key] = change.previous
        return [past[key] for key in sorted(past) if chosen(selection, past[key])]


def chosen(selection: Selection, stored: Stored) -> bool:
    """Whether an object, at that state, is in a selection."""
    return selection.matches(stored.namespace, stored.labels, lambda: _values(stored))


def _values(stored: Stored) -> dict[str, str]:
    return {"metadata.name": stored.name, "metadata.namespace": stored.namespace, **stored.fields}


def stamp(resource: Resource, stored: Stored, version: int) -> Stored:
    """The same state under another version."""
    body = stored.decode()
    body["metadata"]["resourceVersion"] = str(version)
    return msgspec.structs.replace(stored, version=version, body=encode(resource, body))
