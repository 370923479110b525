import pytest

from ctl.client.resources import Resource
from ctl.handlers.declaration.targets import EVERYTHING, Selector, SelectorMapping

KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", "kopfexample", frozenset({"kex"}))
POD = Resource("", "v1", "pods", "Pod", "pod")


def test_all_matching_values_are_collected_in_order() -> None:
    mapping = SelectorMapping(
        {
            "kex": "a=b",
            ("kopf.dev", "v1", "kopfexamples"): "c=d",
            EVERYTHING: "e=f",
            lambda resource: resource.group == "": "g=h",
        }
    )
    assert mapping.collect(KEX) == ["a=b", "c=d", "e=f"]
    assert mapping.collect(POD) == ["e=f", "g=h"]


def test_notations_of_one_selector_are_one_key() -> None:
    mapping = SelectorMapping[str]()
    mapping["kopfexamples.kopf.dev"] = "a"
    mapping["kopf.dev/kopfexamples"] = "b"
    mapping["kopf.dev", "kopfexamples"] = "c"
    assert list(mapping) == [Selector.parse("kopf.dev", "kopfexamples")]
    assert mapping["kopfexamples.kopf.dev"] == "c"
    assert mapping[Selector.parse("kopf.dev", "kopfexamples")] == "c"
    del mapping["kopf.dev", "kopfexamples"]
    assert not mapping


def test_a_key_that_is_no_selector_is_refused() -> None:
    with pytest.raises(TypeError, match="empty"):
        SelectorMapping({"": "a"})
