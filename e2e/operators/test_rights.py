"""Operators with few rights, and in clusters where something is broken: nothing is refused, nobody is alarmed."""

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.api import Api, Body
from conformance.spaces import DEFINITIONS, established
from controlplane import build
from controlplane.cluster import ControlPlane, Options
from operators.cluster import Examples
from operators.processes import ctl_command, running
from targets import Target, as_user, of_control_plane

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINIMAL = EXAMPLES / "01-minimal"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALARMS = ("[WARNING", "[ERROR", "[CRITICAL", "Traceback")
START_SECONDS = 5.0


@dataclass(frozen=True)
class Audited:
    """A real server that keeps a log of all requests."""

    cluster: ControlPlane
    target: Target

    def refusals_of(self, user: str) -> list[str]:
        """Which requests of a user were refused for want of rights."""
        found = [event for event in self.cluster.audit_events() if event["user"]["username"] == user]
        assert found, f"{user} has asked for nothing"
        return [f"{event['verb']} {event['requestURI']}" for event in found if event["responseStatus"]["code"] == 403]


@pytest.fixture(scope="module")
def audited() -> Iterator[Audited]:
    if os.environ.get("KUBECONFIG"):
        pytest.skip("needs a server whose audit log can be read; the one of KUBECONFIG is not ours")
    if not build.is_built():
        pytest.fail("The real control plane is not built yet: run `make e2e`, or python e2e/controlplane/build.py.")
    with ControlPlane(Options(audit=True)) as cluster:
        yield Audited(cluster, of_control_plane(cluster))


@pytest.fixture
async def admin(audited: Audited) -> AsyncIterator[Api]:
    async with Api(audited.target) as api:
        definition = yaml.safe_load((MINIMAL / "crd.yaml").read_text())
        answer = await api.call("POST", DEFINITIONS, definition)
        assert answer.code in {201, 409}, answer
        await established(api, definition)
        yield api


async def service_account(api: Api, namespace: str, name: str, rules: list[Body]) -> str:
    """Create an account with these rights in one namespace; gives a token of it."""
    core = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    meta = {"name": name, "namespace": namespace}
    await api.create(core, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": meta}
    await api.create(f"{RBAC}/namespaces/{namespace}/roles", {**rbac, "kind": "Role", "rules": rules})
    binding = {
        **rbac,
        "kind": "RoleBinding",
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
    }
    await api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token: str = (await api.create(f"{core}/{name}/token", review))["status"]["token"]
    return token


def alarms(text: str) -> list[str]:
    return [line for line in text.splitlines() if any(alarm in line for alarm in ALARMS)]


RULE: dict[str, Any] = {
    "apiGroups": ["kopf.dev"],
    "resources": ["kopfexamples", "kopfexamples/status"],
    "verbs": ["list", "watch", "patch"],
}


@pytest.mark.parametrize("example", ["01-minimal", "05-handlers", "08-events", "13-posting"])
async def test_with_the_rights_on_one_kind_in_one_namespace_nothing_is_refused(
    audited: Audited, admin: Api, tmp_path: Path, example: str
) -> None:
    space = f"narrow-{example}"
    await admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    token = await service_account(admin, space, "operator", [RULE])
    narrow = as_user(audited.target, "operator", token, tmp_path / "kubeconfig")
    examples = Examples(admin, space)
    command = ctl_command("run", "-n", space, str(EXAMPLES / example / "example.py"))
    with running(command, narrow, tmp_path / "log") as operator:
        await examples.create("one", {"field": "value", "items": ["a"], "replicas": 1})
        operator.wait_for(f"[{space}/one]")
        await examples.patch("one", {"spec": {"field": "changed"}})
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        assert operator.stop() == 0
    assert audited.refusals_of(f"system:serviceaccount:{space}:operator") == []
    assert alarms(operator.text()) == []


async def test_a_broken_api_of_another_group_delays_and_alarms_nobody(
    audited: Audited, admin: Api, tmp_path: Path
) -> None:
    service = {"name": "nowhere", "namespace": "default", "port": 443}
    broken = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": service,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
        },
    }
    await admin.create("/apis/apiregistration.k8s.io/v1/apiservices", broken)
    space = "beside-a-broken-api"
    await admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    examples = Examples(admin, space)
    await examples.create("one")
    # By its group: the plural alone could be one of the broken group's.
    file = tmp_path / "example.py"
    file.write_text((MINIMAL / "example.py").read_text().replace('"kopfexamples"', '"kopf.dev/v1", "kopfexamples"'))
    command = ctl_command("run", "-n", space, str(file))
    with running(command, audited.target, tmp_path / "log") as operator:
        operator.wait_for("one was created and wants 'value'", START_SECONDS)
        assert operator.stop() == 0
    assert alarms(operator.text()) == []
