from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.resources import Resource
from ctl.handlers.declaration.targets import EVERYTHING, By, Problem, Selector

CORE_PODS = Resource("", "v1", "pods", "Pod", "pod", frozenset({"po"}), frozenset({"all"}))
METRICS_PODS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", "pod")
CORE_EVENTS = Resource("", "v1", "events", "Event", "event", frozenset({"ev"}))
NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event", "event", frozenset({"ev"}))
KEX = Resource("kopf.dev", "v1", "kexs", "KEx", "kex", frozenset({"k"}), frozenset({"all"}))
KEX_BETA = Resource("kopf.dev", "v1beta1", "kexs", "KEx", "kex", frozenset({"k"}), frozenset({"all"}), preferred=False)
DUP_A = Resource("a.io", "v1", "dups", "Dup", "dup")
DUP_B = Resource("b.io", "v1", "dups", "Dup", "dup")
CLUSTER = [CORE_PODS, METRICS_PODS, CORE_EVENTS, NEW_EVENTS, KEX, KEX_BETA, DUP_A, DUP_B]


def yes(resource: Resource) -> bool:
    return True


# What Kopf 1.45.2 reads from the same arguments: (name, group, version).
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("pods",), ("pods", None, None)),
        (("pods.v1",), ("pods", None, "v1")),
        (("pods.v1alpha1",), ("pods", None, "v1alpha1")),
        (("pods.apps",), ("pods", "apps", None)),
        (("pods.v1beta1.metrics.k8s.io",), ("pods", "metrics.k8s.io", "v1beta1")),
        (("x.",), ("x", "", None)),
        (("v1",), ("v1", None, None)),
        (("kopf.dev/v1", "x"), ("x", "kopf.dev", "v1")),
        (("/v1", "pods"), ("pods", "", "v1")),
        (("v1/v1", "pods"), ("pods", "v1", "v1")),
        (("a/b/c", "x"), ("x", "a/b", "c")),
        (("v1", "pods"), ("pods", "", "v1")),
        (("v1beta1", "pods"), ("pods", "v1beta1", None)),
        (("apps", "deployments"), ("deployments", "apps", None)),
        (("", "pods"), ("pods", "", None)),
        (("", "v1", "pods"), ("pods", "", "v1")),
        (("x", "a.b"), ("a.b", "x", None)),
        (("g", "v1", "a.b"), ("a.b", "g", "v1")),
        ((None, None, "x"), ("x", None, None)),
        (("x", None, None), ("x", None, None)),
    ],
)
def test_positional_notations(target: tuple[str, ...], expected: tuple[str, str | None, str | None]) -> None:
    selector = Selector.parse(*target)
    assert (selector.criterion, selector.group, selector.version) == expected
    assert selector.by is By.ANY_NAME


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("kopf.dev/kexs",), Selector(By.ANY_NAME, "kexs", "kopf.dev")),
        (("kopf.dev/v1/kexs",), Selector(By.ANY_NAME, "kexs", "kopf.dev", "v1")),
        (("v1/pods",), Selector(By.ANY_NAME, "pods", "", "v1")),
    ],
)
def test_one_string_with_slashes_means_group_version_and_name(target: tuple[str, ...], expected: Selector) -> None:
    assert Selector.parse(*target) == expected


@pytest.mark.parametrize(
    ("target", "group", "version"),
    [
        ((EVERYTHING,), None, None),
        (("kopf.dev", EVERYTHING), "kopf.dev", None),
        (("kopf.dev/v1", EVERYTHING), "kopf.dev", "v1"),
        (("kopf.dev", "v1", EVERYTHING), "kopf.dev", "v1"),
        (("v1", EVERYTHING), "", "v1"),
    ],
)
def test_everything_of_a_place(target: tuple[Any, ...], group: str | None, version: str | None) -> None:
    assert Selector.parse(*target) == Selector(By.EVERYTHING, None, group, version)


def test_a_resource_is_its_own_selector() -> None:
    selector = Selector.parse(*CORE_PODS)
    assert selector.choose(CLUSTER).resources == {CORE_PODS}


@pytest.mark.parametrize(
    ("target", "names", "expected"),
    [
        ((), {"kind": "K"}, Selector(By.KIND, "K")),
        ((), {"plural": "ks", "group": ""}, Selector(By.PLURAL, "ks", "")),
        ((), {"singular": "k"}, Selector(By.SINGULAR, "k")),
        ((), {"shortcut": "k"}, Selector(By.SHORTCUT, "k")),
        ((), {"category": "all", "version": "v1"}, Selector(By.CATEGORY, "all", None, "v1")),
        (("x",), {"group": "g", "version": "v1"}, Selector(By.ANY_NAME, "x", "g", "v1")),
        (("x.g",), {"group": "h", "version": "v1"}, Selector(By.ANY_NAME, "x", "g", "v1")),
        (("g", "v1", "x"), {"version": "v2"}, Selector(By.ANY_NAME, "x", "g", "v1")),
        ((EVERYTHING,), {"group": "g"}, Selector(By.EVERYTHING, None, "g")),
        ((yes,), {"group": "g"}, Selector(By.FUNCTION, yes, "g")),
    ],
)
def test_keywords_narrow_and_positions_win(target: Any, names: Any, expected: Selector) -> None:
    assert Selector.parse(*target, **names) == expected


@pytest.mark.parametrize(
    ("target", "names", "message"),
    [
        ((), {}, "needs a name"),
        ((), {"group": "g", "version": "v1"}, "needs a name"),
        ((None,), {}, "needs a name"),
        (("",), {}, "must not be empty"),
        (("a", ""), {}, "must not be empty"),
        ((".y",), {}, "must not be empty"),
        ((), {"plural": ""}, "must not be empty"),
        (("x",), {"kind": "K"}, "kind='K', name='x'"),
        ((), {"kind": "K", "plural": "p"}, "kind='K', plural='p'"),
        ((EVERYTHING,), {"category": "all"}, "named once"),
        ((yes,), {"kind": "K"}, "named once"),
        (("a", "b", "c", "d"), {}, "at most three"),
        ((yes, "x"), {}, "only positional argument"),
        (("x", yes), {}, "stands alone"),
        ((EVERYTHING, "x"), {}, "only its last part"),
        ((1,), {}, "are strings"),
    ],
)
def test_what_names_no_resource_or_several_is_refused(target: Any, names: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Selector.parse(*target, **names)


# What Kopf 1.45.2 selects from the same cluster.
@pytest.mark.parametrize(
    ("target", "names", "expected"),
    [
        (("pods",), {}, {CORE_PODS}),
        (("Pod",), {}, {CORE_PODS}),
        (("po",), {}, {CORE_PODS}),
        (("PODS",), {}, set()),
        (("PodMetrics",), {}, {METRICS_PODS}),
        (("pods.v1",), {}, {CORE_PODS}),
        (("pods.v1beta1",), {}, {METRICS_PODS}),
        (("kex",), {}, {KEX}),
        (("kexs.v1beta1",), {}, {KEX_BETA}),
        (("events",), {}, {CORE_EVENTS}),
        (("events.k8s.io", "events"), {}, {NEW_EVENTS}),
        ((EVERYTHING,), {}, {CORE_PODS, METRICS_PODS, KEX, DUP_A, DUP_B}),
        (("kopf.dev", EVERYTHING), {}, {KEX}),
        (("kopf.dev", "v1beta1", EVERYTHING), {}, {KEX_BETA}),
        (("", EVERYTHING), {}, {CORE_PODS}),
        ((), {"category": "all"}, {CORE_PODS, KEX}),
        ((), {"category": "all", "version": "v1beta1"}, {KEX_BETA}),
        ((yes,), {}, {CORE_PODS, METRICS_PODS, KEX, KEX_BETA, DUP_A, DUP_B}),
        ((yes,), {"group": "kopf.dev"}, {KEX, KEX_BETA}),
        ((yes,), {"version": "v1beta1"}, {METRICS_PODS, KEX_BETA}),
        ((lambda r: r.kind == "Dup",), {}, {DUP_A, DUP_B}),
        (("dups.a.io",), {}, {DUP_A}),
        ((), {"kind": "Pod"}, {CORE_PODS}),
        ((), {"plural": "pods"}, {CORE_PODS}),
        ((), {"singular": "pod"}, {CORE_PODS}),
        ((), {"shortcut": "k"}, {KEX}),
    ],
)
def test_selection(target: Any, names: Any, expected: set[Resource]) -> None:
    assert Selector.parse(*target, **names).choose(CLUSTER).resources == expected


def test_an_ambiguous_name_chooses_nothing_and_says_between_what() -> None:
    choice = Selector.parse("dups").choose(CLUSTER)
    assert choice.problem is Problem.AMBIGUOUS
    assert choice.resources == frozenset()
    assert choice.candidates == {DUP_A, DUP_B}


def test_a_name_of_nothing_is_unresolved() -> None:
    choice = Selector.parse("nothings").choose(CLUSTER)
    assert choice.problem is Problem.UNRESOLVED
    assert choice.candidates == frozenset()


def test_a_selector_that_means_many_is_never_ambiguous() -> None:
    for target in (EVERYTHING, yes):
        assert Selector.parse(target).choose(CLUSTER).problem is None


def test_events_are_never_meant_by_everything_even_when_a_function_says_so() -> None:
    assert not {CORE_EVENTS, NEW_EVENTS} & Selector.parse(yes).choose(CLUSTER).resources


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (Selector.parse("pods"), "pods"),
        (Selector.parse("v1", "pods"), "/v1/pods"),
        (Selector.parse("kopf.dev/v1", EVERYTHING), "kopf.dev/v1/EVERYTHING"),
        (Selector.parse(kind="Pod"), "kind=Pod"),
        (Selector.parse(yes), "yes"),
    ],
)
def test_a_selector_is_shown_as_it_is_written(selector: Selector, text: str) -> None:
    assert str(selector) == text


labels = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
groups = st.lists(labels, min_size=2, max_size=3).map(".".join)
versions = st.from_regex(r"v[1-9](?:(?:alpha|beta)[1-9])?", fullmatch=True)


@given(group=groups, version=versions, name=labels)
def test_all_notations_of_one_resource_mean_the_same(group: str, version: str, name: str) -> None:
    resource = Resource(group, version, name)
    expected = Selector(By.ANY_NAME, name, group, version)
    assert Selector.parse(group, version, name) == expected
    assert Selector.parse(f"{group}/{version}", name) == expected
    assert Selector.parse(f"{group}/{version}/{name}") == expected
    assert Selector.parse(f"{name}.{version}.{group}") == expected
    assert Selector.parse(*resource).check(resource)
    assert Selector.parse(plural=name, group=group, version=version).check(resource)
