"""A watch stream is read line by line, in batches of events; their objects stay raw bytes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from .deep_json import mended, shallow
from .errors import AnswerTooLarge, APIError, StreamBroken, from_status
from .objects import Object, decode_identified

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streamed initial list (KEP-3157)."""


@dataclass(frozen=True)
class WatchOptions:
    """What to watch. Without `resource_version` the server sends the present state first, as ADDED."""

    resource_version: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    shard_selector: str | None = None
    timeout_seconds: int | None = None
    """After how long the server shall end the stream."""
    bookmarks: bool = True
    send_initial_events: bool = False
    """Ask for a streamed list: the present state as ADDED, then a bookmark that marks its end."""
    idle_timeout: float | None = None
    """How many seconds of silence are a stall; None is no limit."""
    accept: str | None = None
    """The media type to ask for, where it is not plain JSON; see `wire.request.WITHOUT_MANAGED_FIELDS`."""

    def params(self) -> dict[str, str | int | bool | None]:
        """The parameters of the URL."""
        return {
            "watch": True,
            "allowWatchBookmarks": True if self.bookmarks or self.send_initial_events else None,
            "labelSelector": self.label_selector,
            "fieldSelector": self.field_selector,
            "shardSelector": self.shard_selector,
            "resourceVersion": self.resource_version,
            "sendInitialEvents": True if self.send_initial_events else None,
            "resourceVersionMatch": "NotOlderThan" if self.send_initial_events else None,
            "timeoutSeconds": self.timeout_seconds,
        }


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch. A BOOKMARK's object has a resource version and nothing else."""

    type: str
    object: Object
    initial_events_end: bool = False


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode

# The beginnings of lines that API servers write. Such a line needs one pass over its JSON instead of two; any other
# (other spacing, other order, more keys) goes through the envelope's decoder.
_PREFIXES = {f'{{"type":"{kind}","object":'.encode(): kind for kind in ("ADDED", "MODIFIED", "DELETED")}
_SHORTEST = min(map(len, _PREFIXES))
_BY_LETTER = {prefix[9]: (prefix, kind) for prefix, kind in _PREFIXES.items()}


class Lines:
    """Cut chunks into lines, whatever the chunk borders and however long a line is.

    Nothing is searched twice, and a line costs no more than its own length, however small its chunks are.
    """

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends, in order; the rest waits for the next chunk."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._rest:
            self._rest += lines[0]
            lines[0] = bytes(self._rest)
            self._rest = bytearray()
        self._rest += rest
        return lines

    @property
    def unfinished(self) -> int:
        """How many bytes wait for the end of their line."""
        return len(self._rest)


def decode_event(line: bytes) -> WatchEvent:
    """Decode one line.

    Raises the typed APIError of an ERROR event, and msgspec.MsgspecError for anything that is no watch event.
    """
    found = _BY_LETTER.get(line[9]) if len(line) > _SHORTEST else None
    if found is not None and line.startswith(found[0]):
        raw = line[len(found[0]) : -1]
        try:
            meta = decode_identified(raw).metadata
        except msgspec.MsgspecError:
            pass  # keys after the object, or spaces: the envelope's decoder judges
        else:
            return WatchEvent(found[1], Object(raw, meta.namespace, meta.name, meta.uid, meta.resource_version))
    envelope = _decode_envelope(line)
    raw = bytes(envelope.object)
    if envelope.type == "ERROR":
        raise _error(raw)
    event = WatchEvent(envelope.type, Object.from_raw(raw))
    if envelope.type == "BOOKMARK":
        annotations = event.object.metadata().annotations or {}
        event.initial_events_end = annotations.get(INITIAL_EVENTS_END) == "true"
    return event


def _strange_event(line: bytes) -> WatchEvent:
    flat, depths = shallow(mended(line))
    event = decode_event(flat)
    event.object = msgspec.structs.replace(event.object, raw=depths.restore(event.object.raw))
    return event


def _error(raw: bytes) -> APIError:
    status = msgspec.json.decode(raw, type=dict[str, Any])
    code = status.get("code")
    return from_status(code if isinstance(code, int) else 500, status)


class Chunks(Protocol):
    """A source of the bytes of a watch."""

    cut: bool

    async def chunk(self, idle_timeout: float | None) -> bytes:
        """The bytes that have arrived; none at the end. Raises StreamStalled after that many seconds of silence."""


class WatchStream:
    """The events of one watch, in the order of the wire; a batch has the events of one read.

    Iteration ends when the server ends the stream or the connection breaks (`cut` tells which); a line without its end is
    dropped, the version of the last event delivered is where to go on. An ERROR event raises the typed APIError (410
    Gone or Expired: list anew) after the events before it were delivered. Silence beyond the idle limit raises
    StreamStalled, anything that is no watch event StreamBroken, an event of more than `largest` bytes AnswerTooLarge. Batches are never
    empty.
    """

    def __init__(
        self, chunks: Chunks, what: str, idle_timeout: float | None = None, largest: int | None = None
    ) -> None:
        self._largest = largest
        self._chunks = chunks
        self._what = what
        self._idle_timeout = idle_timeout
        self._lines = Lines()
        self._failure: Exception | None = None
        self.nbytes = 0
        """How many bytes have been read."""

    @property
    def cut(self) -> bool:
        """Whether the stream ended by a broken connection."""
        return self._chunks.cut

    @property
    def unfinished(self) -> int:
        """How many bytes of an unfinished event have come."""
        return self._lines.unfinished

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        while self._failure is None:
            chunk = await self._chunks.chunk(self._idle_timeout)
            if not chunk:
                raise StopAsyncIteration
            self.nbytes += len(chunk)
            batch = self._decode(self._lines.feed(chunk))
            if self._largest is not None and self._lines.unfinished > self._largest:
                self._give_up(self._largest)
            if batch:
                return batch
        raise self._failure

    def _give_up(self, largest: int) -> None:
        """Drop an event that is too large; the events before it are delivered first."""
        self._lines = Lines()
        if self._failure is None:
            self._failure = AnswerTooLarge(
                f"The watch of {self._what} has brought an event of more than {largest} bytes, which is the limit "
                "(settings.networking.largest_event). Raise it, or make that object smaller."
            )

    def _decode(self, lines: list[bytes]) -> list[WatchEvent]:
        """Decode up to the first failure, which is kept for the next call."""
        batch: list[WatchEvent] = []
        append = batch.append
        for line in lines:
            if not line or line.isspace():
                continue
            try:
                try:
                    append(decode_event(line))
                except (RecursionError, msgspec.DecodeError):
                    append(_strange_event(line))
            except (msgspec.MsgspecError, RecursionError) as error:
                self._failure = StreamBroken(
                    f"The watch of {self._what} delivered no watch event but {line[:80]!r}: {error}."
                )
                break
            except APIError as error:
                self._failure = error
                break
        return batch
