"""Live bodies, the arguments of running daemons and timers: decoded when they are looked at; few large ones stay decoded.

A decoded object takes up to thirty times its JSON. The JSON itself is shared with the informer's cache.
"""

import threading
from typing import Any
from weakref import ref

import msgspec

from ...client.objects import Object
from ..causes.causes import LARGE
from ..causes.views import _EMPTY, Body, _Source
from ..environment.large_objects import AT_ONCE


class _Outline(msgspec.Struct, gc=False):
    metadata: dict[str, Any]
    apiVersion: str = ""  # noqa: N815 - as it is in bodies
    kind: str = ""


_decode_outline = msgspec.json.Decoder(_Outline).decode


class _Version:
    """One version of an object for one body, decoded as far as it was looked at."""

    __slots__ = ("__weakref__", "decoded", "obj", "outline")

    def __init__(self, obj: Object) -> None:
        self.obj = obj
        self.decoded: dict[str, Any] | None = None
        self.outline: dict[str, Any] | None = None


class DecodedBodies:
    """Bounds the large versions that stay decoded, by their JSON in bytes; the one unused for longest is dropped first.

    Used from the loop and from the threads of handlers. What a reader has got of a dropped version stays whole.
    """

    def __init__(self, limit: int = AT_ONCE) -> None:
        self._limit = limit
        self._lock = threading.RLock()
        # The latest used is the last. A version that no body shows any more takes its decoded form with it.
        self._recent: list[ref[_Version]] = []

    def use(self, version: _Version) -> dict[str, Any]:
        """The decoded form of a version, which is decoded unless it was used lately."""
        decoded = version.decoded
        if decoded is not None and (len(version.obj.raw) < LARGE or self._recent[-1]() is version):
            return decoded
        with self._lock:
            if len(version.obj.raw) >= LARGE:
                self._make_room(version)
            if version.decoded is None:
                version.decoded = version.obj.body()
            return version.decoded

    def clear(self) -> None:
        """Drop the decoded forms of all large versions: attempts of large objects take more than daemons."""
        with self._lock:
            for known in self._recent:
                if (version := known()) is not None:
                    version.decoded = None

    def _make_room(self, version: _Version) -> None:
        left = self._limit - len(version.obj.raw)
        kept = [ref(version)]
        for known in reversed(self._recent):
            other = known()
            if other is not None and other is not version:
                left -= len(other.obj.raw)
                if left >= 0:
                    kept.append(known)
                else:
                    other.decoded = None
        self._recent = kept[::-1]


class _LiveSource(_Source, kw_only=True, eq=False):
    version: _Version
    bodies: DecodedBodies

    def whole(self) -> dict[str, Any]:
        return self.bodies.use(self.version)

    def part(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = (self.outline() if key == "metadata" else self.whole()).get(key) or _EMPTY
        return found

    def outline(self) -> dict[str, Any]:
        """The apiVersion, kind and metadata, and maybe the rest: a large object is not decoded for them."""
        version = self.version
        known = version.decoded or version.outline
        if known is None and len(version.obj.raw) < LARGE:
            known = self.bodies.use(version)
        if known is None:
            found = _decode_outline(version.obj.raw)
            known = {"apiVersion": found.apiVersion, "kind": found.kind, "metadata": found.metadata}
            version.outline = known
        return known


class LiveBody(Body):
    """The body of a running daemon or timer. Each has decoded values of its own: a mutation of them reaches no other handler.

    Of a large object, such a mutation is lost when the decoded form is dropped.
    """

    __slots__ = ()

    _source: _LiveSource

    def __init__(self, obj: Object, bodies: DecodedBodies) -> None:
        super().__init__({})
        self._source = _LiveSource({}, version=_Version(obj), bodies=bodies)

    def show(self, obj: Object) -> None:
        """Show another version of the object from now on, in this view and in all views of its stanzas."""
        self._source.version = _Version(obj)

    def __getitem__(self, key: str) -> Any:
        return self._holding(key)[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default when the key is absent."""
        return self._holding(key).get(key, default)

    def stub(self) -> Body:
        """The apiVersion, kind and metadata."""
        return Body(self._source.outline()).stub()

    def _identity(self) -> dict[str, Any]:
        return self._source.part("metadata")

    def _holding(self, key: str) -> dict[str, Any]:
        return self._source.outline() if key in {"apiVersion", "kind", "metadata"} else self._source.whole()

    def __reduce__(self) -> tuple[Any, ...]:
        return Body, (self._source.whole(),)
