"""A Lease is read, written and followed at the API, with what is noted on it."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...client.errors import APIError, Forbidden, NotFound, RequestError
from ...client.objects import Object
from ...client.resources import Resource
from ...client.rest import Client
from ...client.selectors import FieldRequirement
from ...client.watch import WatchOptions
from ...runtime.backoff import Backoff
from .lease_rules import Record

_logger = logging.getLogger("ctl.leadership")

LEASES = Resource(
    "coordination.k8s.io",
    "v1",
    "leases",
    kind="Lease",
    singular="lease",
    namespaced=True,
    verbs=frozenset({"get", "create", "update", "watch"}),
)


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease, and what its holder puts on it."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaseObject:
    """One Lease as it was read or written last; its version guards the next write. Errors are the client's."""

    def __init__(self, client: Client, which: LeaseName) -> None:
        self.which = which
        self.annotations: Mapping[str, str] = {}
        """Those of the Lease as it was seen last; they stay when it is deleted."""
        self._client = client
        self._stored: Object | None = None

    async def read(self) -> Record | None:
        """What is stored now; None: there is no such Lease."""
        which = self.which
        try:
            stored = await self._client.get(LEASES, which.name, which.namespace, channel="renewal")
        except NotFound:
            self._stored = None
            return None
        self._stored = stored
        body = stored.body()
        self.annotations = (body.get("metadata") or {}).get("annotations") or {}
        return Record.from_spec(body.get("spec"))

    async def write(self, record: Record, notes: Mapping[str, str]) -> None:
        """Store a record and annotations in the place of what was seen last, or create the Lease when there was none.

        Raises Conflict, AlreadyExists or NotFound when something else is stored by now.
        """
        which, body = self.which, self._body(record, notes)
        if self._stored is None:
            stored = await self._client.create(LEASES, body, which.namespace, retry=False, channel="renewal")
        else:
            stored = await self._client.replace(
                LEASES, body, namespace=which.namespace, name=which.name, channel="renewal"
            )
        self._stored = stored
        self.annotations = body["metadata"].get("annotations") or {}

    def _body(self, record: Record, notes: Mapping[str, str]) -> dict[str, Any]:
        which = self.which
        body: dict[str, Any] = {} if self._stored is None else self._stored.body()
        metadata = body.setdefault("metadata", {})
        metadata.update(name=which.name, namespace=which.namespace)
        for name, ours in (("labels", which.labels), ("annotations", {**which.annotations, **notes})):
            if ours:
                metadata[name] = {**(metadata.get(name) or {}), **ours}
        body.update(apiVersion=LEASES.api_version, kind=LEASES.kind)
        spec = body.get("spec")
        body["spec"] = {**(spec if isinstance(spec, Mapping) else {}), **record.spec()}
        return body

    async def follow(self, changed: Callable[[Record | None], None], retry_period: float) -> None:
        """Tell of each change that is not the write or read known already; None: the Lease was deleted. For as long as it is awaited.

        What is told may be old by then: read before deciding. Without the right to watch this ends.
        """
        delays = Backoff(initial=retry_period).start()
        options = WatchOptions(
            field_selector=str(FieldRequirement("metadata.name", self.which.name)),
            timeout_seconds=300,
            idle_timeout=330,
        )
        time = asyncio.get_running_loop().time
        while True:
            failure: Exception | None = None
            try:
                async with self._client.watch(LEASES, self.which.namespace, options) as stream:
                    async for events in stream:
                        for event in events:
                            self._tell(event.type, event.object, changed)
            except Forbidden:
                _logger.info("Leases may not be watched; they are read every %s s.", retry_period)
                return
            except (APIError, RequestError) as error:
                failure = error
                _logger.debug("The watch of the lease ended: %r", error)
            except Exception as error:
                failure = error
                _logger.debug("The watch of the lease failed: %r", error, exc_info=error)
            await self._client.sleep(delays.next(time(), random.random()), failure)

    def _tell(self, kind: str, lease: Object, changed: Callable[[Record | None], None]) -> None:
        if lease.name != self.which.name:
            return  # a bookmark, or a server that knows no field selectors
        if kind == "DELETED":
            changed(None)
        elif self._stored is None or self._stored.resource_version != lease.resource_version:
            changed(Record.from_spec(lease.body().get("spec")))
