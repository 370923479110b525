"""Leadership is the gate of those who act only while they hold a Lease, and the fence before what they write."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...client.config.access import Access, AccessSource
from ...client.resources import Resource
from ...client.rest import Client
from ...client.settings import ClientSettings
from ...runtime import clock
from ...runtime.backoff import Backoff
from ...runtime.metrics import Sample
from ...runtime.tasks import Tasks
from .election import ALONE, FILES, RESOURCES, Election, ElectionSettings, Owner
from .election_thread import ElectionThread, LoopCheck, ProgramAccess
from .gate import Cache, Callback, ManualGate, Turn
from .lease_rules import LeaseRules
from .written import WRITTEN, Legacy, Written

_logger = logging.getLogger("ctl.leadership")

T = TypeVar("T")

LATE = 30.0
"""After how many seconds, and then how often, the log says which copy is waited for."""
EXTRA = 2.0
"""Seconds beyond its grace that a stop may take: for the connections and the thread."""
ASKING = Backoff(initial=2.0, cap=40.0, jitter=0.5, reset_after=None)
"""When to ask again whether the election may be joined: soon at first, since a role may come a moment after the pod; then each minute."""


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """Which Lease, as whom, and what is written on it. Times are in seconds."""

    name: str
    namespace: str
    identity: str
    """Nobody else's: the pod's name and a random part, for one."""
    rules: LeaseRules = field(default_factory=LeaseRules)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Put on the Lease by whoever holds it."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The same."""
    release_on_stop: bool = True
    """Give the lease back at the end, so that another takes over at once instead of after its duration."""
    files: tuple[str, ...] = ()
    """The files and modules of the operator: noted on the Lease, so that another operator with the same lease is found out."""
    resources: tuple[str, ...] = ()
    """What the operator handles, for the same purpose."""
    stall_limit: float = 60.0
    """When the owner's loop has not turned for so long, the lease is renewed no more."""
    thread: bool | None = None
    """Whether the lease is renewed by a thread of its own; None: yes, unless the process lives in another time than the system's."""

    def election(self) -> ElectionSettings:
        """What the election is told."""
        noted = {FILES: ",".join(sorted(self.files)), RESOURCES: ",".join(sorted(self.resources))}
        return ElectionSettings(
            name=self.name,
            namespace=self.namespace,
            identity=self.identity,
            rules=self.rules,
            labels=self.labels,
            annotations={**{name: text for name, text in noted.items() if text}, **self.annotations},
            release_on_stop=self.release_on_stop,
        )


@dataclass(frozen=True, slots=True)
class Alone:
    """Why a process acts without the election that it is to take part in, and how it finds out that it may."""

    reason: str
    """For people: which rights are missing."""
    may_join: Callable[[], Awaitable[bool]]
    """Asked from time to time; false also while nobody answers."""


class Leadership:
    """A gate, open while this process leads; the fence of the clients that write; and a component with a start and a stop.

    Promised, besides what `Election` promises: the lease is renewed by a thread with connections of its own, so that nothing that blocks the
    owner's loop loses it, unless that lasts for `stall_limit` seconds. The gate tells its changes in the owner's loop; `left` is right from
    any thread at any time, also before the loop has heard of a loss. `catch_up` lets nobody act by a copy that is older than
    what predecessors wrote.

    With `alone` it is open from the start, without an election, and nothing is promised of other processes: until `may_join` says that this
    one may take part, which is asked again every minute at most. Then it closes, and opens when the lease is held. Once it takes part
    it never acts without the lease again.

    Belongs to the loop in which it is started, except for `term`, `left` and `wrote`, which may be called from any thread.
    """

    def __init__(
        self,
        access: Access | AccessSource,
        settings: LeaderElectionConfig,
        client_settings: ClientSettings = ClientSettings(),  # noqa: B008 - frozen
        *,
        alone: Alone | None = None,
    ) -> None:
        self.settings = settings
        self.written = Written()
        """What is left to the successor."""
        self._access = access
        self._client_settings = client_settings
        self._alone = alone
        self._tasks = Tasks(self.name)
        self._valve = ManualGate()
        self._thread: ElectionThread | None = None
        self._client: Client | None = None
        self._election: Election | None = None
        # Of the gate as its subscribers know it: the term of the election, and what its predecessors left, in the owner's time.
        self._term = 0
        self._legacy = Legacy()
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = False
        # The last loss, in the time of the election; and whether the owner's loop has heard of it.
        self._lost_at = 0.0
        self._loss_heard = True
        self.unheard: Callable[[], object] | None = None
        """Called in the thread of the election when leadership is lost and the owner's loop, which something blocks, has not heard of it
        after three quarters of the time until others may act. Set it before the start; without a thread it is never called."""
        self.withdraw: Callable[[], Awaitable[object]] | None = None
        """Awaited before the election is joined by a process that has acted without it: time for what runs to end. Set it before the start."""

    # The gate.

    @property
    def is_open(self) -> bool:
        """Whether this process leads, at this very moment."""
        return self.left() > 0

    async def wait_open(self) -> None:
        """Wait until this process leads."""
        while not self.is_open:
            self._look()
            await self._valve.wait_open()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Be told of each change, in the owner's loop; call what is given back to end that."""
        return self._valve.subscribe(callback)

    @property
    def holder(self) -> str | None:
        """Who holds the lease, as far as this process has seen; None: nobody."""
        return None if self._election is None else self._election.holder

    @property
    def alone(self) -> str | None:
        """Why this process acts without the election; None: it takes part."""
        return None if self._alone is None else self._alone.reason

    async def catch_up(self, cache: Cache) -> None:
        """Wait until a cache shows the writes of predecessors, without a limit: an attempt before would act on an old state.

        If its watch does not deliver them, the cache lists its resource. The log names a cache that takes long.
        """
        name, legacy = cache.resource.name, self._legacy
        task = asyncio.ensure_future(cache.catch_up(legacy.written.get(name, ""), legacy.until))
        waited = 0.0
        try:
            while not (await asyncio.wait({task}, timeout=LATE))[0]:
                waited += LATE
                _logger.warning(
                    "Take-over: no attempts from the cache of %r, which after %d s has not reached the version that was written "
                    "before (%s). Look at the state of its informer.",
                    cache.resource,
                    waited,
                    legacy.written.get(name) or "unknown",
                )
            if task.result():
                _logger.info("Take-over: %r was listed anew.", cache.resource)
        finally:
            task.cancel()

    def spare(self) -> float:
        """After a loss: for how many seconds others may not act yet."""
        rules, election = self.settings.rules, self._election
        # Before the first term that was won, nothing was lost but the freedom to act alone.
        passed = 0.0 if election is None or not self._term else election.time - self._lost_at
        return max(0.0, rules.duration - rules.renew_deadline - passed)

    # The fence; from any thread.

    @property
    def term(self) -> int:
        """Which time of leading this is."""
        return self._term

    def left(self) -> float:
        """For how many seconds writes may be made without another renewal; 0 while this process does not lead.

        Without an election it is the time for which any renewal would last: longer than that nobody may rely on.
        """
        if self._alone is not None:
            return self.settings.rules.renew_deadline if self._valve.is_open else 0.0
        election = self._election
        # A term that the subscribers have not heard of is not theirs to act in.
        if election is None or not self._valve.is_open or election.term != self._term:
            return 0.0
        return election.left()

    def wrote(self, resource: Resource, version: str | None) -> None:
        """Take notice of a write, for the successor; None: it may have been applied, and nobody knows as which version."""
        self.written.note(resource, version)

    # The component.

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return f"leadership {self.settings.namespace}/{self.settings.name}"

    async def start(self) -> None:
        """Begin to take part. Raises Unauthorized or Forbidden when the lease may not be read, and AccessError; what may pass is waited for.

        One who is to act alone raises nothing.
        """
        if self._alone is None:
            await self._take_part()
            return
        self._tasks.spawn(self._join(self._alone), name="rights")
        self._valve.open()

    async def _join(self, alone: Alone) -> None:
        delays, time = ASKING.start(), asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(delays.next(time(), random.random()))
            try:
                if await self._try_to_join(alone):
                    return
            except Exception as error:
                # Whatever it is: who gave up would act alone for ever, or never act again.
                _logger.warning("The election could not be joined and will be tried again: %s: %s", self.name, error)

    async def _try_to_join(self, alone: Alone) -> bool:
        if not await alone.may_join():
            return False
        if self._alone is not None:
            _logger.info("The election can be joined now; nothing is done until the lease is held: %s", self.name)
            if self.withdraw is not None:
                await self.withdraw()
            self._alone = None
            self._valve.revoke()
        await self._take_part()
        return True

    async def _take_part(self) -> None:
        home = asyncio.get_running_loop()
        source: Access | AccessSource = self._access
        check: LoopCheck | None = None
        if await self._wants_thread():
            self._thread = ElectionThread(self.name)
            check = LoopCheck(home, self.settings.stall_limit)
            if not isinstance(source, Access):
                source = ProgramAccess(source, home)
        self._client = Client(source, self._client_settings)
        owner = Owner(
            may_renew=lambda: check is None or self._is_alive(check),
            notes=lambda: {WRITTEN: self.written.text()},
            inherit=self.written.inherit,
        )
        election = self._election = Election(self._client, self.settings.election(), owner)
        election.subscribe(lambda turn: self._pass_on(turn, election, home))
        try:
            if self._thread is not None:
                await self._thread.start()
            await self._there(election.start())
        except BaseException:
            await self._close()
            raise

    async def _wants_thread(self) -> bool:
        wanted = self.settings.thread if self.settings.thread is not None else not clock.is_replaced()
        if not wanted or isinstance(self._access, Access):
            return wanted and not (isinstance(self._access, Access) and self._has_session(self._access))
        return not self._has_session(await self._access.access())

    @staticmethod
    def _has_session(access: Access) -> bool:
        if access.session is not None:
            _logger.info(
                "%s gave a ready HTTP session, which belongs to this loop: the lease is renewed here, and lost when a handler "
                "blocks the loop for too long.",
                access.origin,
            )
        return access.session is not None

    def _is_alive(self, check: LoopCheck) -> bool:
        """In the loop of the election: whether the owner's loop turns."""
        assert self._election is not None
        alive = check.turns(self._election.time)
        if alive:
            self._stalled = False
        elif not self._stalled:
            self._stalled = True
            _logger.error(
                "The loop of this process has not turned for %g s: the lease is renewed no more. Something blocks it.",
                self.settings.stall_limit,
            )
        return alive

    async def _there(self, coro: Coroutine[Any, Any, T]) -> T:
        """Carry out something of the election, in its loop."""
        return await (coro if self._thread is None else self._thread.call(coro))

    async def stop(self, grace: float) -> None:
        """Close the gate and give the lease back. To be called when everything that acts under it has stopped: after the last write."""
        await self._tasks.stop(min(grace, 1.0))
        try:
            # Without a client the start has failed, and has put everything away.
            if self._election is not None and self._client is not None:
                async with asyncio.timeout(grace + EXTRA):
                    await self._there(self._election.stop(grace))
        except (TimeoutError, RuntimeError) as error:
            _logger.warning("%s did not end in time; others wait for the end of the lease: %r", self.name, error)
        finally:
            if self._valve.is_open:
                self._valve.revoke()
            await self._close()

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        client, self._client = self._client, None
        if client is not None and (self._thread is None or self._thread.runs):
            await self._there(client.close())
        if self._thread is not None and not await self._thread.stop():
            _logger.warning("The thread of %s did not end in time and is abandoned.", self.name)

    # From the election.

    def _pass_on(self, turn: Turn, election: Election, home: asyncio.AbstractEventLoop) -> None:
        """In the loop of the election: have the owner's loop hear of a change."""
        term, legacy, time = election.term, election.legacy, election.time
        silence = None if legacy.until is None else time - legacy.until
        if turn is not Turn.OPENED and self._loss_heard:
            self._lost_at, self._loss_heard = time, False
            if self._thread is not None:
                asyncio.get_running_loop().call_later(self.spare() * 0.75, self._miss, time)
        try:
            home.call_soon_threadsafe(self._told, turn, term, legacy, silence)
        except RuntimeError:
            # The loop was closed without a stop: there is nobody to tell.
            self._loss_heard = True

    def _miss(self, lost_at: float) -> None:
        """In the thread of the election: the loss should have been heard of."""
        if not self._loss_heard and self._lost_at == lost_at and self.unheard is not None:
            self.unheard()

    def _told(self, turn: Turn, term: int, legacy: Legacy, silence: float | None) -> None:
        assert self._election is not None
        if turn is not Turn.OPENED:
            self._loss_heard = True
            if self._valve.is_open:
                self._valve.revoke()
            return
        if self._election.term != term or self._election.left() <= 0:
            # Over before it was heard of.
            self._election.resign(term)
            return
        now = asyncio.get_running_loop().time()
        self._legacy = Legacy(legacy.written, None if silence is None else now - silence)
        self._term = term
        self._valve.open()
        self._look()

    def _look(self) -> None:
        """Revoke at the deadline, also when the thread that should say so does not."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._valve.is_open or self._alone is not None:
            return
        left = self.left()
        if left <= 0:
            # The election may have had its renewal a moment too late, and know nothing of this.
            if self._election is not None:
                self._lost_at = self._election.time
                self._election.resign(self._term)
            self._valve.revoke()
        else:
            # Not sooner than clocks can tell: what is left may be less than their resolution.
            self._timer = asyncio.get_running_loop().call_later(max(left, 0.001), self._look)

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment, the requests of the renewing client included (a source for `ctl.runtime.metrics`)."""
        if self._alone is not None or self._election is not None:
            yield Sample(ALONE, (self.settings.name,), int(self._alone is not None))
        if self._election is not None:
            yield from self._election.samples()
        if self._client is not None:
            yield from self._client.metrics.samples()
