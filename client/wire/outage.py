"""Find out when a server that failed everybody is back, once for all who wait for it."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from ...runtime.backoff import Backoff
from ..errors import APIError, LostAnswer, RequestError, StreamBroken, StreamStalled

READY: Final = "/readyz"
"""What is asked whether the server answers."""
FIRST_PROBE: Final = 0.5
"""The first probe is sent within so many seconds, by chance: before the first back-off of anybody has ended."""
PROBE_PERIOD: Final = 1.0
"""From one probe to the next it is so many seconds, and up to as many again, by chance."""
PROBE_TIMEOUT: Final = 2.0
"""How long a probe may take."""
SPREAD: Final = Backoff(initial=1.0, factor=2.0, cap=30.0, jitter=0.0, reset_after=20.0)
"""Over how many seconds those who wait are spread at a return, by chance: more for a server that comes and goes within seconds."""
SLOW: Final = 2.5
"""After so many seconds without a connection, or without the answer to a read, it is looked whether there is an outage."""
LOOK_AGAIN: Final = 10.0
"""And again after so many seconds more, each time."""


class OpenStream(Protocol):
    """An answer that goes on and on."""

    heard: float
    """When something has last come, in the loop's time."""

    def cut_off(self) -> None:
        """Take the connection for broken."""


class Outage:
    """Wakes those who sleep after an error that is everybody's: no connection, refused credentials, a server that fails whatever is asked.

    While somebody waits a probe is sent now and then, one for all of them. A return is noticed only by who has seen the server fail: a
    probe that succeeds at once shows that an error was one resource's own, which keeps its own pace. A server that is ready, and fails for
    two resources or more, is asked for one of these as well: it may be its storage, or a proxy before it, that is away.
    What a server has swallowed is given up at its return: reads without an answer, streams that have been silent since.
    Belongs to the loop of its client.
    """

    def __init__(self, probe: Callable[[str], Awaitable[None]]) -> None:
        """`probe` reads a path, and raises whatever shows that the server does not answer."""
        self.lasts = False
        """Whether a probe has failed, and nothing has been answered since."""
        self.over_at = -math.inf
        """When the last outage was over, in the loop's time."""
        self.streams: set[OpenStream] = set()
        """The streams that are open now."""
        self._probe = probe
        # What to call, and what to read in the place of the request that failed.
        self._waiting: dict[object, tuple[Callable[[], None], str | None]] = {}
        # When the probe was begun that failed first; and whether reads have failed of a server that was ready.
        self._since = -math.inf
        self._serves_nothing = False
        # When two resources or more have last waited at once.
        self._several_at = -math.inf
        self._task: asyncio.Task[None] | None = None
        self._spread = SPREAD.start()
        self._breadth = SPREAD.initial
        self._closed = False

    def when_over(
        self, error: BaseException | None, callback: Callable[[], None], trial: str | None = None
    ) -> Callable[[], None]:
        """Have a callback called once, when an outage that this error belongs to is over; call what is given back to wait no longer.

        For an error that concerns one request only nothing is called. None stands for a request that has no answer yet. `trial` is the
        path of a cheap read that fails as long as the request does.
        """
        if self._closed or (error is not None and not _concerns_all(error)):
            return lambda: None
        ticket = object()
        self._waiting[ticket] = (callback, trial if isinstance(error, APIError) and error.code >= 500 else None)
        if isinstance(error, RequestError) and self.is_over_since(error.began):
            asyncio.get_running_loop().call_later(self._breadth * random.random(), self._wake, ticket)
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look_out(), name="outage")
        return lambda: self._forget(ticket)

    def interrupt(self, limit: asyncio.Timeout) -> Callable[[], None]:
        """Let a timeout expire at the end of an outage that it waits through; call what is given back, inside of it, to have that no more."""
        return _Interruption(self, limit).stop

    async def sleep(self, seconds: float, error: BaseException | None) -> None:
        """Sleep so long after an error, or until an outage that it belongs to is over."""
        if error is None or not _concerns_all(error):
            await asyncio.sleep(seconds)
            return
        over = asyncio.Event()
        forget = self.when_over(error, over.set)
        try:
            async with asyncio.timeout(seconds):
                await over.wait()
        except TimeoutError:
            return
        finally:
            forget()

    def is_over_since(self, began: float | None) -> bool:
        """Whether an outage has ended after that moment: what was begun before it, and has failed, deserves another attempt."""
        return began is not None and began < self.over_at

    def end(self) -> None:
        """The server has answered: wake everybody, not all at once."""
        self.lasts = self._serves_nothing = False
        self._several_at = -math.inf
        self._rest()
        loop = asyncio.get_running_loop()
        self.over_at = loop.time()
        self._breadth = self._spread.next(self.over_at, 0.0)
        for ticket in list(self._waiting):
            loop.call_later(self._breadth * random.random(), self._wake, ticket)
        for stream in self.streams:
            loop.call_later(self._breadth * random.random(), self._give_up, stream, self._since)
        self._since = -math.inf

    def close(self) -> None:
        """Wake nobody any more."""
        self._closed = True
        self._waiting.clear()
        self._rest()

    def _wake(self, ticket: object) -> None:
        waiting = self._waiting.get(ticket)
        self._forget(ticket)
        if waiting is not None:
            waiting[0]()

    def _give_up(self, stream: OpenStream, since: float) -> None:
        if stream in self.streams and stream.heard < since:
            stream.cut_off()

    def _forget(self, ticket: object) -> None:
        self._waiting.pop(ticket, None)
        if not self._waiting:
            self._rest()

    def _rest(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _look_out(self) -> None:
        """Until the server answers. (Whoever is alone in waiting ends this by each attempt of its own, and begins it anew.)"""
        time = asyncio.get_running_loop().time
        await asyncio.sleep(FIRST_PROBE * random.random())
        while True:
            began = time()
            if await self._is_answered(READY):
                trials = self._trials(began)
                if not trials or await self._is_answered(random.choice(trials)):
                    is_over = self.lasts or (bool(trials) and self._serves_nothing)
                    break
                self._serves_nothing = True
            elif not self.lasts:
                self.lasts, self._since = True, began
            await asyncio.sleep(max(0.0, began + PROBE_PERIOD * (1.0 + random.random()) - time()))
        self._task = None
        if is_over:
            self.end()

    def _trials(self, now: float) -> list[str]:
        """What to read of a server that is ready: nothing if one resource fails alone, unless it is the last one of several."""
        trials = {trial for _, trial in self._waiting.values() if trial is not None}
        if len(trials) > 1:
            self._several_at = now
        return sorted(trials) if now - self._several_at <= LOOK_AGAIN else []

    async def _is_answered(self, path: str) -> bool:
        try:
            await self._probe(path)
        except Exception:  # whatever it is, a login handler's own error included: there is no answer
            return False
        return True


class _Interruption:
    """Looks whether there is an outage, now and then until it is stopped, and ends a timeout with it."""

    __slots__ = ("_forget", "_limit", "_outage", "_timer")

    def __init__(self, outage: Outage, limit: asyncio.Timeout) -> None:
        self._outage = outage
        self._limit = limit
        self._forget: Callable[[], None] = _nothing
        self._timer = asyncio.get_running_loop().call_later(SLOW, self._look)

    def stop(self) -> None:
        self._timer.cancel()
        self._forget()

    def _look(self) -> None:
        earlier, self._forget = self._forget, self._outage.when_over(None, self._expire)
        earlier()
        self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look)

    def _expire(self) -> None:
        if not self._limit.expired():
            self._limit.reschedule(0.0)


def _nothing() -> None:
    """Nobody waits."""


def _concerns_all(error: BaseException) -> bool:
    """Whether the next request for something else might end by the same error."""
    if isinstance(error, APIError):
        return error.code == 401 or error.code >= 500
    return not isinstance(error, (StreamBroken, StreamStalled, LostAnswer))
