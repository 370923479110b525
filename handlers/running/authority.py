"""Authority says whether this operator acts now, and sees to it that nothing of it acts when it may not.

An operator acts while it leads (always, where there is no election) and while no peer has it pause. A standby keeps its copies
and indices warm, and starts nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from ...controller.kernel.controller import Controller
from ...controller.leader.gates import Copy, Gate, Heir, Turn
from ...controller.leader.leadership import Leadership
from ...controller.leader.valve import Valve
from ...controller.program.term import resort_to, say_last
from ...runtime.tasks import Tasks
from ..causes.causes import Activity
from ..cycle.reconciler import ObjectReconciler
from ..execution.activities import Stage
from ..execution.born import born_in_handlers
from .stopping import Wish

logger = logging.getLogger(__name__)

LOOK = 0.05
"""How often to look at what is to end, in seconds."""


class StillActing(RuntimeError):
    """Leadership was lost, and something that cannot be cancelled goes on."""

    def __init__(self, lease: str, survivors: list[str]) -> None:
        shown = ", ".join(survivors[:3]) + (f" and {len(survivors) - 3} more" if len(survivors) > 3 else "")
        super().__init__(
            f"The lease {lease} was lost while what cannot be cancelled goes on: {shown}. The operator ends, since another "
            "one may act now."
        )
        self.survivors = survivors


class _Inherited(Valve):
    """A valve behind leadership: a copy must have caught up with what the predecessor wrote before anything is attempted by it."""

    def __init__(self, leadership: Leadership) -> None:
        super().__init__()
        self._leadership = leadership

    def left(self) -> float:
        """For how many seconds anything may begin, whether or not the loop has heard of an end."""
        return self._leadership.left()

    async def catch_up(self, copy: Copy) -> None:
        """Wait until attempts may go by this copy."""
        if isinstance(self._leadership, Heir):
            await self._leadership.catch_up(copy)


class Authority:
    """The gate of one operator, and what is to be done when it turns.

    `leadership` is None where there is no election. `last_resort` is called when something that cannot be cancelled goes on
    after leadership was lost, shortly before others may act; without it the operator ends as fast as it can. It is called by another
    thread if the event loop is blocked, or has ended, by then.
    """

    def __init__(
        self,
        stage: Stage,
        wish: Wish,
        leadership: Leadership | None = None,
        last_resort: Callable[[Exception], None] | None = None,
    ) -> None:
        self.leadership = leadership
        self._stage = stage
        self._wish = wish
        self._last_resort = last_resort
        self._tasks = Tasks("authority")
        self.gate = Valve() if leadership is None else _Inherited(leadership)
        """Open while this operator acts."""
        self._in_term = False
        self._peers: Gate | None = None
        self._controllers: Callable[[], Iterable[Controller[Any]]] = tuple
        self._lost = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._reconciler: ObjectReconciler | None = None
        self._unsubscribe: list[Callable[[], None]] = []
        # Whether what only a leader may start may have been started.
        self._leading = False

    # Life, in the order of the calls.

    def govern(self, reconciler: ObjectReconciler) -> None:
        """Let a reconciler follow the gate. To be called before a controller subscribes to it: the reconciler turns first."""
        self._reconciler = reconciler
        self._unsubscribe.append(self.gate.subscribe(self._turned))

    def heed(self, peers: Gate) -> None:
        """Act only while peers do not have this operator pause."""
        self._peers = peers
        self._unsubscribe.append(peers.subscribe(lambda _: self._judge()))
        self._judge()

    def oversee(self, controllers: Callable[[], Iterable[Controller[Any]]]) -> None:
        """See to the ends of the attempts of these controllers too, which stand behind the same gate."""
        self._controllers = controllers

    async def prepare(self) -> None:
        """Open the gate at once where there is no election. Raises ActivityError when a handler of `on.leading` fails for good."""
        if self.leadership is None:
            self._leading = True
            await self._stage.run(Activity.LEADING)
            self._in_term = True
            self._judge()

    async def start(self) -> None:
        """Take part in the election, if there is one. Raises the client's errors when the lease cannot be read."""
        if self.leadership is not None:
            self.leadership.withdraw = self._withdraw
            if self._last_resort is not None:
                self.leadership.unheard = self._resort
            self._unsubscribe.append(self.leadership.subscribe(self._leadership_turned))
            await self.leadership.start()
            self._following = self._tasks.spawn(self._follow(self.leadership), name="leadership")

    async def retire(self) -> None:
        """Everything that acts has been stopped: stop what only a leader may have started."""
        for end in self._unsubscribe:
            end()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        self._in_term = False
        self._judge()
        await self._tasks.stop(0.0)
        if self._leading:
            self._leading = False
            await self._stage.run(Activity.STANDBY)

    async def stop(self, grace: float) -> None:
        """Give the lease back: nothing is written any more."""
        if self.leadership is not None:
            await self.leadership.stop(grace)

    # Turns.

    async def _follow(self, leadership: Leadership) -> None:
        """Lead and stand by in turns, until cancelled."""
        try:
            await self._until_somebody_leads(leadership)
            while True:
                if not leadership.is_open:
                    await self._stand_by(leadership)
                self._lost.clear()
                if leadership.is_open:
                    await self._lead(leadership)
        except Exception as error:
            self._wish.fail(error)

    async def _until_somebody_leads(self, leadership: Leadership) -> None:
        """At the start nobody is a standby before it is known who leads."""
        while not leadership.is_open and leadership.holder in {None, "", leadership.settings.identity}:  # noqa: ASYNC110
            await asyncio.sleep(LOOK)

    async def _stand_by(self, leadership: Leadership) -> None:
        self._leading = False
        told: str | None = None
        task = self._tasks.spawn(self._stage.run(Activity.STANDBY), name="standby handlers")
        try:
            while not (leadership.is_open and task.done()):
                holder = leadership.holder or "nobody"
                if holder not in {told, leadership.settings.identity}:
                    told = holder
                    logger.info("Standing by: %s leads.", told)
                if task.done():
                    task.result()
                    await _within(leadership.wait_open(), leadership.settings.rules.retry_period)
                else:
                    await asyncio.wait({task}, timeout=leadership.settings.rules.retry_period)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _lead(self, leadership: Leadership) -> None:
        """Act for one term: begin it if it lasts long enough, and wait for its end."""
        self._leading = True
        lost = asyncio.create_task(self._lost.wait())
        begun = asyncio.create_task(self._stage.run(Activity.LEADING))
        try:
            await asyncio.wait({lost, begun}, return_when=asyncio.FIRST_COMPLETED)
            if begun.done():
                begun.result()
                if leadership.is_open and not lost.done() and self._reconciler is not None:
                    self._reconciler.begin_term()
                    self._in_term = True
                    self._judge()
                    await lost
        finally:
            for task in (lost, begun):
                task.cancel()
            await asyncio.gather(lost, begun, return_exceptions=True)

    async def _withdraw(self) -> None:
        """Nothing begins any more, before the election is joined; what runs has the time that it would have at the end of the operator."""
        self._in_term = False
        self._judge()
        acting = [task for controller in self._controllers() for task in controller.attempts.values()]
        acting += () if self._reconciler is None else self._reconciler.running
        if acting:
            await asyncio.wait(acting, timeout=self._stage.settings.queueing.exit_timeout)

    def _leadership_turned(self, turn: Turn) -> None:
        if turn is not Turn.OPENED:
            self._lost.set()
            self._in_term = False
            self.gate.revoke()

    def _judge(self) -> None:
        if self._in_term and (self._peers is None or self._peers.is_open):
            self.gate.open()
        else:
            self.gate.close()

    def _turned(self, turn: Turn) -> None:
        reconciler = self._reconciler
        assert reconciler is not None
        if turn is Turn.OPENED:
            reconciler.background.resume()
            return
        reconciler.closed()
        if turn is Turn.CLOSED:
            self._tasks.spawn(reconciler.background.pause(), name="pause")
            return
        reconciler.background.cut()
        if self.leadership is not None:
            acting: dict[asyncio.Task[Any], str] = {**reconciler.running, **born_in_handlers(self._stage.indices)}
            self._tasks.spawn(self._see_out(self.leadership, acting), name="what must end")

    async def _see_out(self, leadership: Leadership, acting: dict[asyncio.Task[Any], str]) -> None:
        """See to it that nothing that ran when leadership was lost goes on when others may lead."""
        left = leadership.spare()
        others = asyncio.gather(*(controller.survivors(left / 2) for controller in self._controllers()))
        if acting:
            await asyncio.wait(acting, timeout=left / 2)
        if not leadership.is_open:
            # What handlers have started on their way out. In another term it may act.
            acting |= born_in_handlers(self._stage.indices)
        survivors = [name for task, name in acting.items() if not task.done()]
        survivors += [f"the reconciler of {key}" for keys in await others for key in keys]
        if not survivors:
            return
        error = StillActing(_lease(leadership), survivors)
        logger.error("%s", error)
        self._wish.fail(error)
        if self._last_resort is not None:
            resort_to(self._last_resort, error, left / 4)

    def _resort(self) -> None:
        """In the thread of the election: the event loop has not heard of the loss, and nothing can be cancelled in it."""
        assert self.leadership is not None
        assert self._last_resort is not None
        error = StillActing(_lease(self.leadership), ["what blocks the event loop"])
        say_last(error)
        self._last_resort(error)


def _lease(leadership: Leadership) -> str:
    return f"{leadership.settings.namespace}/{leadership.settings.name}"


async def _within(coro: Any, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await coro
    except TimeoutError:
        return
