"""The Lease at the API: which one, how it is read, written and watched, and the annotations on it."""

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
from .lease_rules import LeaseRules, Record

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


FILES_ANNOTATION, RESOURCES_ANNOTATION = "ctl.dev/files", "ctl.dev/resources"
"""The annotations that tell the operators of two Leases apart: comma-separated."""


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """The Lease, the participant, and what its holder writes on the Lease. Times are in seconds."""

    name: str
    namespace: str
    identity: str
    """Unique among all participants: for example the pod's name and a random part."""
    rules: LeaseRules = field(default_factory=LeaseRules)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the holder puts on the Lease."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations that the holder puts on the Lease."""
    release_on_stop: bool = True
    """Release the lease at the end, so that another participant takes over at once instead of after its duration."""
    files: tuple[str, ...] = ()
    """The files and modules of the operator: written on the Lease, so that another operator with the same Lease is noticed."""
    resources: tuple[str, ...] = ()
    """The resources that the operator handles, for the same purpose."""
    stall_limit: float = 60.0
    """If the program's loop is blocked for longer than this, the lease is no longer renewed."""
    thread: bool | None = None
    """Whether a thread of its own renews the lease; None: yes, unless the clock of the process is replaced, as in tests."""

    @property
    def lease(self) -> str:
        """The Lease as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def lease_annotations(self) -> dict[str, str]:
        """All annotations that the holder puts on the Lease, except the written versions."""
        operator = {FILES_ANNOTATION: self.files, RESOURCES_ANNOTATION: self.resources}
        return {**{name: ",".join(sorted(values)) for name, values in operator.items() if values}, **self.annotations}


class LeaseObject:
    """The Lease as it was last read or written; its version guards the next write. Errors are the client's."""

    def __init__(self, client: Client, config: LeaderElectionConfig) -> None:
        self.annotations: Mapping[str, str] = {}
        """The annotations as last seen; they stay after a deletion."""
        self._client = client
        self._config = config
        self._stored: Object | None = None

    async def read(self) -> Record | None:
        """Return the stored record; None: there is no such Lease."""
        config = self._config
        try:
            stored = await self._client.get(LEASES, config.name, config.namespace, channel="renewal")
        except NotFound:
            self._stored = None
            return None
        self._stored = stored
        body = stored.body()
        self.annotations = (body.get("metadata") or {}).get("annotations") or {}
        return Record.from_spec(body.get("spec"))

    async def write(self, record: Record, annotations: Mapping[str, str]) -> None:
        """Replace the Lease that was last seen, or create it if there was none.

        Raises Conflict, AlreadyExists or NotFound if the stored Lease is another one by now.
        """
        config, body = self._config, self._body(record, annotations)
        if self._stored is None:
            stored = await self._client.create(LEASES, body, config.namespace, retry=False, channel="renewal")
        else:
            stored = await self._client.replace(
                LEASES, body, namespace=config.namespace, name=config.name, channel="renewal"
            )
        self._stored = stored
        self.annotations = body["metadata"].get("annotations") or {}

    def _body(self, record: Record, annotations: Mapping[str, str]) -> dict[str, Any]:
        config = self._config
        body: dict[str, Any] = {} if self._stored is None else self._stored.body()
        metadata = body.setdefault("metadata", {})
        metadata.update(name=config.name, namespace=config.namespace)
        for name, ours in (("labels", config.labels), ("annotations", {**config.lease_annotations, **annotations})):
            if ours:
                metadata[name] = {**(metadata.get(name) or {}), **ours}
        body.update(apiVersion=LEASES.api_version, kind=LEASES.kind)
        spec = body.get("spec")
        body["spec"] = {**(spec if isinstance(spec, Mapping) else {}), **record.spec()}
        return body

    async def follow(self, changed: Callable[[Record | None], None], retry_period: float) -> None:
        """Call a function with each change that this object has not seen; None: the Lease was deleted. Ends without the right to watch.

        The record may be old by then: read the Lease before a decision.
        """
        # No retry policy: a watch is opened again after each end, and the return of the server ends the pause.
        delays = Backoff(initial=retry_period).start()
        options = WatchOptions(
            field_selector=str(FieldRequirement("metadata.name", self._config.name)),
            timeout_seconds=300,
            idle_timeout=330,
        )
        time = asyncio.get_running_loop().time
        while True:
            failure: Exception | None = None
            try:
                async with self._client.watch(LEASES, self._config.namespace, options) as stream:
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
        if lease.name != self._config.name:
            return  # a bookmark, or a server without field selectors
        if kind == "DELETED":
            changed(None)
        elif self._stored is None or self._stored.resource_version != lease.resource_version:
            changed(Record.from_spec(lease.body().get("spec")))
