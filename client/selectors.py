"""Label and field selectors are parsed, rendered and matched here.

The syntax and the meaning are those of Kubernetes' apimachinery (`labels.Parse`, `fields.ParseSelector`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class SelectorError(ValueError):
    """A selector that cannot be parsed; the message has the text and the reason."""


class Operator(Enum):
    """How a label is compared; the values are the API's names."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    ABSENT = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.ABSENT:
                return f"!{self.key}"
            case Operator.GREATER | Operator.LESS:
                return f"{self.key}{'>' if self.operator is Operator.GREATER else '<'}{self.values[0]}"
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case Operator.NOT_IN if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
        word = "in" if self.operator is Operator.IN else "notin"
        return f"{self.key} {word} ({','.join(self.values)})"

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy this; an absent label satisfies `NotIn` and no comparison."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
        number, limit = _integer(value), _integer(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator is Operator.GREATER else number < limit


@dataclass(frozen=True)
class LabelSelector:
    """Conditions that must all hold; without any, everything matches."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "LabelSelector":
        """Read `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>5`. Raises SelectorError."""
        return cls(tuple(_requirement(part, text) for part in _split(text)))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> "LabelSelector":
        """Read the `matchLabels` and `matchExpressions` of an object. Raises SelectorError."""
        requirements = [
            Requirement(str(key), Operator.IN, (str(value),)) for key, value in (spec.get("matchLabels") or {}).items()
        ]
        for item in spec.get("matchExpressions") or ():
            try:
                operator = Operator(item["operator"])
                values = tuple(str(value) for value in item.get("values") or ())
                requirements.append(_checked(Requirement(str(item["key"]), operator, values), str(item)))
            except (KeyError, TypeError, ValueError) as error:
                raise SelectorError(f"The label expression {item!r} cannot be understood: {error!r}.") from error
        return cls(tuple(requirements))

    def __str__(self) -> str:
        """The text for the API, which `parse` reads back."""
        return ",".join(map(str, self.requirements))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether labels satisfy all conditions; None is no labels."""
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True)
class FieldRequirement:
    """One condition on one field: that it has, or has not, a value."""

    path: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        return f"{self.path}{'=' if self.equal else '!='}{_escape(self.value)}"


@dataclass(frozen=True)
class FieldSelector:
    """Conditions that must all hold; without any, everything matches.

    The server decides by which fields a resource can be selected: `metadata.name` and `metadata.namespace` always.
    """

    requirements: tuple[FieldRequirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "FieldSelector":
        r"""Read `metadata.name=a,status.phase!=Running`; `\,`, `\=` and `\\` stand for themselves. Raises SelectorError."""
        parts = re.findall(r"(?:[^,\\]|\\.?)+", text)
        return cls(tuple(_field_requirement(part, text) for part in parts))

    def __str__(self) -> str:
        """The text for the API, which `parse` reads back."""
        return ",".join(map(str, self.requirements))

    def matches(self, body: Mapping[str, Any]) -> bool:
        """Whether an object satisfies all conditions; an absent field is the empty string, as the server sees it."""
        return all((_field(body, item.path) == item.value) is item.equal for item in self.requirements)


_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_EXISTENCE = re.compile(rf"(?P<not>!)?\s*(?P<key>{_KEY})")
_EQUALITY = re.compile(rf"(?P<key>{_KEY})\s*(?P<op>==?|!=)\s*(?P<value>{_VALUE})")
_ORDER = re.compile(rf"(?P<key>{_KEY})\s*(?P<op>[<>])\s*(?P<value>-?[0-9]+)")
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")


def _split(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    if not text.strip():
        return []
    return [part.strip() for part in re.split(r",(?![^()]*\))", text)]


def _requirement(part: str, text: str) -> Requirement:
    if found := _EXISTENCE.fullmatch(part):
        return Requirement(found["key"], Operator.ABSENT if found["not"] else Operator.EXISTS)
    if found := _EQUALITY.fullmatch(part):
        return Requirement(found["key"], Operator.NOT_IN if found["op"] == "!=" else Operator.IN, (found["value"],))
    if found := _ORDER.fullmatch(part):
        return Requirement(found["key"], Operator.GREATER if found["op"] == ">" else Operator.LESS, (found["value"],))
    if found := _SET.fullmatch(part):
        values = tuple(sorted({value.strip() for value in found["values"].split(",")}))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return Requirement(found["key"], Operator.IN if found["op"] == "in" else Operator.NOT_IN, values)
    raise SelectorError(
        f"The label selector {text!r} cannot be understood at {part!r}: expected conditions such as "
        "`a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`, joined by commas."
    )


def _checked(requirement: Requirement, text: str) -> Requirement:
    count = len(requirement.values)
    expected = {
        Operator.EXISTS: count == 0,
        Operator.ABSENT: count == 0,
        Operator.GREATER: count == 1 and _integer(requirement.values[0]) is not None,
        Operator.LESS: count == 1 and _integer(requirement.values[0]) is not None,
    }
    if not expected.get(requirement.operator, count > 0):
        raise SelectorError(f"The label expression {text} has the wrong values for {requirement.operator.value}.")
    return requirement


def _field_requirement(part: str, text: str) -> FieldRequirement:
    found = re.fullmatch(r"\s*(?P<path>[^=!\\\s]+)\s*(?P<op>==?|!=)(?P<value>(?:[^=\\]|\\[=,\\])*)", part)
    if found is None:
        raise SelectorError(
            f"The field selector {text!r} cannot be understood at {part!r}: expected `path=value` or `path!=value`, "
            "joined by commas."
        )
    value = re.sub(r"\\(.)", r"\1", found["value"])
    return FieldRequirement(found["path"], value, found["op"] != "!=")


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


def _field(body: Mapping[str, Any], path: str) -> str:
    value: Any = body
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[+-]?[0-9]+", text) else None


def join(selectors: Iterable[LabelSelector]) -> LabelSelector:
    """The selector of the objects that all the given ones match."""
    return LabelSelector(tuple(item for selector in selectors for item in selector.requirements))
