"""`ctl rbac`, as a process: what it prints is enough for the operator, and it knows what is missing."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctl.client.config.loading import load_access
from ctl.client.errors import Forbidden
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.sandbox import Sandbox, SandboxSettings, User

from .processes import Command, command, with_token

CRD = Path(__file__).parents[2] / "examples" / "01-minimal" / "crd.yaml"
ACCOUNT = User("system:serviceaccount:default:ctl-main", ("system:serviceaccounts", "system:authenticated"))
OPERATOR = """
import ctl

@ctl.on.startup()
def configure(settings, **_):
    raise RuntimeError("startup handlers are not run")

@ctl.on.create("kopfexamples")
def create_fn(body, **_):
    ctl.info(body, reason="Seen")
"""
LEASES = Resource("coordination.k8s.io", "v1", "leases")
RULES = {
    "kopfexamples": ["list", "watch", "patch"],
    "kopfexamples/status": ["patch"],
    "events": ["create", "patch"],
    "leases": ["create"],
    "leases ctl-ctl-main-main": ["get", "watch", "update"],
}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    settings = SandboxSettings(tokens=frozenset({"root"}), users={"t-op": ACCOUNT})
    async with Sandbox(settings=settings) as sandbox:
        await sandbox.load_manifest(CRD.read_text())
        yield sandbox


@pytest.fixture
def main(tmp_path: Path) -> Path:
    path = tmp_path / "main.py"
    path.write_text(OPERATOR)
    return path


def documents(run: Command) -> dict[str, dict[str, Any]]:
    lines = [line for line in run.lines if not line.startswith("Warning: ")]
    return {body["kind"]: body for body in yaml.safe_load_all("\n".join(lines))}


def rules(role: dict[str, Any]) -> dict[str, list[str]]:
    return {" ".join((rule["resources"][0], *rule.get("resourceNames", ()))): rule["verbs"] for rule in role["rules"]}


async def test_what_is_printed_is_what_was_missing(sandbox: Sandbox, main: Path, tmp_path: Path) -> None:
    root, narrow = (with_token(sandbox, tmp_path / name, name) for name in ("root", "t-op"))
    async with command("rbac", "-n", "default", "--kubeconfig", root, main) as run:
        assert await run.end() == 0
    found = documents(run)
    assert found.keys() == {"Role", "RoleBinding"}
    assert rules(found["Role"]) == RULES

    async with command("rbac", "-n", "default", "--check", "--kubeconfig", narrow, main) as check:
        assert await check.end() == 1
    assert [line.partition(" (")[0] for line in check.lines] == [
        f"missing: {verb} {resource} in the namespace default"
        for resource, verbs in {
            "kopfexamples.kopf.dev": RULES["kopfexamples"],
            "kopfexamples.kopf.dev/status": ["patch"],
            "events": RULES["events"],
            "leases.coordination.k8s.io": RULES["leases"],
            "leases.coordination.k8s.io ctl-ctl-main-main": RULES["leases ctl-ctl-main-main"],
        }.items()
        for verb in verbs
    ]

    for body in found.values():
        sandbox.create(body)
    async with command("rbac", "-n", "default", "--check", "--kubeconfig", narrow, main) as check:
        assert await check.end() == 0
    assert check.lines == ["Nothing is missing."]


async def test_a_lease_is_granted_by_its_name(sandbox: Sandbox, main: Path, tmp_path: Path) -> None:
    root, narrow = (with_token(sandbox, tmp_path / name, name) for name in ("root", "t-op"))
    async with command("rbac", "-n", "default", "--kubeconfig", root, main) as run:
        assert await run.end() == 0
    for body in documents(run).values():
        sandbox.create(body)
    async with Client(load_access(narrow)) as client:
        with pytest.raises(Forbidden):
            await client.get(LEASES, "another", "default")
        with pytest.raises(Forbidden):
            await client.list(LEASES, "default")
    # The operator leads by the Lease that it may write.
    path = tmp_path / "main.py"
    path.write_text(OPERATOR.replace("@ctl.on.startup()", ""))
    async with command("run", "-n", "default", "--leader-elect", "--kubeconfig", narrow, path) as running:
        async with asyncio.timeout(60):
            while sandbox.get("coordination.k8s.io/v1", "Lease", "ctl-ctl-main-main") is None:  # noqa: ASYNC110 - seen from outside only
                await asyncio.sleep(0.05)
        assert await running.end(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("setting", "names"),
    [('"theirs"', {"leases", "leases theirs"}), ("os.environ['X']", {"leases"})],
)
async def test_the_name_of_the_lease_may_stand_in_the_code(
    sandbox: Sandbox, tmp_path: Path, setting: str, names: set[str]
) -> None:
    path = tmp_path / "main.py"
    line = f"    settings.leadership.lease_name = {setting}"
    path.write_text(
        OPERATOR.replace("import ctl", "import os\nimport ctl").replace(
            "    raise RuntimeError", f"{line}\n    raise RuntimeError"
        )
    )
    root = with_token(sandbox, tmp_path / "root", "root")
    async with command("rbac", "-n", "default", "--kubeconfig", root, path) as run:
        assert await run.end() == 0
    assert {name for name in rules(documents(run)["Role"]) if name.startswith("leases")} == names


async def test_an_operator_of_all_namespaces(sandbox: Sandbox, main: Path, tmp_path: Path) -> None:
    root = with_token(sandbox, tmp_path / "root", "root")
    options = ("--service-account", "robot", "--service-account-namespace", "ops", "--name", "robots")
    async with command("rbac", "-A", "--kubeconfig", root, *options, main) as run:
        assert await run.end() == 0
    found = documents(run)
    assert found.keys() == {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    assert rules(found["Role"]) == {"leases": ["create"], "leases ctl-robot-main": ["get", "watch", "update"]}
    assert rules(found["ClusterRole"]) == {
        **{name: verbs for name, verbs in RULES.items() if not name.startswith("leases")},
        "customresourcedefinitions": ["list", "watch"],
    }
    assert {body["metadata"]["name"] for body in found.values()} == {"robots"}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "ops"}
    assert found["ClusterRoleBinding"]["subjects"] == found["RoleBinding"]["subjects"] == [subject]
    assert found["Role"]["metadata"]["namespace"] == "ops"


async def test_namespaces_by_patterns_are_those_that_are_there(sandbox: Sandbox, main: Path, tmp_path: Path) -> None:
    for name in ("team-a", "team-b", "other"):
        sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    root = with_token(sandbox, tmp_path / "root", "root")
    async with command("rbac", "-n", "team-*", "--kubeconfig", root, main) as run:
        assert await run.end() == 0
    found = [body for body in yaml.safe_load_all(run.output) if body and body["kind"].endswith("Role")]
    assert [(body["kind"], body["metadata"].get("namespace")) for body in found] == [
        ("ClusterRole", None),
        ("Role", "default"),
        ("Role", "team-a"),
        ("Role", "team-b"),
    ]
    assert rules(found[0]) == {"namespaces": ["list", "watch"]}


@pytest.mark.parametrize(
    ("options", "missing", "added"),
    [
        (["--no-leader-elect"], {"leases", "leases ctl-ctl-main-main"}, {}),
        (["--lease-name", "mine"], {"leases ctl-ctl-main-main"}, {"leases mine": ["get", "watch", "update"]}),
        (["--no-events"], {"events"}, {}),
        (["--peering", "x"], set(), {"kopfpeerings": ["list", "watch", "patch"]}),
        (
            ["--also", "configmaps,secrets=get,delete"],
            set(),
            {name: ["get", "delete"] for name in ("configmaps", "secrets")},
        ),
        (["--also", "deployments.apps/scale=update"], set(), {"deployments/scale": ["update"]}),
    ],
)
async def test_options_add_and_leave_out(
    main: Path, options: list[str], missing: set[str], added: dict[str, list[str]]
) -> None:
    async with command("rbac", "-n", "default", "--offline", "--manifest", CRD, *options, main) as run:
        assert await run.end() == 0
    expected = {name: verbs for name, verbs in RULES.items() if name not in missing}
    assert rules(documents(run)["Role"]) == {**expected, **added}


async def test_without_a_cluster_what_is_not_known_is_named(main: Path) -> None:
    async with command("rbac", "-n", "default", main) as run:
        assert await run.end() == 0
    assert "Warning: kopfexamples (handler create_fn) is not served" in run.output
    assert "Warning: No cluster could be asked what it serves: " in run.output
    assert "# Not resolved: kopfexamples" in run.output
    assert rules(documents(run)["Role"]).keys() == {"events", "leases", "leases ctl-ctl-main-main"}


async def test_settings_that_startup_handlers_write_are_read_from_their_code(tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(
        "import kopf\n\n"
        "@kopf.on.startup()\n"
        "def configure(settings, **_):\n"
        "    settings.peering.name = 'mine'\n"
        "    settings.leadership.elect = False\n"
        "    settings.peering.priority = len('abc')\n\n"
        "@kopf.on.event('pods')\n"
        "def event_fn(**_):\n"
        "    pass\n"
    )
    async with command("rbac", "-n", "default", "--offline", main) as run:
        assert await run.end() == 0
    found = rules(documents(run)["Role"])
    assert found == {"pods": ["list", "watch"], "kopfpeerings": ["list", "watch", "patch"]}
    assert "not known here: peering.priority" in run.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-n", "a", "-A", "main.py"], 2, "not both"),
        ([], 2, "Nothing to look at"),
        (["--offline", "--check", "main.py"], 2, "--offline asks no cluster"),
        (["--no-leader-elect", "--lease-name", "a", "--offline", "main.py"], 2, "--no-leader-elect needs no lease"),
        (["--also", "pods", "--offline", "main.py"], 2, "--also takes RESOURCE=VERB,..."),
        (["--also", "pods=eat", "--offline", "main.py"], 2, "--also takes RESOURCE=VERB,..."),
        (["--offline", "empty.py"], 1, "Nothing is declared in empty.py"),
        (["--manifest", "absent.yaml", "main.py"], 1, "absent.yaml cannot be read"),
        (["--check", "main.py"], 1, "No way to a Kubernetes server was found"),
    ],
)
async def test_what_is_wrong_is_said(main: Path, tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    (tmp_path / "empty.py").write_text("")
    async with command("rbac", *arguments, cwd=tmp_path) as run:
        assert await run.end() == code
    assert said in " ".join(run.output.split())
    assert "Traceback" not in run.output


async def test_a_program_without_handlers_needs_nothing_for_an_operator(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import ctl\n\nasync def main():\n    async with ctl.Client(ctl.load_access()):\n        pass\n")
    async with command("rbac", "-A", "--offline", path) as run:
        assert await run.end() == 1
    assert run.lines[-1].endswith("Requests of its own clients are not known here: name their rights by --also.")
    async with command("rbac", "-A", "--offline", "--also", "configmaps=list,watch", path) as run:
        assert await run.end() == 0
    assert "resources: [configmaps]" in run.output
    assert "leases" not in run.output
    assert "customresourcedefinitions" not in run.output
