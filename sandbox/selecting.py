"""Label and field selectors are parsed and matched as the API server does."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from .conversion import field_label
from .metadata import label_value_problem
from .resources import Resource
from .status import bad_request

_SET: Final = re.compile(r"^(?P<key>[^\s!=<>,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_COMPARE: Final = re.compile(r"^(?P<key>[^\s!=<>,()]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s!=<>,()]*)$")
_EXISTS: Final = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s!=<>,()]+)$")
_KEY: Final = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")


@dataclass(frozen=True)
class Requirement:
    """One comma-separated term: an operator (`=`, `!=`, `in`, `notin`, `exists`, `!`, `>`, `<`) on a key."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet this term; `!=` and `notin` also accept a missing key."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        return value is not None and _compares(value, self.operator, next(iter(self.values)))


def _compares(value: str, operator: str, limit: str) -> bool:
    try:
        return int(value) > int(limit) if operator == ">" else int(value) < int(limit)
    except ValueError:
        return False


Selector = tuple[Requirement, ...]


def _terms(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    terms, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            terms.append(text[start:index])
            start = index + 1
    return [*terms, text[start:]]


def _label_term(text: str) -> Requirement:
    term = text.strip()
    if found := _SET.match(term):
        values = frozenset(value.strip() for value in found["values"].split(","))
        requirement = Requirement(found["key"], found["op"], values)
    elif found := _COMPARE.match(term):
        operator = "=" if found["op"] == "==" else found["op"]
        requirement = Requirement(found["key"], operator, frozenset({found["value"]}))
    elif found := _EXISTS.match(term):
        requirement = Requirement(found["key"], "!" if found["no"] else "exists")
    else:
        raise bad_request(f'unable to parse requirement: found "{term}", expected: key, operator and values')
    if not _KEY.match(requirement.key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{requirement.key}": not a label key')
    for index, value in enumerate(requirement.values if requirement.operator not in "<>" else ()):
        if problem := label_value_problem(value):
            found_at = f"values[{index}][{requirement.key}]"
            raise bad_request(f'unable to parse requirement: {found_at}: Invalid value: "{value}": {problem}')
    if requirement.operator in "<>" and not next(iter(requirement.values)).lstrip("-").isdigit():
        raise bad_request("unable to parse requirement: values: for 'Gt', 'Lt' operators, the value must be an integer")
    return requirement


def parse_labels(text: str) -> Selector:
    """The label selector of a query; empty text selects all. Raises a 400 for what does not parse."""
    return tuple(_label_term(term) for term in _terms(text)) if text.strip() else ()


def _field_term(term: str) -> Requirement:
    for sign, operator in (("!=", "!="), ("==", "="), ("=", "=")):
        key, found, value = term.partition(sign)
        if found:
            return Requirement(key.strip(), operator, frozenset({value}))
    raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")


def parse_fields(text: str, resource: Resource) -> Selector:
    """The field selector of a query for one resource; a label it does not know is a 400."""
    terms = tuple(_field_term(term) for term in text.split(",") if term)
    known = {"metadata.name", "metadata.namespace", *resource.fields}
    if not resource.namespaced and not resource.custom:
        known.discard("metadata.namespace")
    for term in terms:
        if field_label(resource, term.key) not in known:
            if resource.fields or resource.custom:
                raise bad_request(f"field label not supported: {term.key}")
            only = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{term.key}" is not a known field selector: only {only}')
    return tuple(replace(term, key=field_label(resource, term.key)) for term in terms)


@dataclass(frozen=True)
class Selection:
    """What a list or a watch asks for: a namespace (None: all), labels and fields."""

    namespace: str | None = None
    labels: Selector = ()
    fields: Selector = ()

    def matches(self, namespace: str, labels: Mapping[str, str], field: Callable[[], Mapping[str, str]]) -> bool:
        """Whether an object is selected; `field` is called only when fields are asked for."""
        if self.namespace and namespace != self.namespace:
            return False
        if self.labels and not all(term.matches(labels) for term in self.labels):
            return False
        if not self.fields:
            return True
        values = field()
        return all(term.matches({term.key: values.get(term.key, "")}) for term in self.fields)

    @property
    def filtered(self) -> bool:
        """Whether labels or fields narrow the selection (a list then tells no remainingItemCount)."""
        return bool(self.labels or self.fields)
