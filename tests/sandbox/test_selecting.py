"""Selectors against the server's rules."""

import pytest

from ctl.sandbox.builtin import builtin_resources
from ctl.sandbox.selecting import parse_fields, parse_labels
from ctl.sandbox.status import Refused

RESOURCES = {(resource.group, resource.plural): resource for resource in builtin_resources()}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "1"}, False),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2)", {"a": "1"}, False),
        ("a>5", {"a": "6"}, True),
        ("a<5", {"a": "6"}, False),
        ("a>5", {"a": "x"}, False),
        ("x.io/a=1,b in (2,3),!c", {"x.io/a": "1", "b": "3"}, True),
        ("x.io/a=1,b in (2,3),!c", {"x.io/a": "1", "b": "3", "c": ""}, False),
        ("a=", {"a": ""}, True),
    ],
)
def test_label_selectors(selector: str, labels: dict[str, str], matches: bool) -> None:
    assert all(term.matches(labels) for term in parse_labels(selector)) is matches


@pytest.mark.parametrize("selector", ["a b", "a in (", "a>=x", "a>x", "=1", "a=1=2", "a in 1"])
def test_selectors_that_do_not_parse_are_bad_requests(selector: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_labels(selector)
    assert caught.value.code == 400


def test_unknown_field_labels_are_bad_requests() -> None:
    with pytest.raises(Refused) as caught:
        parse_fields("spec.x=1", RESOURCES["", "pods"])
    assert caught.value.message == "field label not supported: spec.x"
    with pytest.raises(Refused) as caught:
        parse_fields("spec.x=1", RESOURCES["", "configmaps"])
    assert caught.value.message.startswith('"spec.x" is not a known field selector')


def test_field_labels_of_events_in_both_shapes_mean_the_same() -> None:
    core = parse_fields("involvedObject.name=x", RESOURCES["", "events"])
    new = parse_fields("regarding.name=x", RESOURCES["events.k8s.io", "events"])
    assert core == new
    with pytest.raises(Refused):
        parse_fields("regarding.name=x", RESOURCES["", "events"])
