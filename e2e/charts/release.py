"""A release of the chart on a real server, and its pods as processes: what a kubelet would run, with the rights of its account."""

import contextlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from charts.helm import CHART, Helm
from conformance.api import Api, Body
from controlplane.servers import free_port
from operators.auditing import Audited
from operators.processes import Operator, ctl_command, running
from targets import as_user

APPS = "/apis/apps/v1/namespaces/{}/deployments/{}"
CORE = "/api/v1/namespaces/{}"
CODE = Path(__file__).with_name("inline_operator.py")
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}


@dataclass(frozen=True)
class Replica:
    """A pod of the release, as a process."""

    operator: Operator
    port: int

    def page(self, path: str) -> tuple[int, str]:
        """The status and the text of one of its pages; 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""


@dataclass(frozen=True)
class Release:
    """The release `demo` in a namespace of its own."""

    helm: Helm
    server: Audited
    api: Api
    namespace: str
    folder: Path

    @property
    def account(self) -> str:
        """The user name of its service account."""
        return f"system:serviceaccount:{self.namespace}:demo-ctl-operator"

    def install(self, values: Path, *given: str) -> str:
        """`helm install`; gives what it says."""
        return self._apply("install", values, *given)

    def upgrade(self, values: Path, *given: str) -> str:
        """`helm upgrade`; gives what it says."""
        return self._apply("upgrade", values, *given)

    def uninstall(self, *given: str) -> str:
        """`helm uninstall`; gives what it says."""
        return self.helm.run("uninstall", "demo", "-n", self.namespace, *given).well()

    def manifest(self) -> str:
        """What helm knows to be installed."""
        return self.helm.run("get", "manifest", "demo", "-n", self.namespace).well()

    async def deployment(self) -> Body:
        """The Deployment as the server has it."""
        return await self.api.get(APPS.format(self.namespace, "demo-ctl-operator"))

    async def token(self) -> str:
        """A token of the chart's service account, as `kubectl create token` gives it."""
        path = f"{CORE.format(self.namespace)}/serviceaccounts/demo-ctl-operator/token"
        found: str = (await self.api.create(path, REVIEW))["status"]["token"]
        return found

    async def replica(
        self, name: str, stack: contextlib.ExitStack, pod: Body | None = None, **environment: str
    ) -> Replica:
        """Start what the Deployment (or the spec of a pod) says, with the code of its ConfigMap and a token of its account."""
        target = as_user(self.server.target, name, await self.token(), self.folder / f"{name}.kubeconfig")
        code = await self.api.get(f"{CORE.format(self.namespace)}/configmaps/demo-ctl-operator-code")
        mounted = self.folder / name
        mounted.mkdir()
        for file, text in code["data"].items():
            (mounted / file).write_text(text)
        spec = (await self.deployment())["spec"]["template"]["spec"] if pod is None else pod
        (container,) = spec["containers"]
        assert container["command"] == ["ctl"]
        port = free_port()
        told = [
            one.replace("/operator/", f"{mounted}/").replace("--http=:8080", f"--http=127.0.0.1:{port}")
            for one in container["args"]
        ]
        output = self.folder / f"{name}.log"
        return Replica(stack.enter_context(running(ctl_command(*told), target, output, **environment)), port)

    def _apply(self, verb: str, values: Path, *given: str) -> str:
        code = f"operator.inline.operator\\.py={CODE}"
        where = ("-n", self.namespace, "--set-file", code)
        return self.helm.run(verb, "demo", CHART, *where, "-f", values, *given).well()


@contextlib.contextmanager
def pods() -> Iterator[contextlib.ExitStack]:
    """Replicas that are started inside end with the block."""
    with contextlib.ExitStack() as stack:
        yield stack
