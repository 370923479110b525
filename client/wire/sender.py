"""Calls are carried out: let in by credentials, slowed by limits, repeated where that is safe."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import tenacity

from ...runtime.token_bucket import TokenBucket
from ..config.access import Access, AccessSource, Authentication
from ..errors import APIError, LostAnswer, RequestError, is_outcome_unknown
from ..fence import Crossing, NotLeading
from ..metrics import ClientMetrics
from ..settings import ClientSettings
from .outage import PROBE_TIMEOUT, Outage
from .request import Call
from .retries import Run, refusal
from .transport import Channel, Request, Stream, Transport

PER_CONNECTION = 4
"""How many requests for each connection are enough to keep it busy."""
MAX_LOGINS = 5
"""How many refused credentials one request may see; a source that makes bad ones for ever is an error."""


class InFlight:
    """The requests of one client that are on their way or wait for a connection. Belongs to one loop."""

    __slots__ = ("_count", "_most", "_room")

    def __init__(self, connections: int) -> None:
        self._most = connections * PER_CONNECTION
        self._count = 0
        self._room = asyncio.Event()
        self._room.set()

    def enter(self) -> None:
        """One more; each has to `leave`."""
        self._count += 1
        if self._count > self._most:
            self._room.clear()

    def leave(self) -> None:
        """One less."""
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


class _Pass(msgspec.Struct):
    """What one exchange is let in with."""

    # Not what it holds: credentials, or a secret, may be among it.
    __repr__ = object.__repr__

    access: Access
    grant: Authentication


class _Refusals(msgspec.Struct):
    """How often one request was answered 401: in all, and with nothing better found afterwards."""

    total: int = 0
    same: int = 0


class Sender:
    """Everything between a call and its exchanges. Belongs to one loop."""

    def __init__(self, source: AccessSource, settings: ClientSettings, metrics: ClientMetrics) -> None:
        self._source = source
        self._settings = settings
        self._metrics = metrics
        self.outage = Outage(self._probe)
        self._transport = Transport(settings, metrics, self.outage)
        self._bucket = TokenBucket(settings.qps, settings.bucket_size()) if settings.qps is not None else None
        self._renewing = asyncio.Lock()
        self.crowd = InFlight(settings.connections)

    async def close(self) -> None:
        """Close the connections."""
        self.outage.close()
        await self._transport.close()

    async def send(self, call: Call, crossing: Crossing | None = None) -> bytes:
        """Carry out a call and return the body of its success.

        Raises APIError by reason for a refusal, LostAnswer for a call that is not repeatable and may have been applied,
        RequestError when no answer came, AccessError without usable credentials. Retries come before that, see
        `ClientSettings.error_backoffs`. Cancellation leaves the outcome unknown, as a lost answer does. With a `crossing` the whole of
        it, waits and retries included, ends at the end of a lease: NotLeading.
        """
        run = Run(call, self._settings, crossing)
        if crossing is None:
            return await self._send(run)
        async with crossing.bounded():
            return await self._send(run)

    async def _send(self, run: Run) -> bytes:
        try:
            return await self._attempt(run)
        except (APIError, RequestError) as error:
            if not run.may_retry(error):
                raise
            return await self._retry(run, error)

    async def _retry(self, run: Run, first: Exception) -> bytes:
        """Go on after a first failure. (The retrying library costs a third of a request, so it is not asked before.)"""
        failures = [first]
        last: list[BaseException] = []

        async def attempt() -> bytes:
            if failures:
                raise failures.pop()
            return await self._attempt(run)

        def note(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome is not None else None
            self._metrics.count_retry(error.code if isinstance(error, APIError) else None, run.call.method)
            run.log_retry(state)
            last[:] = [error] if error is not None and not run.is_asked(error) else []

        async def sleep(seconds: float) -> None:
            await self.outage.sleep(seconds, last[0] if last else None)

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(run.may_retry),
            wait=run.wait,
            stop=run.stop,
            before_sleep=note,
            sleep=sleep,
            reraise=True,
        )
        return await retrying(attempt)

    async def _attempt(self, run: Run) -> bytes:
        try:
            return await self._exchange(run)
        except NotLeading as error:
            error.sent = run.lost
            raise
        except APIError as error:
            error.after_lost_answer = run.lost
            run.lost = run.lost or is_outcome_unknown(error)
            raise
        except RequestError as error:
            run.lost = run.lost or is_outcome_unknown(error)
            if error.sent and not run.call.repeatable:
                raise LostAnswer(
                    f"{error} The request may have been applied and is not repeated blindly: read the object, then decide."
                ) from error
            raise

    async def _probe(self, path: str) -> None:
        """See whether the server answers and lets us in, whatever it says else. Raises what shows that it does not."""
        call = Call("GET", path, timeout=PROBE_TIMEOUT, channel="renewal")
        try:
            await self._exchange(Run(call, self._settings), _Refusals(same=self._settings.refused_retries))
        except APIError as error:
            if not _is_up(error.code):
                raise

    async def _exchange(self, run: Run, refusals: _Refusals | None = None) -> bytes:
        call, crossing = run.call, run.crossing
        request = self._request(call, call.channel)
        if crossing is not None:
            request.check = crossing.check
        entry, refusals = await self._enter(), refusals or _Refusals()
        while True:
            began = _time()
            self.crowd.enter()
            try:
                await self._throttle(call.channel)
                if crossing is not None:
                    crossing.check()
                answer = await self._transport.send(request, entry.access, entry.grant)
            except RequestError as error:
                entry = await self._detour(entry, began, error)
                continue
            finally:
                self.crowd.leave()
            if self.outage.lasts and _is_up(answer.status):
                self.outage.end()
            if 200 <= answer.status < 300:
                return answer.body
            fresh = await self._reenter(entry, refusals) if answer.status == 401 else None
            if fresh is None:
                raise _refused(answer.status, answer.headers, answer.body, call, entry.access)
            entry = fresh

    @asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Stream]:
        """Open a stream. Raises as `send` does; nothing but 401 is retried, since who watches has a rhythm of its own."""
        request = self._request(call, "watch")
        request.headers = {**request.headers, "Accept-Encoding": "identity"}
        entry, refusals = await self._enter(), _Refusals()
        while True:
            await self._throttle("watch")
            began = _time()
            async with AsyncExitStack() as stack:
                try:
                    opening = self._transport.open(request, entry.access, entry.grant)
                    stream = await stack.enter_async_context(opening)
                except RequestError as error:
                    entry = await self._detour(entry, began, error)
                    continue
                if self.outage.lasts and _is_up(stream.status):
                    self.outage.end()
                if 200 <= stream.status < 300:
                    yield stream
                    return
                body = await stream.read(request.timeout)
            fresh = await self._reenter(entry, refusals) if stream.status == 401 else None
            if fresh is None:
                raise _refused(stream.status, stream.headers, body, call, entry.access)
            entry = fresh

    def _request(self, call: Call, channel: Channel) -> Request:
        settings = self._settings
        timeout = call.timeout if call.timeout is not None else settings.request_timeout
        connect = settings.watch_connect_timeout if channel == "watch" else None
        if connect is None:
            connect = settings.connect_timeout if settings.connect_timeout is not None else timeout
        return Request(call.method, call.path, call.headers, call.body, timeout, connect, channel)

    async def _enter(self) -> _Pass:
        access = await self._source.access()
        return _Pass(access, await access.credentials.authentication(period=self._settings.credentials_period))

    async def _detour(self, entry: _Pass, began: float, error: RequestError) -> _Pass:
        """After no answer: what to try next at once.

        Raises the error when there is no other way and the server was not found to be back meanwhile, or when the request may have been applied.
        """
        error.began = began
        if (self._look_again(entry.access) or self.outage.is_over_since(began)) and not error.sent:
            return await self._enter()
        raise error

    def _look_again(self, access: Access) -> bool:
        """Something is wrong: see whether what it depends on was written anew; tells whether there is another access."""
        self._transport.look_again()
        return access.loader is not None and access.loader.reload() is not access

    async def _reenter(self, entry: _Pass, refusals: _Refusals) -> _Pass | None:
        """After a 401: what to try next, or None when nothing is left to try."""
        self._metrics.refusals += 1
        refusals.total += 1
        if refusals.total > MAX_LOGINS:
            return None
        async with self._renewing:
            # Many requests are refused with one token: the first renews it, the others find it renewed.
            fresh = await self._enter()
            if fresh == entry and self._look_again(entry.access):
                fresh = await self._enter()
            if fresh == entry and await entry.access.credentials.renew(entry.grant) == entry.grant:
                await self._source.refused(entry.access)
            fresh = await self._enter()
        if fresh == entry:
            # Servers refuse good credentials for a moment, e.g. while they reload their own keys.
            refusals.same += 1
            if refusals.same > self._settings.refused_retries:
                return None
            await asyncio.sleep(self._settings.refused_backoff)
            fresh = await self._enter()
        return fresh

    async def _throttle(self, channel: Channel) -> None:
        if self._bucket is None or channel == "renewal":
            return
        delay = self._bucket.reserve(_time())
        if delay > 0:
            self._metrics.throttled += 1
            self._metrics.throttled_seconds += delay
            await asyncio.sleep(delay)


def _time() -> float:
    return asyncio.get_running_loop().time()


def _is_up(code: int) -> bool:
    """Whether an answer shows that the server works and lets us in."""
    return code < 500 and code != 401


def _refused(code: int, headers: Mapping[str, str], body: bytes, call: Call, access: Access) -> APIError:
    return refusal(code, headers, body, f"{call.method} {access.shown}{call.path}", access.origin)
