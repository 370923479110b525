"""Rights become roles and bindings."""

from typing import Any

import pytest
import yaml

from ctl.cli.rbac.roles import Grantee, grants, render
from ctl.cli.rbac.rules import Requirements, Right, RightScope

GRANTEE = Grantee("mine", "robot", "home", "leases")
PODS = Right("", "pods", ("list", "watch"), RightScope.SERVED, ("handler a", "handler b"))
NODES = Right("", "nodes", ("list",), RightScope.CLUSTER, ("handler c",))
LEASES = Right("coordination.k8s.io", "leases", ("get",), RightScope.HOME)


def documents(*rights: Right, namespaces: tuple[str, ...] | None = ("a", "b")) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(render(Requirements(rights), GRANTEE, namespaces, "title")))


def placed(found: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(body["kind"], body["metadata"].get("namespace")) for body in found]


def test_each_place_has_its_role_and_binding() -> None:
    assert placed(documents(PODS, NODES, LEASES)) == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "a"),
        ("RoleBinding", "a"),
        ("Role", "b"),
        ("RoleBinding", "b"),
        ("Role", "leases"),
        ("RoleBinding", "leases"),
    ]


def test_a_namespace_that_is_home_as_well_has_one_role() -> None:
    home = Grantee("mine", "robot", "a", "a")
    (grant,) = grants(Requirements((PODS, LEASES)), home, ("a",))
    assert [right.resource for right in grant.rights] == ["pods", "leases"]


def test_namespaces_that_nobody_can_name_are_all() -> None:
    assert placed(documents(PODS, namespaces=None)) == [("ClusterRole", None), ("ClusterRoleBinding", None)]


def test_nothing_is_granted_for_nothing() -> None:
    assert documents() == []


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_the_binding_names_role_and_account(kind: str) -> None:
    found = {body["kind"]: body for body in documents(PODS, NODES, namespaces=("a",))}
    binding = found[f"{kind}Binding"]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "mine"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "home"}]
    assert binding["apiVersion"] == found[kind]["apiVersion"] == "rbac.authorization.k8s.io/v1"


def test_rules_as_text_say_what_for() -> None:
    text = render(Requirements((PODS,), ("what is missing",), ("what is unknown",)), GRANTEE, ("a",), "the title")
    assert text.startswith("# the title\n# Not resolved: what is missing\n# Note: what is unknown\n---\n")
    assert "  # handler a; handler b\n  - apiGroups: ['']\n    resources: [pods]\n    verbs: [list, watch]\n" in text


def test_names_that_yaml_would_take_for_something_else_stay_names() -> None:
    found = documents(Right("*", "*", ("*",), RightScope.CLUSTER), Right("on", "no", ("get",), RightScope.CLUSTER))
    assert found[0]["rules"] == [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["on"], "resources": ["no"], "verbs": ["get"]},
    ]
