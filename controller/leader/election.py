"""Take part in the election of a leader by a Lease: drive the rules against the API, and open or close a gate accordingly."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...client.errors import (
    AccessError,
    AlreadyExists,
    APIError,
    Conflict,
    Forbidden,
    NotFound,
    RequestError,
    Unauthorized,
    in_words,
)
from ...client.rest import Client
from ...runtime import clock
from ...runtime.metrics import MetricFamily, Sample
from ...runtime.tasks import Tasks
from .gate import Callback, ManualGate
from .lease_client import LEASES, LeaseName, LeaseObject
from .lease_rules import Candidate, LeaseRules, Record
from .written import Legacy, Versions, read

__all__ = ["LEASES", "Election", "ElectionSettings", "Owner"]

_logger = logging.getLogger("ctl.leadership")

STATUS = MetricFamily(
    "leader_election_master_status",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.",
    "gauge",
    ("name",),
)
SLOW_PATH = MetricFamily(
    "leader_election_slowpath_total",
    "Total number of slow path exercised in renewing leader leases.",
    "counter",
    ("name",),
)
SECONDS_LEFT = MetricFamily(
    "ctl_leadership_seconds_left",
    "Seconds for which this process may act without another renewal of the lease; 0 while it does not lead.",
    "gauge",
    ("name",),
)
ALONE = MetricFamily(
    "ctl_leadership_without_election",
    "1 while this process acts without the election, since rights on the lease are missing; 0 while it takes part.",
    "gauge",
    ("name",),
)
FAMILIES = (STATUS, SLOW_PATH, SECONDS_LEFT, ALONE)
FILES, RESOURCES = "ctl.dev/files", "ctl.dev/resources"
"""The annotations that say whose lease it is: comma-separated."""

RELEASE_PAUSE = 0.2
"""Seconds between attempts to give a lease back."""


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
    """The same. `FILES` and `RESOURCES` among them are compared with those of another holder."""
    release_on_stop: bool = True
    """Give the lease back at the end, so that another takes over at once instead of after its duration."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What an election asks of the process that it is for; in the loop of the election."""

    may_renew: Callable[[], bool] = lambda: True
    """Whether the process is in a state to lead; else the lease is neither renewed nor taken."""
    notes: Callable[[], Mapping[str, str]] = dict
    """Annotations that are new at each write."""
    inherit: Callable[[Versions], object] = lambda _: None
    """Take in what a predecessor wrote, before the lease is taken over."""


class Election:
    """A gate that is open while this process leads; and a component with a start and a stop.

    Promised, within the assumptions of `leases`: of all participants one at most has its gate open. The gate is revoked at the renew deadline at
    the latest, when another holder is seen, and when the lease is deleted; the participant then tries again, in the same process.
    Errors of the server never end it. A hand-over by release is noticed through a watch where watching is allowed, else within the
    jittered retry period.
    """

    def __init__(self, client: Client, settings: ElectionSettings, owner: Owner = Owner()) -> None:
        self.settings = settings
        self.term = 0
        """How often this process has begun to lead."""
        self.legacy = Legacy()
        """What predecessors left, as it was found when this process began to lead."""
        self.slow_path = 0
        """How often a renewal had to read the lease first."""
        self._owner = owner
        self._which = LeaseName(settings.name, settings.namespace, settings.labels, settings.annotations)
        self._lease = LeaseObject(client, self._which)
        self._candidate = Candidate(settings.identity, settings.rules)
        self._valve = ManualGate()
        self._tasks = Tasks(f"election {settings.name}")
        self._loop: asyncio.AbstractEventLoop | None = None
        # The legacy, if the lease is won; None: nothing was tried since it was won last.
        self._claim: Legacy | None = None
        self._changed = asyncio.Event()
        self._holder: str | None = None
        # Whether the last attempt failed; and whether there was a warning of another operator.
        self._failing = self._warned = False

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

    @property
    def time(self) -> float:
        """The time of the election's loop. From any thread, after the start."""
        assert self._loop is not None
        return self._loop.time()

    def left(self) -> float:
        """For how many seconds this process may act without another renewal, by the clocks as they are now. From any thread."""
        return 0.0 if self._loop is None else self._candidate.left(clock.Instant(self._loop.time(), clock.now()))

    def resign(self, term: int) -> None:
        """End a term, if it lasts, in which the owner has ceased to act; the lease is then won anew. From any thread, after the start."""
        assert self._loop is not None
        # A closed loop has no term any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._resign, term)

    def _resign(self, term: int) -> None:
        if self.term == term and self._valve.is_open:
            self._lose()
            self._changed.set()

    # The component.

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return f"election {self._which}"

    async def start(self) -> None:
        """Begin to take part. Raises Unauthorized or Forbidden when the lease may not be read, and AccessError; what may pass is waited for."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._in_time(self._read())
        except (Unauthorized, Forbidden):
            raise
        except (APIError, RequestError, TimeoutError) as error:
            self._report(error)
        self._tasks.spawn(self._take_part(), name="lease")
        self._tasks.spawn(self._lease.follow(self._heard, self.settings.rules.retry_period), name="watch")

    async def stop(self, grace: float) -> None:
        """Close the gate and give the lease back. To be called when everything that acts under it has stopped."""
        await self._tasks.stop(min(grace, 1.0))
        held = self._valve.is_open
        self._candidate.lose()
        self._valve.revoke()
        if not held or not self.settings.release_on_stop:
            return
        try:
            async with asyncio.timeout(max(1.0, min(grace, self.settings.rules.renew_deadline))):
                await self._release()
        except TimeoutError:
            _logger.warning("The lease %s could not be released in time; others wait for its end.", self._which)

    async def _release(self) -> None:
        """Until the time is over: it spares others the wait for the whole duration."""
        known = True
        while True:
            try:
                if not known:
                    await self._read()
                record = self._candidate.release(clock.now())
                if record is None:
                    return
                await self._write(record)
            except (APIError, RequestError, AccessError) as error:
                _logger.debug("The lease %s is not released yet: %r", self._which, error)
                known = False
                await asyncio.sleep(RELEASE_PAUSE)
            else:
                _logger.info("The lease %s is released.", self._which)
                return

    # Taking part.

    async def _take_part(self) -> None:
        while True:
            began = _monotonic()
            try:
                if self._owner.may_renew():
                    await self._attempt_in_time()
                    self._failing = False
            except (APIError, RequestError, AccessError, TimeoutError) as error:
                self._report(error)
            except Exception:
                # The election outlives whatever it is.
                _logger.exception("Taking part in the election of %s failed unexpectedly.", self._which)
            self._judge()
            await self._pause(_monotonic() - began)

    async def _attempt_in_time(self) -> None:
        """What hangs must not outlive the time in which we may act."""
        left = self.left()
        async with asyncio.timeout(left if left > 0 else None):
            await self._attempt(leading=left > 0)

    async def _attempt(self, *, leading: bool) -> None:
        self._changed.clear()
        if not leading:
            await self._in_time(self._read())
            if self._candidate.vacant_in(_monotonic()) > 0:
                return
            self._note_claim()
        before = self._candidate.record
        try:
            await self._in_time(self._write(self._candidate.proposal(clock.now())))
        except (Conflict, AlreadyExists, NotFound):
            # Somebody was faster, or our own answer was lost: what is stored tells.
            self.slow_path += leading
            await self._in_time(self._read())
            if leading and self.holder == self.settings.identity:
                await self._in_time(self._write(self._candidate.proposal(clock.now())))
            elif self._candidate.record == before:
                # Nobody was: the namespace is missing, for one.
                raise

    async def _in_time(self, request: Awaitable[None]) -> None:
        """One request that hangs leaves time for a second attempt; several that are merely slow have theirs each, as client-go's have."""
        async with asyncio.timeout(max(1.0, self.settings.rules.renew_deadline / 2)):
            await request

    def _note_claim(self) -> None:
        """Remember what was there before us. A claim of ours that was stored, with its answer lost, remains what it was."""
        if self._claim is None or self.holder != self.settings.identity:
            self._claim = Legacy(read(self._lease.annotations), self._candidate.acting_until)
            self._owner.inherit(self._claim.written)

    async def _pause(self, taken: float) -> None:
        """Wait for the next attempt, or for a change of the lease that matters; the last attempt has taken so many seconds."""
        rules, candidate = self.settings.rules, self._candidate
        now = clock.instant()
        if candidate.holds(now):
            # From one sending to the next: a slow answer must not make renewals rarer.
            wait = min(max(rules.retry_period / 10, rules.retry_period - taken), candidate.left(now))
        else:
            # Spread: not all who wait shall ask at the same moment.
            wait = rules.retry_period * (1.0 + rules.jitter * random.random())
            vacant = candidate.vacant_in(now.monotonic)
            if 0 < vacant < wait:
                wait = vacant + random.random() * rules.retry_period / 10
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            self._judge()

    def _judge(self) -> None:
        """Open or revoke the gate according to the rules, and tell the log who leads."""
        if self.holder != self._holder:
            self._holder = self.holder
            _logger.info("The lease %s is held by %s.", self._which, self._holder or "nobody")
        if self._candidate.holds(clock.instant()):
            if not self._valve.is_open:
                _logger.info("Leading as %s.", self.settings.identity)
                self.term += 1
                self.legacy, self._claim = self._claim or Legacy(), None
                self._valve.open()
        elif self._valve.is_open:
            self._lose()

    def _lose(self) -> None:
        _logger.warning("Leading no more; this process (%s) takes part in the election again.", self.settings.identity)
        self._candidate.lose()
        self._valve.revoke()

    def _report(self, error: Exception) -> None:
        # While there is something to lose each failure is told, else the first one of a series.
        level = logging.WARNING if self._valve.is_open or not self._failing else logging.DEBUG
        self._failing = True
        _logger.log(level, "The lease %s could not be read or written: %s", self._which, in_words(error))

    # The Lease.

    async def _read(self) -> None:
        record, told = await self._lease.read(), self._candidate.is_doubled
        self._candidate.observe(record, _monotonic())
        self._compare()
        if self._candidate.is_doubled and not told:
            _logger.error(
                "Another process takes part in the election of %s as %s too, and both lead. An identity must be nobody else's: give "
                "each replica its own (settings.leadership.identity), or none, for one with a random part.",
                self._which,
                self.settings.identity,
            )

    async def _write(self, record: Record) -> None:
        self._candidate.sending(record, clock.instant())
        await self._lease.write(record, self._owner.notes())
        self._candidate.confirmed()

    def _heard(self, record: Record | None) -> None:
        # What is stored is read before anything is decided: the stream may lag behind. A leader's own renewals, heard of before
        # their answers, are nothing to hurry for.
        if not self._valve.is_open or record is None or record.holder != self.settings.identity:
            self._changed.set()

    def _compare(self) -> None:
        """Warn once when the lease seems to be that of another operator."""
        if self._warned or self.holder in {None, self.settings.identity}:
            return
        theirs, ours = self._lease.annotations, self.settings.annotations
        for what, name in (("files", FILES), ("resources", RESOURCES)):
            if name in ours and name in theirs and ours[name] != theirs[name]:
                self._warned = True
                _logger.warning(
                    "Is %s another operator? It holds the lease %s with the %s %s; those of this one are %s. "
                    "Two operators need two leases: give one of them a name of its own.",
                    self.holder,
                    self._which,
                    what,
                    theirs[name],
                    ours[name],
                )
                return

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment (a source for `ctl.runtime.metrics`)."""
        yield Sample(STATUS, (self.settings.name,), int(self.is_open))
        yield Sample(SLOW_PATH, (self.settings.name,), self.slow_path)
        yield Sample(SECONDS_LEFT, (self.settings.name,), self.left())


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
