"""A page of a list is split into its objects, which are not decoded."""

from dataclasses import dataclass, replace

import msgspec

from .deep_json import mended, shallow
from .errors import StreamBroken
from .objects import Identity, Object


@dataclass(frozen=True)
class ListOptions:
    """What to list. Selectors are in the API's syntax; None leaves a parameter out."""

    label_selector: str | None = None
    field_selector: str | None = None
    limit: int | None = None
    continue_token: str | None = None
    resource_version: str | None = None
    """"0": any cached state; a version: that one or a newer one; None: the most recent."""
    resource_version_match: str | None = None
    shard_selector: str | None = None
    accept: str | None = None
    """The media type to ask for, where it is not plain JSON; see `wire.request.WITHOUT_MANAGED_FIELDS`."""

    def params(self) -> dict[str, str | int | bool | None]:
        """The parameters of the URL."""
        return {
            "labelSelector": self.label_selector,
            "fieldSelector": self.field_selector,
            "limit": self.limit,
            "continue": self.continue_token,
            "resourceVersion": self.resource_version,
            "resourceVersionMatch": self.resource_version_match,
            "shardSelector": self.shard_selector,
        }


@dataclass(frozen=True, repr=False)
class ListPage:
    """One page of a list."""

    items: list[Object]
    """Whole objects: `kind` and `apiVersion` are there also when the server left them out of the items."""
    resource_version: str
    """The version of the list as a whole: the same on all of its pages."""
    continue_token: str | None
    remaining: int | None
    size: int
    """In bytes of JSON, as it came."""
    shard_selector: str | None = None
    """The shard that the server filtered by; None when it does not know shards (KEP-5866)."""


class _Item(msgspec.Struct, gc=False, rename="camel"):
    metadata: Identity
    kind: str = ""
    api_version: str = ""


class _ShardInfo(msgspec.Struct, gc=False):
    selector: str | None = None


class _ListMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None
    shard_info: _ShardInfo | None = None


class _List(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode
_decode_item = msgspec.json.Decoder(_Item).decode


def decode_page(body: bytes, what: str) -> ListPage:
    """Split a page. Raises StreamBroken, which names `what` was listed, when the body is no list of objects.

    An empty list means that all objects are gone, so a body that only looks like one (a Status, a table, `{}`) is refused.
    """
    try:
        try:
            return _page(body, what)
        except (RecursionError, msgspec.DecodeError):
            flat, depths = shallow(mended(body))
            page = _page(flat, what)
            items = [msgspec.structs.replace(obj, raw=depths.restore(obj.raw)) for obj in page.items]
            return replace(page, items=items, size=len(body))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StreamBroken(f"{what}: expected a list of objects, found {body[:80]!r} ({error}).") from error


def _page(body: bytes, what: str) -> ListPage:
    page = _decode_list(body)
    if page.items is None and not page.kind.endswith("List"):
        raise StreamBroken(f"{what}: expected a list of objects, found {body[:80]!r} (it has no items).")
    kind = page.kind.removesuffix("List")
    items = [_complete(bytes(raw), kind, page.api_version) for raw in page.items or ()]
    meta = page.metadata
    shard = meta.shard_info.selector if meta.shard_info is not None else None
    return ListPage(items, meta.resource_version, meta.continue_ or None, meta.remaining_item_count, len(body), shard)


def _complete(raw: bytes, kind: str, api_version: str) -> Object:
    item = _decode_item(raw)
    meta = item.metadata
    if not item.kind or not item.api_version:
        lacking = {} if item.kind else {"kind": kind}
        lacking |= {} if item.api_version else {"apiVersion": api_version}
        raw = msgspec.json.encode(lacking)[:-1] + b"," + raw.lstrip()[1:]
    return Object(raw, meta.namespace, meta.name, meta.uid, meta.resource_version)
