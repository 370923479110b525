"""`ctl sandbox`, as a process."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ctl.client.config.access import Access
from ctl.client.config.loading import load_access
from ctl.client.errors import APIError, RequestError
from ctl.client.resources import Resource
from ctl.client.rest import Client

from ..ports import free_port
from .processes import command

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: from-the-manifest}\n"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_it_serves_until_it_is_told_to_stop(signum: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    async with command("sandbox", "--manifest", tmp_path / "space.yaml") as sandbox:
        kubeconfig = await sandbox.kubeconfig()
        await sandbox.line(f"export KUBECONFIG={kubeconfig}")
        async with Client(load_access(kubeconfig)) as client:
            assert "from-the-manifest" in {item.name for item in await client.list(NAMESPACES)}
            assert await client.list(CRDS) == []
        assert await sandbox.end(signum) == 0
        assert "Traceback" not in sandbox.output
        assert not kubeconfig.exists()


async def test_it_works_without_uvloop_too(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text("raise ImportError('hidden by the test')\n")
    async with command("sandbox", "--debug", env={"PYTHONPATH": str(tmp_path)}) as sandbox:
        async with Client(load_access(await sandbox.kubeconfig())) as client:
            assert await client.list(CRDS) == []
        assert await sandbox.end(signal.SIGINT) == 0
    assert "Using selector" in sandbox.output  # asyncio's own loop says so when it is made


async def test_port_and_kubeconfig_can_be_chosen(tmp_path: Path) -> None:
    port = free_port()
    async with command("sandbox", "--port", str(port), "--kubeconfig", "chosen", cwd=tmp_path) as sandbox:
        assert await sandbox.kubeconfig() == tmp_path / "chosen"
        assert load_access(tmp_path / "chosen").server == f"https://127.0.0.1:{port}"


async def test_only_its_kubeconfig_lets_in(tmp_path: Path) -> None:
    before = tmp_path / "kubeconfig"
    before.write_text("")
    before.chmod(0o644)
    async with command("sandbox", "--kubeconfig", before) as sandbox:
        await sandbox.line("Serving the Kubernetes API")
        assert stat.S_IMODE(before.stat().st_mode) == 0o600
        async with Client(load_access(before)) as client:
            assert await client.list(CRDS) == []
        config = yaml.safe_load(before.read_text())
        token = config["users"][0]["user"]["token"]
        assert len(token) >= 40
        for wrong in ({}, {"token": "x" + token[1:]}, {"username": "a", "password": token}):
            config["users"][0]["user"] = wrong
            (tmp_path / "wrong").write_text(yaml.safe_dump(config))
            async with Client(load_access(tmp_path / "wrong")) as client:
                with pytest.raises(APIError) as caught:
                    await client.list(CRDS)
            assert caught.value.code == 401
        # No certificate but its own is trusted, and no token is heard without TLS.
        async with Client(Access(config["clusters"][0]["cluster"]["server"])) as client:
            with pytest.raises(RequestError):
                await client.request("GET", "/version", retry=False)


def test_what_takes_long_to_load_is_loaded_when_it_is_needed() -> None:
    """Neither `ctl run` nor a server without patterns in its schemas waits for what only others use."""
    code = """
import sys
import ctl.cli.run
print(*{"cryptography", "regex"} & sys.modules.keys())
from ctl.cli.sandbox import SandboxOptions, serving_in_thread
with serving_in_thread(SandboxOptions(manifests=sys.argv[1:])):
    print(*{"cryptography", "regex"} & sys.modules.keys())
"""
    manifest = Path(__file__).parents[2] / "examples" / "01-minimal" / "crd.yaml"
    done = subprocess.run(
        [sys.executable, "-c", code, manifest], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["", "cryptography"]


async def test_each_server_has_a_token_of_its_own() -> None:
    tokens = set()
    for _ in range(2):
        async with command("sandbox") as sandbox:
            kubeconfig = await sandbox.kubeconfig()
            assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
            tokens.add(yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"])
    assert len(tokens) == 2


async def test_a_taken_port_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with command("sandbox", "--port", str(port)) as sandbox:
            assert await sandbox.end() == 1
    [line] = sandbox.lines
    assert line.startswith(f"Error: The port {port} of the loopback cannot be used: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory."),
        ("a: [unclosed", "cannot be loaded: "),
        ("kind: Widget\napiVersion: nobody.has/v1\nmetadata: {name: x}", "cannot be loaded: "),
    ],
)
async def test_a_manifest_that_does_not_work_is_named(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    if text is not None:
        path.write_text(text)
    async with command("sandbox", "--manifest", path) as sandbox:
        assert await sandbox.end() == 1
    assert sandbox.lines[0].startswith(f"Error: The manifest {path} {said}")
    assert "Traceback" not in sandbox.output


OWN = "{apiVersion: v1, kind: Config, clusters: [{name: production, cluster: {server: 'https://here'}}]}"


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("nowhere/kubeconfig", None, "cannot be written: No such file or directory."),
        ("config", OWN, "would be overwritten, and it is of another cluster (production)."),
        ("notes", "not: [yaml", "would be overwritten, and it is of another cluster (something else)."),
    ],
)
async def test_a_kubeconfig_of_somebody_is_not_overwritten(
    path: str, text: str | None, said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / path).write_text(text)
    async with command("sandbox", "--kubeconfig", tmp_path / path) as sandbox:
        assert await sandbox.end() == 1
    [line] = sandbox.lines
    assert line.startswith(f"Error: The kubeconfig {tmp_path / path} {said}")
    assert text is None or (tmp_path / path).read_text() == text


async def test_its_own_kubeconfig_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("\n")
    for _ in range(2):
        async with command("sandbox", "--kubeconfig", path) as sandbox:
            await sandbox.line("Serving the Kubernetes API")
            assert load_access(path).server in path.read_text()
            assert await sandbox.end(signal.SIGINT) == 0


def test_what_a_script_starts_in_the_background_stops_by_sigint(tmp_path: Path) -> None:
    # The shell has it ignore the signal, as every one without job control does.
    script = '"$0" -m ctl sandbox --kubeconfig "$1" >"$2" 2>&1 & echo $!; wait $!; echo "ended with $?"'
    log = tmp_path / "log"
    command = ["sh", "-c", script, sys.executable, str(tmp_path / "kubeconfig"), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        try:
            deadline = time.monotonic() + 60
            while "export KUBECONFIG" not in (log.read_text() if log.exists() else ""):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(pid, signal.SIGINT)
            assert shell.stdout.readline() == "ended with 0\n"
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise
