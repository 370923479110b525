"""`helm install --wait`, `upgrade --wait` and `test` for real: the Deployment's controller makes pods, and a small kubelet runs them."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from charts.kubelet import Kubelet
from charts.release import Release
from charts.test_install import LATE, LATE_DEFINITION, RULES, remove, until, written
from conformance.spaces import DEFINITIONS, established
from operators.auditing import alarms
from operators.cluster import Examples

PATH = "/apis/ctl.test/v1/namespaces/{}/lateones"
ONLY_LATE = """
import ctl

@ctl.on.create("lateones.ctl.test")
def late(name, **_):
    print(f"late {name}", flush=True)
"""
QUICK = {"operator": {"logFormat": "full"}, "minReadySeconds": 1}
WAIT = ("--wait", "--timeout=120s")

pytestmark = pytest.mark.timeout(300)


async def timed(work: Callable[[], str]) -> float:
    """How long something takes that ends well."""
    began = time.monotonic()
    assert "STATUS: deployed" in await asyncio.to_thread(work)
    return time.monotonic() - began


async def test_installing_ends_well_while_the_definition_is_missing(release: Release, tmp_path: Path) -> None:
    """The operator handles one kind, and nobody has defined it: it is alive and ready, and serves when the definition comes."""
    api, kubelet = release.api, Kubelet(release)
    await remove(api, ["lateones.ctl.test"])
    only = tmp_path / "only.py"
    only.write_text(ONLY_LATE)
    values = written(tmp_path, {**QUICK, "rbac": {"rules": [LATE]}})
    code = f"--set-file=operator.inline.operator\\.py={only}"
    with release.server.cluster.controllers():
        async with kubelet.running():
            took = await timed(lambda: release.install(values, code, *WAIT))
            print(f"helm install --wait took {took:.2f} s, with two replicas whose only kind is not defined")
            replicas = [pod.replica for pod in kubelet.pods.values()]
            assert len(replicas) == 2

            async def are_told_of() -> bool:
                status = (await release.deployment())["status"]
                return (status.get("readyReplicas"), status.get("availableReplicas")) == (2, 2)

            # helm looks at less.
            await until(are_told_of, "two pods that are ready and available", replicas)
            pages = [(one, path) for one in replicas for path in ("/livez", "/readyz")]
            await until(lambda: all(one.page(path)[0] == 200 for one, path in pages), "their pages", replicas)
            await established(api, await api.create(DEFINITIONS, LATE_DEFINITION))
            body = {"apiVersion": "ctl.test/v1", "kind": "LateOne", "metadata": {"name": "one"}}
            await api.create(PATH.format(release.namespace), body)
            # In its own namespace alone, an operator may not watch definitions; it asks once a minute.
            await until(lambda: any("late one" in one.operator.text() for one in replicas), "it", replicas, seconds=100)
            text = await asyncio.to_thread(release.helm.run, "test", "demo", "-n", release.namespace, "--timeout=60s")
            assert "Phase:          Succeeded" in text.well()
            assert [line for one in replicas for line in alarms(one.operator.text()) if "lateones" not in line] == []
            assert release.server.refusals_of(release.account) == []
            # The rights go before the pods have ended, which is why the lease is not given back then.
            await asyncio.to_thread(release.uninstall, *WAIT)
            await until(lambda: not kubelet.pods, "the end of the pods", [], seconds=100)
    assert kubelet.sick == []
    await remove(api, ["lateones.ctl.test"])


async def test_a_rolling_update_by_the_real_controller_loses_nothing(release: Release, tmp_path: Path) -> None:
    """Two versions of the operator, replaced by the Deployment's own controller while objects are created and changed."""
    kubelet, examples = Kubelet(release), Examples(release.api, release.namespace)
    await remove(release.api, ["lateones.ctl.test"])
    values = {**QUICK, "rbac": {"rules": RULES}}
    did: dict[tuple[str, str], float] = {}
    stopping = asyncio.Event()

    async def change() -> None:
        number = 0
        while not stopping.is_set():
            name = f"n{number}"
            did["created", name] = time.time()
            await examples.create(name)
            if number >= 20:
                did["updated", f"n{number - 20}"] = time.time()
                await examples.patch(f"n{number - 20}", {"spec": {"field": "b"}})
            number += 1
            await asyncio.sleep(0.1)

    with release.server.cluster.controllers():
        async with kubelet.running():
            installed = await timed(lambda: release.install(written(tmp_path, values), *WAIT))
            old = {pod.replica.operator.process.pid for pod in kubelet.pods.values()}
            changing = asyncio.create_task(change())
            await until(lambda: len(did) > 40, "changes", kubelet.logs)
            newer = written(tmp_path, {**values, "env": [{"name": "VERSION", "value": "2"}]})
            updated = await timed(lambda: release.upgrade(newer, *WAIT))
            await until(
                lambda: not old & {pod.replica.operator.process.pid for pod in kubelet.pods.values()}, "their end", []
            )
            count = len(did)
            await until(lambda: len(did) > count + 40, "more changes", kubelet.logs)
            stopping.set()
            await changing
            for what, name in did:
                if what == "created":
                    await examples.handled(name, field="b" if ("updated", name) in did else "value")
            assert release.server.refusals_of(release.account) == []
            await asyncio.to_thread(release.uninstall, *WAIT)
            await until(lambda: not kubelet.pods, "the end of the pods", [], seconds=100)
    assert kubelet.sick == []
    lines = [line.split() for one in kubelet.logs for line in one.operator.text().splitlines()]
    said = [(float(line[0]), line[1], (line[2], line[3])) for line in lines if line[2:3] in (["created"], ["updated"])]
    when = {what: at for at, _, what in said}
    again = sorted(line for line in said if when[line[2]] != line[0] or said.count(line) > 1)
    ends = [
        line for one in kubelet.logs for line in one.operator.text().splitlines() if "Lead" in line or "top" in line
    ]
    assert len(when) == len(said), f"something was handled twice: {again}\n" + "\n".join(ends)
    # An object that was changed before it was handled at all is created as it is then.
    joined = [
        what for what in did if what not in when and what[0] == "updated" and when["created", what[1]] > did[what]
    ]
    assert sorted([*when, *joined]) == sorted(did)
    assert {version for _, version, _ in said} == {"1", "2"}
    gap = max(at - did[what] for what, at in when.items())
    print(
        f"helm install --wait took {installed:.2f} s, upgrade --wait {updated:.2f} s; {len(did)} changes meanwhile (creations and "
        f"updates): none lost, none handled twice, {len(joined)} joined with its creation, longest wait {gap:.2f} s"
    )
    assert gap < 30
