"""Leadership: the gate of a program that acts only while it holds a Lease, and the fence of its writes.

What happens when a lease is lost? The election, in its thread, revokes its gate (at the renew deadline at the latest), and the loop of the
program is told. `left()` is 0 from then on, in every thread: no attempt, no handler and no write begins. In the loop this gate is revoked,
and `controller.program.terms` ends the term: it revokes the gate of the program, whose controllers cancel their attempts, and ends the
program if something outlives them. If the loop itself is blocked, `unheard` is called in the thread. Meanwhile the election goes on.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import tenacity

from ...client.config.access import Access, AccessSource
from ...client.resources import Resource
from ...client.rest import Client
from ...client.settings import ClientSettings
from ...runtime import clock
from ...runtime.metrics import Sample
from ...runtime.tasks import Tasks
from .election import ALONE, Election, ElectionHooks
from .election_thread import ElectionThread, LoopCheck, ProgramAccess
from .gate import Cache, Callback, ManualGate, Turn
from .lease_client import LeaderElectionConfig
from .written_versions import WRITTEN_ANNOTATION, PredecessorWrites, Versions, WrittenVersions

_logger = logging.getLogger("ctl.leadership")

T = TypeVar("T")

LATE = 30.0
"""Seconds after which, and then how often, the log names a cache that has not caught up."""
EXTRA = 2.0
"""Seconds beyond its grace that a stop may take: for the connections and the thread."""
FIRST_ASK, LAST_ASK = 2.0, 40.0
"""Seconds until the rights for the election are asked for again: few at first, since a role may come a moment after the pod."""


def _next_ask(state: tenacity.RetryCallState) -> float:
    return min(LAST_ASK, FIRST_ASK * 2.0 ** min(state.attempt_number, 10)) * (1.0 + random.random() / 2)


JOINING = tenacity.AsyncRetrying(
    # After any error: without a retry the process would act alone for ever, or never act again.
    retry=tenacity.retry_if_exception_type() | tenacity.retry_if_result(lambda joined: not joined),
    wait=_next_ask,
)


@dataclass(frozen=True, slots=True)
class Alone:
    """A process acts without the election, since rights are missing."""

    reason: str
    """The missing rights, for people."""
    may_join: Callable[[], Awaitable[bool]]
    """Returns whether the rights are there; false also if the server does not answer."""


class Leadership:
    """A gate that is open while this process leads; the fence of its writes; and a component with a start and a stop.

    Promised, besides what `Election` promises: a thread with connections of its own renews the lease, so that a blocked loop does not lose
    it, unless it is blocked for `stall_limit` seconds. Subscribers are called in the loop of the program; `left` is right from any thread at
    any time, also before the loop knows of a loss. `catch_up` delays attempts until a cache shows what predecessors wrote.

    With `alone` the gate is open from the start, without an election and without a promise about other processes. `may_join` is asked again
    every minute at most; once it agrees, the gate closes, and opens when the lease is held. From then on the process never acts without the
    lease.

    Belongs to the loop in which it is started, except for `term`, `left` and `wrote`, which may be called from any thread.
    """

    def __init__(
        self,
        access: Access | AccessSource,
        config: LeaderElectionConfig,
        client_settings: ClientSettings = ClientSettings(),  # noqa: B008 - frozen
        *,
        alone: Alone | None = None,
    ) -> None:
        self.config = config
        self.written = WrittenVersions()
        """The versions for the successor."""
        self._access = access
        self._client_settings = client_settings
        self._alone = alone
        self._tasks = Tasks(self.name)
        self._gate = ManualGate()
        self._thread: ElectionThread | None = None
        self._client: Client | None = None
        self._election: Election | None = None
        # What subscribers know: the term of the election, and what its predecessors wrote, in the time of the program's loop.
        self._term = 0
        self._predecessors = PredecessorWrites()
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = False
        # The last loss, in the time of the election; and whether the program's loop knows of it.
        self._lost_at = 0.0
        self._loss_heard = True
        self.unheard: Callable[[], object] | None = None
        """Called in the thread of the election if leadership is lost and the program's loop, which is blocked, does not know of it
        after three quarters of the time until others may act. Set it before the start; without a thread it is never called."""
        self.withdraw: Callable[[], Awaitable[object]] | None = None
        """Awaited before a process that acts alone joins the election, so that running attempts may end. Set it before the start."""

    # The gate.

    @property
    def is_open(self) -> bool:
        """Whether this process leads now, by the clock."""
        return self.left() > 0

    async def wait_open(self) -> None:
        """Wait until this process leads."""
        while not self.is_open:
            self._check_deadline()
            await self._gate.wait_open()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call a function at each change, in the program's loop. Returns a function that ends the subscription."""
        return self._gate.subscribe(callback)

    @property
    def holder(self) -> str | None:
        """The holder of the lease, as far as this process has seen; None: nobody."""
        return None if self._election is None else self._election.holder

    @property
    def alone(self) -> str | None:
        """Why this process acts without the election; None: it takes part."""
        return None if self._alone is None else self._alone.reason

    async def catch_up(self, cache: Cache) -> None:
        """Wait until a cache shows the writes of predecessors, without a limit: an attempt before would act on an old state.

        If its watch does not deliver them, the cache lists its resource. The log names a cache that takes long.
        """
        name, predecessors = cache.resource.name, self._predecessors
        task = asyncio.ensure_future(cache.catch_up(predecessors.versions.get(name, ""), predecessors.until))
        waited = 0.0
        try:
            while not (await asyncio.wait({task}, timeout=LATE))[0]:
                waited += LATE
                _logger.warning(
                    "Take-over: no attempts from the cache of %r, which after %d s has not reached the version that was written "
                    "before (%s). Look at the state of its informer.",
                    cache.resource,
                    waited,
                    predecessors.versions.get(name) or "unknown",
                )
            if task.result():
                _logger.info("Take-over: %r was listed anew.", cache.resource)
        finally:
            task.cancel()

    def spare(self) -> float:
        """After a loss: the seconds until others may act."""
        rules, election = self.config.rules, self._election
        # Before the first term in an election there was no lease to lose.
        passed = 0.0 if election is None or not self._term else election.time - self._lost_at
        return max(0.0, rules.duration - rules.renew_deadline - passed)

    # The fence; from any thread.

    @property
    def term(self) -> int:
        """The number of this term."""
        return self._term

    def left(self) -> float:
        """The seconds in which writes may be sent without another renewal; 0 while this process does not lead.

        Without an election it is the renew deadline, the longest time that any renewal gives.
        """
        if self._alone is not None:
            return self.config.rules.renew_deadline if self._gate.is_open else 0.0
        election = self._election
        # No action in a term that the subscribers do not know of.
        if election is None or not self._gate.is_open or election.term != self._term:
            return 0.0
        return election.left()

    def wrote(self, resource: Resource, version: str | None) -> None:
        """Note the version of a write for the successor; None: the answer was lost, and the write may have been applied."""
        self.written.note(resource, version)

    # The component.

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"leadership {self.config.lease}"

    async def start(self) -> None:
        """Begin to take part, or to act alone (then nothing is raised).

        Raises AccessError, and Unauthorized or Forbidden if the Lease may not be read; after other errors the election goes on.
        """
        if self._alone is None:
            await self._take_part()
            return
        self._tasks.spawn(self._join(self._alone), name="rights")
        self._gate.open()

    async def _join(self, alone: Alone) -> None:
        await asyncio.sleep(FIRST_ASK * (1.0 + random.random() / 2))
        await JOINING.copy(before_sleep=self._report_failed_join)(self._try_to_join, alone)

    def _report_failed_join(self, state: tenacity.RetryCallState) -> None:
        if state.outcome is not None and (error := state.outcome.exception()) is not None:
            _logger.warning("The election could not be joined and will be tried again: %s: %s", self.name, error)

    async def _try_to_join(self, alone: Alone) -> bool:
        if not await alone.may_join():
            return False
        if self._alone is not None:
            _logger.info("The election can be joined now; nothing is done until the lease is held: %s", self.name)
            if self.withdraw is not None:
                await self.withdraw()
            self._alone = None
            self._gate.revoke()
        await self._take_part()
        return True

    async def _take_part(self) -> None:
        home = asyncio.get_running_loop()
        source: Access | AccessSource = self._access
        check: LoopCheck | None = None
        if await self._wants_thread():
            self._thread = ElectionThread(self.name)
            check = LoopCheck(home, self.config.stall_limit)
            if not isinstance(source, Access):
                source = ProgramAccess(source, home)
        self._client = Client(source, self._client_settings)
        hooks = ElectionHooks(
            may_renew=lambda: check is None or self._is_alive(check),
            annotations=lambda: {WRITTEN_ANNOTATION: self.written.text()},
            inherit=self.written.inherit,
        )
        election = self._election = Election(self._client, self.config, hooks)
        election.subscribe(lambda turn: self._election_turned(turn, election, home))
        try:
            if self._thread is not None:
                await self._thread.start()
            await self._in_election_loop(election.start())
        except BaseException:
            await self._close()
            raise

    async def _wants_thread(self) -> bool:
        if not (self.config.thread if self.config.thread is not None else not clock.is_replaced()):
            return False
        access = self._access if isinstance(self._access, Access) else await self._access.access()
        if access.session is not None:
            _logger.info(
                "%s gave a ready HTTP session, which belongs to this loop: the lease is renewed in this loop, and lost if the loop is "
                "blocked for too long.",
                access.origin,
            )
        return access.session is None

    def _is_alive(self, check: LoopCheck) -> bool:
        """In the loop of the election: whether the program's loop turns."""
        assert self._election is not None
        alive = check.turns(self._election.time)
        if not alive and not self._stalled:
            _logger.error(
                "The event loop has been blocked for %g s: the lease %s is no longer renewed.",
                self.config.stall_limit,
                self.config.lease,
            )
        self._stalled = not alive
        return alive

    async def _in_election_loop(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the election in its loop."""
        return await (coro if self._thread is None else self._thread.call(coro))

    async def stop(self, grace: float) -> None:
        """Close the gate and release the lease. Call it when everything that acts under it has stopped: after the last write."""
        await self._tasks.stop(min(grace, 1.0))
        try:
            # Without a client the start has failed, and has closed everything.
            if self._election is not None and self._client is not None:
                async with asyncio.timeout(grace + EXTRA):
                    await self._in_election_loop(self._election.stop(grace))
        except (TimeoutError, RuntimeError) as error:
            _logger.warning("%s did not end in time; others wait for the end of the lease: %r", self.name, error)
        finally:
            if self._gate.is_open:
                self._gate.revoke()
            await self._close()

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        client, self._client = self._client, None
        if client is not None and (self._thread is None or self._thread.runs):
            await self._in_election_loop(client.close())
        if self._thread is not None and not await self._thread.stop():
            _logger.warning("The thread of %s did not end in time and is abandoned.", self.name)

    # From the election.

    def _election_turned(self, turn: Turn, election: Election, home: asyncio.AbstractEventLoop) -> None:
        """In the loop of the election: pass a change on to the program's loop."""
        term, predecessors, time = election.term, election.predecessors, election.time
        silence = None if predecessors.until is None else time - predecessors.until
        if turn is not Turn.OPENED and self._loss_heard:
            self._lost_at, self._loss_heard = time, False
            if self._thread is not None:
                asyncio.get_running_loop().call_later(self.spare() * 0.75, self._check_heard, time)
        try:
            home.call_soon_threadsafe(self._turned, turn, term, predecessors.versions, silence)
        except RuntimeError:
            # The loop was closed without a stop.
            self._loss_heard = True

    def _check_heard(self, lost_at: float) -> None:
        """In the thread of the election: the program's loop should know of the loss by now."""
        if not self._loss_heard and self._lost_at == lost_at and self.unheard is not None:
            self.unheard()

    def _turned(self, turn: Turn, term: int, versions: Versions, silence: float | None) -> None:
        assert self._election is not None
        if turn is not Turn.OPENED:
            self._loss_heard = True
            if self._gate.is_open:
                self._gate.revoke()
            return
        if self._election.term != term or self._election.left() <= 0:
            # The term ended before this loop knew of it.
            self._election.resign(term)
            return
        now = asyncio.get_running_loop().time()
        self._predecessors = PredecessorWrites(versions, None if silence is None else now - silence)
        self._term = term
        self._gate.open()
        self._check_deadline()

    def _check_deadline(self) -> None:
        """Revoke the gate at the deadline, also if the thread of the election does not."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._gate.is_open or self._alone is not None:
            return
        left = self.left()
        if left <= 0:
            # The election does not know of this end: its renewal may have come a moment too late.
            if self._election is not None:
                self._lost_at = self._election.time
                self._election.resign(self._term)
            self._gate.revoke()
        else:
            # Not sooner than clocks can tell: the time that is left may be below their resolution.
            self._timer = asyncio.get_running_loop().call_later(max(left, 0.001), self._check_deadline)

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment, the requests of the renewing client included (a source for `ctl.runtime.metrics`)."""
        if self._alone is not None or self._election is not None:
            yield Sample(ALONE, (self.config.name,), int(self._alone is not None))
        if self._election is not None:
            yield from self._election.samples()
        if self._client is not None:
            yield from self._client.metrics.samples()
