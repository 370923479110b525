"""The real control plane as the suites need it: it builds once, starts whole, and leaves nothing behind."""

import json
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controlplane import build
from controlplane.cluster import ControlPlane, Options
from controlplane.servers import Server, ServerError

E2E = Path(__file__).resolve().parents[1]
SECONDS = 60.0
needs_binaries = pytest.mark.skipif(not build.is_built(), reason="The control plane is not built: make e2e does it")


def test_without_go_the_build_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"needs Go .* no `go` is on the PATH\. Install Go, or set KUBECONFIG"):
        build.build()
    assert not build.is_built()
    assert [path.suffix for path in build.folder().parent.iterdir()] == [".lock"]


def test_a_build_that_fails_shows_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho no space left on device\nexit 3\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"exit code 3 (.|\n)*no space left on device"):
        build.build()
    assert [path.suffix for path in build.folder().parent.iterdir()] == [".lock"]


def test_a_server_that_ends_by_itself_shows_its_log(tmp_path: Path) -> None:
    server = Server(["/bin/sh", "-c", "echo the disk is on fire; exit 7"], tmp_path / "log")
    try:
        with pytest.raises(ServerError, match=r"sh ended with exit code 7(.|\n)*the disk is on fire"):
            server.wait_for(lambda: "never", SECONDS)
    finally:
        server.stop()


def test_a_server_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    server = Server(["/bin/sleep", "60"], tmp_path / "log")
    try:
        with pytest.raises(ServerError, match=r"sleep was not ready within 0 s: it sleeps"):
            server.wait_for(lambda: "it sleeps", 0.0)
    finally:
        server.stop()
    assert not server.is_running


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(Options(audit=True)) as found:
        yield found


def ask(cluster: ControlPlane, method: str, path: str, body: object = None) -> Any:
    context = ssl.create_default_context(cafile=str(cluster.certificate_authority))
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(cluster.url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:
        return json.load(answer)


@needs_binaries
def test_the_version_is_that_of_the_recipe(cluster: ControlPlane) -> None:
    assert ask(cluster, "GET", "/version")["gitVersion"] == build.kubernetes_version()


@needs_binaries
def test_what_was_stored_is_there_after_a_restart(cluster: ControlPlane) -> None:
    body = {"metadata": {"name": "kept"}, "data": {"a": "1"}}
    made = ask(cluster, "POST", "/api/v1/namespaces/default/configmaps", body)
    cluster.restart_api_server()
    assert ask(cluster, "GET", "/api/v1/namespaces/default/configmaps/kept") == made


@needs_binaries
def test_the_audit_log_has_each_request_with_its_body(cluster: ControlPlane) -> None:
    ask(cluster, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "audited"}})
    deadline = time.monotonic() + SECONDS
    while not (found := [one for one in cluster.audit_events() if one.get("objectRef", {}).get("name") == "audited"]):
        assert time.monotonic() < deadline, "the request is not in the log"
        time.sleep(0.05)
    (event,) = found
    assert (event["verb"], event["responseStatus"]["code"]) == ("create", 201)
    assert event["requestObject"]["metadata"]["name"] == "audited"


@needs_binaries
def test_nothing_outlives_a_starter_that_is_killed() -> None:
    command = [sys.executable, "-m", "controlplane.cluster"]
    with subprocess.Popen(command, cwd=E2E, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        announced = starter.stdout.readline()
        starter.kill()
    kubeconfig = Path(announced.strip().removeprefix("export KUBECONFIG="))
    assert kubeconfig.exists()
    deadline = time.monotonic() + SECONDS
    while left := processes_of(kubeconfig.parent):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    # Its logs stay for who wants to know what happened.
    shutil.rmtree(kubeconfig.parent)


@needs_binaries
def test_an_interrupted_starter_ends_in_order() -> None:
    command = [sys.executable, "-m", "controlplane.cluster"]
    with subprocess.Popen(command, cwd=E2E, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        kubeconfig = Path(starter.stdout.readline().strip().removeprefix("export KUBECONFIG="))
        starter.send_signal(signal.SIGTERM)
        assert starter.wait(SECONDS) == 0
    assert not kubeconfig.parent.exists()
    assert not processes_of(kubeconfig.parent)


def processes_of(folder: Path) -> list[str]:
    """The command lines of running processes that name a folder."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if f"{folder}/" in line]
