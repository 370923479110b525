"""Runs a real Kubernetes control plane on loopback for tests: etcd, kube-apiserver and, on request, the controller manager.

There is no kubelet and no scheduler: pods are stored, never run. `main` runs one until it is interrupted
(as a module: `cd e2e && python -m controlplane.cluster`).
"""

import argparse
import base64
import contextlib
import json
import secrets
import shutil
import signal
import ssl
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from . import build
from .servers import Server, ServerError, free_port

READY_SECONDS = 60.0
ATTEMPTS = 3
PEM_BEGIN = "-----BEGIN CERTIFICATE-----"
PEM_END = "-----END CERTIFICATE-----"
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a control plane is started with."""

    controller_manager: bool = False
    """Start the controller manager too: garbage collection, deletion of namespaces, Jobs, Deployments."""
    audit: bool = False
    """Keep each request with its body in an audit log; see `ControlPlane.audit_events`."""
    api_server_flags: tuple[str, ...] = ()
    """Further flags of kube-apiserver, such as `--feature-gates=...`."""


class ControlPlane:
    """One etcd and one kube-apiserver in a temporary folder, with an administrator's token.

    A context manager; after the body everything is stopped and the folder is removed. The processes end with this one
    however it ends. Errors while starting are `ServerError` with the end of the log of the server concerned.
    """

    def __init__(self, options: Options = Options()) -> None:
        self.options = options
        self.token = secrets.token_hex(16)
        self.folder = Path()
        self.url = ""
        self._etcd_url = ""
        self._binaries = Path()
        self._servers: dict[str, Server] = {}

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of the administrator (group `system:masters`)."""
        return self.folder / "kubeconfig"

    @property
    def certificate_authority(self) -> Path:
        """The certificate that clients trust the server by."""
        return self.folder / "ca.crt"

    @property
    def _serving(self) -> Path:
        """The certificate chain that kube-apiserver makes itself when it starts, its key beside it."""
        return self.folder / "serving" / "apiserver.crt"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Build if need be, start everything and wait until it is ready, at most a minute for each server."""
        self._binaries = build.build()
        for attempt in range(1, ATTEMPTS + 1):
            self.folder = Path(tempfile.mkdtemp(prefix="ctl-controlplane-"))
            try:
                self._start_etcd()
                self._start_api_server(free_port())
                if self.options.controller_manager:
                    self._start_controller_manager()
            except BaseException as error:
                self.stop()
                # A free port can be taken between our look and the server's bind: then others are tried.
                if isinstance(error, ServerError) and "address already in use" in str(error) and attempt < ATTEMPTS:
                    continue
                raise
            return

    def stop(self) -> None:
        """Stop everything in reverse order and remove the folder. Idempotent."""
        for name in reversed(list(self._servers)):
            self._servers.pop(name).stop()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)

    def logs(self) -> str:
        """The end of each server's log."""
        return "\n".join(server.tail() for server in self._servers.values())

    @contextlib.contextmanager
    def controllers(self) -> Iterator[None]:
        """Run the controller manager for as long as the block lasts."""
        self._start_controller_manager()
        try:
            yield
        finally:
            self._servers.pop("kube-controller-manager").stop()

    def restart_api_server(self) -> None:
        """Stop kube-apiserver and start it again at the same address: streams break, its caches start anew."""
        self._servers.pop("kube-apiserver").stop()
        self._start_api_server(int(self.url.rpartition(":")[2]))

    def compact(self) -> int:
        """Drop etcd's history before now and tell the kube-apiserver, as its own compaction does; give the revision.

        Lists at an older version and `continue` tokens fail once no cache of the kube-apiserver holds them: its watch
        caches keep serving from their snapshots until they next look at the compacted revision (every 15 s), or until
        they start anew (as that of a custom resource does when its definition changes). Watches are served from the
        caches' own windows and do not notice.
        """
        # etcd still reads at the compacted revision itself: it has to be one that no object was written at.
        key = _b64("compact_rev_key")
        revision = int(self._etcd("kv/put", {"key": key, "value": _b64("0")})["header"]["revision"])
        self._etcd("kv/put", {"key": key, "value": _b64(str(revision))})
        self._etcd("kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def audit_events(self) -> list[dict[str, Any]]:
        """The audit events of all requests finished so far, oldest first; needs `Options.audit`."""
        text = (self.folder / "audit.log").read_text()
        # The last line may be half written.
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _run(self, name: str, flags: Sequence[str]) -> Server:
        server = Server([self._binaries / name, *flags], self.folder / f"{name}.log")
        self._servers[name] = server
        return server

    def _start_etcd(self) -> None:
        self._etcd_url = f"http://127.0.0.1:{free_port()}"
        server = self._run(
            "etcd",
            [
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={self._etcd_url}",
                f"--advertise-client-urls={self._etcd_url}",
                # A single member talks to no peer: any port will do, and none needs to be known.
                "--listen-peer-urls=http://127.0.0.1:0",
                # What a test stores need not survive a power cut.
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
        )
        server.wait_for(lambda: _answers(f"{self._etcd_url}/readyz"), READY_SECONDS)

    def _start_api_server(self, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}"
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        flags = [
            f"--etcd-servers={self._etcd_url}",
            # The history is dropped by `compact` alone, so that no test depends on the time of day.
            "--etcd-compaction-interval=0",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            # The server makes itself a certificate there before it reads the keys of service accounts, so that its key
            # serves for both and none needs to be made here.
            f"--cert-dir={self._serving.parent}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._serving.with_suffix('.key')}",
            f"--service-account-signing-key-file={self._serving.with_suffix('.key')}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            *self.options.api_server_flags,
        ]
        if self.options.audit:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(AUDIT_POLICY)
            flags += [f"--audit-policy-file={policy}", f"--audit-log-path={self.folder / 'audit.log'}"]
        server = self._run("kube-apiserver", flags)
        server.wait_for(lambda: self._missing("/readyz"), READY_SECONDS)
        self._write_kubeconfig()

    def _start_controller_manager(self) -> None:
        server = self._run(
            "kube-controller-manager",
            [
                f"--kubeconfig={self.kubeconfig}",
                f"--service-account-private-key-file={self._serving.with_suffix('.key')}",
                f"--root-ca-file={self.certificate_authority}",
                "--use-service-account-credentials=false",
                "--leader-elect=false",
                "--secure-port=0",
            ],
        )
        # It serves no port; what it does first of all shows that its controllers run.
        server.wait_for(
            lambda: self._missing("/api/v1/namespaces/default/serviceaccounts/default"),
            READY_SECONDS,
        )

    def _missing(self, path: str) -> str | None:
        """Why a path of the API server cannot be read yet, or None when it can."""
        if not self.certificate_authority.exists():
            chain = self._serving.read_text() if self._serving.exists() else ""
            if not chain.rstrip().endswith(PEM_END):
                return "it has not made its certificate"
            # The last of the chain is the authority; the first would be refused as one where trust is checked strictly.
            self.certificate_authority.write_text(chain[chain.rindex(PEM_BEGIN) :])
        return _answers(self.url + path, self.certificate_authority, self.token)

    def _write_kubeconfig(self) -> None:
        authority = base64.b64encode(self.certificate_authority.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
            "current-context": "e2e",
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def _etcd(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._etcd_url}/v3/{call}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _answers(url: str, authority: Path | None = None, token: str = "") -> str | None:
    """Why a URL does not answer with success, or None when it does."""
    context = None if authority is None else ssl.create_default_context(cafile=str(authority))
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5, context=context):
            return None
    except (OSError, ssl.SSLError) as error:
        return f"{url}: {error}"


def main() -> int:
    """Run a control plane until SIGINT or SIGTERM, saying first which KUBECONFIG to use."""
    parser = argparse.ArgumentParser(prog="cluster.py", description="Run a real Kubernetes control plane on loopback.")
    parser.add_argument("--controller-manager", action="store_true", help="start the controller manager too")
    parser.add_argument("--audit", action="store_true", help="keep an audit log of all requests")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    with (
        contextlib.suppress(KeyboardInterrupt),
        ControlPlane(Options(controller_manager=given.controller_manager, audit=given.audit)) as cluster,
    ):
        sys.stdout.write(f"export KUBECONFIG={cluster.kubeconfig}\n")
        sys.stdout.flush()
        while True:
            signal.pause()
    return 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
