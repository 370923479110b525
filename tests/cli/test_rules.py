"""Which rights follow from what is declared."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import ctl
from ctl.cli.rbac.rules import (
    DeclaredController,
    OperatorSetup,
    Requirements,
    Right,
    RightScope,
    may_patch,
    merged,
    required,
)
from ctl.client.resources import Resource

WIDGETS = Resource("test.dev", "v1", "widgets", "Widget", "widget", subresources=frozenset({"status"}), namespaced=True)
PLAIN = Resource("test.dev", "v1", "plains", "Plain", "plain", shortcuts=frozenset({"pl"}), namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", "node", subresources=frozenset({"status"}), namespaced=False)
PEERINGS = Resource("kopf.dev", "v1", "kopfpeerings", "KopfPeering", "kopfpeering", namespaced=True)
SERVED = (WIDGETS, PLAIN, NODES)

ALONE: dict[str, Any] = {"elects": False, "posts": False, "follows_definitions": False, "is_clusterwide": False}
"""An operator of one namespace that does nothing but handle."""

Declare = Callable[[ctl.OperatorRegistry], object]


def fn(**_: Any) -> None:
    """Does nothing."""


def patching(patch: Any, **_: Any) -> None:
    """Takes the patch."""


def granted(found: Requirements) -> dict[str, str]:
    """As `place resource.group` to the verbs."""
    return {
        f"{right.scope.name} {right.resource}{'.' * bool(right.group)}{right.group}{' '.join(('', *right.names))}": " ".join(
            right.verbs
        )
        for right in found.rights
    }


@dataclass(frozen=True)
class Case:
    name: str
    declare: Declare
    expected: dict[str, str]
    given: dict[str, Any] = field(default_factory=dict)


def on(what: str, *target: Any, function: Callable[..., Any] = fn, **options: Any) -> Declare:
    def declare(registry: ctl.OperatorRegistry) -> object:
        decorator: Any = {"daemon": ctl.daemon, "timer": ctl.timer, "index": ctl.index}.get(what) or getattr(
            ctl.on, what
        )
        return decorator(*target, registry=registry, **options)(function)

    return declare


def nothing(_: ctl.OperatorRegistry) -> None:
    """Declare nothing."""


READ = {"SERVED widgets.test.dev": "list watch"}
WRITE = {"SERVED widgets.test.dev": "list watch patch", "SERVED widgets/status.test.dev": "patch"}
CLUSTER = {key.replace("SERVED", "CLUSTER"): verbs for key, verbs in WRITE.items()}

CASES = [
    *(Case(f"on.{kind} writes", on(kind, "widgets"), WRITE) for kind in ("create", "update", "delete", "resume")),
    Case("on.field writes", on("field", "widgets", field="spec.x"), WRITE),
    Case("daemons write", on("daemon", "widgets"), WRITE),
    Case("timers write", on("timer", "widgets", interval=1), WRITE),
    Case("on.event reads", on("event", "widgets"), READ),
    Case("on.event with a patch writes", on("event", "widgets", function=patching), WRITE),
    Case("indices read", on("index", "widgets"), READ),
    Case("a resource without status", on("create", "plains"), {"SERVED plains.test.dev": "list watch patch"}),
    Case("by a short name", on("event", "pl"), {"SERVED plains.test.dev": "list watch"}),
    Case("by the kind", on("event", kind="Widget"), READ),
    Case("cluster-scoped in a namespaced operator", on("event", "nodes"), {"CLUSTER nodes": "list watch"}),
    Case("all namespaces", on("create", "widgets"), CLUSTER, {"is_clusterwide": True}),
    Case("everything", on("event", ctl.EVERYTHING), {"CLUSTER *.*": "list watch"}, {"is_clusterwide": True}),
    Case("everything of a group", on("event", "test.dev", ctl.EVERYTHING), {"SERVED *.test.dev": "list watch"}),
    Case(
        "a function",
        on("event", lambda resource: resource.group == "test.dev"),
        {"SERVED plains.test.dev": "list watch", **READ},
    ),
    Case(
        "not served, with a group",
        on("create", "other.dev", "v1", "things"),
        {"SERVED things.other.dev": "list watch patch", "SERVED things/status.other.dev": "patch"},
    ),
    Case("not served, without a group", on("create", "things"), {}),
    Case("startup handlers need nothing", on("startup"), {}),
    Case("posts", nothing, {"SERVED events": "create patch"}, {"posts": True}),
    Case("election", nothing, {"HOME leases.coordination.k8s.io": "get watch create update"}, {"elects": True}),
    Case(
        "election by a Lease of a known name",
        nothing,
        {"HOME leases.coordination.k8s.io": "create", "HOME leases.coordination.k8s.io one": "get watch update"},
        {"elects": True, "lease": "one"},
    ),
    Case(
        "definitions",
        nothing,
        {"CLUSTER customresourcedefinitions.apiextensions.k8s.io": "list watch"},
        {"follows_definitions": True},
    ),
    Case("patterns", nothing, {"CLUSTER namespaces": "list watch"}, {"has_patterns": True}),
    Case("peering", nothing, {"SERVED kopfpeerings.kopf.dev": "list watch patch"}, {"peerings": [PEERINGS]}),
    Case(
        "progress in ConfigMaps",
        on("create", "widgets"),
        {**WRITE, "SERVED configmaps": "list create patch delete"},
        {"keeps_configmaps": True},
    ),
    Case("progress in ConfigMaps is that of changes", on("event", "widgets"), READ, {"keeps_configmaps": True}),
    Case(
        "controllers read",
        nothing,
        {**READ, "SERVED plains.test.dev": "list watch"},
        {"controllers": (DeclaredController("c", ("widgets.test.dev", "plains.v1.test.dev")),)},
    ),
    Case(
        "controllers of what is not served",
        nothing,
        {"SERVED things.other.dev": "list watch"},
        {"controllers": (DeclaredController("c", ("things.other.dev",)),)},
    ),
    Case(
        "what was added joins the rest",
        on("event", "widgets"),
        {"SERVED widgets.test.dev": "list watch delete"},
        {"extra": (Right("test.dev", "widgets", ("delete",), RightScope.SERVED),)},
    ),
    Case(
        "webhook configurations",
        on("validate", "widgets"),
        {"CLUSTER validatingwebhookconfigurations.admissionregistration.k8s.io": "create patch"},
        {"manages_webhooks": True},
    ),
    Case("webhooks of others", on("validate", "widgets"), {}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_rights(case: Case) -> None:
    registry = ctl.OperatorRegistry()
    case.declare(registry)
    found = required(registry, OperatorSetup(resources=SERVED, **{**ALONE, **case.given}))
    assert granted(found) == case.expected


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (("things",), "things (handler fn) is not served, so its group and plural are not known"),
        (("other.dev", "things"), "'things' is taken to be its plural"),
        (("same",), "is served by several groups"),
    ],
)
def test_what_cannot_be_resolved_is_named(target: tuple[str, ...], said: str) -> None:
    registry = ctl.OperatorRegistry()
    ctl.on.create(*target, registry=registry)(fn)
    same = [Resource(group, "v1", "same", "Same", "same", namespaced=True) for group in ("a.dev", "b.dev")]
    (told,) = required(registry, OperatorSetup(resources=[*SERVED, *same])).unresolved
    assert said in told


def test_what_means_whatever_is_served_is_noted() -> None:
    registry = ctl.OperatorRegistry()
    ctl.on.event(category="all", registry=registry)(fn)
    everything = [Resource("test.dev", "v1", "ones", "One", "one", categories=frozenset({"all"}), namespaced=True)]
    found = required(registry, OperatorSetup(resources=everything, **ALONE))
    assert granted(found) == {"SERVED ones.test.dev": "list watch"}
    assert "run this again" in found.notes[0]


def test_that_a_controller_writes_unknown_things_is_noted() -> None:
    situation = OperatorSetup(resources=SERVED, controllers=(DeclaredController("c", ("widgets.test.dev",)),), **ALONE)
    (note,) = required(ctl.OperatorRegistry(), situation).notes
    assert "--also widgets.test.dev/status=patch" in note


def test_each_resource_is_there_once_with_all_reasons() -> None:
    one = Right("", "pods", ("watch", "list"), RightScope.SERVED, ("a",))
    assert merged([one, Right("", "pods", ("patch", "get"), RightScope.SERVED, ("b", "a"))]) == (
        Right("", "pods", ("get", "list", "watch", "patch"), RightScope.SERVED, ("a", "b")),
    )
    assert len(merged([one, Right("", "pods", ("list",), RightScope.CLUSTER)])) == 2


class Methods:
    def method(self, patch: Any, **_: Any) -> None:
        """Takes it."""

    def other(self, **_: Any) -> None:
        """Does not."""

    def __call__(self, **_: Any) -> None:
        """Cannot be looked at."""


def passing_on(**kwargs: Any) -> None:
    fn(**kwargs)


def looking_it_up(**kwargs: Any) -> None:
    kwargs["patch"].status["x"] = 1


def from_inside(**kwargs: Any) -> None:
    def inner() -> Any:
        return kwargs

    inner()


def of_another_name(patchwork: Any, *, body: Any, **kwargs: Any) -> str:
    return f"{patchwork}{body}"


@functools.wraps(patching)
def wrapped(*args: Any, **kwargs: Any) -> None:
    patching(*args, **kwargs)


def positional(*args: Any, **kwargs: Any) -> Any:
    return kwargs


@pytest.mark.parametrize(
    ("function", "may"),
    [
        (fn, False),
        (patching, True),
        (functools.partial(patching), True),
        (functools.partial(fn, x=1), False),
        (Methods().method, True),
        (Methods().other, False),
        (Methods(), True),
        (passing_on, True),
        (looking_it_up, True),
        (from_inside, True),
        (of_another_name, False),
        (wrapped, True),
        (positional, True),
        (lambda **_: None, False),
        (lambda patch, **_: None, True),
        (print, True),
    ],
)
def test_who_could_use_the_patch(function: Callable[..., Any], may: bool) -> None:
    assert may_patch(function) is may
