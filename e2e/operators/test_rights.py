"""Operators with few rights: nothing is refused, nobody is alarmed."""

from pathlib import Path
from typing import Any

import pytest
from conformance.api import Api
from operators.auditing import Audited, alarms, service_account
from operators.cluster import Examples
from operators.processes import ctl_command, running
from targets import as_user

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

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
