"""Takes what JSON has no form for out of the changes that a handler wants, and says where it was."""

import math
from collections.abc import Mapping
from typing import Any

from ...client.wire.request import plain as as_json
from .patch import Patch


class Unwritable(TypeError):
    """A value in a patch that JSON has no form for; `path` is where it was (`status.progress.0`), `found` what it is."""

    def __init__(self, path: str, found: str) -> None:
        super().__init__(
            f"The patch has {found} at {path}, which JSON has no form for. It is not written; put text, finite "
            f"numbers, booleans, None, dates, lists, or mappings with text as keys there."
        )
        self.path = path
        self.found = found


def make_plain(patch: Patch) -> list[Unwritable]:
    """Bring the merge patch into the form in which the server will give it back: dates become text, sets lists, keys text.

    What has no form is taken out, as little as a merge patch allows: the value of a key, hence a list as a whole. It is given
    back. Functions of the patch stay as they are.
    """
    found: list[Unwritable] = []
    plain = _mapping(patch, "", found)
    dict.clear(patch)
    dict.update(patch, plain)
    return found


def _mapping(mapping: Mapping[Any, Any], path: str, found: list[Unwritable]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in mapping.items():
        where = f"{path}.{key}" if path else f"{key}"
        try:
            name = _key(key, where)
            if isinstance(value, Mapping):
                plain[name] = _mapping(value, where, found)
            else:
                plain[name] = _value(value, where)
        except Unwritable as exc:
            found.append(exc)
        except RecursionError:
            found.append(Unwritable(where, "a value that contains itself"))
    return plain


def _key(key: Any, where: str) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key))
    if not isinstance(key, str):
        raise Unwritable(where, f"the key {key!r} ({type(key).__name__})")
    return _text(key, where)


def _value(value: Any, where: str) -> Any:
    if value is None or type(value) in {bool, int}:
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise Unwritable(where, f"{value!r}")
    if isinstance(value, Mapping):
        inner: list[Unwritable] = []
        plain = _mapping(value, where, inner)
        if inner:
            raise inner[0]
        return plain
    if isinstance(value, (list, tuple)):
        return [_value(item, f"{where}.{index}") for index, item in enumerate(value)]
    try:
        return as_json(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise Unwritable(where, f"a {type(value).__qualname__}") from exc


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Unwritable(where, f"text that is not valid Unicode ({text!r})") from exc
    return str.__str__(text)
