from dataclasses import replace
from typing import Any

import pytest

from ctl import on
from ctl.client.resources import Resource
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.handlers.declaration.survey import survey
from ctl.handlers.declaration.targets import EVERYTHING, Selector

ALL = frozenset({"get", "list", "watch", "patch"})
KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", "kopfexample", frozenset({"kex"}), verbs=ALL)
DUP_A = Resource("a.io", "v1", "dups", verbs=ALL)
DUP_B = Resource("b.io", "v1", "dups", verbs=ALL)


def fn(**_: Any) -> None: ...


@pytest.fixture
def registry() -> OperatorRegistry:
    return OperatorRegistry()


def test_what_is_there_is_served(registry: OperatorRegistry) -> None:
    on.create("kex", registry=registry)(fn)
    found = survey(registry, [KEX, DUP_A])
    assert found.watched == {KEX}
    assert found.warnings() == []


def test_what_is_not_there_yet(registry: OperatorRegistry) -> None:
    on.create("kex", registry=registry)(fn)
    on.event("kopf.dev", "v2", "others", registry=registry)(fn)
    found = survey(registry, [])
    assert found.unresolved == {Selector.parse("kex"), Selector.parse("kopf.dev/v2", "others")}
    assert found.warnings() == [
        "Unresolved resources cannot be served (try creating their CRDs): kex, kopf.dev/v2/others"
    ]


def test_what_is_there_twice(registry: OperatorRegistry) -> None:
    on.create("dups", registry=registry)(fn)
    found = survey(registry, [DUP_B, DUP_A, KEX])
    assert found.watched == frozenset()
    assert found.ambiguous == {Selector.parse("dups"): {DUP_A, DUP_B}}
    assert found.warnings() == [
        "Ambiguous resources will not be served (try specifying API groups): dups (dups.v1.a.io or dups.v1.b.io)"
    ]


def test_what_has_the_name_and_is_not_meant(registry: OperatorRegistry) -> None:
    core, other = Resource("", "v1", "pods", verbs=ALL), Resource("metrics.test", "v1", "pods", verbs=ALL)

    on.create("pods", id="pods", registry=registry)(fn)
    on.create("dups", id="dups", registry=registry)(fn)
    on.create(EVERYTHING, id="all", registry=registry)(fn)
    on.create("dups.a.io", id="a", registry=registry)(fn)

    def ids(resource: Resource) -> list[str]:
        return [spec.id for spec in registry.of(resource).changing.all]

    found = survey(registry, [DUP_A, DUP_B, core, other])
    assert found.passed_over == {Selector.parse("pods"): {other}, Selector.parse("dups"): {DUP_A, DUP_B}}
    assert ids(other) == ["pods", "all"]
    registry.pass_over(found.passed_over)
    assert (ids(core), ids(other), ids(DUP_A), ids(DUP_B)) == (["pods", "all"], ["all"], ["all", "a"], ["all"])
    registry.pass_over(survey(registry, [DUP_A, core]).passed_over)
    assert (ids(core), ids(DUP_A)) == (["pods", "all"], ["dups", "all", "a"])


def test_everything_is_never_ambiguous(registry: OperatorRegistry) -> None:
    on.event(EVERYTHING, registry=registry)(fn)
    assert survey(registry, [DUP_B, DUP_A, KEX]).watched == {DUP_A, DUP_B, KEX}


def test_what_cannot_be_watched(registry: OperatorRegistry) -> None:
    on.create("kex", registry=registry)(fn)
    found = survey(registry, [replace(KEX, verbs=frozenset({"create", "get"}))])
    assert found.watched == frozenset()
    assert found.warnings() == ["Non-watchable resources will not be served: kopfexamples.v1.kopf.dev"]


@pytest.mark.parametrize(
    ("decorator", "served"), [(on.event, True), (on.index, True), (on.create, False), (on.timer, False)]
)
def test_what_cannot_be_patched(registry: OperatorRegistry, decorator: Any, served: bool) -> None:
    decorator("kex", registry=registry)(fn)
    readable = replace(KEX, verbs=frozenset({"list", "watch"}))
    found = survey(registry, [readable])
    assert found.watched == ({readable} if served else frozenset())
    sentence = "Non-patchable resources will not be served: kopfexamples.v1.kopf.dev"
    assert found.warnings() == ([] if served else [sentence])


def test_verbs_that_are_not_known_are_no_problem(registry: OperatorRegistry) -> None:
    on.create("kex", registry=registry)(fn)
    assert survey(registry, [replace(KEX, verbs=frozenset())]).watched == {KEX}


def test_admission_handlers_watch_nothing_and_miss_nothing(registry: OperatorRegistry) -> None:
    on.validate("dups", registry=registry)(fn)
    on.mutate("nothings", registry=registry)(fn)
    found = survey(registry, [DUP_A, DUP_B, KEX])
    assert found.watched == frozenset()
    assert found.warnings() == []


def test_what_is_lacking_is_named_with_the_reason_but_what_is_kept(registry: OperatorRegistry) -> None:
    for name in ("kex", "dups", "mutes"):
        on.create(name, id=name, registry=registry)(fn)
    mute = Resource("kopf.dev", "v1", "mutes", verbs=frozenset({"get"}))
    found = survey(registry, [DUP_B, DUP_A, mute])
    assert list(found.lacks()) == [("kex", "unresolved"), ("dups", "ambiguous"), ("mutes.v1.kopf.dev", "unreadable")]
    assert list(found.lacks({KEX})) == [("dups", "ambiguous"), ("mutes.v1.kopf.dev", "unreadable")]
