"""Find out when a server that failed everybody is back, once for all who wait for it."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Final

from ..runtime.backoff import Backoff
from .errors import APIError, LostAnswer, RequestError, StreamBroken, StreamStalled

FIRST_PROBE: Final = 0.5
"""The first probe is sent within so many seconds, by chance: before the first back-off of anybody has ended."""
PROBE_PERIOD: Final = 1.0
"""From one probe to the next it is so many seconds, and up to as many again, by chance."""
PROBE_TIMEOUT: Final = 2.0
"""How long a probe may take."""
SPREAD: Final = Backoff(initial=1.0, factor=2.0, cap=30.0, jitter=0.0, reset_after=20.0)
"""Over how many seconds those who wait are spread at a return, by chance: more for a server that comes and goes within seconds."""


class Outage:
    """Wakes those who sleep after an error that is everybody's: no connection, refused credentials, a server that fails whatever is asked.

    While somebody waits a probe is sent now and then, one for all of them. A return is noticed only by who has seen the server fail: a
    probe that succeeds at once shows that an error was one resource's own, which keeps its own pace. Belongs to the loop of its client.
    """

    def __init__(self, probe: Callable[[], Awaitable[None]]) -> None:
        """`probe` raises whatever shows that the server does not answer."""
        self.lasts = False
        """Whether a probe has failed, and nothing has been answered since."""
        self.over_at = -math.inf
        """When the last outage was over, in the loop's time."""
        self._probe = probe
        self._waiting: dict[object, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._spread = SPREAD.start()
        self._breadth = SPREAD.initial
        self._closed = False

    def when_over(self, error: BaseException | None, callback: Callable[[], None]) -> Callable[[], None]:
        """Have a callback called once, when an outage that this error belongs to is over; call what is given back to wait no longer.

        For an error that concerns one request only nothing is called. None stands for a request that has no connection yet.
        """
        if self._closed or (error is not None and not _concerns_all(error)):
            return lambda: None
        ticket = object()
        self._waiting[ticket] = callback
        if isinstance(error, RequestError) and self.is_over_since(error.began):
            asyncio.get_running_loop().call_later(self._breadth * random.random(), self._wake, ticket)
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look_out(), name="outage")
        return lambda: self._forget(ticket)

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
        self.lasts = False
        self._rest()
        loop = asyncio.get_running_loop()
        self.over_at = loop.time()
        self._breadth = self._spread.next(self.over_at, 0.0)
        for ticket in list(self._waiting):
            loop.call_later(self._breadth * random.random(), self._wake, ticket)

    def close(self) -> None:
        """Wake nobody any more."""
        self._closed = True
        self._waiting.clear()
        self._rest()

    def _wake(self, ticket: object) -> None:
        callback = self._waiting.get(ticket)
        self._forget(ticket)
        if callback is not None:
            callback()

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
            try:
                await self._probe()
            except Exception:  # whatever it is, a login handler's own error included: there is no answer
                self.lasts = True
            else:
                break
            await asyncio.sleep(max(0.0, began + PROBE_PERIOD * (1.0 + random.random()) - time()))
        self._task = None
        if self.lasts:
            self.end()


def _concerns_all(error: BaseException) -> bool:
    """Whether the next request for something else might end by the same error."""
    if isinstance(error, APIError):
        return error.code == 401 or error.code >= 500
    return not isinstance(error, (StreamBroken, StreamStalled, LostAnswer))
