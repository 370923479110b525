"""The registry finds the handlers of a resource as a plain walk through all handlers would."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ctl.client.resources import Resource
from ctl.handlers.declaration.registry import OperatorRegistry, deduplicated
from ctl.handlers.declaration.specs import HandlerId, HandlerSpec, IndexingSpec
from ctl.handlers.declaration.targets import EVERYTHING, Selector


def one(**_: Any) -> None: ...


def two(**_: Any) -> None: ...


SELECTORS = [
    Selector.parse("things"),
    Selector.parse("thing"),
    Selector.parse("a.io", EVERYTHING),
    Selector.parse("things.v2"),
    Selector.parse(lambda resource: resource.version == "v1"),
    Selector.parse(category="all"),
]
RESOURCES = [
    Resource(group, version, "things", singular=singular, categories=categories, preferred=preferred)
    for group in ("a.io", "b.io")
    for version in ("v1", "v2")
    for singular in (None, "thing")
    for categories in (frozenset[str](), frozenset({"all"}))
    for preferred in (True, False)
]


class Declaring(RuleBasedStateMachine):
    """Declarations and questions in any order; resources come back changed, as after another discovery."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = OperatorRegistry()
        self.specs: list[IndexingSpec] = []

    @rule(selector=st.sampled_from(SELECTORS), fn=st.sampled_from([one, two]), id=st.sampled_from(["x", "y"]))
    def declare(self, selector: Selector, fn: Any, id: str) -> None:
        spec = IndexingSpec(id=HandlerId(id), fn=fn, selector=selector)
        self.specs.append(spec)
        self.registry.append(spec)

    @rule(resource=st.sampled_from(RESOURCES))
    def ask(self, resource: Resource) -> None:
        expected = [spec for spec in self.specs if spec.selector is not None and spec.selector.check(resource)]
        assert list(self.registry.of(resource).indexing.all) == expected


TestDeclaring = Declaring.TestCase

specs = st.builds(
    lambda fn, name: HandlerSpec(id=HandlerId(name), fn=fn),
    st.sampled_from([one, two]),
    st.sampled_from(["x", "y", "z"]),
)


@given(st.lists(specs, max_size=10))
def test_deduplication_keeps_the_first_of_each_in_order(declared: list[HandlerSpec]) -> None:
    kept = deduplicated(declared)
    assert [declared.index(spec) for spec in kept] == sorted(declared.index(spec) for spec in kept)
    assert {(spec.fn, spec.id) for spec in kept} == {(spec.fn, spec.id) for spec in declared}
    for spec in kept:
        namesakes = [other for other in declared if (other.fn, other.id) == (spec.fn, spec.id)]
        assert spec is namesakes[0]
    assert len({(spec.fn, spec.id) for spec in kept}) == len(kept)
