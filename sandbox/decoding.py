"""Bodies of requests are decoded within bounds: whatever a client sends costs time and memory in proportion to its size."""

import re
from typing import Any, Final

import msgspec
import yaml

DEPTH: Final = 400
"""How many levels a body may have: what comes after recurses twice a level. (A real server takes 10,000.)"""
EXPANDED: Final = 1_000_000
"""How many values a YAML document may have once its aliases are written out."""

# A string, to its end or that of the body, or a bracket. Nothing is looked at twice.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+", re.ASCII)
# Written in C where PyYAML was built with libyaml.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def media_type(header: str) -> str:
    """The media type of a Content-Type in lower case; empty for a header that is none."""
    kind, *parameters = (part.strip() for part in header.removesuffix(";").split(";"))
    named = all(name and value for name, _, value in (parameter.partition("=") for parameter in parameters))
    return kind.lower() if named and _MEDIA_TYPE.fullmatch(kind) else ""


def from_json(body: bytes) -> Any:
    """The value of a JSON text; what is no UTF-8 is read as U+FFFD. Raises msgspec.DecodeError."""
    if body.count(b"{") + body.count(b"[") > DEPTH:
        _check_depth(body)
    try:
        return msgspec.json.decode(body)
    except UnicodeDecodeError:
        return msgspec.json.decode(body.decode(errors="replace"))


def from_yaml(body: bytes) -> Any:
    """The value of a YAML document as JSON knows values. Raises yaml.YAMLError."""
    try:
        _check_nesting(body)
        value = yaml.load(body, _LOADER)  # noqa: S506 (a safe one)
        if _size(value, {}) > EXPANDED:
            raise yaml.YAMLError("document contains excessive aliasing")
        return from_json(msgspec.json.encode(value))
    except (RecursionError, msgspec.DecodeError):
        raise yaml.YAMLError(f"exceeded max depth of {DEPTH}") from None
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise yaml.YAMLError(str(error)) from None


def is_deep(value: Any) -> bool:
    """Whether a decoded value has more levels than a body may have."""
    level = [value]
    for _ in range(DEPTH + 1):
        level = [inner for one in level for inner in _inner(one)]
        if not level:
            return False
    return True


def _inner(value: Any) -> "list[Any]":
    return [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []


def _check_depth(body: bytes) -> None:
    depth = 0
    for token in _TOKEN.finditer(body):
        sign = token[0]
        if sign in b"[{":
            depth += 1
            if depth > DEPTH:
                raise msgspec.DecodeError(f"invalid character '{sign.decode()}' exceeded max depth")
        elif sign in b"]}":
            depth -= 1


def _check_nesting(body: bytes) -> None:
    """Raise a YAMLError for a document of too many levels, before anything recurses into them: in C that ends the process."""
    depth = 0
    for event in yaml.parse(body, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH:
            raise yaml.YAMLError(f"exceeded max depth of {DEPTH}")


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values a value holds, those that it holds twice counted twice."""
    found = known.get(id(value))
    if found is None:
        found = 1
        if isinstance(value, dict):
            found += sum(_size(inner, known) for inner in value.values())
        elif isinstance(value, list | set):
            found += sum(_size(inner, known) for inner in value)
        if isinstance(value, dict | list):
            known[id(value)] = found
    return found
