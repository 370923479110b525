"""Requests are sent: logged in, slowed down by limits, repeated where that is safe."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from ...runtime.token_bucket import TokenBucket
from ..config.access import AccessSource
from ..errors import APIError, RequestError
from ..fence import Crossing
from ..metrics import ClientMetrics
from ..settings import ClientSettings
from .outage import PROBE_TIMEOUT, Outage
from .request import Channel, Request
from .retries import Attempts, Logins, RetryPolicy, refusal
from .transport import Stream, Transport

PER_CONNECTION = 4
"""How many requests per connection keep it busy."""


class InFlight:
    """Counts the requests of one client that were sent or wait for a connection. Belongs to one loop."""

    __slots__ = ("_count", "_most", "_room")

    def __init__(self, connections: int) -> None:
        self._most = connections * PER_CONNECTION
        self._count = 0
        self._room = asyncio.Event()
        self._room.set()

    def enter(self) -> None:
        """Count a request; it has to `leave`."""
        self._count += 1
        if self._count > self._most:
            self._room.clear()

    def leave(self) -> None:
        """Count the end of a request."""
        self._count -= 1
        if self._count <= self._most and not self._room.is_set():
            self._room.set()

    async def room(self, seconds: float) -> None:
        """Wait until there are no more than PER_CONNECTION for each connection, at most so many seconds."""
        if self._room.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._room.wait()
        except TimeoutError:
            return


class Sender:
    """Sends the requests of one client. Belongs to one loop."""

    def __init__(self, source: AccessSource, settings: ClientSettings, metrics: ClientMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self.outage = Outage(self._probe)
        self._transport = Transport(settings, metrics, self.outage)
        self._logins = Logins(source, settings.credentials_period, self._transport.look_again)
        self._bucket = TokenBucket(settings.qps, settings.bucket_size()) if settings.qps is not None else None
        self.in_flight = InFlight(settings.connections)

    async def close(self) -> None:
        """Close the connections."""
        self.outage.close()
        await self._transport.close()

    async def send(self, request: Request, crossing: Crossing | None = None) -> bytes:
        """Send a request and return the body of its success.

        Raises APIError by reason for a refusal, LostAnswer for a request that is not repeatable and may have been applied,
        RequestError when no answer came, AccessError without usable credentials; all of them after the retries of RetryPolicy.
        Cancellation leaves the outcome unknown, as a lost answer does. With a `crossing` everything, waits and retries included, ends at
        the end of the lease: NotLeading.
        """
        attempts = Attempts(request, crossing)
        if crossing is None:
            return await self._send(attempts)
        async with crossing.bounded():
            return await self._send(attempts)

    async def _send(self, attempts: Attempts) -> bytes:
        try:
            return await self._attempt(attempts)
        except (APIError, RequestError) as error:
            policy = self._policy(attempts)
            if not policy.applies(error):
                raise
            return await policy.resume(partial(self._attempt, attempts), error)

    def _policy(self, attempts: Attempts) -> RetryPolicy:
        return RetryPolicy(attempts, self._settings, self._logins, self.outage, self._metrics)

    async def _attempt(self, attempts: Attempts) -> bytes:
        request, crossing = attempts.request, attempts.crossing
        login = attempts.login = await self._logins.current()
        began = asyncio.get_running_loop().time()
        self.in_flight.enter()
        try:
            if self._bucket is not None:
                await self._throttle(self._bucket, request.channel)
            if crossing is not None:
                crossing.check()
            check = crossing.check if crossing is not None else None
            response = await self._transport.send(request, login.access, login.authentication, check)
        except RequestError as error:
            error.began = began
            attempts.failed(error)
            raise
        finally:
            self.in_flight.leave()
        if self.outage.lasts and _is_up(response.status):
            self.outage.end()
        if 200 <= response.status < 300:
            return response.body
        refused = refusal(response, request, login.access)
        attempts.failed(refused)
        raise refused

    async def _probe(self, path: str) -> None:
        """Find out whether the server answers and lets us in. Raises the error which shows that it does not."""
        request = Request("GET", path, timeout=PROBE_TIMEOUT, channel="renewal")
        try:
            await self._send(Attempts(request, futile=self._settings.refused_retries))
        except APIError as error:
            if not _is_up(error.code):
                raise

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        """Open a stream. Raises as `send` does; errors that may pass are retried by the caller, who has a pace of its own."""
        attempts = Attempts(request)
        async with AsyncExitStack() as stack:
            attempt = partial(self._open, attempts, stack)
            try:
                stream = await attempt()
            except (APIError, RequestError) as error:
                policy = self._policy(attempts)
                if not policy.applies(error):
                    raise
                stream = await policy.resume(attempt, error)
            yield stream

    async def _open(self, attempts: Attempts, stack: AsyncExitStack) -> Stream:
        request = attempts.request
        login = attempts.login = await self._logins.current()
        if self._bucket is not None:
            await self._throttle(self._bucket, request.channel)
        began = asyncio.get_running_loop().time()
        async with AsyncExitStack() as opening:
            try:
                stream = await opening.enter_async_context(
                    self._transport.open(request, login.access, login.authentication)
                )
            except RequestError as error:
                error.began = began
                raise
            if self.outage.lasts and _is_up(stream.status):
                self.outage.end()
            if 200 <= stream.status < 300:
                stack.push_async_exit(opening.pop_all())
                return stream
            timeout = request.timeout if request.timeout is not None else self._settings.request_timeout
            response = await stream.whole(timeout)
        raise refusal(response, request, login.access)

    async def _throttle(self, bucket: TokenBucket, channel: Channel) -> None:
        if channel == "renewal":
            return
        delay = bucket.reserve(asyncio.get_running_loop().time())
        if delay > 0:
            self._metrics.throttled += 1
            self._metrics.throttled_seconds += delay
            await asyncio.sleep(delay)


def _is_up(code: int) -> bool:
    """Whether an answer shows that the server works and lets us in."""
    return code < 500 and code != 401
