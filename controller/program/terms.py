"""Who may act: the one gate of a program, which is turned here alone; and the end of each term of leadership.

A program acts while it leads (always, where there is no election) and while no other gate is closed: peers may have it pause, and so
may a gate of the user's. A standby keeps its caches and indices filled, and starts nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from ...runtime.tasks import Tasks
from ..kernel.controller import Controller
from ..leader.gate import Cache, Gate, LeaseGate, ManualGate, Turn
from ..leader.leadership import Leadership
from .stopping import LastResort, resort_now, resort_to

_logger = logging.getLogger("ctl.leadership")

LOOK = 0.05
"""How often to look, at the start, whether it is known who leads, in seconds."""


class StillActing(RuntimeError):
    """Leadership was lost, and something that cannot be cancelled goes on."""

    def __init__(self, lease: str, survivors: list[str]) -> None:
        shown = ", ".join(survivors[:3]) + (f" and {len(survivors) - 3} more" if len(survivors) > 3 else "")
        super().__init__(
            f"The lease {lease} was lost while what cannot be cancelled goes on: {shown}. The program ends, since another "
            "one may act now."
        )
        self.survivors = survivors


class ProgramGate(ManualGate):
    """The gate of one program, for everything that acts in it; its `Terms` open and close it."""

    def __init__(self, leadership: Leadership | None, others: Sequence[Gate]) -> None:
        super().__init__()
        self.leadership = leadership
        self.others = others


class LeaderGate(ProgramGate):
    """The same behind leadership: before anything is attempted, a cache must have caught up with what the predecessor wrote."""

    def __init__(self, leadership: Leadership | None, others: Sequence[Gate]) -> None:
        super().__init__(leadership, others)
        gates = others if leadership is None else (leadership, *others)
        self._leases = [gate for gate in gates if isinstance(gate, LeaseGate)]
        self.left: Callable[[], float] = (
            self._leases[0].left
            if len(self._leases) == 1
            else lambda: min((lease.left() for lease in self._leases), default=inf)
        )
        """For how many seconds anything may begin, whether or not the loop has heard of an end. It is asked for each attempt."""

    async def catch_up(self, cache: Cache) -> None:
        """Wait until attempts may rely on this cache."""
        for lease in self._leases:
            await lease.catch_up(cache)


def gate_of(leadership: Leadership | None, *others: Gate) -> ProgramGate:
    """A gate that is open while this process leads (None: always) and all the others are open."""
    if leadership is None and not any(isinstance(gate, LeaseGate) for gate in others):
        return ProgramGate(leadership, others)
    return LeaderGate(leadership, others)


def acting_in(controllers: Iterable[Controller[Any]]) -> dict[asyncio.Task[Any], str]:
    """The attempts that controllers make now, and what the log calls them."""
    return {
        task: f"the reconciler of {controller.name} for {key}"
        for controller in controllers
        for key, task in controller.attempts.items()
    }


async def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class TermHooks:
    """What acts in the terms of a program, and what is to be done around them."""

    acting: Callable[[], dict[asyncio.Task[Any], str]]
    """The tasks that act now and may not outlive a term, and what the log calls them."""
    leading: Callable[[], Awaitable[Any]] = _nothing
    """Awaited before the gate opens for a term; cancelled when leadership is lost meanwhile. An exception ends the program."""
    begin: Callable[[], object] = lambda: None
    """Called right before the gate opens for a term that was won in an election."""
    standby: Callable[[], Awaitable[Any]] = _nothing
    """Awaited after a term, and when a standby starts. An exception ends the program."""
    exit_timeout: Callable[[], float] = lambda: 2.0
    """How long running work may take when it has to wait for the lease, in seconds."""


class Terms:
    """Opens and closes the gate of a program, and sees to it that nothing outlives a term; a component.

    Start it after the leadership, and stop it before: so no write comes after the release of the lease. The gate is open from `hooks.leading`
    to the end of the term, while all other gates are open. At a loss of leadership the gate is revoked: its subscribers cancel what runs.
    If something goes on after half of the time until others may act, `fail` is called, to stop the program, and `last_resort` shortly
    before others may act; by another thread if the event loop is blocked, or has ended, by then.
    """

    def __init__(
        self,
        gate: ProgramGate,
        hooks: TermHooks,
        fail: Callable[[str, BaseException], None],
        last_resort: LastResort | None = None,
    ) -> None:
        leadership = gate.leadership
        self.name = "terms" if leadership is None else f"terms of {leadership.name}"
        self._gate = gate
        self._leadership = leadership
        self._hooks = hooks
        self._fail = fail
        self._last_resort = last_resort
        self._tasks = Tasks("terms")
        self._following: asyncio.Task[None] | None = None
        self._ends: list[Callable[[], None]] = []
        self._lost = asyncio.Event()
        self._in_term = False
        # Whether `hooks.leading` was called, so that `hooks.standby` is due.
        self._leading = False
        if leadership is not None:
            leadership.withdraw = self._withdraw
            if last_resort is not None:
                leadership.unheard = self._resort

    async def start(self) -> None:
        """Turn the gate from now on. Without an election the term begins at once; raises what `hooks.leading` raises then."""
        self._ends = [gate.subscribe(self._other_turned) for gate in self._gate.others]
        if self._leadership is None:
            self._leading = True
            try:
                await self._hooks.leading()
            except BaseException:
                await self.stop(0.0)
                raise
            self._in_term = True
            self._judge()
            return
        self._ends.append(self._leadership.subscribe(self._leadership_turned))
        self._following = self._tasks.spawn(self._follow(self._leadership), name="leadership")

    async def stop(self, grace: float) -> None:
        """Close the gate, and stop what only a leader may have started. To be called when everything that acts has been stopped."""
        for end in self._ends:
            end()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        self._in_term = False
        self._judge()
        await self._tasks.stop(0.0)
        if self._leading:
            self._leading = False
            await self._hooks.standby()

    # The gate.

    def _judge(self) -> None:
        if self._in_term and all(gate.is_open for gate in self._gate.others):
            self._gate.open()
        else:
            self._gate.close()

    def _other_turned(self, turn: Turn) -> None:
        if turn is Turn.REVOKED:
            self._gate.revoke()
        else:
            self._judge()

    def _leadership_turned(self, turn: Turn) -> None:
        if turn is Turn.OPENED:
            return
        assert self._leadership is not None
        self._lost.set()
        self._in_term = False
        # The tasks are collected before the subscribers of the gate cancel and forget them.
        acting = self._hooks.acting()
        self._gate.revoke()
        self._tasks.spawn(self._end_of_term(self._leadership, acting), name="end of the term")

    async def _follow(self, leadership: Leadership) -> None:
        try:
            await self._until_somebody_leads(leadership)
            while True:
                if not leadership.is_open:
                    await self._stand_by(leadership)
                self._lost.clear()
                if leadership.is_open:
                    await self._lead(leadership)
        except Exception as error:
            self._fail(self.name, error)

    async def _until_somebody_leads(self, leadership: Leadership) -> None:
        """Wait until the holder of the lease is known: only then is this process a standby."""
        while not leadership.is_open and leadership.holder in {None, "", leadership.config.identity}:  # noqa: ASYNC110
            await asyncio.sleep(LOOK)

    async def _stand_by(self, leadership: Leadership) -> None:
        self._leading = False
        told: str | None = None
        task = asyncio.ensure_future(self._hooks.standby())
        try:
            while not (leadership.is_open and task.done()):
                holder = leadership.holder or "nobody"
                if holder not in {told, leadership.config.identity}:
                    told = holder
                    _logger.info("Standby; the leader is %s.", told)
                if task.done():
                    task.result()
                    await _within(leadership.wait_open(), leadership.config.rules.retry_period)
                else:
                    await asyncio.wait({task}, timeout=leadership.config.rules.retry_period)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _lead(self, leadership: Leadership) -> None:
        """Act for one term: begin it if it lasts long enough, and wait for its end."""
        self._leading = True
        lost = asyncio.ensure_future(self._lost.wait())
        begun = asyncio.ensure_future(self._hooks.leading())
        try:
            await asyncio.wait({lost, begun}, return_when=asyncio.FIRST_COMPLETED)
            if begun.done():
                begun.result()
                if leadership.is_open and not lost.done():
                    self._hooks.begin()
                    self._in_term = True
                    self._judge()
                    await lost
        finally:
            for task in (lost, begun):
                task.cancel()
            await asyncio.gather(lost, begun, return_exceptions=True)

    async def _withdraw(self) -> None:
        """Close the gate before the election is joined, and give what runs as much time as at the end of the program."""
        self._in_term = False
        self._judge()
        if acting := self._hooks.acting():
            await asyncio.wait(acting, timeout=self._hooks.exit_timeout())

    # The end of a term.

    async def _end_of_term(self, leadership: Leadership, acting: dict[asyncio.Task[Any], str]) -> None:
        """Wait for the tasks that acted when leadership was lost, and end the program before others may act if one goes on."""
        left = leadership.spare()
        if acting:
            await asyncio.wait(acting, timeout=left / 2)
        if not leadership.is_open:
            # Tasks that were started during the cancellations. In a new term they would be allowed.
            acting |= self._hooks.acting()
        survivors = [name for task, name in acting.items() if not task.done()]
        if not survivors:
            return
        error = StillActing(leadership.config.lease, survivors)
        self._fail(self.name, error)
        if self._last_resort is not None:
            resort_to(self._last_resort, error, left / 4)

    def _resort(self) -> None:
        """In the thread of the election: the event loop has not heard of the loss, and nothing can be cancelled in it."""
        assert self._leadership is not None
        assert self._last_resort is not None
        resort_now(self._last_resort, StillActing(self._leadership.config.lease, ["what blocks the event loop"]))


async def _within(coro: Any, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await coro
    except TimeoutError:
        return
