"""Takes part in the election of a leader by a Lease: drives `lease_rules` against the API, and turns a gate accordingly."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

import tenacity

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
from .gate import ManualGate
from .lease_client import FILES_ANNOTATION, RESOURCES_ANNOTATION, LeaderElectionConfig, LeaseObject
from .lease_rules import Candidate, Record
from .written_versions import PredecessorWrites, Versions, read_versions

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

RELEASE = tenacity.AsyncRetrying(
    retry=tenacity.retry_if_exception_type((APIError, RequestError, AccessError)), wait=tenacity.wait_fixed(0.2)
)
"""A release is repeated until its time is over: it spares others the wait for the whole duration."""


@dataclass(frozen=True, slots=True)
class ElectionHooks:
    """Functions of the process that the election is for; called in the loop of the election."""

    may_renew: Callable[[], bool] = lambda: True
    """Whether the process is able to lead; else the lease is neither renewed nor taken."""
    annotations: Callable[[], Mapping[str, str]] = dict
    """Annotations that each write puts on the Lease."""
    inherit: Callable[[Versions], object] = lambda _: None
    """Receives the versions that predecessors wrote, before the lease is taken over."""


class Election(ManualGate):
    """A gate that is open while this process leads; and a component with a start and a stop.

    Promised, within the assumptions of `lease_rules`: at most one participant has its gate open. The gate is revoked at the renew deadline at
    the latest, when another holder is seen, and when the Lease is deleted; the participant then tries again, in the same process.
    Errors of the server never end it. A release by the leader is noticed through a watch where watching is allowed, else within the
    jittered retry period.
    """

    def __init__(self, client: Client, config: LeaderElectionConfig, hooks: ElectionHooks = ElectionHooks()) -> None:
        super().__init__()
        self.config = config
        self.term = 0
        """The number of this process's terms."""
        self.predecessors = PredecessorWrites()
        """What predecessors wrote, as found when this process began to lead."""
        self.slow_path = 0
        """How often a renewal had to read the Lease first."""
        self._hooks = hooks
        self._lease = LeaseObject(client, config)
        self._candidate = Candidate(config.identity, config.rules)
        self._tasks = Tasks(f"election {config.name}")
        self._loop: asyncio.AbstractEventLoop | None = None
        # What predecessors wrote, if the lease is won; None: nothing was tried since the last term began.
        self._claim: PredecessorWrites | None = None
        self._changed = asyncio.Event()
        self._holder: str | None = None
        # Whether the last attempt failed; and whether there was a warning of another operator.
        self._failing = self._warned = False

    @property
    def holder(self) -> str | None:
        """The holder of the lease, as far as this process has seen; None: nobody."""
        record = self._candidate.record
        return record.holder or None if record is not None else None

    @property
    def time(self) -> float:
        """The time of the election's loop. From any thread, after the start."""
        assert self._loop is not None
        return self._loop.time()

    def left(self) -> float:
        """The seconds for which this process may act without another renewal, by the clocks as they are now. From any thread."""
        return 0.0 if self._loop is None else self._candidate.left(clock.Instant(self._loop.time(), clock.now()))

    def resign(self, term: int) -> None:
        """End this term if it lasts, since its process has ceased to act; the lease is then won anew. From any thread, after the start."""
        assert self._loop is not None
        # A closed loop has no term any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._resign, term)

    def _resign(self, term: int) -> None:
        if self.term == term and self.is_open:
            self._lose()
            self._changed.set()

    # The component.

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"election {self.config.lease}"

    async def start(self) -> None:
        """Begin to take part.

        Raises AccessError, and Unauthorized or Forbidden if the Lease may not be read; after other errors the election goes on.
        """
        self._loop = asyncio.get_running_loop()
        try:
            await self._in_time(self._read())
        except (Unauthorized, Forbidden):
            raise
        except (APIError, RequestError, TimeoutError) as error:
            self._report(error)
        self._tasks.spawn(self._take_part(), name="lease")
        self._tasks.spawn(self._lease.follow(self._heard, self.config.rules.retry_period), name="watch")

    async def stop(self, grace: float) -> None:
        """Close the gate and release the lease. Call it when everything that acts under it has stopped."""
        await self._tasks.stop(min(grace, 1.0))
        held = self.is_open
        self._candidate.lose()
        self.revoke()
        if not held or not self.config.release_on_stop:
            return
        try:
            async with asyncio.timeout(max(1.0, min(grace, self.config.rules.renew_deadline))):
                await self._release()
        except TimeoutError:
            _logger.warning("The lease %s could not be released in time; others wait for its end.", self.config.lease)

    async def _release(self) -> None:
        async for attempt in RELEASE.copy():
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    # The Lease may have changed, or be released already.
                    await self._read()
                record = self._candidate.release(clock.now())
                if record is not None:
                    await self._write(record)
                    _logger.info("The lease %s is released.", self.config.lease)

    # Taking part.

    async def _take_part(self) -> None:
        # No retry policy: the rules of leases set the time of each attempt, after a success as after a failure.
        while True:
            began = _monotonic()
            try:
                if self._hooks.may_renew():
                    await self._attempt_in_time()
                    self._failing = False
            except (APIError, RequestError, AccessError, TimeoutError) as error:
                self._report(error)
            except Exception:
                # The election continues after any error.
                _logger.exception("Taking part in the election of %s failed unexpectedly.", self.config.lease)
            self._judge()
            await self._pause(_monotonic() - began)

    async def _attempt_in_time(self) -> None:
        """A request that hangs must end before our lease does."""
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
            # Another participant was faster, or the answer to our own write was lost: the stored Lease tells which.
            self.slow_path += leading
            await self._in_time(self._read())
            if leading and self.holder == self.config.identity:
                await self._in_time(self._write(self._candidate.proposal(clock.now())))
            elif self._candidate.record == before:
                # Neither: the namespace is missing, for example.
                raise

    async def _in_time(self, request: Awaitable[None]) -> None:
        """A request that hangs leaves time for a second attempt. Slow requests have this time each, as in client-go."""
        async with asyncio.timeout(max(1.0, self.config.rules.renew_deadline / 2)):
            await request

    def _note_claim(self) -> None:
        """Remember what predecessors wrote. If our own write was stored and its answer lost, the first finding stays."""
        if self._claim is None or self.holder != self.config.identity:
            self._claim = PredecessorWrites(read_versions(self._lease.annotations), self._candidate.acting_until)
            self._hooks.inherit(self._claim.versions)

    async def _pause(self, taken: float) -> None:
        """Wait for the next attempt or for a change of the Lease. `taken`: the seconds that the last attempt took."""
        rules, candidate = self.config.rules, self._candidate
        now = clock.instant()
        if candidate.holds(now):
            # From one sending to the next: a slow answer must not make renewals rarer.
            wait = min(max(rules.retry_period / 10, rules.retry_period - taken), candidate.left(now))
        else:
            # Spread, so that standbys do not ask at the same moment.
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
        """Open or revoke the gate according to the rules, and log a new holder."""
        if self.holder != self._holder:
            self._holder = self.holder
            _logger.info("The lease %s is held by %s.", self.config.lease, self._holder or "nobody")
        if self._candidate.holds(clock.instant()):
            if not self.is_open:
                _logger.info("Leading as %s: the lease %s.", self.config.identity, self.config.lease)
                self.term += 1
                self.predecessors, self._claim = self._claim or PredecessorWrites(), None
                self.open()
        elif self.is_open:
            self._lose()

    def _lose(self) -> None:
        _logger.warning(
            "Lost leadership of %s; this process (%s) takes part in the election again.",
            self.config.lease,
            self.config.identity,
        )
        self._candidate.lose()
        self.revoke()

    def _report(self, error: Exception) -> None:
        # A leader logs each failure; others log the first one of a series.
        level = logging.WARNING if self.is_open or not self._failing else logging.DEBUG
        self._failing = True
        _logger.log(level, "The lease %s could not be read or written: %s", self.config.lease, in_words(error))

    # The Lease.

    async def _read(self) -> None:
        record, told = await self._lease.read(), self._candidate.is_doubled
        self._candidate.observe(record, _monotonic())
        self._compare()
        if self._candidate.is_doubled and not told:
            _logger.error(
                "Another process takes part in the election of %s as %s too, and both lead. Each replica needs an identity of its "
                "own: settings.leadership.identity, or none, for one with a random part.",
                self.config.lease,
                self.config.identity,
            )

    async def _write(self, record: Record) -> None:
        self._candidate.sending(record, clock.instant())
        await self._lease.write(record, self._hooks.annotations())
        self._candidate.confirmed()

    def _heard(self, record: Record | None) -> None:
        # The next attempt reads the Lease, since the watch may lag. A leader's own renewals, which the watch may show before their
        # answers, start no attempt.
        if not self.is_open or record is None or record.holder != self.config.identity:
            self._changed.set()

    def _compare(self) -> None:
        """Warn once when the lease seems to be that of another operator."""
        if self._warned or self.holder in {None, self.config.identity}:
            return
        theirs, ours = self._lease.annotations, self.config.lease_annotations
        for what, name in (("files", FILES_ANNOTATION), ("resources", RESOURCES_ANNOTATION)):
            if name in ours and name in theirs and ours[name] != theirs[name]:
                self._warned = True
                _logger.warning(
                    "Is %s another operator? It holds the lease %s with the %s %s; those of this one are %s. "
                    "Two operators need two leases: give one of them a name of its own.",
                    self.holder,
                    self.config.lease,
                    what,
                    theirs[name],
                    ours[name],
                )
                return

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment (a source for `ctl.runtime.metrics`)."""
        yield Sample(STATUS, (self.config.name,), int(self.is_open))
        yield Sample(SLOW_PATH, (self.config.name,), self.slow_path)
        yield Sample(SECONDS_LEFT, (self.config.name,), self.left())


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
