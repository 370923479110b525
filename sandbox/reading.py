"""Lists are read at the version a client asks for, in pages that stay consistent."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from .history import Stored
from .resources import Resource, object_key
from .selecting import Selection, parse_fields, parse_labels
from .status import Cause, Refused, Subject, bad_request, expired, invalid, prohibited, too_new, unsupported
from .store import Store

EXACT: Final = "Exact"
NOT_OLDER: Final = "NotOlderThan"
_LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_HIGHEST: Final = (1 << 63) - 1
_DIGITS: Final = 40
"""Longer texts are no 64-bit numbers, whatever they say."""
OPTIONS: Final = Subject("meta.k8s.io", "", "ListOptions")


@dataclass(frozen=True)
class Page:
    """One page of a list, or the whole of it."""

    items: Sequence[Stored]
    version: int
    continue_token: str | None = None
    remaining: int | None = None

    def meta(self) -> dict[str, Any]:
        """The list's metadata."""
        found: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.continue_token:
            found["continue"] = self.continue_token
        if self.remaining is not None:
            found["remainingItemCount"] = self.remaining
        return found


@dataclass(frozen=True)
class _Position:
    """Where a paged list goes on: the version of its first page (-1: whatever is current) and the next key."""

    version: int
    start: str


def switched_on(query: Mapping[str, str], name: str) -> bool:
    """Whether a query asks for something that is on or off: whatever is not said to be off is on."""
    text = query.get(name)
    return text is not None and text.lower() not in ("false", "0")


def number(text: str, function: str = "ParseInt") -> int:
    """The 64-bit number of a text, as Go's `strconv` parses it. Raises a 400."""
    words, signed = f'strconv.{function}: parsing "{text}"', function == "ParseInt"
    if not re.fullmatch(r"[+-]?[0-9]+" if signed else r"[0-9]+", text):
        raise bad_request(f"{words}: invalid syntax")
    found = int(text) if len(text) <= _DIGITS else _HIGHEST + 1
    if not -_HIGHEST <= found <= _HIGHEST:
        raise bad_request(f"{words}: value out of range")
    return found


def limit_of(query: Mapping[str, str]) -> int:
    """The page size of a list; 0 and less mean no limit. Raises a 400."""
    return max(number(query.get("limit") or "0"), 0)


def version_of(query: Mapping[str, str]) -> int:
    """The resourceVersion of a query, 0 when there is none. Raises a 400."""
    text = query.get("resourceVersion") or "0"
    try:
        return number(text, "ParseUint")
    except Refused as refused:
        words = f'Invalid value: "{text}": {refused.message}'
        raise bad_request(f"invalid resource version: resourceVersion: {words}") from None


def timeout_of(query: Mapping[str, str]) -> int:
    """The timeoutSeconds of a watch, 0 when there is none. Raises a 400."""
    return max(number(query.get("timeoutSeconds") or "0"), 0)


def check_reached(store: Store, query: Mapping[str, str]) -> None:
    """Raise a 504 when a read asks for a version that is not there yet."""
    version = version_of(query)
    if version > store.history.current:
        raise too_new(version, store.history.current)


def selection_of(resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Selection:
    """The selection of a list, watch or deletecollection."""
    return Selection(
        namespace or None,
        parse_labels(query.get("labelSelector", "")),
        parse_fields(query.get("fieldSelector", ""), resource),
    )


def check_list(query: Mapping[str, str]) -> None:
    """Raise a 422 for list parameters that contradict each other."""
    timeout_of(query)
    causes: list[Cause] = []
    field, match = "resourceVersionMatch", query.get("resourceVersionMatch", "")
    version = query.get("resourceVersion", "")
    if match:
        if not version:
            causes.append(prohibited(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if query.get("continue"):
            causes.append(prohibited(field, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER):
            causes.append(unsupported(field, match, (EXACT, NOT_OLDER, "")))
        if match == EXACT and version == "0":
            causes.append(prohibited(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if query.get("sendInitialEvents"):
        causes.append(prohibited("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid(OPTIONS, "", causes)


def check_watch(query: Mapping[str, str]) -> None:
    """Raise a 422 for watch parameters that contradict each other."""
    timeout_of(query)
    causes: list[Cause] = []
    field, match = "resourceVersionMatch", query.get("resourceVersionMatch", "")
    if query.get("sendInitialEvents") and match != NOT_OLDER:
        causes.append(prohibited(field, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}"))
    if match:
        if not query.get("sendInitialEvents"):
            causes.append(
                prohibited(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != NOT_OLDER:
            causes.append(unsupported(field, match, (NOT_OLDER,)))
        if query.get("continue"):
            causes.append(prohibited(field, "resourceVersionMatch is forbidden when continue is provided"))
    if causes:
        raise invalid(OPTIONS, "", causes)
    text = query.get("resourceVersion") or "0"
    try:
        number(text, "ParseUint")
    except Refused as refused:
        raise Refused(500, "", f'resourceVersion: Invalid value: "{text}": {refused.message}') from None


def list_page(store: Store, resource: Resource, selection: Selection, query: Mapping[str, str]) -> Page:
    """The page that a list's query asks for.

    Raises a 410 for a version or token that is forgotten, a 504 for a version that is not reached yet, a
    400 or 422 for parameters that make no sense.
    """
    check_list(query)
    limit = limit_of(query)
    if token := query.get("continue"):
        if query.get("resourceVersion", "0") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        position = _decode(token)
        return _page(store, resource, selection, position, limit)
    version = version_of(query)
    current = store.history.current
    match = query.get("resourceVersionMatch", "")
    if version > current:
        raise too_new(version, current)
    exact = match == EXACT or (not match and limit and version)
    if version == 0 and query.get("resourceVersion") == "0":
        # "Any version" is answered from the watch cache, which knows no pages.
        limit = 0
    try:
        return _page(store, resource, selection, _Position(version if exact else current, ""), limit)
    except _TooOld:
        raise expired(_LIST_TOO_OLD) from None


class _TooOld(Exception):
    """The position's version is forgotten."""


def _page(store: Store, resource: Resource, selection: Selection, position: _Position, limit: int) -> Page:
    version = store.history.current if position.version < 0 else position.version
    if version > store.history.current:
        raise too_new(version, store.history.current)
    if version < store.history.compacted and version != store.history.current:
        if not position.start:
            raise _TooOld
        raise expired(_CONTINUE_TOO_OLD, _encode(_Position(-1, position.start)))
    found = store.select_at(resource, selection, version)
    if position.start:
        found = [item for item in found if object_key(item.namespace, item.name) >= position.start]
    if not limit or len(found) <= limit:
        return Page(found, version)
    items = found[:limit]
    following = object_key(items[-1].namespace, items[-1].name) + "\0"
    remaining = None if selection.filtered else len(found) - limit
    return Page(items, version, _encode(_Position(version, following)), remaining)


def _encode(position: _Position) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": position.version, "start": position.start}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _decode(token: str) -> _Position:
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if found["v"] != "meta.k8s.io/v1" or not found["rv"] or not found["start"]:
            raise ValueError(token)
        return _Position(int(found["rv"]), str(found["start"]))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise bad_request("invalid continue token: continue key is not valid") from None
