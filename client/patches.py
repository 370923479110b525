"""Merge patches and JSON patches are computed and applied to plain JSON values here.

Nothing returned shares a dict or a list with an argument, and no argument is changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonpatch
import jsonpointer

Operation = dict[str, Any]
"""One step of a JSON patch: `op`, `path`, and `value` or `from`."""


class PatchError(ValueError):
    """A JSON patch that does not fit the document; the server would answer 422."""


_SCALARS = frozenset({str, int, float, bool, type(None)})


def copy(value: Any) -> Any:
    """A deep copy of a JSON value; mappings and sequences of any class become dicts and lists."""
    # Exact types first: asking a string whether it is a Mapping costs more than all the rest.
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {key: item if type(item) in _SCALARS else copy(item) for key, item in value.items()}
    if kind is list:
        return [copy(item) for item in value]
    if isinstance(value, Mapping):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy(item) for item in value]
    return value


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386): maps merge, None deletes a key, anything else replaces."""
    if not isinstance(patch, (dict, Mapping)):
        return copy(patch)
    result = dict(target) if isinstance(target, (dict, Mapping)) else {}
    untouched = result.keys() - patch.keys()
    for key in untouched:
        result[key] = copy(result[key])
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that turns `old` into `new`; empty when they are equal.

    A None inside of `new` means an absent key, since a merge patch cannot set it; inside of lists it is a value. A map
    that replaces a scalar or a list is sent whole, and so is every list that changed.
    """
    patch: dict[str, Any] = {key: None for key in old if old[key] is not None and new.get(key) is None}
    for key, value in new.items():
        if value is None:
            continue
        before = old.get(key)
        if isinstance(value, (dict, Mapping)) and isinstance(before, (dict, Mapping)):
            inner = merge_diff(before, value)
            if inner:
                patch[key] = inner
        elif not is_same(before, value):
            patch[key] = _without_nulls(value)
    return patch


def json_diff(old: Any, new: Any) -> list[Operation]:
    """A JSON patch (RFC 6902) that turns `old` into `new`; empty when they are equal.

    Maps are compared key by key. Of lists the equal items at both ends stay, and those between are compared in pairs: not
    always the shortest patch. (jsonpatch's own diff is shorter and sometimes wrong: its moves and its `1 == True`.)
    """
    return list(_diff((), old, new))


def json_patch(document: Any, operations: Iterable[Mapping[str, Any]]) -> Any:
    """Apply a JSON patch. Raises PatchError when an operation does not fit or a `test` fails; all or nothing."""
    try:
        return jsonpatch.JsonPatch([copy(operation) for operation in operations]).apply(copy(document))
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError, IndexError) as error:
        raise PatchError(f"The JSON patch does not fit the document: {error}") from error


def pointer(path: Sequence[str | int]) -> str:
    """A JSON pointer (RFC 6901) to a path of keys and indices."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def is_same(one: Any, two: Any) -> bool:
    """Whether two JSON values are equal as JSON: true is not 1, and absence is not told from None at the top."""
    if isinstance(one, (dict, Mapping)) and isinstance(two, (dict, Mapping)):
        return one.keys() == two.keys() and all(is_same(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(map(is_same, one, two))
    return isinstance(one, bool) is isinstance(two, bool) and bool(one == two)


def _diff(path: tuple[str | int, ...], old: Any, new: Any) -> Iterator[Operation]:
    if isinstance(old, (dict, Mapping)) and isinstance(new, (dict, Mapping)):
        for key in old:
            if key in new:
                yield from _diff((*path, key), old[key], new[key])
            else:
                yield {"op": "remove", "path": pointer((*path, key))}
        for key in new:
            if key not in old:
                yield {"op": "add", "path": pointer((*path, key)), "value": copy(new[key])}
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        yield from _diff_lists(path, old, new)
    elif not is_same(old, new):
        yield {"op": "replace", "path": pointer(path), "value": copy(new)}


def _diff_lists(path: tuple[str | int, ...], old: Sequence[Any], new: Sequence[Any]) -> Iterator[Operation]:
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if not is_same(old[index], new[index])), shorter)
    tail = next(
        (index for index in range(shorter - start) if not is_same(old[-1 - index], new[-1 - index])), shorter - start
    )
    pairs = shorter - tail
    for index in range(start, pairs):
        yield from _diff((*path, index), old[index], new[index])
    for index in reversed(range(pairs, len(old) - tail)):
        yield {"op": "remove", "path": pointer((*path, index))}
    for index in range(pairs, len(new) - tail):
        yield {"op": "add", "path": pointer((*path, index)), "value": copy(new[index])}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return copy(value)
