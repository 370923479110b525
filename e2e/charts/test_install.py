"""The chart is installed, upgraded and uninstalled on a real server; its account may do what the operator does, and no more."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.conftest import PEERING
from charts.release import Release, Replica
from conformance.api import Api
from conformance.spaces import DEFINITIONS, established, forgotten
from operators.auditing import alarms, granted
from operators.cluster import Examples

SECONDS = 100.0
"""Only to end a test that hangs: on a busy machine a replica takes a while to come up."""
LEASE = 60
RULES = [
    {"apiGroups": ["kopf.dev"], "resources": ["kopfexamples"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": ["kopf.dev"], "resources": ["kopfexamples/status"], "verbs": ["patch"]},
]
LEADS = 'leader_election_master_status{name="demo-ctl-operator"} 1.0'
LATE = {"apiGroups": ["ctl.test"], "resources": ["lateones"], "verbs": ["list", "watch", "patch"]}
WATCHED = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}
LATE_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "lateones.ctl.test"},
    "spec": {
        "scope": "Namespaced",
        "group": "ctl.test",
        "names": {"kind": "LateOne", "plural": "lateones", "singular": "lateone"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}

pytestmark = pytest.mark.timeout(300)


UNUSED = {"list": "needed where the server cannot stream a list into a watch, or its history is gone"}
"""Verbs that are granted and need not be used in a test, with the reason."""
MODES: dict[str, dict[str, Any]] = {
    "namespaced": {"rbac": {"rules": RULES}, "operator": {"logFormat": "full"}, **WATCHED},
    "patterns": {
        "watch": {"patterns": ["chart-*,!chart-x"]},
        "rbac": {"rules": RULES},
        "operator": {"logFormat": "full"},
    },
    "clusterwide": {
        "watch": {"clusterWide": True},
        "operator": {"logFormat": "full"},
        "rbac": {"rules": [*RULES, LATE]},
        "peering": {"name": "mine", "installCRDs": True},
    },
}


async def until(
    holds: Callable[[], Awaitable[object] | object], what: str, replicas: list[Replica], seconds: float = SECONDS
) -> None:
    deadline = time.monotonic() + seconds
    while True:
        found = holds()
        if await found if isinstance(found, Awaitable) else found:
            return
        logs = "\n".join(replica.operator.text()[-3000:] for replica in replicas)
        assert time.monotonic() < deadline, f"waited for {what}\n{logs}"
        await asyncio.sleep(0.1)


def written(tmp_path: Path, values: dict[str, Any]) -> Path:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


async def remove(api: Api, names: list[str]) -> None:
    """Remove definitions, if they are there, and wait until they are gone and nothing tells of them any more."""
    for name in names:
        await api.call("DELETE", f"{DEFINITIONS}/{name}")
    deadline = time.monotonic() + SECONDS
    for name in names:
        while (await api.call("GET", f"{DEFINITIONS}/{name}")).code != 404:
            assert time.monotonic() < deadline, name
            await asyncio.sleep(0.1)
        plural, _, group = name.partition(".")
        await forgotten(api, group, plural)


def of_place(found: set[tuple[str, str, str]], place: str) -> set[tuple[str, str]]:
    """What was done in a namespace; of the cluster: anywhere."""
    return {(verb, name) for verb, name, namespace in found if place in {"", namespace}}


@pytest.mark.parametrize("name", MODES)
async def test_two_replicas_need_no_other_right_and_use_each(release: Release, tmp_path: Path, name: str) -> None:
    api, everywhere = release.api, name == "clusterwide"
    await remove(api, ["lateones.ctl.test", "clusterkopfpeerings.kopf.dev", "kopfpeerings.kopf.dev"])
    assert "STATUS: deployed" in release.install(written(tmp_path, MODES[name]))
    if everywhere:
        body = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "mine"}}
        await established(
            api, next(one for one in yaml.safe_load_all(PEERING.read_text()) if one["spec"]["scope"] == "Cluster")
        )
        await api.create("/apis/kopf.dev/v1/clusterkopfpeerings", body)
    await admitted(release)
    examples = Examples(api, release.namespace)
    with contextlib.ExitStack() as stack:
        began = time.monotonic()
        replicas = [await release.replica(one, stack) for one in ("a", "b")]
        # Also though the definition of what the operator handles is not there.
        for replica in replicas:
            await until(ready(replica), "readiness", replicas)
        print(f"two replicas were ready {time.monotonic() - began:.2f} s after their start")
        passed(release, replicas[0])
        leader = await the_leader(replicas)
        await examples.create("one")
        await examples.handled("one", field="value")
        await examples.patch("one", {"spec": {"field": "b"}})
        await examples.handled("one", field="b")
        if everywhere:
            definition = await api.create(DEFINITIONS, LATE_DEFINITION)
            await established(api, definition)
            path = f"/apis/ctl.test/v1/namespaces/{release.namespace}/lateones"
            await api.create(path, {"apiVersion": "ctl.test/v1", "kind": "LateOne", "metadata": {"name": "l"}})
            await until(lambda: any("late l" in one.operator.text() for one in replicas), "the late kind", replicas)
        assert await the_leader(replicas) is leader
        assert leader.operator.stop() == 0
        await examples.create("two")
        await examples.handled("two", field="value")
        await until(lambda: said_twice(examples), "an Event with a count", replicas)
        (other,) = (one for one in replicas if one is not leader)
        assert other.operator.stop() == 0
        for replica in replicas:
            missing = "ctl.test" if not everywhere else "lateones"
            assert [line for line in alarms(replica.operator.text()) if missing not in line] == []
    assert release.server.refusals_of(release.account) == []
    used = release.server.used_by(release.account)
    roles = [one for one in yaml.safe_load_all(release.manifest()) if one and one["kind"] in {"Role", "ClusterRole"}]
    unused = {(verb, what) for verb, what, place in granted(roles) if (verb, what) not in of_place(used, place)}
    assert {(verb, what) for verb, what in unused if verb not in UNUSED} == set()
    await api.call("DELETE", "/apis/kopf.dev/v1/clusterkopfpeerings/mine")
    await gone(release)


def ready(replica: Replica) -> Callable[[], bool]:
    return lambda: replica.page("/readyz")[0] == 200


def leads(replica: Replica) -> bool:
    return LEADS in replica.page("/metrics")[1]


async def the_leader(replicas: list[Replica]) -> Replica:
    """The one that leads; wait until all answer, and one says so."""
    found: list[Replica] = []

    def look() -> bool:
        pages = [replica.page("/metrics")[1] for replica in replicas]
        found[:] = [replica for replica, page in zip(replicas, pages, strict=True) if LEADS in page]
        return all(pages) and len(found) == 1

    await until(look, "one leader", replicas)
    return found[0]


async def admitted(release: Release) -> None:
    """The namespace enforces the strictest standard for pods, and lets those of the Deployment in."""
    template = (await release.deployment())["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "demo"}}
    pods = f"/api/v1/namespaces/{release.namespace}/pods"
    await release.api.create(pods, pod, dryRun="All")
    pod["spec"] = {**template["spec"], "hostNetwork": True}
    refused = await release.api.call("POST", f"{pods}?dryRun=All", pod)
    assert "violates PodSecurity" in refused.body["message"]


def passed(release: Release, replica: Replica) -> None:
    """`helm test` would pass: its program is content with this replica."""
    hooks = release.helm.run("get", "hooks", "demo", "-n", release.namespace).well()
    (pod,) = (one for one in yaml.safe_load_all(hooks) if one)
    (container,) = pod["spec"]["containers"]
    program, address = container["args"]
    assert container["command"] == ["python", "-c"]
    assert address == f"http://demo-ctl-operator.{release.namespace}.svc:8080"
    subprocess.run([sys.executable, "-c", program, f"http://127.0.0.1:{replica.port}"], timeout=30, check=True)


async def said_twice(examples: Examples) -> bool:
    found = await examples.events("one")
    return any(((event.get("series") or {}).get("count") or event.get("count") or 1) > 1 for event in found)


async def gone(release: Release) -> None:
    """Uninstall; nothing of the release is left but what is to be kept."""
    release.uninstall()
    listed = {
        "/api/v1": ("services", "configmaps", "serviceaccounts"),
        "/apis/apps/v1": ("deployments",),
        "/apis/rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
        "/apis/policy/v1": ("poddisruptionbudgets",),
        "/apis/networking.k8s.io/v1": ("networkpolicies",),
        "/apis/monitoring.coreos.com/v1": ("servicemonitors", "podmonitors", "prometheusrules"),
    }
    left = [
        item["metadata"]["name"]
        for base, plurals in listed.items()
        for plural in plurals
        for item in (await release.api.get(f"{base}/namespaces/{release.namespace}/{plural}"))["items"]
    ]
    assert left == []
    for plural in ("clusterroles", "clusterrolebindings"):
        items = (await release.api.get(f"/apis/rbac.authorization.k8s.io/v1/{plural}"))["items"]
        assert [one for one in items if release.namespace in one["metadata"]["name"]] == []


async def test_an_upgrade_loses_no_change_and_handles_none_twice(release: Release, tmp_path: Path) -> None:
    """Two versions as processes, replaced one by one as the Deployment's strategy says."""
    values = {"rbac": {"rules": RULES}, "operator": {"logFormat": "full"}}
    # What another test has defined would be handled, and these rules do not allow that.
    await remove(release.api, ["lateones.ctl.test"])
    release.install(written(tmp_path, values))
    old_code = (await release.deployment())["spec"]["template"]["metadata"]["annotations"]["ctl.dev/code"]
    examples = Examples(release.api, release.namespace)
    created: dict[str, float] = {}
    stopping = asyncio.Event()

    async def change() -> None:
        while not stopping.is_set():
            name = f"n{len(created)}"
            await examples.create(name)
            created[name] = time.time()
            await asyncio.sleep(0.1)

    with contextlib.ExitStack() as stack:
        replicas = [await release.replica(one, stack, VERSION="1", LEASE=str(LEASE)) for one in ("a", "b")]
        leader = await the_leader(replicas)
        changing = asyncio.create_task(change())
        await until(lambda: len(created) > 10, "changes", replicas)
        newer = written(tmp_path, {**values, "env": [{"name": "VERSION", "value": "2"}]})
        await asyncio.to_thread(release.upgrade, newer)
        # maxSurge 1, maxUnavailable 0: a new one is ready before an old one ends; the leader last.
        for name, old in zip(("c", "d"), sorted(replicas, key=lambda one: one is leader), strict=True):
            new = await release.replica(name, stack, VERSION="2", LEASE=str(LEASE))
            replicas.append(new)
            await until(ready(new), f"{name} to be ready", replicas)
            assert await asyncio.to_thread(old.operator.stop) == 0
        count = len(created)
        await until(lambda: len(created) > count + 10, "more changes", replicas)
        stopping.set()
        await changing
        for name in created:
            await examples.handled(name, field="value")
        for replica in replicas[2:]:
            assert await asyncio.to_thread(replica.operator.stop) == 0
        logs = "\n".join(one.operator.text() for one in replicas)
    assert (await release.deployment())["spec"]["template"]["metadata"]["annotations"]["ctl.dev/code"] == old_code
    lines = [line.split() for line in logs.splitlines() if " created n" in line and line[0].isdigit()]
    handled = [(fields[3], float(fields[0])) for fields in lines if fields[2] == "created"]
    assert sorted(name for name, _ in handled) == sorted(created)
    assert {fields[1] for fields in lines} == {"1", "2"}
    gap = max(at - created[name] for name, at in handled)
    print(
        f"{len(created)} objects created during a rolling update; none lost, none handled twice; longest wait {gap:.2f} s"
    )
    assert gap < LEASE / 2, "the lease is handed over, and has not to run out"
    assert release.server.refusals_of(release.account) == []
    await gone(release)
