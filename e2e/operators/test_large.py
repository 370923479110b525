"""Objects near the limits of the server are handled, and no request is refused for its size."""

import base64
import re
from pathlib import Path
from typing import Any

from operators.cluster import PREFIX, Examples, annotations
from operators.processes import ctl_command, running
from targets import Target

OPERATOR = Path(__file__).with_name("large_operator.py")
DIGEST = f"{PREFIX}/last-handled-digest"
REFUSED = re.compile(r"\b4(00|13|22)\b|too large")
LAST = f"{PREFIX}/last-handled-configuration"


def _has_digest(found: Any) -> bool:
    return found is not None and DIGEST in annotations(found)


async def test_a_large_object_and_a_large_secret(served: Target, examples: Examples, tmp_path: Path) -> None:
    api = examples._api
    secrets = f"/api/v1/namespaces/{examples.namespace}/secrets"
    command = ctl_command("run", "-v", "-n", examples.namespace, str(OPERATOR))
    with running(command, served, tmp_path / "log") as operator:
        await examples.create("one", {"field": "value", "big": "x" * 900_000})
        await examples.until("one", _has_digest)
        await examples.patch("one", {"spec": {"field": "other"}})
        operator.wait_for("updated: one: [('change', ('spec', 'field'))], old of 900")
        data = {"big": base64.b64encode(b"x" * 700_000).decode(), "same": "c2FtZQ=="}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "large"}, "data": data}
        await api.create(secrets, secret)
        operator.wait_for("created: large")
        change = {"data": {"same": "b3RoZXI="}}
        answer = await api.call("PATCH", f"{secrets}/large", change, kind="application/merge-patch+json")
        assert answer.code == 200
        operator.wait_for("updated: large: [('change', ('data', 'same'))]")
        # Said when what was handled is kept.
        operator.wait_for_count("Updating is processed: 1 succeeded; 0 failed.", 2)
        stored = (await api.call("GET", f"{secrets}/large")).body
        assert operator.stop() == 0
    assert LAST not in annotations(await examples.find("one") or {})
    assert "b3RoZXI" not in annotations(stored)[LAST]
    assert "blake2b:" in annotations(stored)[LAST]
    text = operator.text()
    assert "Throttling" not in text
    # Of attempts that failed for another reason nothing is said here.
    assert not [line for line in text.splitlines() if "Request attempt" in line and REFUSED.search(line)]
