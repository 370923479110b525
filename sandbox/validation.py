"""Objects of custom kinds are judged by their structural schema, in the words of the real server.

Rules in CEL (`x-kubernetes-validations`) are not evaluated.
"""

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final

import msgspec

from .patterns import Patience
from .schemas import Schema
from .status import Cause, quoted, required, too_long, unsupported, wrong

_NOWHERE: Final = "<nil>"
_INTEGERS: Final = {"int32": 1 << 31, "int64": 1 << 63}


def _kind(value: Any) -> str:
    """The JSON type of a value; a number without a fraction is an integer."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    names: dict[type, str] = {str: "string", int: "integer", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _date_time(text: str) -> datetime:
    if not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)$", text):
        raise ValueError(text)
    return datetime.fromisoformat(text)


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date-time": _parses(_date_time),
    "date": _parses(date.fromisoformat),
    "uuid": _parses(uuid.UUID),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(lambda text: ipaddress.ip_network(text, strict=False)),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
}


def violations(schema: Schema, value: Any, patience: Patience, name: str = "", place: str | None = None) -> list[Cause]:
    """What is wrong with a value. `name` is how the sentences call it, `place` the field (the same if not given).

    Raises a 500 when the patterns of the schema take too long.
    """
    place = name if place is None else place
    causes = _typed(schema, value, name, place)
    if causes:
        return [*causes, *_enumerated(schema, value, place)] if value is not None else causes
    causes = _enumerated(schema, value, place)
    if isinstance(value, str):
        causes += _text(schema, value, (name, place), patience)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _number(schema, value, name, place)
    elif isinstance(value, list):
        causes += _list(schema, value, (name, place), patience)
    elif isinstance(value, dict):
        causes += _map(schema, value, (name, place), patience)
    return causes + _combined(schema, value, (name, place), patience)


def _mistyped(expected: str, value: Any, name: str, place: str) -> Cause:
    found = _kind(value)
    message = f'Invalid value: "{found}": {name} in body must be of type {expected}: "{found}"'
    return Cause("FieldValueTypeInvalid", message, place)


def _typed(schema: Schema, value: Any, name: str, place: str) -> list[Cause]:
    if value is None:
        expected = schema.get("type")
        fine = schema.get("nullable") or not expected
        return [] if fine else [_mistyped(str(expected), value, name, place)]
    if schema.get("x-kubernetes-int-or-string"):
        return [] if _kind(value) in ("integer", "string") else [_mistyped("integer,string", value, name, place)]
    expected = schema.get("type")
    if not expected or _kind(value) == expected or (expected == "number" and _kind(value) == "integer"):
        return []
    return [_mistyped(expected, value, name, place)]


def _enumerated(schema: Schema, value: Any, place: str) -> list[Cause]:
    choices = schema.get("enum")
    if choices is None or any(type(value) is type(choice) and value == choice for choice in choices):
        return []
    return [unsupported(place, value, choices)]


def _text(schema: Schema, value: str, where: tuple[str, str], patience: Patience) -> list[Cause]:
    name, place = where
    causes: list[Cause] = []
    least, most = schema.get("minLength"), schema.get("maxLength")
    if most is not None and len(value) > most:
        causes.append(too_long(place, most))
    if least is not None and len(value) < least:
        causes.append(wrong(place, value, f"{name} in body should be at least {least} chars long"))
    pattern = schema.get("pattern")
    if pattern is not None and not patience.finds(pattern, value, name):
        causes.append(wrong(place, value, f"{name} in body should match '{pattern}'"))
    kind = schema.get("format", "")
    if kind in _FORMATS and not _FORMATS[kind](value):
        message = f"Invalid value: {quoted(value)}: {name} in body must be of type {kind}: {quoted(value)}"
        causes.append(Cause("FieldValueTypeInvalid", message, place))
    return causes


def _number(schema: Schema, value: float, name: str, place: str) -> list[Cause]:
    causes: list[Cause] = []
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        causes.append(wrong(place, value, f"{name} in body should be {words} {most}"))
    if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(wrong(place, value, f"{name} in body should be {words} {least}"))
    if step and value % step:
        causes.append(wrong(place, value, f"{name} in body should be a multiple of {step}"))
    limit = _INTEGERS.get(schema.get("format", ""))
    if limit is not None and not -limit <= value < limit:
        words = f"Checked value must be of type integer with format {schema['format']} in {name}"
        causes.append(wrong(_NOWHERE, "", words))
    return causes


def _counted(count: int, limits: tuple[Any, Any], words: str, name: str, place: str) -> list[Cause]:
    least, most = limits
    if most is not None and count > most:
        return [Cause("FieldValueTooMany", f"Too many: {count}: must have at most {most} items", place)]
    if least is not None and count < least:
        return [wrong(place, count, f"{name} in body should have at least {least} {words}")]
    return []


def _list(schema: Schema, value: list[Any], where: tuple[str, str], patience: Patience) -> list[Cause]:
    name, place = where
    causes = _counted(len(value), (schema.get("minItems"), schema.get("maxItems")), "items", name, place)
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(value):
            causes += violations(items, item, patience, f"{name}[{index}]", f"{place}[{index}]")
    return causes + _doubles(schema, value, place)


def _doubles(schema: Schema, value: list[Any], place: str) -> list[Cause]:
    """The items of a set or of a list of maps that are there already."""
    merged = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if merged not in ("set", "map"):
        return []
    causes: list[Cause] = []
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        if merged == "map":
            item = {key: item.get(key) for key in keys} if isinstance(item, dict) else item  # noqa: PLW2901
        text = msgspec.json.encode(item, order="sorted")
        if text in seen:
            causes.append(Cause("FieldValueDuplicate", f"Duplicate value: {quoted(item)}", f"{place}[{index}]"))
        seen.add(text)
    return causes


def _map(schema: Schema, value: dict[str, Any], where: tuple[str, str], patience: Patience) -> list[Cause]:
    name, place = where
    counts = (schema.get("minProperties"), schema.get("maxProperties"))
    causes = _counted(len(value), counts, "properties", name, place)
    wanted = [*(schema.get("required") or ())]
    if schema.get("x-kubernetes-embedded-resource"):
        wanted += ["apiVersion", "kind"]
    causes += [required(_below(place, key)) for key in wanted if key not in value]
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    for key, inner in value.items():
        found = properties.get(key, more)
        if isinstance(found, Mapping):
            causes += violations(found, inner, patience, _below(name, key), _below(place, key))
    return causes


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _combined(schema: Schema, value: Any, where: tuple[str, str], patience: Patience) -> list[Cause]:
    """What `allOf`, `anyOf`, `oneOf` and `not` say."""
    name, place = where
    causes: list[Cause] = []
    every = [violations(each, value, patience, name, place) for each in schema.get("allOf") or ()]
    if any(every):
        causes += [cause for found in every for cause in found]
        words = "None validated" if all(every) else "Not all validated"
        causes.append(Cause("FieldValueInvalid", _said(name, f"all the schemas (allOf). {words}"), _NOWHERE))
    some = [violations(each, value, patience, name, place) for each in schema.get("anyOf") or ()]
    if some and all(some) and not schema.get("x-kubernetes-int-or-string"):
        causes += [Cause("FieldValueInvalid", _said(name, "at least one schema (anyOf)"), _NOWHERE), *some[0]]
    single = [violations(each, value, patience, name, place) for each in schema.get("oneOf") or ()]
    valid = sum(not found for found in single)
    if single and valid != 1:
        words = "Found none valid" if not valid else f"Found {valid} valid alternatives"
        message = _said(name, f"one and only one schema (oneOf). {words}")
        causes += [Cause("FieldValueInvalid", message, _NOWHERE), *(() if valid else single[0])]
    banned = schema.get("not")
    if isinstance(banned, Mapping) and not violations(banned, value, patience, name, place):
        causes.append(
            Cause("FieldValueInvalid", f'Invalid value: "": "{name}" must not validate the schema (not)', _NOWHERE)
        )
    return causes


def _said(name: str, words: str) -> str:
    return f'Invalid value: "": "{name}" must validate {words}'
