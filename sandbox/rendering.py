"""Objects, lists and watch events are encoded in the form a client accepts: whole, metadata only, or a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from .conversion import encoded
from .history import Stored
from .metadata import ordered
from .reading import Page
from .resources import Resource
from .status import Refused, not_acceptable
from .store import encode
from .tables import rows, table

JSON: Final = "application/json"
INITIAL_END: Final = "k8s.io/initial-events-end"
_ACCEPTABLE: Final = (JSON, f"{JSON};stream=watch")


@dataclass(frozen=True)
class Form:
    """The form of an answer: JSON objects, `Table` or `PartialObjectMetadata`, and what a table's rows carry."""

    kind: Literal["json", "table", "partial"] = "json"
    include: str = "Metadata"

    @property
    def content_type(self) -> str:
        """The Content-Type of the answer."""
        return JSON


WHOLE: Final = Form()


def negotiate(accept: str, query: Mapping[str, str]) -> Form:
    """The first form of the Accept header that is served here; an empty header takes JSON. Raises a 406."""
    if not accept:
        return WHOLE
    for choice in accept.split(","):
        media, *given = (part.strip() for part in choice.split(";"))
        parameters = dict(part.partition("=")[::2] for part in given)
        if media not in (JSON, "*/*", "application/*"):
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return WHOLE
        if parameters.get("g", "meta.k8s.io") == "meta.k8s.io" and parameters.get("v", "v1") == "v1":
            if wanted == "Table":
                return Form("table", query.get("includeObject") or "Metadata")
            if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return Form("partial")
    raise not_acceptable(_ACCEPTABLE)


def whole(resource: Resource, stored: Stored) -> bytes:
    """One object as JSON, with apiVersion and kind."""
    if resource.custom and stored.body[2:6] < b"kind":
        # The keys of custom objects are sorted: some come before apiVersion and kind.
        head = {"apiVersion": resource.group_version, "kind": resource.kind}
        return encode(resource, {**head, **stored.decode()})
    return resource.prefix + encoded(resource, stored)[1:]


def _partial(stored: Stored) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": ordered(stored.decode()["metadata"], stored.version),
    }


def one(resource: Resource, stored: Stored, form: Form, now: str) -> bytes:
    """The answer with one object."""
    if form.kind == "table":
        found = table(resource, rows(resource, [stored], form.include, now), {"resourceVersion": str(stored.version)})
        return msgspec.json.encode(found)
    if form.kind == "partial":
        return msgspec.json.encode(_partial(stored))
    return whole(resource, stored)


def page(resource: Resource, found: Page, form: Form, now: str) -> bytes:
    """The answer with a list. Items of built-in lists carry no apiVersion and kind, as on the real server."""
    if form.kind == "table":
        return msgspec.json.encode(table(resource, rows(resource, found.items, form.include, now), found.meta()))
    if form.kind == "partial":
        whole_list = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": found.meta(),
            "items": [_partial(item) for item in found.items],
        }
        return msgspec.json.encode(whole_list)
    return plain_list(resource, found)


def plain_list(resource: Resource, found: Page) -> bytes:
    """A list as JSON, put together from the stored bytes."""
    version = resource.group_version
    if resource.custom:
        items = b",".join(whole(resource, item) for item in found.items)
        meta = msgspec.json.encode({"continue": found.continue_token or "", **found.meta()}, order="sorted")
        head = f'{{"apiVersion":"{version}","items":['.encode()
        return head + items + f'],"kind":"{resource.list_kind}","metadata":'.encode() + meta + b"}"
    items = b",".join(encoded(resource, item) for item in found.items)
    head = f'{{"kind":"{resource.list_kind}","apiVersion":"{version}","metadata":'.encode()
    return head + msgspec.json.encode(found.meta()) + b',"items":[' + items + b"]}"


def event(resource: Resource, type: str, stored: Stored, form: Form, now: str) -> bytes:
    """One watch line. Tables carry their column definitions in each event."""
    return b'{"type":"' + type.encode() + b'","object":' + one(resource, stored, form, now) + b"}\n"


def bookmark(resource: Resource, version: int, form: Form, *, initial_end: bool = False) -> bytes:
    """A bookmark line; the one that ends a streamed list is marked by an annotation."""
    meta: dict[str, Any] = {"annotations": {INITIAL_END: "true"}} if initial_end else {}
    meta = {**meta, "resourceVersion": str(version)} if resource.custom else {"resourceVersion": str(version), **meta}
    if form.kind == "table":
        found: Any = table(resource, _bookmark_rows(resource, meta), {"resourceVersion": str(version)})
    elif form.kind == "partial":
        found = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    else:
        head = {"apiVersion": resource.group_version, "kind": resource.kind}
        found = {**head, "metadata": meta} if resource.custom else {**dict(reversed(head.items())), "metadata": meta}
    return b'{"type":"BOOKMARK","object":' + msgspec.json.encode(found) + b"}\n"


def _bookmark_rows(resource: Resource, meta: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    head = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": dict(meta)}
    return [{"cells": [], "object": head}]


def error(refused: Refused) -> bytes:
    """An ERROR line that carries a Status."""
    return b'{"type":"ERROR","object":' + msgspec.json.encode(refused.status()) + b"}\n"


def lines(resource: Resource, items: Iterable[Stored], form: Form, now: str) -> Iterable[bytes]:
    """Synthetic ADDED lines for a state."""
    return (event(resource, "ADDED", item, form, now) for item in items)
