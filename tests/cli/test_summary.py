"""Three lines at the start say where, as whom, and what is handled."""

import signal
from pathlib import Path

import pytest
import yaml

import ctl
from ctl.cli.summary import Start, handled, summary
from ctl.client.resources import Resource
from ctl.handlers.declaration.survey import survey

from .processes import command

CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "ann"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://cluster.test:6443"}}],
    "users": [{"name": "ann", "user": {"token": "s3cr3t-token"}}],
}


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(CONFIG))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    return path


@pytest.fixture
def registry() -> ctl.OperatorRegistry:
    registry = ctl.OperatorRegistry()
    for name in ("pods", "kopfexamples"):
        ctl.on.event(name, registry=registry)(lambda **_: None)
    return registry


def test_the_lines(kubeconfig: Path, registry: ctl.OperatorRegistry) -> None:
    assert summary(registry, Start(("a", "b"), str(kubeconfig), http="127.0.0.1:9090", leader_elect=True)) == [
        f"Where: namespaces a, b of https://cluster.test:6443 (context 'here' of {kubeconfig}).",
        "As the user 'ann' of the kubeconfig; metrics and health: port 9090; leader election: by a Lease.",
    ]


def test_what_is_not_known_is_said(kubeconfig: Path, registry: ctl.OperatorRegistry) -> None:
    where, whom = summary(ctl.OperatorRegistry(), Start(()))
    assert where == "Where: all namespaces, of a server that is not found yet."
    assert whom == "As nobody yet; metrics and health: nowhere; leader election: none."
    ctl.on.login(registry=registry)(log_in)
    where, whom = summary(registry, Start(("a",)))
    assert where == "Where: namespace a, of the server that the login handlers give (log_in)."
    assert whom.startswith("As whom the login handlers say; ")


def log_in(**_: object) -> None:
    """Gives nothing."""


POD = Resource("", "v1", "pods", "Pod", singular="pod", namespaced=True)
SECRET = Resource("", "v1", "secrets", "Secret", singular="secret", namespaced=True, verbs=frozenset({"get"}))


def test_what_is_handled_is_told_as_the_server_has_it(registry: ctl.OperatorRegistry) -> None:
    ctl.on.event("secrets", registry=registry)(lambda **_: None)
    found = survey(registry, [POD, SECRET])
    assert handled(registry, found) == "Handled: pods.v1, and, when it is defined, kopfexamples, but not secrets.v1."
    assert (
        handled(registry, survey(registry, []))
        == "Handled: nothing yet, and, when it is defined, kopfexamples, pods, secrets."
    )
    nothing = ctl.OperatorRegistry()
    assert handled(nothing, survey(nothing, [POD])) == "Handled: nothing that is declared."


def test_many_names_are_counted() -> None:
    registry = ctl.OperatorRegistry()
    for number in range(12):
        ctl.on.event(f"kind{number:02}", registry=registry)(lambda **_: None)
    assert handled(registry, survey(registry, [])).endswith("kind09, and 2 more.")


async def test_a_run_begins_with_them(kubeconfig: Path, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text("import ctl\n@ctl.on.event('pods')\ndef fn(**_): pass\n@ctl.on.event('later')\ndef fm(**_): pass\n")
    async with command("run", "-A", "--log-format=plain", "--sandbox", main) as run:
        await run.line("Where: all namespaces of https://127.0.0.1:")
        await run.line("As ")
        await run.line("Handled: pods.v1, and, when it is defined, later.")


async def test_a_debugging_run_that_fails_tells_no_token(tmp_path: Path) -> None:
    """Credentials are told by the name of the user alone."""
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(CONFIG).replace("https://cluster.test:6443", "http://127.0.0.1:9"))
    main = tmp_path / "main.py"
    main.write_text("import ctl\n@ctl.on.event('pods')\ndef fn(**_): pass\n")
    async with command("run", "-A", "--debug", "--kubeconfig", path, main) as run:
        assert await run.end() == 1
    assert "ann" in run.output
    assert "s3cr3t" not in run.output


async def test_an_operator_without_handlers_is_warned_of_by_its_files(tmp_path: Path) -> None:
    main, other = tmp_path / "main.py", tmp_path / "other.py"
    main.write_text("import ctl\n\ndef later():\n    @ctl.on.event('pods')\n    def fn(**_): pass\n")
    other.write_text("import ctl\n\n@ctl.on.startup()\ndef begin(**_): pass\n")
    async with command("run", "-A", "--log-format=full", "--sandbox", main) as run:
        line = await run.line(f"No handlers are declared in {main}, so nothing will happen.")
        assert "WARN" in line
    async with command("run", "-A", "--sandbox", main, other) as run:
        await run.line("Handled: nothing that is declared.")
        assert await run.end(signal.SIGTERM) == 0
        assert "No handlers" not in run.output
