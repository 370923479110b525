"""Operators in clusters where another group's API is broken: a server of its own, for the break shows to everybody on it."""

from pathlib import Path

from conformance.api import Api
from operators.auditing import Audited, alarms
from operators.cluster import Examples
from operators.processes import ctl_command, running

MINIMAL = Path(__file__).resolve().parents[2] / "examples" / "01-minimal"
SOON = 45.0
"""Seconds, from its first line, also on a very busy machine; an operator that asked again and again for what is broken would take 54 more."""


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
        operator.wait_for("Starting ctl")
        operator.wait_for("one was created and wants 'value'", SOON)
        assert operator.stop() == 0
    assert alarms(operator.text()) == []
