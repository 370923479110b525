"""Take part in the election of a leader by a Lease: drive the rules against the API, and open or close a gate accordingly."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...client.errors import AlreadyExists, APIError, Conflict, Forbidden, NotFound, RequestError
from ...client.objects import Object
from ...client.resources import Resource
from ...client.rest import Client
from ...client.watch import WatchOptions
from ...runtime import clock
from ...runtime.backoff import Backoff
from ...runtime.metrics import Family, Sample
from ...runtime.tasks import Tasks
from .gates import Callback
from .leases import Candidate, LeaseRules, Record
from .valve import Valve

_logger = logging.getLogger("ctl.leadership")

LEASES = Resource(
    "coordination.k8s.io",
    "v1",
    "leases",
    kind="Lease",
    singular="lease",
    namespaced=True,
    verbs=frozenset({"get", "create", "update"}),
)

STATUS = Family(
    "leader_election_master_status",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.",
    "gauge",
    ("name",),
)
SLOW_PATH = Family(
    "leader_election_slowpath_total",
    "Total number of slow path exercised in renewing leader leases.",
    "counter",
    ("name",),
)


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Which lease, and as whom. `identity` must be nobody else's: the pod's name and a random part, for one."""

    name: str
    namespace: str
    identity: str
    rules: LeaseRules = field(default_factory=LeaseRules)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Put on the Lease when this participant makes it or takes it over."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    release_on_stop: bool = True
    """Give the lease back at the end, so that another takes over at once instead of after its duration."""


class Election:
    """A gate that is open while this process leads; and a component with a start and a stop.

    Promised, within the assumptions of `leases`: of all participants one at most has its gate open. The gate is revoked at the renew deadline at
    the latest, when another holder is seen, and when the lease is deleted; the participant then tries again, in the same process.
    Errors of the server never end it. A hand-over by release is noticed through a watch where watching is allowed, else within the
    jittered retry period.
    """

    def __init__(self, client: Client, settings: ElectionSettings) -> None:
        self.settings = settings
        self.slow_path = 0
        """How often a renewal had to read the lease first."""
        self._client = client
        self._candidate = Candidate(settings.identity, settings.rules)
        self._valve = Valve()
        self._tasks = Tasks(f"election {settings.name}")
        # The Lease as it was read or written last; its version guards the next write.
        self._lease: Object | None = None
        self._changed = asyncio.Event()
        self._holder: str | None = None
        self._denied = False

    # The gate.

    @property
    def is_open(self) -> bool:
        """Whether this process leads."""
        return self._valve.is_open

    async def wait_open(self) -> None:
        """Wait until this process leads."""
        await self._valve.wait_open()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Be told of each change; call what is given back to end that."""
        return self._valve.subscribe(callback)

    @property
    def holder(self) -> str | None:
        """Who holds the lease, as far as this process has seen; None: nobody."""
        record = self._candidate.record
        return record.holder or None if record is not None else None

    def left(self, now: clock.Instant) -> float:
        """For how many seconds this process may act without another renewal."""
        return self._candidate.left(now)

    # The component.

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return f"election {self.settings.namespace}/{self.settings.name}"

    async def start(self) -> None:
        """Begin to take part. Raises Forbidden when the lease may not be read, and NotFound when its namespace does not exist."""
        await self._read()
        self._tasks.spawn(self._take_part(), name="lease")
        self._tasks.spawn(self._follow(), name="watch")

    async def stop(self, grace: float) -> None:
        """Close the gate and give the lease back. To be called when everything that acts under it has stopped."""
        await self._tasks.stop(min(grace, 1.0))
        record = self._candidate.release(clock.now()) if self._valve.is_open else None
        self._candidate.lose()
        self._valve.revoke()
        if record is None or not self.settings.release_on_stop:
            return
        try:
            async with asyncio.timeout(max(1.0, min(grace, self.settings.rules.renew_deadline))):
                await self._release(record)
        except (APIError, RequestError, TimeoutError) as error:
            _logger.warning(
                "The lease %s/%s could not be released; others wait for its end: %s",
                self.settings.namespace,
                self.settings.name,
                error,
            )

    async def _release(self, record: Record) -> None:
        try:
            await self._write(record)
        except Conflict:
            await self._read()
            if self.holder == self.settings.identity:
                await self._write(record)
        _logger.info("The lease %s/%s is released.", self.settings.namespace, self.settings.name)

    # Taking part.

    async def _take_part(self) -> None:
        rules, candidate = self.settings.rules, self._candidate
        while True:
            leading = candidate.holds(clock.instant())
            # Whatever hangs must not outlive the time in which we may act.
            limit = candidate.left(clock.instant()) if leading else rules.renew_deadline
            try:
                async with asyncio.timeout(limit):
                    await self._attempt(leading=leading)
            except (APIError, RequestError, TimeoutError) as error:
                self._report(error)
            self._judge()
            await self._pause()

    async def _attempt(self, *, leading: bool) -> None:
        if not leading:
            self._changed.clear()
            await self._read()
            if self._candidate.vacant_in(_monotonic()) > 0:
                return
        try:
            await self._write(self._candidate.proposal(clock.now()))
        except (Conflict, AlreadyExists, NotFound):
            # Somebody was faster, or our own answer was lost: what is stored tells.
            self.slow_path += leading
            await self._read()
            if leading and self.holder == self.settings.identity:
                await self._write(self._candidate.proposal(clock.now()))

    async def _pause(self) -> None:
        """Wait for the next attempt; those who wait are woken by a change of the lease."""
        rules, candidate = self.settings.rules, self._candidate
        now = clock.instant()
        if candidate.holds(now):
            await asyncio.sleep(min(rules.retry_period, candidate.left(now)))
            self._judge()
            return
        # Spread: not all who wait shall ask at the same moment.
        wait = rules.retry_period * (1.0 + rules.jitter * random.random())
        vacant = candidate.vacant_in(now.monotonic)
        if 0 < vacant < wait:
            wait = vacant + random.random() * rules.retry_period / 10
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            return

    def _judge(self) -> None:
        """Open or revoke the gate according to the rules, and tell the log who leads."""
        if self.holder != self._holder:
            self._holder = self.holder
            _logger.info(
                "The lease %s/%s is held by %s.", self.settings.namespace, self.settings.name, self._holder or "nobody"
            )
        if self._candidate.holds(clock.instant()):
            if not self._valve.is_open:
                _logger.info("Leading as %s.", self.settings.identity)
                self._valve.open()
        elif self._valve.is_open:
            _logger.warning(
                "Leading no more; this process (%s) takes part in the election again.", self.settings.identity
            )
            self._candidate.lose()
            self._valve.revoke()

    def _report(self, error: Exception) -> None:
        level = logging.WARNING if self._valve.is_open or not self._denied else logging.DEBUG
        if isinstance(error, Forbidden):
            self._denied = True
        _logger.log(
            level,
            "The lease %s/%s could not be read or written: %r",
            self.settings.namespace,
            self.settings.name,
            error,
        )

    # The API.

    async def _read(self) -> None:
        try:
            lease = await self._client.get(LEASES, self.settings.name, self.settings.namespace, channel="renewal")
        except NotFound:
            lease = None
        self._take(lease)

    def _take(self, lease: Object | None) -> None:
        self._lease = lease
        self._candidate.observe(None if lease is None else Record.from_spec(lease.body().get("spec")), _monotonic())

    async def _write(self, record: Record) -> None:
        settings, known = self.settings, self._lease
        body = self._body(record)
        self._candidate.sending(record, clock.instant())
        if known is None:
            stored = await self._client.create(LEASES, body, settings.namespace, retry=False, channel="renewal")
        else:
            stored = await self._client.replace(
                LEASES, body, namespace=settings.namespace, name=settings.name, channel="renewal"
            )
        self._lease = stored
        self._candidate.confirmed()

    def _body(self, record: Record) -> dict[str, Any]:
        settings = self.settings
        body: dict[str, Any] = {} if self._lease is None else self._lease.body()
        metadata = body.setdefault("metadata", {})
        metadata.update(name=settings.name, namespace=settings.namespace)
        if record.holder == settings.identity:
            for name, ours in (("labels", settings.labels), ("annotations", settings.annotations)):
                if ours:
                    metadata[name] = {**(metadata.get(name) or {}), **ours}
        body.update(apiVersion=LEASES.api_version, kind=LEASES.kind)
        body["spec"] = {**(body.get("spec") or {}), **record.spec()}
        return body

    async def _follow(self) -> None:
        """Hear of changes of the lease at once. Without the right to watch, or while that fails, there is the reading."""
        delays = Backoff(initial=self.settings.rules.retry_period).start()
        options = WatchOptions(
            field_selector=f"metadata.name={self.settings.name}", timeout_seconds=300, idle_timeout=330
        )
        while True:
            try:
                async with self._client.watch(LEASES, self.settings.namespace, options) as stream:
                    async for events in stream:
                        for event in events:
                            self._heard(event.type, event.object)
            except Forbidden:
                _logger.info("Leases may not be watched; they are read every %s s.", self.settings.rules.retry_period)
                return
            except (APIError, RequestError) as error:
                _logger.debug("The watch of the lease ended: %r", error)
            await asyncio.sleep(delays.next(_monotonic(), random.random()))

    def _heard(self, kind: str, lease: Object) -> None:
        known = self._lease
        if kind == "BOOKMARK" or (
            known is not None and kind != "DELETED" and known.resource_version == lease.resource_version
        ):
            return
        # What is stored is read before anything is decided: the stream may lag behind.
        self._changed.set()

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment (a source for `ctl.runtime.metrics`)."""
        yield Sample(STATUS, (self.settings.name,), int(self.is_open))
        yield Sample(SLOW_PATH, (self.settings.name,), self.slow_path)


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
