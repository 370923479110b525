"""Speaks the Kubernetes API as plainly as possible: what goes over the wire and what comes back, with nothing interpreted."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
from multidict import CIMultiDictProxy
from targets import Target

# A request that takes longer is a failure of the server, never a reason to wait on.
REQUEST_SECONDS = 60.0
EVENT_SECONDS = 60.0

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a request was answered with."""

    code: int
    headers: CIMultiDictProxy[str]
    body: Any
    """The decoded JSON, or the text where the answer is not JSON."""

    @property
    def version(self) -> int:
        """The `metadata.resourceVersion` of the body."""
        return version(self.body)

    def refused(self, code: int, reason: str) -> Body:
        """The Status of a refusal: checked for its code and reason and for the fields each Status has."""
        assert (self.code, self.body.get("reason")) == (code, reason), self
        assert self.body["kind"] == "Status"
        assert self.body["apiVersion"] == "v1"
        assert self.body["metadata"] == {}
        assert self.body["status"] == "Failure"
        assert self.body["code"] == code
        assert isinstance(self.body["message"], str)
        status: Body = self.body
        return status


@dataclass(frozen=True)
class Request:
    """One request as it is sent."""

    method: str
    path: str
    body: object = None
    kind: str = "application/json"
    accept: str = "application/json"
    params: Mapping[str, str | int] = field(default_factory=dict)


def version(body: Mapping[str, Any]) -> int:
    """The `metadata.resourceVersion`, which has to be decimal."""
    text = body["metadata"]["resourceVersion"]
    assert text.isdecimal(), text
    return int(text)


class Watch:
    """The lines of one watch, taken one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.code = response.status
        self.headers = response.headers
        self._response = response

    async def next(self) -> Body:
        """The next event; fails when there is none within the limit or the stream has ended."""
        line = await asyncio.wait_for(self._response.content.readline(), EVENT_SECONDS)
        assert line.endswith(b"\n"), f"the stream ended with {line!r}"
        event: Body = json.loads(line)
        assert set(event) == {"type", "object"}
        return event

    async def take(self, count: int) -> list[Body]:
        """The next so many events."""
        return [await self.next() for _ in range(count)]

    async def until(self, type: str) -> list[Body]:
        """The events up to and with the first of this type."""
        events = [await self.next()]
        while events[-1]["type"] != type:
            events.append(await self.next())
        return events

    async def ended(self) -> list[Body]:
        """The events until the server ends the stream."""
        events = []
        while line := await asyncio.wait_for(self._response.content.readline(), EVENT_SECONDS):
            events.append(json.loads(line))
        return events


class Api:
    """One client of one server."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._session = aiohttp.ClientSession(
            headers=target.headers,
            connector=aiohttp.TCPConnector(ssl=target.tls if target.tls is not None else True),
            # Bookmarks and large objects are single lines.
            read_bufsize=2**22,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        # The sockets of aborted connections are closed by the loop's next turn.
        await asyncio.sleep(0)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "application/json",
        accept: str = "application/json",
        **params: str | int,
    ) -> Answer:
        """Send one request; a body of bytes goes as it is, any other as JSON. Nothing is retried, no code is an error."""
        return await self._send(Request(method, path, body, kind, accept, params))

    async def _send(self, request: Request) -> Answer:
        headers = {"Accept": request.accept}
        data = request.body
        if data is not None:
            headers["Content-Type"] = request.kind
            data = io.BytesIO(data if isinstance(data, bytes) else json.dumps(data).encode())
        async with self._session.request(
            request.method,
            self.target.url + request.path,
            data=data,
            headers=headers,
            params=request.params,
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        ) as response:
            text = await response.text()
            decoded = json.loads(text) if "json" in response.headers.get("Content-Type", "") else text
            return Answer(response.status, response.headers, decoded)

    async def get(self, path: str, **params: str | int) -> Body:
        """The body of a GET that succeeds."""
        return self._success(await self._send(Request("GET", path, params=params)), 200)

    async def create(self, path: str, body: object, **params: str | int) -> Body:
        """The body of a POST that creates."""
        return self._success(await self._send(Request("POST", path, body, params=params)), 201)

    async def replace(self, path: str, body: object, **params: str | int) -> Body:
        """The body of a PUT that succeeds."""
        return self._success(await self._send(Request("PUT", path, body, params=params)), 200)

    async def merge(self, path: str, patch: object, **params: str | int) -> Body:
        """The body of a merge patch that succeeds."""
        return self._success(await self._send(Request("PATCH", path, patch, MERGE, params=params)), 200)

    async def delete(self, path: str, options: object = None, **params: str | int) -> Body:
        """The body of a DELETE that succeeds."""
        return self._success(await self._send(Request("DELETE", path, options, params=params)), 200)

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **params: str | int) -> AsyncIterator[Watch]:
        """Open a watch and break it off at the end of the block."""
        limit = aiohttp.ClientTimeout(sock_connect=REQUEST_SECONDS, sock_read=REQUEST_SECONDS)
        query = {"watch": "true", **params}
        async with self._session.get(self.target.url + path, params=query, timeout=limit) as response:
            connection = response.connection
            try:
                yield Watch(response)
            finally:
                # At once: a TLS connection that is closed politely waits for its peer and may outlive the test's loop.
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()

    @staticmethod
    def _success(answer: Answer, code: int) -> Body:
        assert answer.code == code, answer
        assert isinstance(answer.body, dict), answer
        return answer.body
