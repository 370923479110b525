"""A replay server holds custom objects and then modifies them, faster than any client can follow.

    python tests/bench/replay.py COUNT EVENTS [--port PORT] [--pause SECONDS] [--no-streams] [--handled]

It serves `kopfexamples.kopf.dev/v1`: lists in pages, streamed lists, and watches, also by WebSocket. After the list each watch is sent EVENTS
modifications, `--pause` seconds later, and then stays open and silent. The first line that it prints is its URL. It
speaks as much HTTP as the clients that are measured need, and nothing is rendered while it is sent except versions.
"""

import argparse
import asyncio
import base64
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

GROUP, VERSION, PLURAL, KIND = "kopf.dev", "v1", "kopfexamples", "KopfExample"
COLLECTION = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
FIRST = 1_000_000
"""Before the first version: all versions have seven digits for a while."""
BATCH = 64
"""Events for each write: about what a kernel hands over at once."""
VERBS = ["delete", "get", "list", "patch", "create", "update", "watch"]


def served(group_version: str, plural: str, kind: str, *, namespaced: bool) -> dict[str, object]:
    resource = {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": VERBS}
    return {"kind": "APIResourceList", "groupVersion": group_version, "resources": [resource]}


def group(name: str, version: str) -> dict[str, object]:
    found = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [found], "preferredVersion": found}


EXTENSIONS = "apiextensions.k8s.io"
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": [group(GROUP, VERSION), group(EXTENSIONS, "v1")]},
    "/api/v1": served("v1", "namespaces", "Namespace", namespaced=False),
    f"/apis/{GROUP}/{VERSION}": served(f"{GROUP}/{VERSION}", PLURAL, KIND, namespaced=True),
    f"/apis/{EXTENSIONS}/v1": served(
        f"{EXTENSIONS}/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
    ),
}
"""What kopf asks first."""
EMPTY = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
SOCKET = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %b\r\n\r\n"
ACCEPTING = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What RFC 6455 (1.3) appends to the client's key."""


@dataclass(frozen=True)
class Template:
    """An object's JSON around its version."""

    before: bytes
    after: bytes

    def at(self, version: int) -> bytes:
        return b"%b%d%b" % (self.before, version, self.after)


def template(number: int, *, handled: bool = False, last: bool = False) -> Template:
    """About 1.15 kB, shaped like what operators watch: labels, managed fields, a spec, a status."""
    body: dict[str, Any] = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "name": f"example-{number:06d}",
            "namespace": f"ns-{number % 10}",
            "uid": f"6b3a4f0c-0000-4000-8000-{number:012d}",
            "resourceVersion": "@",
            "generation": 1,
            "creationTimestamp": "2031-05-06T07:08:09Z",
            "labels": {
                "app.kubernetes.io/name": "example",
                "app.kubernetes.io/instance": f"example-{number}",
                "tier": "a",
            },
            "annotations": {"example.com/owner": "team-a", "example.com/note": "x" * 228},
            "managedFields": [
                {
                    "manager": "kubectl",
                    "operation": "Update",
                    "apiVersion": f"{GROUP}/{VERSION}",
                    "time": "2031-05-06T07:08:09Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {".": {}, "f:field": {}, "f:items": {}}},
                }
            ],
        },
        "spec": {
            "field": "value",
            "duration": "1m",
            "items": [{"name": f"item-{index}", "value": index * 7, "enabled": True} for index in range(4)],
        },
        "status": {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True", "reason": "AllGood"}]},
    }
    metadata: dict[str, Any] = body["metadata"]
    if last:
        metadata["labels"] |= {"last": "yes"}
    elif handled:
        kept = {"labels": metadata["labels"], "annotations": dict(metadata["annotations"])}
        essence = json.dumps({"spec": body["spec"], "metadata": kept}, separators=(",", ":"))
        metadata["annotations"]["kopf.zalando.org/last-handled-configuration"] = f"{essence}\n"
    before, after = json.dumps(body, separators=(",", ":")).encode().split(b'"@"')
    return Template(before + b'"', b'"' + after)


class Stream:
    """The answer to a watch: lines in chunks, or for a client that has sent a WebSocket's key a text frame for each event."""

    def __init__(self, writer: asyncio.StreamWriter, key: bytes | None) -> None:
        self._writer = writer
        self._framed = key is not None
        if key is None:
            writer.write(STREAM)
        else:
            writer.write(SOCKET % base64.b64encode(hashlib.sha1(key + ACCEPTING, usedforsecurity=False).digest()))

    async def send(self, events: list[bytes]) -> None:
        if self._framed:
            self._writer.write(b"".join(self._head(len(event)) + event for event in events))
        else:
            data = b"\n".join(events) + b"\n"
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    @staticmethod
    def _head(size: int) -> bytes:
        return b"\x81" + (bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big"))


class Replay:
    """What is served."""

    def __init__(self, count: int, events: int, pause: float, *, streams: bool, handled: bool) -> None:
        self._templates = [
            template(number, handled=handled, last=handled and number == count - 1) for number in range(count)
        ]
        self._version = FIRST + count
        self._events = events
        self._pause = pause
        self._streams = streams
        self._pages: dict[tuple[int, int], bytes] = {}
        for start in range(0, count, 500):
            self._page(start, start + 500)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                url = urlsplit(head.split(b" ", 2)[1].decode())
                query = {key: values[-1] for key, values in parse_qs(url.query).items()}
                if url.path in DISCOVERY:
                    self._answer(writer, 200, json.dumps(DISCOVERY[url.path]).encode())
                elif url.path.startswith(f"{COLLECTION}/") or "/namespaces/" in url.path:
                    self._answer(writer, 404, b'{"kind":"Status","code":404,"reason":"NotFound"}')
                elif url.path != COLLECTION:
                    await self._serve_nothing(writer, query)
                elif query.get("watch") not in {"true", "1"}:
                    self._list(writer, query)
                elif "sendInitialEvents" in query and not self._streams:
                    self._answer(writer, 422, b'{"kind":"Status","code":422,"reason":"Invalid"}')
                else:
                    key = re.search(rb"(?i)\r\nSec-WebSocket-Key: (\S+)", head)
                    await self._watch(Stream(writer, key and key[1]), query)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_nothing(self, writer: asyncio.StreamWriter, query: dict[str, str]) -> None:
        """Other resources have no objects, and nothing happens to them."""
        if query.get("watch") not in {"true", "1"}:
            self._answer(writer, 200, json.dumps(EMPTY).encode())
            return
        writer.write(STREAM)
        await writer.drain()
        await asyncio.Event().wait()

    @staticmethod
    def _answer(writer: asyncio.StreamWriter, code: int, body: bytes) -> None:
        head = f"HTTP/1.1 {code} Said\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    def _list(self, writer: asyncio.StreamWriter, query: dict[str, str]) -> None:
        start = int(query.get("continue") or 0)
        self._answer(writer, 200, self._page(start, start + int(query.get("limit") or len(self._templates) or 1)))

    def _page(self, start: int, end: int) -> bytes:
        end = min(len(self._templates), end)
        if (start, end) not in self._pages:
            following = str(end) if end < len(self._templates) else ""
            meta = json.dumps({"resourceVersion": str(self._version), "continue": following})
            items = b",".join(self._templates[at].at(FIRST + at) for at in range(start, end))
            head = f'{{"apiVersion":"{GROUP}/{VERSION}","kind":"{KIND}List","metadata":{meta},"items":['
            self._pages[start, end] = head.encode() + items + b"]}"
        return self._pages[start, end]

    async def _watch(self, stream: Stream, query: dict[str, str]) -> None:
        if "sendInitialEvents" in query:
            await self._send(stream, ((b"ADDED", at, FIRST + at) for at in range(len(self._templates))))
            bookmark = {"resourceVersion": str(self._version), "annotations": {"k8s.io/initial-events-end": "true"}}
            mark = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": bookmark}
            event = {"type": "BOOKMARK", "object": mark}
            await stream.send([json.dumps(event, separators=(",", ":")).encode()])
        if int(query.get("resourceVersion") or self._version) <= self._version:
            await asyncio.sleep(self._pause)
            count = len(self._templates)
            changes = ((b"MODIFIED", at % count, self._version + 1 + at) for at in range(self._events))
            await self._send(stream, changes)
        await asyncio.Event().wait()

    async def _send(self, stream: Stream, events: Iterator[tuple[bytes, int, int]]) -> None:
        rendered = (
            b'{"type":"%b","object":%b}' % (kind, self._templates[at].at(version)) for kind, at, version in events
        )
        while batch := list(itertools.islice(rendered, BATCH)):
            await stream.send(batch)


async def main() -> None:
    parser = argparse.ArgumentParser(description="Serve objects and modifications for benchmarks.")
    parser.add_argument("count", type=int)
    parser.add_argument("events", type=int)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pause", type=float, default=1.0)
    parser.add_argument("--no-streams", action="store_true", help="refuse streamed lists, as old servers do")
    parser.add_argument(
        "--handled", action="store_true", help="all but the last, which is labelled, have been handled by an operator"
    )
    options = parser.parse_args()
    replay = Replay(
        options.count, options.events, options.pause, streams=not options.no_streams, handled=options.handled
    )
    server = await asyncio.start_server(replay.serve, "127.0.0.1", options.port, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
