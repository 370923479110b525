"""The page on resources: each way to name them reaches the objects that it means, and no others."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import ctl

from ..handlers.world import Calls, World, a_world, rest

pytestmark = pytest.mark.virtual_time

_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  scope: Namespaced
  group: {group}
  names: {{kind: {kind}, plural: {plural}, singular: {singular}, shortNames: [{short}], categories: [{category}]}}
  versions:{versions}
"""
_VERSION = """
  - name: {name}
    served: true
    storage: {storage}
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}"""


def definition(group: str, plural: str, kind: str, short: str, category: str = "mine", old: bool = False) -> str:
    """A definition; with `old`, v1beta1 is served beside v1."""
    names = ["v1", "v1beta1"] if old else ["v1"]
    versions = "".join(_VERSION.format(name=name, storage=str(name == "v1").lower()) for name in names)
    words = {"plural": plural, "kind": kind, "short": short, "singular": kind.lower()}
    return _CRD.format(group=group, category=category, versions=versions, **words)


EXAMPLES = ctl.Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)
METRICS = ctl.Resource("metrics.test", "v1", "pods", "PodMetrics", namespaced=True)
TWINS = [ctl.Resource(group, "v1", "twins", "Twin", namespaced=True) for group in ("one.test", "two.test")]
PODS = ctl.Resource("", "v1", "pods", "Pod", namespaced=True)
DEPLOYMENTS = ctl.Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
EVENTS = ctl.Resource("", "v1", "events", "Event", namespaced=True)

DEFINITIONS = [
    definition("kopf.dev", "kopfexamples", "KopfExample", "kex", old=True),
    definition("metrics.test", "pods", "PodMetrics", "pm"),
    *(definition(one.group, "twins", "Twin", "tw", category="pairs") for one in TWINS),
]
POD = {"containers": [{"name": "main", "image": "none"}]}
DEPLOYMENT = {
    "selector": {"matchLabels": {"app": "x"}},
    "template": {"metadata": {"labels": {"app": "x"}}, "spec": POD},
}
KEX = {"kopfexamples.v1.kopf.dev"}
OLD = {"kopfexamples.v1beta1.kopf.dev"}
POD_ONLY, DEPLOYMENT_ONLY = {"pods.v1"}, {"deployments.v1.apps"}
BOTH_TWINS = {"twins.v1.one.test", "twins.v1.two.test"}
CUSTOM = KEX | BOTH_TWINS | {"pods.v1.metrics.test"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A server with resources of every sort: old versions, twins in two groups, and pods that are no pods."""
    async with a_world(definitions=DEFINITIONS) as found:
        yield found


async def populate(world: World) -> None:
    """One object of each resource, and an event about something."""
    for resource in (EXAMPLES, METRICS, *TWINS):
        await world.create(resource=resource, labels={"only-this": ""})
    await world.create(resource=PODS, spec=POD)
    await world.create(resource=DEPLOYMENTS, spec=DEPLOYMENT)
    event = {
        "metadata": {"name": "happened", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "one", "namespace": "default"},
    }
    await world.user.create(EVENTS, event, "default")


def note(calls: Calls, **options: Any) -> Any:
    """A handler that notes of which resource it was called, for the objects that tests make."""

    def fn(resource: ctl.Resource, namespace: str | None, **_: Any) -> None:
        if namespace == "default":
            calls(repr(resource), options)

    return fn


async def served(world: World, calls: Calls, *target: Any, **names: Any) -> set[str]:
    """Which resources are told to a handler of raw events with such a selector."""
    ctl.on.event(*target, **names)(note(calls))
    await populate(world)
    async with world.running():
        await rest(3)
    assert len(calls.names) == len(set(calls.names)), "something was told twice"
    return set(calls.names)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("kopf.dev", "v1", "kopfexamples"), KEX),
        (("kopf.dev/v1", "kopfexamples"), KEX),
        (("kopf.dev/v1beta1", "kopfexamples"), OLD),
        (("kopf.dev", "kopfexamples"), KEX),
        (("kopfexamples.kopf.dev",), KEX),
        (("kopfexamples.v1beta1.kopf.dev",), OLD),
        (("kopfexamples",), KEX),
        (("kopfexample",), KEX),
        (("KopfExample",), KEX),
        (("kex",), KEX),
        (("apps", "v1", "deployments"), DEPLOYMENT_ONLY),
        (("apps/v1", "deployments"), DEPLOYMENT_ONLY),
        (("apps", "deployments"), DEPLOYMENT_ONLY),
        (("deployments.apps",), DEPLOYMENT_ONLY),
        (("", "v1", "pods"), POD_ONLY),
        (("v1", "pods"), POD_ONLY),
        (("pods.v1",), POD_ONLY),
        (("pod",), POD_ONLY),
        (("pods",), POD_ONLY),
        (("metrics.test", "pods"), {"pods.v1.metrics.test"}),
        (("pods.metrics.test",), {"pods.v1.metrics.test"}),
    ],
)
async def test_names(world: World, calls: Calls, target: Any, expected: set[str]) -> None:
    assert await served(world, calls, *target) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"kind": "KopfExample"}, KEX),
        ({"plural": "kopfexamples"}, KEX),
        ({"singular": "kopfexample"}, KEX),
        ({"shortcut": "kex"}, KEX),
        ({"group": "kopf.dev", "plural": "kopfexamples"}, KEX),
        ({"group": "kopf.dev", "version": "v1beta1", "plural": "kopfexamples"}, OLD),
        ({"kind": "kopfexamples"}, set()),
        ({"category": "mine"}, KEX | {"pods.v1.metrics.test"}),
        ({"category": "pairs"}, BOTH_TWINS),
    ],
)
async def test_keywords(world: World, calls: Calls, names: Any, expected: set[str]) -> None:
    assert await served(world, calls, **names) == expected


@pytest.mark.parametrize(
    ("target", "names", "expected"),
    [
        (("kopf.dev", "v1", ctl.EVERYTHING), {}, KEX),
        (("kopf.dev/v1beta1", ctl.EVERYTHING), {}, OLD),
        (("kopf.dev", ctl.EVERYTHING), {}, KEX),
        ((ctl.EVERYTHING,), {"labels": {"only-this": ctl.PRESENT}}, CUSTOM),
        ((lambda resource: resource.plural == "kopfexamples",), {}, KEX | OLD),
        ((lambda resource: resource.plural == "kopfexamples" and resource.preferred,), {}, KEX),
        ((lambda resource: resource.plural == "pods",), {"group": "metrics.test"}, {"pods.v1.metrics.test"}),
    ],
)
async def test_whole_groups_and_functions(
    world: World, calls: Calls, target: Any, names: Any, expected: set[str]
) -> None:
    assert await served(world, calls, *target, **names) == expected


async def test_a_function_decides_on_streams_and_a_filter_on_objects(world: World, calls: Calls) -> None:
    ctl.on.event(lambda resource: resource.group == "one.test", id="chosen")(note(calls))
    ctl.on.event("twins.two.test", id="filtered", when=lambda **_: False)(note(calls))
    await populate(world)
    async with world.running():
        await rest(3)
    assert calls.names == ["twins.v1.one.test"]
    watched = {request.path for request in world.sandbox.log if request.watching}
    assert any("/one.test/" in path for path in watched)
    assert any("/two.test/" in path for path in watched)
    assert not any("/kopf.dev/" in path for path in watched)


@pytest.mark.parametrize("selector", [ctl.EVERYTHING, lambda resource: resource.group == "", lambda _: True])
async def test_events_are_handled_only_by_name(world: World, calls: Calls, selector: Any) -> None:
    assert "events.v1" not in await served(world, calls, selector)
    world.forget_handlers()
    ctl.on.event(selector, id="all")(note(Calls()))
    found = Calls()
    ctl.on.event("v1", "events")(note(found))
    async with world.running():
        await rest(3)
    assert found.names == ["events.v1"]


async def test_overlapping_selectors_call_a_function_once(world: World, calls: Calls) -> None:
    fn = note(calls)
    for target in [("kopfexamples",), ("kex",), ("kopf.dev", ctl.EVERYTHING), ("v1", "pods")]:
        ctl.on.event(*target)(fn)
    await populate(world)
    async with world.running():
        await rest(3)
    assert sorted(calls.names) == sorted(KEX | POD_ONLY)


async def test_an_ambiguous_name_is_served_nowhere_and_warned_of(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    assert await served(world, calls, "twins") == set()
    (said,) = [text for text in caplog.messages if text.startswith("Ambiguous resources will not be served")]
    assert "twins.v1.one.test or twins.v1.two.test" in said


async def test_an_ambiguous_name_stays_so_where_another_handler_names_the_group(world: World, calls: Calls) -> None:
    exact = Calls()
    ctl.on.event("twins.one.test", id="exact")(note(exact))
    assert await served(world, calls, "twins") == set()
    assert exact.names == ["twins.v1.one.test"]


async def test_core_resources_win_also_where_the_others_are_watched(world: World, calls: Calls) -> None:
    ctl.on.event(ctl.EVERYTHING, id="all")(note(Calls()))
    assert await served(world, calls, "pods") == POD_ONLY


async def test_an_ambiguity_comes_and_goes_with_definitions(world: World, calls: Calls) -> None:
    one, two = TWINS
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/twins.two.test"
    ctl.on.event("twins")(note(calls))
    async with world.running():
        await rest(3)
        await world.create("first", resource=one)
        await rest(3)
        assert calls.names == []
        await world.user.request("DELETE", path)
        await rest(5)
        assert calls.names == ["twins.v1.one.test"]
        await world.sandbox.load_manifest(definition("two.test", "twins", "Twin", "tw"))
        await rest(5)
        await world.create("second", resource=one)
        await world.create("second", resource=two)
        await rest(5)
        assert calls.names == ["twins.v1.one.test"]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ((), {}),
        (("",), {}),
        (("a", "b", "c", "d"), {}),
        (("kex",), {"kind": "KopfExample"}),
        ((), {"kind": "KopfExample", "plural": "kopfexamples"}),
        (("kex", lambda _: True), {}),
        ((lambda _: True, "kex"), {}),
        ((ctl.EVERYTHING, "kex"), {}),
    ],
)
def test_what_names_nothing_or_two_things_is_refused(target: Any, names: Any) -> None:
    with pytest.raises(TypeError):
        ctl.on.event(*target, **names)(note(Calls()))
