"""A patch is arranged into requests so that a crash between any two of them repeats work rather than loses it.

Records and baselines say what was done: they are never on the object before the results of it. Records are not removed before the baseline
that takes their place is there; otherwise finished handlers would be called again.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from ..causes.fields import FieldPath, ensure, resolve
from ..causes.patch import Patch, compose

STATUS, MAIN = "status", ""
"""The endpoints of an object: its status subresource, and the object itself."""

_ORDERS = (
    (STATUS, MAIN),
    (MAIN, STATUS),
    (STATUS, MAIN, STATUS),
    (MAIN, STATUS, MAIN),
    (STATUS, MAIN, STATUS, MAIN),
)
"""The orders of requests: the first one that fits is taken."""


class EndpointPatch(msgspec.Struct):
    """A merge patch for one endpoint."""

    endpoint: str
    content: dict[str, Any]


class Parts(msgspec.Struct):
    """A patch in three: what handlers want (`rest`), and of the records and baselines those to write (`kept`) and those to remove (`gone`)."""

    rest: dict[str, Any] = msgspec.field(default_factory=dict)
    kept: dict[str, Any] = msgspec.field(default_factory=dict)
    gone: dict[str, Any] = msgspec.field(default_factory=dict)


def part(patch: Mapping[str, Any], annotations: Collection[str], fields: Iterable[FieldPath]) -> Parts:
    """Take a merge patch apart: these annotations, and the values at these fields, are records and baselines.

    A mapping at a field is one of records by id, each of which comes or goes by itself. The patch is not changed.
    """
    rest: dict[str, Any] = dict(patch)
    kept: dict[str, Any] = {}
    gone: dict[str, Any] = {}
    paths: list[FieldPath] = [("metadata", "annotations", name) for name in annotations]
    for path in fields:
        if path[0] not in patch:
            continue
        found = resolve(patch, path, _ABSENT)
        if isinstance(found, (dict, Mapping)):
            paths += [(*path, key) for key in found]
        elif found is not _ABSENT:
            paths.append(path)
    for path in paths:
        value = resolve(patch, path)
        ensure(gone if value is None else kept, path, value)
        _leave_out(rest, path)
    return Parts(rest, kept, gone)


def arrange(parts: Parts, *, split: bool) -> list[EndpointPatch]:
    """The requests that write all parts, in order: as few as the promises allow, the status before the object itself.

    `split`: the status has an endpoint of its own. Two requests do unless results, records and baselines are in both places.
    """
    wanted = [each for each in (parts.rest, parts.kept, parts.gone) if each]
    if len(wanted) == 1 and not (split and "status" in wanted[0]):
        return [EndpointPatch(MAIN, wanted[0])]
    rest, kept, gone = (_by_endpoint(each, split=split) for each in (parts.rest, parts.kept, parts.gone))
    for order in _ORDERS:
        contents = [Patch() for _ in order]
        done = _place(order, rest, 0, contents)
        known = None if done is None else _place(order, kept, done, contents)
        if known is not None and _place(order, gone, known, contents) is not None:
            return [
                EndpointPatch(endpoint, content) for endpoint, content in zip(order, contents, strict=True) if content
            ]
    raise AssertionError(f"The last order has room for everything; got {parts!r}.")


def _place(order: tuple[str, ...], wanted: Mapping[str, Any], begin: int, contents: list[Patch]) -> int | None:
    """Put each endpoint's content into its first request from the begun one on; give the last of them, None: there is none."""
    latest = begin
    for endpoint, content in wanted.items():
        if endpoint not in order[begin:]:
            return None
        position = order.index(endpoint, begin)
        compose(contents[position], content)
        latest = max(latest, position)
    return latest


def _by_endpoint(content: Mapping[str, Any], *, split: bool) -> dict[str, dict[str, Any]]:
    status = {"status": content["status"]} if split and content.get("status") else {}
    main = {key: value for key, value in content.items() if key != "status" or not split}
    return {endpoint: found for endpoint, found in ((STATUS, status), (MAIN, main)) if found}


def _leave_out(target: dict[str, Any], path: FieldPath) -> None:
    """Remove a value and the mappings that are empty without it, from a patch that shares what it holds with another."""
    inner = dict(target[path[0]]) if len(path) > 1 else {}
    if inner:
        _leave_out(inner, path[1:])
    if inner:
        target[path[0]] = inner
    else:
        del target[path[0]]


_ABSENT = object()
