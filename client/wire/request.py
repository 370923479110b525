"""Requests to the API and their responses; whether a request may be repeated when its answer is lost."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

JSON = "application/json"
WITHOUT_MANAGED_FIELDS = f"{JSON};drop=metadata.managedFields,{JSON}"
"""Asks a server to leave `metadata.managedFields` out. Servers that do not know the parameter (such as 1.37) answer in full; strict
ones take the second type."""


_QUESTIONS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""API groups whose objects are never stored: reviews of access and tokens."""


class PatchKind(Enum):
    """How the body of a PATCH is read; the values are the media types."""

    MERGE = "application/merge-patch+json"
    """RFC 7386: maps are merged, everything else replaced, null deletes."""
    JSON = "application/json-patch+json"
    """RFC 6902: a list of operations."""
    STRATEGIC = "application/strategic-merge-patch+json"
    """Lists are merged by key; built-in resources only."""
    APPLY = "application/apply-patch+yaml"
    """Server-side apply; needs a field manager."""


Channel = Literal["request", "watch", "renewal"]
"""Each has connections of its own: a flood of requests must delay neither a watch nor the renewal of a lease.

A renewal has no rate limit and no retries: its caller has a deadline.
"""


class Request(msgspec.Struct):
    """One request to the API, wherever the server is. It is not changed once it is made."""

    # The fields may hold secrets.
    __repr__ = object.__repr__

    method: str
    path: str
    """With its query, relative to the server."""
    body: bytes | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    repeatable: bool = True
    """Whether sending it twice is the same as sending it once."""
    timeout: float | None = None
    """Seconds for one attempt, of a stream until its headers are there; None is the client's `request_timeout`."""
    retry: bool = True
    """Whether `error_backoffs` apply. 401 is answered with fresh credentials in any case."""
    channel: Channel = "request"

    @property
    def stores(self) -> bool:
        """Whether the server keeps anything of it; false for reads, dry runs and access reviews."""
        if self.method in {"GET", "HEAD", "OPTIONS"}:
            return False
        address, _, params = self.path.partition("?")
        return not address.startswith(_QUESTIONS) and "dryRun=All" not in params.split("&")


class Response(msgspec.Struct):
    """The server's answer, of any status."""

    # The fields may hold secrets.
    __repr__ = object.__repr__

    status: int
    headers: Mapping[str, str]
    body: bytes


def query(path: str, params: Mapping[str, str | int | bool | None]) -> str:
    """Add parameters to a path; None is left out, booleans are written as Kubernetes does."""
    pairs = [(key, _text(value)) for key, value in params.items() if value is not None]
    if not pairs:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(pairs)}"


def accepting(media_type: str | None) -> dict[str, str]:
    """The header that asks for a media type; without one the server chooses JSON."""
    return {} if media_type is None else {"Accept": media_type}


def encode(body: object) -> bytes:
    """JSON of a body made of mappings, sequences and scalars, whatever their classes.

    Dates, dataclasses, sets and enumerations are written as msgspec writes them. Raises TypeError for other values, and
    UnicodeEncodeError for lone surrogates.
    """
    return msgspec.json.encode(body, enc_hook=_plain)


def plain(body: object) -> Any:
    """A body as its JSON gives it back, in dicts and lists of the caller's own. Raises as `encode` does."""
    return msgspec.json.decode(encode(body))


def is_create_repeatable(body: Mapping[str, Any]) -> bool:
    """Whether a POST may be sent twice: a second object with the same name is refused, one with a generated name is not."""
    metadata = body.get("metadata") or {}
    return bool(metadata.get("name")) or not metadata.get("generateName")


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value) if isinstance(value, int) else float(value)
    if type(value) in {list, tuple, frozenset, bool, type(None)}:
        # As values these never come here: one of them is a key.
        raise TypeError(f"A body for the API must have text as the keys of its mappings; found {value!r}.")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Sequence, set, frozenset, Iterable)):
        return list(value)
    raise TypeError(
        f"A body for the API must be made of mappings, sequences and scalars; found a {type(value).__name__}."
    )
