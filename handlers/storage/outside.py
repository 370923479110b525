"""Progress can be kept outside of the object, in a ConfigMap beside it, for objects that nobody else may annotate.

The interface is Kopf's, with two steps more that may take requests: what is stored is read before an object is looked at, and
what was gathered is written when the object is. A crash in between repeats a handler rather than loses its result.
"""

import asyncio
import json
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from ...client.errors import NotFound
from ...client.lists import ListOptions
from ...client.resources import Resource
from ...client.rest import Client
from ..causes.patch import Patch
from ..causes.views import Body, BodyEssence
from .naming import StoredStateError
from .progress import MultiProgressStorage, ProgressRecord, ProgressStorage

CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
MANAGED_BY = "app.kubernetes.io/managed-by"
PROGRESS_OF = "ctl.dev/progress"
"""How many characters of what cannot be read are shown."""

Records = dict[str, ProgressRecord]


class OutsideProgressStorage(ProgressStorage):
    """Keeps records anywhere but on the object. Inherit from it to keep them where you like.

    `store` and `purge` gather; `fetch` gives what was gathered or loaded. One operator writes: there is nobody to agree with.
    Errors of `load` and `commit` are those of the object's attempt: it is made again after a while.
    """

    @abstractmethod
    async def load(self, client: Client, body: Body) -> None:
        """Make `fetch` know the records of an object; called before each attempt, to be cheap when they are known."""

    @abstractmethod
    async def commit(self, client: Client, body: Body) -> None:
        """Write what was gathered for an object. What fails stays gathered."""

    @abstractmethod
    def is_unwritten(self, body: Body) -> bool:
        """Whether anything was gathered for an object that is not written yet."""

    @abstractmethod
    def forget(self, uid: str) -> None:
        """The object is gone: drop what is known of it."""

    @abstractmethod
    def renew(self) -> None:
        """Another process may have written meanwhile: what is known is to be loaded again."""

    def is_record(self, body: Body) -> bool:
        """Whether an object is one that records are kept in, of any operator: handlers of changes, daemons and timers leave it alone."""
        return False

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Do nothing: delayed attempts need no touching."""

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """The essence as it is: nothing is kept on the object."""
        return essence


class ConfigMapProgressStorage(OutsideProgressStorage):
    """Keeps the records of an object in a ConfigMap beside it, for as long as its handlers are not done.

    An object whose handlers all end in one round never has one. The ConfigMap is called after the storage's name and the uid,
    is owned by the object, and is so removed with it. Those of a namespace are listed once. The operator needs the rights to
    list, create, patch and delete ConfigMaps in the namespaces of its objects; for cluster-scoped ones in `namespace`.
    """

    def __init__(self, *, name: str = "ctl-progress", namespace: str = "default") -> None:
        """Take a name that no other operator on these objects uses, and where records of cluster-scoped objects go."""
        super().__init__()
        self.name = name
        self.namespace = namespace
        self._loaded: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, Records] = {}
        self._gathered: dict[str, Records] = {}
        # What is stored and cannot be read, by the uids of the objects that it is about.
        self._broken: dict[str, StoredStateError] = {}

    def fetch(self, *, key: str, body: Body) -> ProgressRecord | None:
        """The record as it was gathered or loaded."""
        uid = body.metadata.uid
        return self._gathered.get(uid, self._known.get(uid, {})).get(key)

    def store(self, *, key: str, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Gather a record."""
        kept: Any = {name: value for name, value in record.items() if value is not None}
        if "subrefs" in kept:
            kept["subrefs"] = sorted(kept["subrefs"])
        self._own(body)[key] = kept

    def purge(self, *, key: str, body: Body, patch: Patch) -> None:
        """Gather that a record is to go."""
        if self.fetch(key=key, body=body) is not None:
            del self._own(body)[key]

    def may_hold(self, body: Body) -> bool:
        """Whether anything was loaded or gathered for the object."""
        return body.metadata.uid in self._known or body.metadata.uid in self._gathered

    def _own(self, body: Body) -> Records:
        uid = body.metadata.uid
        return self._gathered.setdefault(uid, dict(self._known.get(uid, {})))

    def is_unwritten(self, body: Body) -> bool:
        """Whether anything was gathered that is not written yet."""
        uid = body.metadata.uid
        return self._gathered.get(uid, {}) != self._known.get(uid, {}) if uid in self._gathered else False

    def is_record(self, body: Body) -> bool:
        """Whether an object is a ConfigMap of such a storage: the records of its own handlers would be one more, and so on."""
        labels = body.metadata.labels
        return body.get("kind") == CONFIGMAPS.kind and labels.get(MANAGED_BY) == "ctl" and PROGRESS_OF in labels

    def forget(self, uid: str) -> None:
        """Drop the records; the server removes the ConfigMap with its owner."""
        self._known.pop(uid, None)
        self._gathered.pop(uid, None)
        self._broken.pop(uid, None)

    def renew(self) -> None:
        """List anew before the next attempts."""
        self._loaded.clear()
        self._known.clear()
        self._gathered.clear()
        self._broken.clear()

    async def load(self, client: Client, body: Body) -> None:
        """List the ConfigMaps of the object's namespace, if that was not done yet. Raises the client's errors.

        StoredStateError where that of the object itself cannot be read, which is read anew each time: others are not concerned.
        """
        where = self._namespace(body)
        task = self._loaded.get(where)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._loaded[where] = asyncio.create_task(self._list(client, where), name=f"progress in {where}")
            await asyncio.shield(task)
        elif not task.done():
            await asyncio.shield(task)
        elif (uid := body.metadata.uid) in self._broken:
            self._broken.pop(uid)
            await self._list(client, where, f"{self.name}-{uid}")
        if (error := self._broken.get(body.metadata.uid)) is not None:
            raise error

    async def _list(self, client: Client, where: str, name: str | None = None) -> None:
        """Read the ConfigMap of that name, or all of the namespace."""
        field = None if name is None else f"metadata.name={name}"
        only = ListOptions(label_selector=f"{MANAGED_BY}=ctl,{PROGRESS_OF}={self.name}", field_selector=field)
        for found in await client.list(CONFIGMAPS, where, only):
            uid = found.name.removeprefix(f"{self.name}-")
            if uid in self._known:
                continue
            try:
                self._known[uid] = _decoded(found.body())
            except StoredStateError as exc:
                self._broken[uid] = exc

    async def commit(self, client: Client, body: Body) -> None:
        """Bring the ConfigMap to what was gathered, or remove it when that is nothing. Raises the client's errors."""
        if not self.is_unwritten(body):
            self._gathered.pop(body.metadata.uid, None)
            return
        uid, where = body.metadata.uid, self._namespace(body)
        wanted = dict(self._gathered[uid])
        name = f"{self.name}-{uid}"
        if not wanted:
            await _delete(client, name, where)
        else:
            data = {"records": json.dumps(wanted, separators=(",", ":"))}
            try:
                await client.patch(CONFIGMAPS, name, where, {"data": data})
            except NotFound:
                await self._create(client, body, name, data)
        if wanted:
            self._known[uid] = wanted
        else:
            self._known.pop(uid, None)
        if self._gathered.get(uid) == wanted:
            del self._gathered[uid]

    async def _create(self, client: Client, body: Body, name: str, data: dict[str, str]) -> None:
        where = self._namespace(body)
        try:
            await client.create(CONFIGMAPS, self._configmap(body, name, data), where)
        except NotFound as exc:
            if body.metadata.namespace is not None:
                raise
            raise LookupError(
                f"The progress of {body.get('kind')} {body.metadata.name} is to be kept in the namespace {where!r}, which does not "
                f"exist. Create it, or give another one as {type(self).__name__}(namespace=...)."
            ) from exc

    def _namespace(self, body: Body) -> str:
        return body.metadata.namespace or self.namespace

    def _configmap(self, body: Body, name: str, data: dict[str, str]) -> dict[str, Any]:
        owner = {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "name": body.metadata.name,
            "uid": body.metadata.uid,
        }
        labels = {MANAGED_BY: "ctl", PROGRESS_OF: self.name}
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def outside_of(storage: ProgressStorage) -> Iterator[OutsideProgressStorage]:
    """Those of a storage's parts, or itself, that keep records outside of objects."""
    if isinstance(storage, OutsideProgressStorage):
        yield storage
    elif isinstance(storage, MultiProgressStorage):
        for part in storage.storages:
            yield from outside_of(part)


def inside_of(storage: ProgressStorage) -> ProgressStorage:
    """A storage without those of its parts that keep records outside of objects: what it would put on an object."""
    if not any(outside_of(storage)):
        return storage
    parts = storage.storages if isinstance(storage, MultiProgressStorage) else ()
    return MultiProgressStorage([inside_of(part) for part in parts])


async def _delete(client: Client, name: str, namespace: str) -> None:
    try:
        await client.delete(CONFIGMAPS, name, namespace)
    except NotFound:
        return


def _decoded(configmap: dict[str, Any]) -> Records:
    text = str((configmap.get("data") or {}).get("records"))
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StoredStateError(configmap, "the data 'records'", "it is no JSON", text) from exc
    if not isinstance(records, dict) or not all(isinstance(record, dict) for record in records.values()):
        raise StoredStateError(configmap, "the data 'records'", "it is no JSON object of objects", text)
    return records
