"""Detects the end of an outage of the server, once for all requests and watches that wait for it."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from ...runtime.backoff import Backoff
from ..errors import APIError, LostAnswer, RequestError, StreamBroken, StreamStalled

READY: Final = "/readyz"
"""The path that a probe reads."""
FIRST_PROBE: Final = 0.5
"""The first probe is sent within so many seconds, at random: before the first back-off of any watch ends."""
PROBE_PERIOD: Final = 1.0
"""Seconds from one probe to the next; up to as many are added at random."""
PROBE_TIMEOUT: Final = 2.0
"""How long a probe may take."""
SPREAD: Final = Backoff(initial=1.0, factor=2.0, cap=30.0, jitter=0.0, reset_after=20.0)
"""Over how many seconds the waiting are woken, at random: more for a server that comes and goes within seconds."""
SLOW: Final = 2.5
"""After so many seconds without a connection, or without the response to a read, an outage is looked for."""
LOOK_AGAIN: Final = 10.0
"""Seconds until it is looked for again."""


class OpenStream(Protocol):
    """A response that does not end by itself."""

    heard: float
    """When the last bytes came, in the loop's time."""

    def cut_off(self) -> None:
        """End it as a broken connection does."""


class Outage:
    """Wakes the callers that sleep after an error of the server as a whole: no connection, refused credentials, 5xx.

    While a caller waits, probes are sent, one at a time for all callers. An outage has been seen when a probe has failed: if the first probe
    succeeds, the error was that of one resource, which keeps its own pace. If the server is ready but fails for two resources or more, one of
    these is read as well: its storage, or a proxy before it, may be away. At the end of an outage, requests that the server may have
    swallowed are given up: reads without a response, and streams that have been silent since. Belongs to the loop of its client.
    """

    def __init__(self, probe: Callable[[str], Awaitable[None]]) -> None:
        """`probe` reads a path; it raises an error if the server does not answer."""
        self.lasts = False
        """Whether a probe has failed, and no request was answered since."""
        self.over_at = -math.inf
        """When the last outage was over, in the loop's time."""
        self.streams: set[OpenStream] = set()
        """The streams that are open now."""
        self._probe = probe
        # The callback, and the path to read in the place of the request that failed.
        self._waiting: dict[object, tuple[Callable[[], None], str | None]] = {}
        # When the first probe that failed was begun; and whether reads have failed while the server was ready.
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
        """Call back once, when the outage that this error belongs to is over; returns a function that cancels this.

        Nothing is called for an error that concerns one request only. None stands for a request without a response yet. `trial` is the
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
        """Let a timeout expire at the end of an outage; returns a function that cancels this, to be called inside of the timeout."""
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
        """Whether an outage has ended after that moment: a request that was begun before, and failed, deserves another attempt."""
        return began is not None and began < self.over_at

    def end(self) -> None:
        """The server has answered: wake all callers, spread over some seconds."""
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
        """Wake no callers any more."""
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
        """Probe until the server answers. (A caller that waits alone cancels this by each attempt of its own, and begins it anew.)"""
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
        """Paths to read of a ready server: none if one resource fails alone, unless it is the last of several."""
        trials = {trial for _, trial in self._waiting.values() if trial is not None}
        if len(trials) > 1:
            self._several_at = now
        return sorted(trials) if now - self._several_at <= LOOK_AGAIN else []

    async def _is_answered(self, path: str) -> bool:
        try:
            await self._probe(path)
        except Exception:  # any error, also that of a login handler, means: no answer
            return False
        return True


class _Interruption:
    """Looks for an outage now and then until it is stopped; at the end of one, it lets the timeout expire."""

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
    """Does nothing."""


def _concerns_all(error: BaseException) -> bool:
    """Whether the next request for something else might end by the same error."""
    if isinstance(error, APIError):
        return error.code == 401 or error.code >= 500
    return not isinstance(error, (StreamBroken, StreamStalled, LostAnswer))
